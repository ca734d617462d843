"""A server on a desk: a Picture to which writes are applied at once, for telling parts' stories.

It knows revisions, uids, preconditions, finalizers and merge patches, checks queue Workloads as the
server does, and lets the template of a Job change only as Kubernetes lets it. Who creates pods and
says what became of them is the story itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from makeway.api.codec import decode_as
from makeway.api.defaults import with_defaults
from makeway.api.intake import take_in
from makeway.api.queueing import Workload
from makeway.api.times import format_time
from makeway.client.client import ApiError, Conflict, Document, NotFound, Resource, Unavailable
from makeway.client.resources import JOBS, PODS, WORKLOADS
from makeway.plane.parts import Done, Failed, Outcome, Part
from makeway.plane.picture import Change, Picture, revision_of
from makeway.plane.writes import Bind, Create, Delete, Evict, Key, ObjectWrite, Patch, Say, key_of
from makeway.server.patch import merge_patch

ROUNDS_MAX = 100


class Desk:
    def __init__(self, picture: Picture, *parts: Part, now: float = 1_000.0) -> None:
        self.picture, self.now = picture, now
        self.said: list[Say] = []
        self.sent: list[ObjectWrite] = []
        self.refusals: list[ApiError | Unavailable] = []  # of the writes to come, one each
        self.fates_unknown = 0  # so many writes to come take effect and aren't answered
        self.next_at: float | None = None
        self._parts = list(parts)
        self._revisions, self._uids = itertools.count(1), itertools.count(1)

    def restart(self, *parts: Part) -> None:
        """Other parts take over, with nothing but the objects."""
        self._parts = list(parts)
        for part in parts:
            for resource in part.resources:
                for key in list(self.picture.keys(resource)):
                    part.changed(Change(resource, key, None, self.picture.find(resource, key)))

    # What users and other controllers do

    def put(self, resource: Resource, document: Document) -> Document:
        """Create an object as somebody else would."""
        return self._create(resource, deepcopy(document))

    def edit(self, resource: Resource, key: Key, patch: Document, subresource: str = "") -> None:
        self._patch(Patch(resource=resource, key=key, patch=patch, subresource=subresource))

    def delete(self, resource: Resource, key: Key) -> None:
        self._delete(resource, key)

    def get(self, resource: Resource, key: Key) -> Document:
        document = self.picture.get(resource, key)
        assert document is not None, f"{resource.kind} {key} is not there"
        return deepcopy(document)

    def reasons_said(self) -> list[str]:
        return [saying.reason for saying in self.said]

    # What the parts do

    def settle(self, now: float | None = None) -> None:
        """Let the parts act, at a time, until they want nothing more at that time."""
        self.now = self.now if now is None else now
        for _ in range(ROUNDS_MAX):
            plans = [(part, part.act(self.now)) for part in self._parts]
            due = [plan.next_at for _, plan in plans if plan.next_at is not None]
            self.next_at = min(due, default=None)
            for part, plan in plans:
                for write in plan.writes:
                    if isinstance(write, Say):
                        self.said.append(write)
                    else:
                        self.said += self._carry_out(part, write)
            if not any(plan.writes for _, plan in plans) and (
                self.next_at is None or self.next_at > self.now
            ):
                return
        raise AssertionError(f"no end in sight; the last write was {self.sent[-1]}")

    def _carry_out(self, part: Part, write: ObjectWrite) -> Sequence[Say]:
        self.sent.append(write)
        outcome: Outcome
        if self.refusals:
            outcome = Failed(self.refusals.pop(0))
        else:
            try:
                outcome = Done(self._apply(write))
            except ApiError as error:
                outcome = Failed(error)
            if self.fates_unknown:
                self.fates_unknown -= 1
                outcome = Failed(Unavailable("no answer"))
        return part.settled(write, outcome, self.now)

    def _apply(self, write: ObjectWrite) -> Document | None:
        match write:
            case Create():
                return self._create(write.resource, deepcopy(write.document))
            case Patch():
                return self._patch(write)
            case Delete():
                return self._delete(write.resource, write.key, write.uid)
            case Evict():
                return self._delete(PODS, write.key, write.uid)
            case Bind():
                patch = {"metadata": {"uid": write.uid}, "spec": {"nodeName": write.node}}
                return self._patch(Patch(resource=PODS, key=write.key, patch=patch))

    # What a server does

    def _create(self, resource: Resource, document: Document) -> Document:
        key = key_of(document)
        if self.picture.has(resource, key):
            raise Conflict(409, "AlreadyExists", f"{resource.kind} {key} already exists")
        metadata = document["metadata"]
        metadata.setdefault("uid", f"uid-{next(self._uids)}")
        metadata.setdefault("creationTimestamp", format_time(self.now))
        metadata["generation"] = 1
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return self._keep(resource, document, None)

    def _patch(self, write: Patch) -> Document:
        old = self._found(write.resource, write.key)
        wanted = write.patch.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                raise Conflict(409, "Conflict", f"{name} is {old['metadata'][name]}")
        part = {"status": write.patch.get("status")} if write.subresource else write.patch
        new: Document = merge_patch(old, part)
        if not write.subresource and "status" in old:
            new["status"] = old["status"]
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if new == old:
            return old
        if write.resource == JOBS:
            _check_job(old, new)
        return self._keep(write.resource, new, old)

    def _delete(self, resource: Resource, key: Key, uid: str | None = None) -> Document:
        old = self._found(resource, key)
        if uid is not None and uid != old["metadata"]["uid"]:
            raise Conflict(409, "Conflict", "it is another one")
        new = deepcopy(old)
        new["metadata"].setdefault("deletionTimestamp", format_time(self.now))
        return self._keep(resource, new, old)

    def _found(self, resource: Resource, key: Key) -> Document:
        document = self.picture.get(resource, key)
        if document is None:
            raise NotFound(404, "NotFound", f"{resource.kind} {key} not found")
        return deepcopy(document)

    def _keep(self, resource: Resource, document: Document, old: Document | None) -> Document:
        document = _completed(resource, document, old)
        document["metadata"]["resourceVersion"] = str(next(self._revisions))
        key, metadata = key_of(document), document["metadata"]
        is_gone = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if is_gone:
            change = self.picture.lose(resource, key, revision_of(document))
        else:
            change = self.picture.take(resource, deepcopy(document))
        for part in self._parts:
            if change is not None and resource in part.resources:
                part.changed(change)
        return document


def _completed(resource: Resource, new: Document, old: Document | None) -> Document:
    """As a server stores it: with defaults, and checked where it is a queue Workload."""
    if resource != WORKLOADS:
        return dict(with_defaults(new))
    intake = take_in(new, decode_as(Workload, old).object if old is not None else None)
    if intake.document is None:
        raise ApiError(422, "Invalid", "; ".join(map(str, intake.errors)))
    return dict(intake.document)


def _check_job(old: Document, new: Document) -> None:
    before, after = old["spec"]["template"], new["spec"]["template"]
    may_change = old["spec"].get("suspend") and not _status(old).get("startTime")
    if before != after and not may_change:
        raise ApiError(422, "Invalid", "spec.template: field is immutable")


def _status(document: Document) -> dict[str, Any]:
    status: dict[str, Any] = document.get("status") or {}
    return status
