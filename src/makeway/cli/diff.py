"""tell who would be admitted, evicted or made to wait by other queues

Tell what would change if these queue objects were applied now: who would be admitted, who
would have to stop, for whom and at which cost, who would move to other flavors. Compared
is how things come to rest with them and without them, by the same engine, on a copy of
how things stand. Nothing is applied. Only objects that queues are made of are compared
(ClusterQueues, Cohorts, LocalQueues, ResourceFlavors); others are named and left out.

examples:
  makeway diff -f queues.yaml
  makeway diff -f queues.yaml || echo "somebody should look at this"
  makeway diff -f queues.yaml -o json | jq .changes

exit codes:
  0  nothing changes     1  something does     2  an error
"""

from __future__ import annotations

import argparse
import sys

from makeway.api import versions
from makeway.api.intake import take_in
from makeway.api.kinds import LOCAL_QUEUES
from makeway.api.manifests import Manifest
from makeway.cli import connect
from makeway.cli.apply import add_files, read_files
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.leader import told_by_leader
from makeway.cli.naming import spoken_of
from makeway.cli.tables import add_output, counted, print_document, print_safely, print_sentence
from makeway.client import ApiError, Client
from makeway.client.client import Document

EXIT_DIFFERENT = 1
SHOWN = 3
COMPARED = "ClusterQueues, Cohorts, LocalQueues and ResourceFlavors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_output(parser, ("text", "json", "yaml"))
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    manifests = read_files(arguments.filename)

    async def story(client: Client, namespace: str) -> int:
        documents = [_checked(manifest, namespace) for manifest in manifests]
        try:
            found = await _asked(client, documents, is_own=connect.is_own(arguments))
        except (ApiError, RequestRefused) as error:
            raise UsageError(f"error from the server: {error}") from None
        if manifests and len(found["leftOut"]) == len(manifests):
            named = ", ".join(f"{one['kind']} {one['name']}" for one in found["leftOut"][:SHOWN])
            raise UsageError(f"{named}: no part of queues; {COMPARED} are compared")
        await _print(client, found, arguments.output)
        return EXIT_DIFFERENT if found["objects"] else 0

    return connect.converse(arguments, story)


async def _asked(client: Client, documents: list[Document], *, is_own: bool) -> Document:
    try:
        return await client.difference(documents)
    except ApiError as error:
        if is_own or not error.may_lack_path:
            raise
        return await told_by_leader(client, "diff", {"items": documents})


def _checked(manifest: Manifest, namespace: str) -> Document:
    """What is wrong is told with file and line, which the server doesn't know."""
    document = _placed(dict(versions.to_hub(manifest.document).document), namespace)
    if wrong := take_in(document).errors:
        kind = document.get("kind") or "object"
        raise UsageError(f"{manifest.position}: {kind}: {'; '.join(map(str, wrong))}")
    return document


def _placed(document: Document, namespace: str) -> Document:
    """In the namespace of the command, if it has none."""
    if document.get("kind") != LOCAL_QUEUES.kind:
        return document
    metadata = document.get("metadata") or {}
    return {**document, "metadata": {"namespace": namespace, **metadata}}


async def _print(client: Client, found: Document, output: str) -> None:
    if output in ("json", "yaml"):
        print_document(output, found)
        return
    for other in found["leftOut"]:
        print(f"not compared: {other['kind']} {other['name']}", file=sys.stderr)
    for edited in found["objects"]:
        print_safely(f"{edited['kind']} {edited['name']} is new or different")
    spoken = await spoken_of(client, found)
    for pieces in found["pieces"]:
        print_sentence(spoken.line(pieces))
    if found["objects"] and not found["lines"]:
        print("for no workload that changes anything now")
    elif found["changes"]:
        print(f"{counted(len(found['changes']), 'workload')} would stand otherwise")
