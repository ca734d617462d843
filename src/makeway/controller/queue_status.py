"""What queues say of themselves: who waits, who holds, how much of each flavor is used.

Cohorts say how large their share is, where shares count.

Counted anew from the engine's picture, at most once a second and only when it has changed. Cost:
one step per workload that waits or holds quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from makeway.api.errors import Unsupported
from makeway.api.kinds import COHORTS, LOCAL_QUEUES, QUEUES, Resource
from makeway.api.quantity import VALUE_MAX, amount_in_object, format_quantity, in_units
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, with_condition, without_condition
from makeway.controller.gauges import charged
from makeway.engine.engine import Engine
from makeway.engine.explain import QueueInactive
from makeway.engine.model import (
    Amounts,
    FlavorResource,
    LocalQueueKey,
    PastUsage,
    QueueName,
    Quota,
    StopPolicy,
)
from makeway.engine.view import KnownQueue, KnownWorkload
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, ObjectWrite, Patch, Say
from makeway.translate import messages

EVERY_S = 1.0
UNSUPPORTED_FIELD = "UnsupportedField"


class _Standing(NamedTuple):
    """How a queue stands: the condition Active, and the numbers of its status."""

    activity: tuple[str, str, str] | None  # status, reason, message; None: not told
    numbers: Document


class _Sample(NamedTuple):
    """What was written down of a LocalQueue's past usage."""

    at: float
    is_growing: bool
    document: Document


class QueueStatus:
    resources: tuple[Resource, ...] = (COHORTS, LOCAL_QUEUES, QUEUES)

    def __init__(self, picture: Picture, engine: Engine) -> None:
        self._picture, self._view = picture, engine.view
        self._seen = -1  # the revision of the engine's state that was counted last
        self._is_due = True  # a queue object has changed since
        self._at = 0.0  # when it was counted last
        self._busy: set[tuple[Resource, Key]] = set()
        self._unsupported = {kind: picture.index(kind, _unsupported) for kind in self.resources}
        self._samples: dict[Key, _Sample] = {}  # of past usage, where that counts

    def changed(self, change: Change) -> None:
        self._is_due = True

    def act(self, now: float) -> Plan:
        sampled_at = self._next_sample()
        is_due = self._is_due or (sampled_at is not None and sampled_at <= now)
        if not is_due and self._view.revision == self._seen:
            return Plan(next_at=sampled_at)
        if now < self._at + EVERY_S:
            return Plan(next_at=self._at + EVERY_S)
        self._at, self._seen, self._is_due = now, self._view.revision, False
        queues = {queue.spec.name: queue for queue in self._view.queues()}
        patches: list[Patch] = []
        for key in self._picture.keys(LOCAL_QUEUES):
            standing = self._local_standing(key, queues, now)
            patches += self._patch(LOCAL_QUEUES, key, standing, now)
        for key in self._picture.keys(QUEUES):
            queue = queues.get(QueueName(key.name))
            patches += self._patch(QUEUES, key, self._standing(queue), now)
        shares = {cohort.name: cohort.share for cohort in self._view.cohorts()}
        for key in self._picture.keys(COHORTS):
            standing = _Standing(None, self._fair_sharing(shares.get(key.name, 0.0)))
            patches += self._patch(COHORTS, key, standing, now)
        return Plan(patches, self._next_sample())

    def _next_sample(self) -> float | None:
        """When usage has to be written down again; None: time only lets it decay."""
        policy = self._view.history
        if policy is None:
            return None
        times = [sample.at for sample in self._samples.values() if sample.is_growing]
        return min(times) + policy.sampling_s if times else None

    def _caused(self, queue: KnownQueue) -> Document:
        """The evictions that count against the budget of a queue, if it has one."""
        if queue.spec.preemption.evictions_per_hour is None:
            return {}
        counts = Counter(map(ceil, self._view.caused_evictions(queue.spec.name)))
        lines = [{"time": format_time(at), "count": counts[at]} for at in sorted(counts)]
        return {"preemption": {"evictions": lines or None}}

    def _past(self, key: LocalQueueKey, at: Key, now: float) -> Document | None:
        """What a LocalQueue has used, as of the last sampling; None: that does not count."""
        known, policy = self._samples.get(at), self._view.history
        if policy is None:
            return None
        if known is not None and now < known.at + policy.sampling_s:
            return known.document
        past = self._view.past_usage(key, now)
        if past is None:
            self._samples.pop(at, None)
            return None
        if known is None or known.is_growing or past.is_growing:
            self._samples[at] = _Sample(now, past.is_growing, _written(past, now))
        return self._samples[at].document

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        self._busy.discard((write.resource, write.key))
        self._is_due = True  # once more, to see whether it is as it should be
        return ()

    def _local_standing(
        self, key: Key, queues: Mapping[QueueName, KnownQueue], now: float
    ) -> _Standing | None:
        local_queue = self._view.local_queue(LocalQueueKey(str(key)))
        if local_queue is None:
            return None
        pending, holders = self._view.counted_from(local_queue.key)
        queue = queues.get(local_queue.queue)
        cells = queue.quotas if queue is not None else ()
        activity = _local_activity(local_queue.stop_policy, queue)
        numbers = _numbers(pending, holders, charged(holders), cells, None)
        if (past := self._past(local_queue.key, key, now)) is not None:
            numbers["fairSharing"] = past
        return _Standing(activity, numbers)

    def _standing(self, queue: KnownQueue | None) -> _Standing | None:
        if queue is None:
            return None
        pending = queue.in_line + queue.parked
        numbers = _numbers(pending, queue.holders, queue.used, queue.quotas, queue.quotas)
        numbers |= self._fair_sharing(queue.share) | self._caused(queue)
        return _Standing(_queue_activity(queue.inactive), numbers)

    def _fair_sharing(self, share: float | None) -> Document:
        """Rounded up, as Kueue does; infinite is the largest number there is."""
        if not self._view.is_fair_sharing:
            return {"fairSharing": None}
        rounded = VALUE_MAX if share is None else min(ceil(share), VALUE_MAX)
        return {"fairSharing": {"weightedShare": rounded}}

    def _patch(
        self, resource: Resource, key: Key, standing: _Standing | None, now: float
    ) -> Sequence[Patch]:
        found = self._picture.find(resource, key)
        entry = self._unsupported[resource].entry(found)
        if standing is None or found is None or entry is None or (resource, key) in self._busy:
            return ()
        document = found.document
        conditions = list(conditions_of(document))
        if standing.activity is not None:
            generation = document["metadata"].get("generation")
            told = "Active", *standing.activity
            conditions = with_condition(conditions, *told, now=now, generation=generation)
        conditions = with_unsupported(conditions, entry[1], now)
        status = {**standing.numbers, "conditions": conditions or None}
        old = document.get("status") or {}
        if all(old.get(name) == value for name, value in status.items()):
            return ()
        self._busy.add((resource, key))
        patch = {"metadata": {"uid": document["metadata"]["uid"]}, "status": status}
        return [Patch(resource=resource, key=key, patch=patch, subresource="status")]


