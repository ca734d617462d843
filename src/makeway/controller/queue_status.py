"""What queues say of themselves: who waits, who holds, how much of each flavor is used.

Counted anew from the engine's picture, at most once a second and only when it has changed. Cost:
one step per workload that waits or holds quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from makeway.api import queueing
from makeway.api.codec import decode_unconverted
from makeway.api.errors import Unsupported
from makeway.api.kinds import LOCAL_QUEUES, QUEUES, Resource
from makeway.api.quantity import format_amount
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, with_condition, without_condition
from makeway.engine.engine import Engine
from makeway.engine.explain import QueueInactive
from makeway.engine.model import (
    FlavorResource,
    LocalQueueKey,
    QueueName,
    Quota,
    StopPolicy,
)
from makeway.engine.view import KnownQueue, KnownWorkload
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, ObjectWrite, Patch, Say
from makeway.translate import messages

EVERY_S = 1.0
UNSUPPORTED_FIELD = "UnsupportedField"


@dataclass(slots=True)
class _Count:
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[FlavorResource] = field(default_factory=Counter)
    used: Counter[FlavorResource] = field(default_factory=Counter)

    def add(self, holder: KnownWorkload) -> None:
        is_admitted = holder.status.admitted_at is not None
        self.reserving += 1
        self.admitted += is_admitted
        for cell, amount in holder.charged.items():
            self.reserved[cell] += amount
            if is_admitted:
                self.used[cell] += amount


class _Unsupported(NamedTuple):
    spec: tuple[str, int]  # uid and generation of the document that was read
    found: Sequence[Unsupported]


class QueueStatus:
    resources: tuple[Resource, ...] = (QUEUES, LOCAL_QUEUES)

    def __init__(self, picture: Picture, engine: Engine) -> None:
        self._picture, self._view = picture, engine.view
        self._seen = -1  # the revision of the engine's state that was counted last
        self._is_due = True  # a queue object has changed since
        self._at = 0.0  # when it was counted last
        self._busy: set[tuple[Resource, Key]] = set()
        self._unsupported: dict[tuple[Resource, Key], _Unsupported] = {}

    def changed(self, change: Change) -> None:
        self._is_due = True
        if change.new is None:
            self._unsupported.pop((change.resource, change.key), None)

    def act(self, now: float) -> Plan:
        if not self._is_due and self._view.revision == self._seen:
            return Plan()
        if now < self._at + EVERY_S:
            return Plan(next_at=self._at + EVERY_S)
        self._at, self._seen, self._is_due = now, self._view.revision, False
        queues = {queue.spec.name: queue for queue in self._view.queues()}
        return Plan([*self._local_queues(queues, now), *self._queues(queues, now)])

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        self._busy.discard((write.resource, write.key))
        self._is_due = True  # once more, to see whether it is as it should be
        return ()

    def _queues(self, queues: Mapping[QueueName, KnownQueue], now: float) -> Iterable[Patch]:
        for key in list(self._picture.keys(QUEUES)):
            queue = queues.get(QueueName(key.name))
            document = self._picture.get(QUEUES, key)
            if queue is None or document is None:
                continue
            count = _Count(pending=queue.in_line + queue.parked)
            for holder in queue.holders:
                count.add(holder)
            conditions = with_condition(
                conditions_of(document), "Active", *_queue_activity(queue.inactive), now=now
            )
            found = self._unsupported_in(QUEUES, key, document, queueing.ClusterQueue)
            status = _status(count, tuple(queue.quotas), queue.quotas)
            status["conditions"] = with_unsupported(conditions, found, now)
            yield from self._patch(QUEUES, key, document, status)

    def _local_queues(self, queues: Mapping[QueueName, KnownQueue], now: float) -> Iterable[Patch]:
        for key in list(self._picture.keys(LOCAL_QUEUES)):
            local_queue = self._view.local_queue(LocalQueueKey(str(key)))
            document = self._picture.get(LOCAL_QUEUES, key)
            if local_queue is None or document is None:
                continue
            pending, holders = self._view.counted_from(local_queue.key)
            count = _Count(pending=pending)
            for holder in holders:
                count.add(holder)
            queue = queues.get(local_queue.queue)
            activity = _local_activity(local_queue.stop_policy, queue)
            cells = tuple(queue.quotas) if queue is not None else ()
            conditions = with_condition(conditions_of(document), "Active", *activity, now=now)
            found = self._unsupported_in(LOCAL_QUEUES, key, document, queueing.LocalQueue)
            status = _status(count, cells, None)
            status["conditions"] = with_unsupported(conditions, found, now)
            yield from self._patch(LOCAL_QUEUES, key, document, status)

    def _unsupported_in(
        self,
        resource: Resource,
        key: Key,
        document: Document,
        view: type[queueing.ClusterQueue | queueing.LocalQueue],
    ) -> Sequence[Unsupported]:
        """Read only where the spec is a new one: most often it is usage that has changed."""
        metadata = document["metadata"]
        spec = metadata["uid"], metadata.get("generation") or 0
        known = self._unsupported.get((resource, key))
        if known is None or known.spec != spec:
            known = _Unsupported(spec, decode_unconverted(view, document).unsupported)
            self._unsupported[resource, key] = known
        return known.found

    def _patch(
        self, resource: Resource, key: Key, document: Document, status: Document
    ) -> Iterable[Patch]:
        old = document.get("status") or {}
        if (resource, key) in self._busy or all(old.get(k) == v for k, v in status.items()):
            return
        self._busy.add((resource, key))
        metadata = {"uid": document["metadata"]["uid"]}
        patch = {"metadata": metadata, "status": status}
        yield Patch(resource=resource, key=key, patch=patch, subresource="status")


def with_unsupported(
    conditions: list[Document], found: Sequence[Unsupported], now: float
) -> list[Document]:
    """Say what is accepted and not acted upon; nothing when there is nothing."""
    if not found:
        return without_condition(conditions, UNSUPPORTED_FIELD)
    message = "; ".join(f"{item.path}: {item.what} is not supported" for item in found)
    return with_condition(conditions, UNSUPPORTED_FIELD, "True", "NotSupported", message, now=now)


def _queue_activity(inactive: QueueInactive | None) -> tuple[str, str, str]:
    if inactive is None:
        return "True", "Ready", messages.CAN_ADMIT
    return "False", inactive.why.value, messages.cannot_admit(inactive.why, inactive.missing)


def _local_activity(policy: StopPolicy, queue: KnownQueue | None) -> tuple[str, str, str]:
    if policy is not StopPolicy.NONE:
        return "False", "Stopped", messages.LOCAL_QUEUE_STOPPED
    if queue is None:
        return "False", "ClusterQueueDoesNotExist", messages.CANNOT_SUBMIT
    if queue.inactive is not None:
        return "False", "ClusterQueueIsInactive", messages.CANNOT_SUBMIT
    return "True", "Ready", messages.CAN_SUBMIT


def _status(
    count: _Count, cells: Sequence[FlavorResource], quotas: Mapping[FlavorResource, Quota] | None
) -> dict[str, Any]:
    return {
        "pendingWorkloads": count.pending,
        "reservingWorkloads": count.reserving,
        "admittedWorkloads": count.admitted,
        "flavorsReservation": _flavors(count.reserved, cells, quotas),
        "flavorsUsage": _flavors(count.used, cells, quotas),
    }


def _flavors(
    amounts: Counter[FlavorResource],
    cells: Sequence[FlavorResource],
    quotas: Mapping[FlavorResource, Quota] | None,
) -> list[Document]:
    """Usage per flavor; `quotas` where borrowing is to be told."""
    flavors: dict[str, list[Document]] = {}
    for cell in cells:
        usage: Document = {
            "name": cell.resource,
            "total": format_amount(cell.resource, amounts[cell]),
        }
        if quotas is not None:
            borrowed = max(0, amounts[cell] - quotas[cell].nominal)
            usage["borrowed"] = format_amount(cell.resource, borrowed)
        flavors.setdefault(cell.flavor, []).append(usage)
    return [{"name": flavor, "resources": usages} for flavor, usages in flavors.items()]
