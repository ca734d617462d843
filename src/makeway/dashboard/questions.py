"""What would be, if: objects that a reader writes are asked about with his own client."""

from __future__ import annotations

from typing import Any

from makeway.api import versions
from makeway.api.kinds import JOBS, LOCAL_QUEUES, WORKLOADS
from makeway.api.manifests import read_manifests
from makeway.client import Client
from makeway.client.client import Document

_JOBS = {resource.kind: resource for resource in (JOBS, WORKLOADS)}


class WrongQuestion(Exception):
    """It can't be asked like that; the text is for the reader."""


async def answers_to(client: Client, text: str, namespace: str) -> list[dict[str, Any]]:
    """What would become of Jobs and Workloads; or, of queue objects, what would change for whom."""
    documents = _documents(text, namespace)
    if any(document.get("kind") in _JOBS for document in documents):
        return [await _preview(client, document, namespace) for document in documents]
    found = await client.difference(documents)
    outcome = f"{len(found['changes'])} would stand otherwise" if found["objects"] else "no change"
    return [{"outcome": outcome, "pieces": found["pieces"], "objects": found["objects"]}]


async def _preview(client: Client, document: Document, namespace: str) -> dict[str, Any]:
    resource = _JOBS.get(str(document.get("kind")))
    if resource is None:
        raise WrongQuestion(f"{document.get('kind')}: ask about jobs and about queues one by one")
    found = await client.preview(resource, document, namespace=namespace)
    return {"outcome": found["outcome"], "pieces": found["pieces"], "objects": []}


def _documents(text: str, namespace: str) -> list[Document]:
    found = read_manifests(text, "question")
    if found.troubles:
        raise WrongQuestion(str(found.troubles[0]))
    if not found.manifests:
        raise WrongQuestion("write an object: a Job, a Workload, or queues")
    documents = [dict(versions.to_hub(manifest.document).document) for manifest in found.manifests]
    return [_placed(document, namespace) for document in documents]


def _placed(document: Document, namespace: str) -> Document:
    if document.get("kind") not in (*_JOBS, LOCAL_QUEUES.kind):
        return document
    return {**document, "metadata": {"namespace": namespace, **(document.get("metadata") or {})}}
