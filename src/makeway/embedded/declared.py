"""What a server finds at its start: the nodes it was given, and a queue."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.api.kinds import NAMESPACES, NODES, QUEUES
from makeway.client import Client, Conflict, NotFound
from makeway.client.client import Document
from makeway.controller import automatic

OURS = "makeway.dev/declared-by"  # label of nodes that `makeway up` has declared


async def declare(client: Client, nodes: Sequence[Document]) -> None:
    """Have exactly these nodes of ours; those of others are left alone."""
    names = {node["metadata"]["name"] for node in nodes}
    before: dict[str, Document] = {}
    for old in (await client.list(NODES, label_selector=f"{OURS}=up")).items:
        before[old["metadata"]["name"]] = old.get("status") or {}
        if old["metadata"]["name"] not in names:
            await client.delete(NODES, old["metadata"]["name"])
    for node in nodes:
        name = node["metadata"]["name"]
        labels = {**node["metadata"]["labels"], OURS: "up"}
        metadata = {**node["metadata"], "labels": labels}
        said = {part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)}
        try:
            await client.patch(NODES, name, patch={"metadata": said})
            if spec := node.get("spec"):
                await client.patch(NODES, name, patch={"spec": spec})
        except NotFound:
            await client.create(NODES, {**node, "metadata": metadata})
        status = {**node["status"]}
        for part in ("capacity", "allocatable"):  # what it had and has no more
            gone = (before.get(name, {}).get(part) or {}).keys() - status[part].keys()
            status[part] = {**status[part], **dict.fromkeys(gone)}
        await client.patch(NODES, name, patch={"status": status}, subresource="status")


async def provide_queue(client: Client, *, is_shared: bool = False) -> None:
    """Who submits as soon as we are ready finds the automatic queue; from then on it looks after
    itself.
    """
    if (await client.list(QUEUES)).items:
        return
    nodes = [decode_as(Node, node).object for node in (await client.list(NODES)).items]
    quota = automatic.quota_of([node for node in nodes if node is not None])
    namespaces = [found["metadata"]["name"] for found in (await client.list(NAMESPACES)).items]
    for resource, document in automatic.documents(quota, namespaces, is_shared=is_shared):
        with contextlib.suppress(Conflict):  # it is there already
            await client.create(resource, document)
