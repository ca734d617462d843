"""What a server holds, as typed views."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from makeway.api.codec import KindT, decode_as
from makeway.api.kinds import RESOURCES, Kind, Resource
from makeway.cli.command import RequestRefused
from makeway.client import Client
from makeway.client.client import Document

RESOURCE_OF: Mapping[type[Kind], Resource] = {
    resource.view: resource for resource in RESOURCES if resource.view is not None
}


def view_of(kind: type[KindT], document: Document) -> KindT:
    decoded = decode_as(kind, document)
    if decoded.object is None:
        name = document["metadata"].get("name")
        raise RequestRefused(f"can't read {kind.KIND} {name} of the server: {decoded.errors[0]}")
    return decoded.object


def readable(kind: type[KindT], documents: Iterable[Document]) -> list[KindT]:
    """The objects that can be read; a line on standard error names each of the others."""
    found = []
    for document in documents:
        try:
            found.append(view_of(kind, document))
        except RequestRefused as error:
            print(f"makeway: {error}", file=sys.stderr)
    return found


async def fetch(client: Client, kind: type[KindT], name: str, namespace: str) -> KindT:
    return view_of(kind, await client.get(RESOURCE_OF[kind], name, namespace))


async def fetch_all(
    client: Client, kind: type[KindT], namespace: str = "", label_selector: str = ""
) -> list[KindT]:
    found = await client.list(RESOURCE_OF[kind], namespace, label_selector=label_selector)
    return readable(kind, found.items)
