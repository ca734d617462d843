"""What queues say of themselves: who waits, who holds, how much of each flavor is used.

Counted anew from the engine's picture, at most once a second and only when it has changed. Cost:
one step per workload that waits or holds quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from makeway.api import queueing
from makeway.api.codec import decode_own
from makeway.api.errors import Unsupported
from makeway.api.quantity import format_amount
from makeway.client.client import Document, Resource
from makeway.client.resources import LOCAL_QUEUES, QUEUES
from makeway.controller.conditions import conditions_of, with_condition, without_condition
from makeway.engine.engine import Engine
from makeway.engine.entry import HOLDING, Entry, Phase
from makeway.engine.explain import inactivity
from makeway.engine.model import FlavorResource, LocalQueueKey, QueueName, StopPolicy
from makeway.engine.state import ClusterState
from makeway.engine.tree import Inactive, QueueState, quotas_of
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, ObjectWrite, Patch, Say

EVERY_S = 1.0
UNSUPPORTED_FIELD = "UnsupportedField"
_WHY_INACTIVE = {
    Inactive.TERMINATING: "is being deleted",
    Inactive.STOPPED: "is stopped",
    Inactive.FLAVOR_NOT_FOUND: "references a missing ResourceFlavor",
    Inactive.CHECK_NOT_FOUND: "references a missing AdmissionCheck",
    Inactive.CHECK_INACTIVE: "references an AdmissionCheck that nobody answers",
    Inactive.COHORT_CYCLE: "its cohort is its own ancestor",
}


@dataclass(slots=True)
class _Count:
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[FlavorResource] = field(default_factory=Counter)
    used: Counter[FlavorResource] = field(default_factory=Counter)

    def add(self, entry: Entry) -> None:
        """Count one who holds quota."""
        self.reserving += 1
        self.admitted += entry.admitted_at is not None
        for cell, amount in entry.usage.items():
            self.reserved[cell] += amount
            if entry.admitted_at is not None:
                self.used[cell] += amount


class _Unsupported(NamedTuple):
    spec: tuple[str, int]  # uid and generation of the document that was read
    found: Sequence[Unsupported]


class QueueStatus:
    resources: tuple[Resource, ...] = (QUEUES, LOCAL_QUEUES)

    def __init__(self, picture: Picture, engine: Engine) -> None:
        self._picture, self._engine = picture, engine
        self._seen = -1  # the version of the engine's picture that was counted last
        self._is_due = True  # a queue object has changed since
        self._at = 0.0  # when it was counted last
        self._busy: set[tuple[Resource, Key]] = set()
        self._unsupported: dict[tuple[Resource, Key], _Unsupported] = {}

    def changed(self, change: Change) -> None:
        self._is_due = True
        if change.new is None:
            self._unsupported.pop((change.resource, change.key), None)

    def act(self, now: float) -> Plan:
        state = self._engine.state
        if not self._is_due and state.version == self._seen:
            return Plan()
        if now < self._at + EVERY_S:
            return Plan(next_at=self._at + EVERY_S)
        state.settle_forest()
        self._at, self._seen, self._is_due = now, state.version, False
        return Plan([*self._local_queues(now), *self._queues(now)])

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        self._busy.discard((write.resource, write.key))
        self._is_due = True  # once more, to see whether it is as it should be
        return ()

    def _queues(self, now: float) -> Iterable[Patch]:
        state = self._engine.state
        for key in list(self._picture.keys(QUEUES)):
            queue = state.queues.get(QueueName(key.name))
            document = self._picture.get(QUEUES, key)
            if queue is None or document is None:
                continue
            count = _Count(pending=len(queue.pending))
            for order in queue.holders:
                count.add(order[5])
            conditions = with_condition(
                conditions_of(document), "Active", *_queue_activity(state, queue), now=now
            )
            found = self._unsupported_in(QUEUES, key, document, queueing.ClusterQueue)
            cells = tuple(quotas_of(queue.spec))
            status = _status(count, cells, queue)
            status["conditions"] = with_unsupported(conditions, found, now)
            yield from self._patch(QUEUES, key, document, status)

    def _local_queues(self, now: float) -> Iterable[Patch]:
        state = self._engine.state
        for key in list(self._picture.keys(LOCAL_QUEUES)):
            local_queue = state.local_queues.get(LocalQueueKey(str(key)))
            document = self._picture.get(LOCAL_QUEUES, key)
            if local_queue is None or document is None:
                continue
            # There may be very many who wait or have finished: one comparison for each of them.
            entries = state.by_local_queue.get(local_queue.key, {}).values()
            begun = [entry for entry in entries if entry.phase is not Phase.PENDING]
            count = _Count(pending=len(entries) - len(begun))
            for entry in begun:
                if entry.phase is not Phase.FINISHED and entry.phase in HOLDING:
                    count.add(entry)
            queue = state.queues.get(local_queue.queue)
            activity = _local_activity(local_queue.stop_policy, queue)
            cells = tuple(quotas_of(queue.spec)) if queue is not None else ()
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
            known = _Unsupported(spec, decode_own(view, document).unsupported)
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


def _queue_activity(state: ClusterState, queue: QueueState) -> tuple[str, str, str]:
    if queue.inactive is None:
        return "True", "Ready", "Can admit new workloads"
    names = ", ".join(inactivity(state, queue, queue.inactive).missing)
    why = _WHY_INACTIVE[queue.inactive] + (f" ({names})" if names else "")
    return "False", queue.inactive.value, f"Can't admit new workloads: {why}"


def _local_activity(policy: StopPolicy, queue: QueueState | None) -> tuple[str, str, str]:
    if policy is not StopPolicy.NONE:
        return "False", "Stopped", "LocalQueue is stopped"
    if queue is None:
        return "False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if queue.inactive is not None:
        return "False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return "True", "Ready", "Can submit new workloads to localQueue"


def _status(
    count: _Count, cells: Sequence[FlavorResource], queue: QueueState | None
) -> dict[str, Any]:
    return {
        "pendingWorkloads": count.pending,
        "reservingWorkloads": count.reserving,
        "admittedWorkloads": count.admitted,
        "flavorsReservation": _flavors(count.reserved, cells, queue),
        "flavorsUsage": _flavors(count.used, cells, queue),
    }


def _flavors(
    amounts: Counter[FlavorResource], cells: Sequence[FlavorResource], queue: QueueState | None
) -> list[Document]:
    """Usage per flavor; `queue` where borrowing is to be told."""
    flavors: dict[str, list[Document]] = {}
    for cell in cells:
        usage: Document = {
            "name": cell.resource,
            "total": format_amount(cell.resource, amounts[cell]),
        }
        if queue is not None:
            borrowed = max(0, amounts[cell] - queue.node.nominal(cell))
            usage["borrowed"] = format_amount(cell.resource, borrowed)
        flavors.setdefault(cell.flavor, []).append(usage)
    return [{"name": flavor, "resources": usages} for flavor, usages in flavors.items()]