def _unsupported(queue: Object) -> tuple[None, Sequence[Unsupported]]:
    return None, queue.read.unsupported


def _in_thousandths(amount: float) -> str:
    return format_quantity(Fraction(round(amount * 1000), 1000))


def _written(past: PastUsage, now: float) -> Document:
    amounts = {r: _in_thousandths(in_units(r, n)) for r, n in sorted(past.consumed.items())}
    status = {"consumedResources": amounts, "lastUpdate": format_time(now)}
    return {"weightedShare": 0, "admissionFairSharingStatus": status}


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


def _numbers(
    pending: int,
    holders: Sequence[KnownWorkload],
    reserved: Amounts,
    cells: Iterable[FlavorResource],
    quotas: Mapping[FlavorResource, Quota] | None,
) -> Document:
    """`reserved` is what the holders are charged; `quotas` where borrowing is to be told."""
    unused = [holder for holder in holders if holder.status.admitted_at is None]
    unused_amounts, amounts = charged(unused), {cell: reserved.get(cell, 0) for cell in cells}
    used = {cell: amount - unused_amounts[cell] for cell, amount in amounts.items()}
    return {
        "pendingWorkloads": pending,
        "reservingWorkloads": len(holders),
        "admittedWorkloads": len(holders) - len(unused),
        "flavorsReservation": _flavors(amounts, quotas),
        "flavorsUsage": _flavors(used, quotas),
    }


def _flavors(amounts: Amounts, quotas: Mapping[FlavorResource, Quota] | None) -> list[Document]:
    flavors: dict[str, list[Document]] = {}
    for cell, amount in amounts.items():
        usage: Document = {"name": cell.resource, "total": amount_in_object(cell.resource, amount)}
        if quotas is not None:
            borrowed = max(0, amount - quotas[cell].nominal)
            usage["borrowed"] = amount_in_object(cell.resource, borrowed)
        flavors.setdefault(cell.flavor, []).append(usage)
    return [{"name": flavor, "resources": usages} for flavor, usages in flavors.items()]
