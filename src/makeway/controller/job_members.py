"""Who belongs to which Job: its Workloads and its pods, also when the Job is gone."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.labels import JOB_UID
from makeway.api.meta import controller_of
from makeway.client.client import Document, Resource
from makeway.client.resources import JOBS, PODS, WORKLOADS
from makeway.plane.writes import Key

_LABELS = {WORKLOADS: JOB_UID, PODS: "batch.kubernetes.io/controller-uid"}
_OVER = ("Succeeded", "Failed")


class Members:
    """By namespace and uid of the Job: one made anew under an old name has nothing of the old one.

    Of its pods only those are members that may run or are still on their way out, so that asking
    for them costs the same for ten thousand pods that have ended.
    """

    def __init__(self) -> None:
        self._job_of: dict[tuple[Resource, Key], Key] = {}
        self._of: dict[Key, dict[Resource, dict[Key, None]]] = {}

    def changed(self, resource: Resource, key: Key, document: Document | None) -> set[Key]:
        """Take note of an object; returns the Jobs to look at for it."""
        before = self._job_of.get((resource, key))
        uid = _job_uid_of(resource, document) if document is not None else ""
        after = Key(key.namespace, uid) if uid else None
        if before != after:
            self._move(resource, key, before, after)
        elif resource == PODS:
            return set()  # how it fares, the Job's status tells
        return {job for job in (before, after) if job is not None}

    def keys(self, job: Key, resource: Resource) -> Iterable[Key]:
        return sorted(self._of.get(job, {}).get(resource, ()))

    def has_pods(self, job: Key) -> bool:
        return bool(self._of.get(job, {}).get(PODS))

    def _move(self, resource: Resource, key: Key, before: Key | None, after: Key | None) -> None:
        if before is not None:
            of_kind = self._of[before][resource]
            del of_kind[key], self._job_of[resource, key]
            if not of_kind:
                del self._of[before][resource]
            if not self._of[before]:
                del self._of[before]
        if after is not None:
            self._job_of[resource, key] = after
            self._of.setdefault(after, {}).setdefault(resource, {})[key] = None


def _job_uid_of(resource: Resource, document: Document) -> str:
    """The uid of the Job that an object is or belongs to; empty if it belongs to none.

    Objects whose owner let go of them when it was deleted are told by their label.
    """
    metadata = document["metadata"]
    if resource == JOBS:
        return str(metadata["uid"])
    phase = (document.get("status") or {}).get("phase")
    if resource == PODS and phase in _OVER and not metadata.get("deletionTimestamp"):
        return ""
    owner = controller_of(document)
    if owner is not None:
        is_job = owner.kind == JOBS.kind and owner.api_version.startswith("batch/")
        return owner.uid if is_job else ""
    return str((metadata.get("labels") or {}).get(_LABELS[resource], ""))
