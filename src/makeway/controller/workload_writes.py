"""Writes that every part sends which keeps a user's object and its Workload in step."""

from __future__ import annotations

from collections.abc import Sequence

from makeway.api.kinds import WORKLOADS, Resource
from makeway.client.client import Document
from makeway.plane.writes import Delete, Patch, Say, as_seen, key_of


def workload_patch(
    document: Document, *, spec: Document, annotations: Document | None = None
) -> Patch | None:
    """Change a Workload, if it is still as we saw it; None: there is nothing to change."""
    if not spec and not annotations:
        return None
    patch: Document = {"metadata": as_seen(document)}
    if annotations:
        patch["metadata"]["annotations"] = annotations
    if spec:
        patch["spec"] = spec
    return Patch(resource=WORKLOADS, key=key_of(document), patch=patch)


def without_finalizer(
    resource: Resource, document: Document, finalizer: str, *, is_exact: bool = False
) -> Sequence[Patch]:
    """Nothing needs it any more; `is_exact`: only if the object is still as we saw it.

    Without that it is safe beside our other writes to the same object, as long as nobody else puts
    finalizers there.
    """
    metadata = document["metadata"]
    there = metadata.get("finalizers") or []
    if finalizer not in there:
        return ()
    left = [name for name in there if name != finalizer]
    changes: Document = {"uid": metadata["uid"], "finalizers": left or None}
    if is_exact:
        changes = {**changes, "resourceVersion": metadata["resourceVersion"]}
    return [Patch(resource=resource, key=key_of(document), patch={"metadata": changes})]


def deletion(resource: Resource, document: Document, *, then: tuple[Say, ...] = ()) -> Delete:
    uid = document["metadata"]["uid"]
    return Delete(resource=resource, key=key_of(document), uid=uid, then=then)
