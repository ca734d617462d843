"""`makeway apply`: make the server have what files say."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from makeway.api import versions
from makeway.api.kinds import Resource
from makeway.api.manifests import Manifest, read_manifests
from makeway.cli import connect
from makeway.cli.check import read_texts
from makeway.cli.command import Command, UsageError
from makeway.client import ApiError, Client, NotFound

Document = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--dry-run", action="store_true", help="ask the server, change nothing")
    parser.add_argument(
        "--force-conflicts", action="store_true", help="take over fields that others have set"
    )
    connect.add_arguments(parser)


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        required=True,
        help="a YAML or JSON file, a folder of them, or - for standard input",
    )


def read_files(names: list[str]) -> list[Manifest]:
    """All documents of all files; UsageError if any can't be read."""
    manifests: list[Manifest] = []
    troubles: list[str] = []
    for source, text in read_texts(names, troubles):
        found = read_manifests(text, source)
        troubles += [str(trouble) for trouble in found.troubles]
        manifests += found.manifests
    if troubles:
        raise UsageError("\n  ".join(troubles))
    if not manifests:
        raise UsageError("there are no objects in these files")
    return manifests


async def resource_of(client: Client, document: Document) -> Resource:
    return await client.resource(str(document.get("apiVersion", "")), str(document.get("kind", "")))


def run(arguments: argparse.Namespace) -> int:
    manifests = read_files(arguments.filename)

    async def story(client: Client, namespace: str) -> int:
        code = 0
        for manifest in manifests:
            # Old spellings are brought to today's, which every server understands.
            converted = versions.to_hub(manifest.document)
            try:
                for error in converted.errors:
                    raise ApiError(422, "Invalid", str(error))
                line = await _apply(client, dict(converted.document), namespace, arguments)
                print(f"{line}{' (dry run)' if arguments.dry_run else ''}")
            except ApiError as error:
                print(f"makeway: {manifest.position}: {error}", file=sys.stderr)
                code = connect.EXIT_REFUSED
            connect.show_warnings(client)
        return code

    return connect.converse(arguments, story)


async def _apply(
    client: Client, document: Document, namespace: str, arguments: argparse.Namespace
) -> str:
    resource = await resource_of(client, document)
    metadata = document.get("metadata") or {}
    where = metadata.get("namespace") or namespace
    name = metadata.get("name")
    if not name:
        made = await client.create(resource, document, namespace=where, dry_run=arguments.dry_run)
        return f"{connect.written(resource, made['metadata']['name'])} created"
    try:
        before = await client.get(resource, name, where)
    except NotFound:
        before = None
    after = await client.apply(
        resource,
        document,
        namespace=where,
        force=arguments.force_conflicts,
        dry_run=arguments.dry_run,
    )
    if before is None:
        word = "created"
    else:
        word = "unchanged" if _same(before, after) else "configured"
    return f"{connect.written(resource, name)} {word}"


def _same(before: Document, after: Document) -> bool:
    """Equal but for the owners of fields."""

    def bare(document: Document) -> Document:
        aside = ("managedFields", "resourceVersion")
        metadata = {k: v for k, v in document["metadata"].items() if k not in aside}
        return {**document, "metadata": metadata}

    return bare(before) == bare(after)


COMMAND = Command(
    name="apply",
    summary="make the server have what YAML files say",
    description="""\
Create or change objects so that they are as the files say (server-side apply).
Fields that a file no longer mentions go away, if nobody else has set them. Files
in older versions of Kueue's API are translated.
""",
    examples="""\
examples:
  makeway apply -f queues.yaml
  makeway apply -f examples/ --dry-run
  kustomize build . | makeway apply -f -

exit codes:
  0  all applied     1  the server refused some     2  no server, unreadable file
""",
    add_arguments=add_arguments,
    run=run,
)
