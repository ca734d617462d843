"""How queues and cohorts stand, read from the engine's picture when somebody asks.

Cost: one step per shape that waits and per workload that holds quota; one per waiting workload
only where several LocalQueues lead to one ClusterQueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import nan

from makeway.api.quantity import in_units
from makeway.controller import metric_families as families
from makeway.controller.series import Readings
from makeway.engine.entry import Entry
from makeway.engine.fairness import share_of
from makeway.engine.model import FlavorResource, LocalQueue, LocalQueueKey, QueueName, StopPolicy
from makeway.engine.quota import Node
from makeway.engine.state import ClusterState
from makeway.engine.tree import Inactive, QueueState, Tree, quotas_of

ACTIVE, INADMISSIBLE = "active", "inadmissible"
QUEUE_STATUSES = ("pending", "active", "terminating")


def local_queue_values(key: LocalQueueKey) -> tuple[str, str]:
    """Its labels: name, namespace."""
    namespace, _, name = key.partition("/")
    return name, namespace


class Gauges:
    """One look at the picture; made anew for every scrape."""

    def __init__(self, state: ClusterState, role: str) -> None:
        state.settle_forest()
        self._state = state
        self._readings = Readings((role,))
        self._add = self._readings.add
        self._doors: dict[QueueName, list[LocalQueue]] = {}
        for local_queue in state.local_queues.values():
            self._doors.setdefault(local_queue.queue, []).append(local_queue)

    def text(self) -> str:
        for tree in self._state.trees:
            admitted = {queue.node.index: self._queue(queue) for queue in tree.queues}
            self._cohorts(tree, admitted)
        for local_queue in self._state.local_queues.values():
            self._local_status(local_queue)
        return self._readings.text()

    # --- ClusterQueues ---

    def _queue(self, queue: QueueState) -> int:
        """Tell everything about a queue; returns how many of its holders are admitted."""
        name = queue.spec.name
        active, parked = queue.pending.counts()
        if queue.inactive is not None:
            active, parked = 0, active + parked
        self._add(families.PENDING, active, name, ACTIVE)
        self._add(families.PENDING, parked, name, INADMISSIBLE)
        holders = [order[5] for order in queue.holders]
        reserved = [entry for entry in holders if entry.admitted_at is None]
        admitted = len(holders) - len(reserved)
        self._add(families.RESERVING_ACTIVE, len(holders), name)
        self._add(families.ADMITTED_ACTIVE, admitted, name)
        status = "active" if queue.inactive is None else "pending"
        if queue.inactive is Inactive.TERMINATING:
            status = "terminating"
        for known in QUEUE_STATUSES:
            self._add(families.QUEUE_STATUS, known == status, name, known)
        parent, root = _parent_and_root(queue.node)
        self._add(families.QUEUE_INFO, 1, name, parent, root)
        if self._state.config.fair_sharing:
            self._add(families.QUEUE_SHARE, _share(queue.node, queue.tree), name, parent)
        self._quotas(queue, parent, _charged(reserved))
        self._behind_doors(queue, (active, parked), holders)
        return admitted

    def _quotas(self, queue: QueueState, cohort: str, unused: Mapping[FlavorResource, int]) -> None:
        """`unused`: what those are charged who are not admitted yet."""
        for cell, quota in quotas_of(queue.spec).items():
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

    def _behind_doors(
        self, queue: QueueState, waiting: tuple[int, int], holders: list[Entry]
    ) -> None:
        """The same for each LocalQueue that leads to a queue."""
        doors = self._doors.get(queue.spec.name, [])
        counts = {doors[0].key: waiting} if len(doors) == 1 else _waiting_by_door(queue)
        held: dict[LocalQueueKey, list[Entry]] = {door.key: [] for door in doors}
        for entry in holders:
            if entry.workload.local_queue in held:
                held[entry.workload.local_queue].append(entry)
        for key, entries in held.items():
            values = local_queue_values(key)
            active, parked = counts.get(key, (0, 0))
            self._add(families.LOCAL_PENDING, active, *values, ACTIVE)
            self._add(families.LOCAL_PENDING, parked, *values, INADMISSIBLE)
            reserved = [entry for entry in entries if entry.admitted_at is None]
            self._add(families.LOCAL_RESERVING_ACTIVE, len(entries), *values)
            self._add(families.LOCAL_ADMITTED_ACTIVE, len(entries) - len(reserved), *values)
            is_whole = len(entries) == len(holders)
            charged = queue.used if is_whole else _charged(entries)
            unused = _charged(reserved)
            for cell in quotas_of(queue.spec):
                amount, used = charged.get(cell, 0), charged.get(cell, 0) - unused.get(cell, 0)
                resource = cell.resource
                self._add(families.LOCAL_RESERVATION, in_units(resource, amount), *values, *cell)
                self._add(families.LOCAL_USAGE, in_units(resource, used), *values, *cell)

    def _local_status(self, local_queue: LocalQueue) -> None:
        queue = self._state.queues.get(local_queue.queue)
        is_stopped = local_queue.stop_policy is not StopPolicy.NONE
        is_active = queue is not None and queue.inactive is None and not is_stopped
        for known in ("True", "False", "Unknown"):
            values = local_queue_values(local_queue.key)
            self._add(families.LOCAL_STATUS, known == str(is_active), *values, known)

    # --- cohorts ---

    def _cohorts(self, tree: Tree, admitted: dict[int, int]) -> None:
        """`admitted`: workloads, by index of the queue's node."""
        charged: list[Counter[FlavorResource]] = [Counter() for _ in tree.nodes]
        for node in reversed(tree.nodes):  # children come before their parents
            queue = tree.queue_at[node.index]
            if queue is not None:
                charged[node.index].update(queue.used)
            else:
                self._cohort(node, tree, charged[node.index], admitted.get(node.index, 0))
            if node.parent is not None:
                above = node.parent.index
                charged[above].update(charged[node.index])
                admitted[above] = admitted.get(above, 0) + admitted.get(node.index, 0)

    def _cohort(
        self, node: Node, tree: Tree, charged: Counter[FlavorResource], admitted: int
    ) -> None:
        parent, root = _parent_and_root(node)
        self._add(families.COHORT_INFO, 1, node.name, parent, root or node.name)
        self._add(families.COHORT_ADMITTED_ACTIVE, admitted, node.name)
        if self._state.config.fair_sharing:
            self._add(families.COHORT_SHARE, _share(node, tree), node.name)
        for cell, quota in node.subtree.items():
            values = (node.name, *cell)
            self._add(families.COHORT_QUOTA, in_units(cell.resource, quota), *values)
            amount = in_units(cell.resource, charged[cell])
            self._add(families.COHORT_RESERVATIONS, amount, *values)


def _parent_and_root(node: Node) -> tuple[str, str]:
    """The nearest cohort above and the topmost; empty where there is none."""
    names = [cohort.name for cohort in node.ancestors()]
    return (names[0], names[-1]) if names else ("", "")


def _share(node: Node, tree: Tree) -> float:
    share = share_of(node, tree.snapshot).share
    return nan if share.is_infinite else share.value


def _charged(entries: list[Entry]) -> dict[FlavorResource, int]:
    total: dict[FlavorResource, int] = {}
    for entry in entries:
        for cell, amount in entry.usage.items():
            total[cell] = total.get(cell, 0) + amount
    return total


def _waiting_by_door(queue: QueueState) -> dict[LocalQueueKey, tuple[int, int]]:
    """Who is in line and who is parked, by LocalQueue."""
    counts = queue.pending.counts_by_local_queue()
    if queue.inactive is None:
        return counts
    return {key: (0, active + parked) for key, (active, parked) in counts.items()}
