"""tell what would become of a job, were it submitted now

Tell what would become of Jobs or Workloads, were they created now: they would start, on
which flavors; or make others way, whose, by which rule and at which cost; or wait, for
what and behind whom; or never run as they are. The same engine decides, on a copy of how
things stand. Nothing is created and nothing is changed; the answer holds until
something else happens. Of several each is told as if it came alone. `makeway submit
--preview` asks the same of a command.

examples:
  makeway preview -f job.yaml
  makeway preview -f job.yaml -o json | jq .outcome
  makeway submit --preview -q vision --gpu 8 -- python train.py

exit codes:
  0  printed     1  the server refused one, or can't say     2  no server, unreadable file
"""

from __future__ import annotations

import argparse
import sys

from makeway.api import versions
from makeway.api.kinds import Resource
from makeway.cli import connect
from makeway.cli.apply import add_files, read_files, resource_of
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.leader import told_by_leader
from makeway.cli.naming import spoken_of
from makeway.cli.tables import add_output, print_document, print_safely, print_sentence
from makeway.client import ApiError, Client
from makeway.client.client import Document

PREVIEWED = ("Job", "Workload")
ONLY = "only a Job or a Workload is previewed; `makeway diff` compares queues"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_output(parser, ("text", "json", "yaml"))
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    manifests = read_files(arguments.filename)

    are_several = len(manifests) > 1

    async def story(client: Client, namespace: str) -> int:
        found, code = [], 0
        for manifest in manifests:
            document = dict(versions.to_hub(manifest.document).document)
            if document.get("kind") not in PREVIEWED:
                raise UsageError(f"{manifest.position}: {document.get('kind')}: {ONLY}")
            try:
                resource = await resource_of(client, document)
                found.append(await previewed(client, resource, document, namespace))
            except (ApiError, RequestRefused) as error:
                print(f"makeway: {manifest.position}: {error}", file=sys.stderr)
                code = connect.EXIT_REFUSED
        if are_several and arguments.output != "text":
            listing = {"apiVersion": "v1", "kind": "List", "items": found}
            print_document(arguments.output, listing)
            return code
        for one in found:
            if are_several:
                print_safely(f"{one['metadata']['namespace']}/{one['metadata']['name']}, alone:")
            await print_preview(client, one, arguments.output)
        return code

    return connect.converse(arguments, story)


async def previewed(
    client: Client, resource: Resource, document: Document, namespace: str
) -> Document:
    """What the server says; a cluster's own completes the object, and its controller tells."""
    found = await client.preview(resource, document, namespace=namespace)
    if found.get("kind") == "Preview":
        return found
    return await told_by_leader(client, "preview", found)


async def print_preview(client: Client, found: Document, output: str | None) -> None:
    """As text it calls jobs as `makeway status` does."""
    if output in ("json", "yaml"):
        print_document(output, found)
        return
    spoken = await spoken_of(client, found)
    for pieces in found["pieces"]:
        print_sentence(spoken.line(pieces))
