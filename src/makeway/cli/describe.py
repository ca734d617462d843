"""show an object in full, with the events about it

Show everything about an object: its fields, its conditions, and its events.

examples:
  makeway describe job train
  makeway describe workload/train-1 -n vision

exit codes:
  0  printed     1  there is no such object or kind     2  no server
"""

from __future__ import annotations

import argparse
import re
from base64 import b64decode
from typing import Any

from makeway.api.kinds import JOBS, SECRETS
from makeway.cli import connect
from makeway.cli.references import find_job
from makeway.cli.tables import aligned
from makeway.client import Client
from makeway.client.client import Document
from makeway.translate.job_names import NUMBER

_HIDDEN = frozenset(("managedFields", "kubectl.kubernetes.io/last-applied-configuration"))
_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="KIND NAME...",
        nargs="+",
        help="a kind and names, or KIND/NAME, or the numbers of jobs, as 12 or 12_4",
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        if NUMBER.fullmatch(arguments.words[0]):
            found = [await find_job(client, namespace, word) for word in arguments.words]
            resource, names = JOBS, [job.metadata.name for job in found]
        else:
            resource, names = await connect.find_target(client, arguments.words)
        if not names:
            listing = await client.list(resource, namespace)
            names = [item["metadata"]["name"] for item in listing.items]
        for index, name in enumerate(names):
            document = await client.get(resource, name, namespace)
            print("\n\n" * bool(index) + "\n".join(_described(document)))
            print(await _events(client, document))
        return 0

    return connect.converse(arguments, story)


def _described(document: Document) -> list[str]:
    metadata = document["metadata"]
    lines = [f"Name: {metadata['name']}"]
    if "namespace" in metadata:
        lines.append(f"Namespace: {metadata['namespace']}")
    lines.append(f"Kind: {document['kind']} ({document['apiVersion']})")
    rest = {k: v for k, v in metadata.items() if k not in ("name", "namespace")}
    lines += _lines({"metadata": rest}, "")
    if document["kind"] == SECRETS.kind:
        document = {**document, "data": _sizes(document.get("data") or {})}
    aside = ("apiVersion", "kind", "metadata")
    lines += _lines({k: v for k, v in document.items() if k not in aside}, "")
    return lines


def _sizes(values: Document) -> Document:
    """Of a Secret only this is shown."""
    return {key: f"{len(b64decode(value))} bytes" for key, value in values.items()}


def _lines(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict):
        found = []
        for key, item in value.items():
            if key in _HIDDEN:
                continue
            words = _CAPITALS.sub(" ", key)
            title = key if "/" in key or "." in key else words[:1].upper() + words[1:]
            if isinstance(item, dict | list) and item:
                found += [f"{indent}{title}:", *_lines(item, indent + "  ")]
            else:
                shown = "" if item in ({}, [], None) else item
                found.append(f"{indent}{title}: {shown}".rstrip())
        return found
    found = []
    for item in value:
        if isinstance(item, dict | list):
            inner = _lines(item, "")
            found += [f"{indent}{'- ' if not i else '  '}{line}" for i, line in enumerate(inner)]
        else:
            found.append(f"{indent}- {item}")
    return found


async def _events(client: Client, document: Document) -> str:
    uid = document["metadata"]["uid"]
    events = await client.resource("v1", "Event")
    namespace = document["metadata"].get("namespace", "")
    found = await client.list(events, namespace, field_selector=f"involvedObject.uid={uid}")
    if not found.items:
        return "Events: none"
    names = ("type", "reason", "count", "lastTimestamp", "message")
    rows = [["  TYPE", "REASON", "COUNT", "LAST", "MESSAGE"]]
    for event in sorted(found.items, key=lambda item: item.get("lastTimestamp") or ""):
        type_, *rest = (str(({"count": 1} | event).get(name) or "") for name in names)
        rows.append([f"  {type_}", *rest])
    return "\n".join(("Events:", *aligned(rows)))
