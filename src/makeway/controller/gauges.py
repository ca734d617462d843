"""How queues and cohorts stand, read from the engine's picture when somebody asks.

Cost: one step per shape that waits and per workload that holds quota; one per waiting workload
only where several LocalQueues lead to one ClusterQueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import nan

from makeway.api.quantity import in_units
from makeway.controller import metric_families as families
from makeway.controller.series import Readings
from makeway.engine.model import (
    Amounts,
    FlavorResource,
    Inactive,
    LocalQueue,
    LocalQueueKey,
    QueueName,
    StopPolicy,
)
from makeway.engine.view import KnownCohort, KnownQueue, KnownWorkload, View

ACTIVE, INADMISSIBLE = "active", "inadmissible"
QUEUE_STATUSES = ("pending", "active", "terminating")


def local_queue_values(key: LocalQueueKey) -> tuple[str, str]:
    """Its labels: name, namespace."""
    namespace, _, name = key.partition("/")
    return name, namespace


class Gauges:
    """One look at the engine; made anew for every scrape."""

    def __init__(self, view: View, role: str) -> None:
        self._view = view
        self._readings = Readings((role,))
        self._add = self._readings.add
        self._own = Readings()  # of Makeway's own families, which tell nothing of replicas
        self._local_queues: dict[QueueName, list[LocalQueue]] = {}
        for local_queue in view.local_queues():
            self._local_queues.setdefault(local_queue.queue, []).append(local_queue)

    def text(self) -> str:
        active = {queue.spec.name for queue in self._view.queues() if self._queue(queue)}
        for cohort in self._view.cohorts():
            self._cohort(cohort)
        for local_queue in self._view.local_queues():
            self._local_status(local_queue, local_queue.queue in active)
        return self._readings.text() + self._own.text()

    # --- ClusterQueues ---

    def _queue(self, queue: KnownQueue) -> bool:
        """Tell everything about a queue; returns whether it is active."""
        name = queue.spec.name
        back = sum(queue.coming_back.values())
        self._add(families.PENDING, queue.in_line + back, name, ACTIVE)
        self._add(families.PENDING, queue.parked - back, name, INADMISSIBLE)
        self._own.add(families.WAITING_FOR_OWNERS, queue.waiting_for_owners, name)
        reserved = [holder for holder in queue.holders if holder.status.admitted_at is None]
        self._add(families.RESERVING_ACTIVE, len(queue.holders), name)
        self._add(families.ADMITTED_ACTIVE, len(queue.holders) - len(reserved), name)
        is_active = queue.inactive is None
        status = "active" if is_active else "pending"
        if queue.inactive is not None and queue.inactive.why is Inactive.TERMINATING:
            status = "terminating"
        for known in QUEUE_STATUSES:
            self._add(families.QUEUE_STATUS, known == status, name, known)
        parent, root = _parent_and_root(queue.cohorts)
        self._add(families.QUEUE_INFO, 1, name, parent, root)
        if self._view.is_fair_sharing:
            self._add(families.QUEUE_SHARE, _share(queue.share), name, parent)
        if queue.spec.preemption.evictions_per_hour is not None:
            self._own.add(families.EVICTIONS_CAUSED, len(self._view.caused_evictions(name)), name)
        self._quotas(queue, parent, charged(reserved))
        self._of_local_queues(queue)
        return is_active

    def _quotas(self, queue: KnownQueue, cohort: str, unused: Amounts) -> None:
        """`unused`: what those are charged who are not admitted yet."""
        for cell, quota in queue.quotas.items():
            values = (cohort, queue.spec.name, *cell)
            used = queue.used.get(cell, 0)
            for family, amount in (
                (families.RESERVATION, used),
                (families.USAGE, used - unused.get(cell, 0)),
                (families.NOMINAL, quota.nominal),
                (families.BORROWING_LIMIT, quota.borrowing_limit),
                (families.LENDING_LIMIT, quota.lending_limit),
            ):
                if amount is not None:
                    self._add(family, in_units(cell.resource, amount), *values)

    # --- LocalQueues ---

    def _of_local_queues(self, queue: KnownQueue) -> None:
        """The same for each LocalQueue that leads to a queue."""
        local_queues = self._local_queues.get(queue.spec.name, [])
        if len(local_queues) == 1:
            counts = {local_queues[0].key: (queue.in_line, queue.parked)}
        else:
            counts = self._waiting_by_local_queue(queue)
        held: dict[LocalQueueKey, list[KnownWorkload]] = {lq.key: [] for lq in local_queues}
        for holder in queue.holders:
            if holder.workload.local_queue in held:
                held[holder.workload.local_queue].append(holder)
        for key, holders in held.items():
            values = local_queue_values(key)
            in_line, parked = counts.get(key, (0, 0))
            back = queue.coming_back.get(key, 0)
            self._add(families.LOCAL_PENDING, in_line + back, *values, ACTIVE)
            self._add(families.LOCAL_PENDING, parked - back, *values, INADMISSIBLE)
            reserved = [holder for holder in holders if holder.status.admitted_at is None]
            self._add(families.LOCAL_RESERVING_ACTIVE, len(holders), *values)
            self._add(families.LOCAL_ADMITTED_ACTIVE, len(holders) - len(reserved), *values)
            if (past := self._view.past_usage(key)) is not None:
                self._add(families.LOCAL_PAST_USAGE, past.usage, *values)
            is_whole = len(holders) == len(queue.holders)
            amounts, unused = queue.used if is_whole else charged(holders), charged(reserved)
            for cell in queue.quotas:
                amount, resource = amounts.get(cell, 0), cell.resource
                used = amount - unused[cell]
                self._add(families.LOCAL_RESERVATION, in_units(resource, amount), *values, *cell)
                self._add(families.LOCAL_USAGE, in_units(resource, used), *values, *cell)

    def _waiting_by_local_queue(self, queue: KnownQueue) -> dict[LocalQueueKey, tuple[int, int]]:
        """Who is in line and who is parked."""
        counts = self._view.waiting_by_local_queue(queue.spec.name)
        if queue.inactive is None:
            return counts
        return {key: (0, in_line + parked) for key, (in_line, parked) in counts.items()}

    def _local_status(self, local_queue: LocalQueue, is_queue_active: bool) -> None:
        is_active = is_queue_active and local_queue.stop_policy is StopPolicy.NONE
        for known in ("True", "False", "Unknown"):
            values = local_queue_values(local_queue.key)
            self._add(families.LOCAL_STATUS, known == str(is_active), *values, known)

    # --- cohorts ---

    def _cohort(self, cohort: KnownCohort) -> None:
        name = cohort.name
        parent, root = _parent_and_root(cohort.cohorts)
        self._add(families.COHORT_INFO, 1, name, parent, root or name)
        self._add(families.COHORT_ADMITTED_ACTIVE, cohort.admitted, name)
        if self._view.is_fair_sharing:
            self._add(families.COHORT_SHARE, _share(cohort.share), name)
        for cell, quota in cohort.quota.items():
            values = (name, *cell)
            self._add(families.COHORT_QUOTA, in_units(cell.resource, quota), *values)
            amount = in_units(cell.resource, cohort.used.get(cell, 0))
            self._add(families.COHORT_RESERVATIONS, amount, *values)


def _parent_and_root(cohorts: tuple[str, ...]) -> tuple[str, str]:
    """The nearest cohort above and the topmost; empty where there is none."""
    return (cohorts[0], cohorts[-1]) if cohorts else ("", "")


def _share(share: float | None) -> float:
    return nan if share is None else share


def charged(holders: Iterable[KnownWorkload]) -> Counter[FlavorResource]:
    """What they are charged together."""
    total: Counter[FlavorResource] = Counter()
    for holder in holders:
        total.update(holder.charged)
    return total
