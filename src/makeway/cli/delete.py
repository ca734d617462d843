"""delete objects, and what they own

Delete objects by name, by label or as files name them, and wait until gone.

examples:
  makeway delete job train
  makeway delete jobs -l team=vision
  makeway delete -f queues.yaml --ignore-not-found

exit codes:
  0  deleted     1  there is no such object, or the server refused     2  no server
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from makeway.api import versions
from makeway.api.kinds import Resource
from makeway.api.labels import IN_USE
from makeway.cli import connect
from makeway.cli.apply import read_files, resource_of
from makeway.cli.command import UsageError
from makeway.client import Client, NotFound

_POLL_S = 0.2
_TOLD_AFTER_S = 2.0
_CASCADES = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="KIND NAME...", nargs="*", help="or KIND/NAME")
    parser.add_argument("-f", "--filename", metavar="FILE", action="append", help="what files name")
    parser.add_argument("-l", "--selector", default="", help="all objects with these labels")
    parser.add_argument("--all", action="store_true", help="all objects of the kind")
    parser.add_argument(
        "--cascade",
        choices=tuple(_CASCADES),
        default="background",
        help="what becomes of what the object owns (default: background)",
    )
    parser.add_argument("--grace-period", type=int, metavar="SECONDS", help="time for pods to end")
    parser.add_argument("--ignore-not-found", action="store_true", help="gone already is fine")
    parser.add_argument("--no-wait", action="store_true", help="don't wait until it is gone")
    parser.add_argument("--dry-run", action="store_true", help="ask the server, change nothing")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if bool(arguments.words) == bool(arguments.filename):
        raise UsageError("name either a kind and names, or files with -f")
    manifests = read_files(arguments.filename) if arguments.filename else []

    async def story(client: Client, namespace: str) -> int:
        targets: list[tuple[Resource, str, str]] = []
        for manifest in manifests:
            document = dict(versions.to_hub(manifest.document).document)
            resource = await resource_of(client, document)
            metadata = document.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            if metadata.get("name"):
                where = metadata.get("namespace") or namespace
                targets.append((resource, str(metadata["name"]), where))
        if arguments.words:
            resource, names = await connect.find_target(client, arguments.words)
            if not names and not arguments.all and not arguments.selector:
                raise UsageError("name objects, or write --all or -l")
            if not names:
                found = await client.list(resource, namespace, label_selector=arguments.selector)
                names = [item["metadata"]["name"] for item in found.items]
                if not names:
                    print(f"there are no {resource.plural} to delete", file=sys.stderr)
            targets += [(resource, name, namespace) for name in names]
        code = 0
        for resource, name, where in targets:
            try:
                await _delete(client, resource, name, where, arguments)
            except NotFound as error:
                if not arguments.ignore_not_found:
                    print(f"makeway: {error}", file=sys.stderr)
                    code = connect.EXIT_REFUSED
        return code

    return connect.converse(arguments, story)


async def _delete(
    client: Client, resource: Resource, name: str, namespace: str, arguments: argparse.Namespace
) -> None:
    await client.delete(
        resource,
        name,
        namespace,
        propagation=_CASCADES[arguments.cascade],
        grace_s=arguments.grace_period,
        dry_run=arguments.dry_run,
    )
    suffix = " (dry run)" if arguments.dry_run else ""
    print(f"{connect.written(resource, name)} deleted{suffix}", flush=True)
    if not arguments.no_wait and not arguments.dry_run:
        await _until_gone(client, resource, name, namespace)


async def _until_gone(client: Client, resource: Resource, name: str, namespace: str) -> None:
    began_at, is_told = time.monotonic(), False
    while True:
        try:
            document = await client.get(resource, name, namespace)
        except NotFound:
            return
        if "deletionTimestamp" not in document["metadata"]:
            return  # another of that name
        held_by = document["metadata"].get("finalizers") or ()
        if held_by and not is_told and time.monotonic() - began_at > _TOLD_AFTER_S:
            is_told = True
            use = "; it stays until nothing uses it any more" if IN_USE in held_by else ""
            what = f"{connect.written(resource, name)} is held by {', '.join(held_by)}{use}"
            print(f"{what} (--no-wait doesn't wait for that)", file=sys.stderr, flush=True)
        await asyncio.sleep(_POLL_S)
