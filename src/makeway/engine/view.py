"""What others may know of the engine's state, as values. Looking changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from makeway.engine.cohorts import trees_without_queues
from makeway.engine.decisions import Reason, WaitsForOwner
from makeway.engine.entry import Entry
from makeway.engine.explain import (
    Obstacle,
    QueueInactive,
    inactivity,
    past_usage,
    why_in_no_queue,
)
from makeway.engine.fairness import share_of
from makeway.engine.model import (
    HOLDING,
    Amounts,
    CheckName,
    FlavorResource,
    HistoryPolicy,
    LocalQueue,
    LocalQueueKey,
    PastUsage,
    Phase,
    Queue,
    QueueName,
    Quota,
    Strategy,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.quota import Node, potential
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree, quotas_of


class KnownWorkload(NamedTuple):
    """A workload and what has become of it, as the engine counts with it."""

    workload: Workload
    status: WorkloadStatus
    phase: Phase
    queue: QueueName | None  # where it waits or holds quota
    charged: Amounts
    queued_at: float  # the time by which it stands in line, or stood when it was admitted
    pods_seen: bool  # False after a restart, until somebody has told of its pods


class InLine(NamedTuple):
    """Where a workload waits that is looked at in its turn."""

    queue: QueueName
    behind: WorkloadKey | None  # the head of the queue; None: the workload itself
    reasons: tuple[Reason, ...]  # given last to those of its shape; empty: not known


class KnownQueue(NamedTuple):
    spec: Queue
    inactive: QueueInactive | None
    cohorts: tuple[str, ...]  # above it, the nearest first
    quotas: Mapping[FlavorResource, Quota]
    capacity: Amounts  # the most that it could ever have of each, with all that is lent to it
    used: Amounts
    in_line: int  # workloads
    parked: int
    waiting_for_owners: int  # of them: who may not begin to borrow
    coming_back: Mapping[LocalQueueKey, int]  # of the parked: who comes again by itself
    holders: tuple[KnownWorkload, ...]
    share: float | None  # under fair sharing; None: infinite


class KnownCohort(NamedTuple):
    name: str
    cohorts: tuple[str, ...]  # above it, the nearest first
    quota: Amounts  # of the cohort and all below it
    used: Amounts
    admitted: int  # workloads
    share: float | None


class View:
    """Questions about the state of an engine."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def turn_to(self, state: ClusterState) -> None:
        """From now on the engine has another state."""
        self._state = state

    @property
    def revision(self) -> int:
        """A number that grows when who waits or holds quota may have changed."""
        return self._state.revision

    @property
    def is_fair_sharing(self) -> bool:
        return self._state.config.fair_sharing

    # --- workloads ---

    def workload(self, key: WorkloadKey) -> KnownWorkload | None:
        entry = self._state.entries.get(key)
        return None if entry is None else _known(entry)

    def __getitem__(self, key: WorkloadKey) -> KnownWorkload:
        return _known(self._state.entries[key])

    def workloads(self) -> Iterator[KnownWorkload]:
        """All of them, in the order in which they came."""
        return map(_known, self._state.entries.values())

    def with_unseen_pods(self) -> list[KnownWorkload]:
        """Those who hold quota since before a restart, and of whose pods nobody has told yet."""
        entries = self._state.entries.values()
        return [_known(entry) for entry in entries if not entry.search.pods_seen]

    def why_outside(self, key: WorkloadKey) -> Obstacle | None:
        """Why no queue will look at a pending workload; None if one will."""
        state, entry = self._state, self._state.entries[key]
        queue = state.queues.get(entry.queue) if entry.queue is not None else None
        if queue is None:
            return why_in_no_queue(state, entry)
        return None if queue.inactive is None else inactivity(state, queue, queue.inactive)

    def why_in_line(self, key: WorkloadKey) -> InLine:
        """Why a pending workload waits that a queue will look at."""
        entry = self._state.entries[key]
        queue = self._state.queue_of(entry)
        head = queue.pending.head()
        is_behind = head is not None and head is not entry
        behind = head.workload.key if head is not None and is_behind else None
        is_stuck = is_behind and queue.spec.strategy is Strategy.STRICT_FIFO
        reasons = () if is_stuck else queue.pending.reasons_for(entry)
        return InLine(queue.spec.name, behind, reasons)

    def checks_for(self, key: WorkloadKey) -> tuple[CheckName, ...]:
        """The checks that a workload which holds quota has to pass."""
        entry = self._state.entries[key]
        queue = self._state.queues.get(entry.queue) if entry.queue is not None else None
        if queue is None or entry.status.assignment is None:
            return ()
        return queue.checks_for(entry.status.assignment)

    # --- queues ---

    def local_queue(self, key: LocalQueueKey) -> LocalQueue | None:
        return self._state.local_queues.get(key)

    def past_usage(self, key: LocalQueueKey, now: float | None = None) -> PastUsage | None:
        """What a local queue has used lately; None: that does not count in its queue."""
        return past_usage(self._state, key, self._state.now if now is None else now)

    @property
    def history(self) -> HistoryPolicy | None:
        return self._state.config.history

    def caused_evictions(self, name: QueueName) -> tuple[float, ...]:
        """When preemptors of a queue caused evictions that count against its budget."""
        return self._state.budgets.spent(name, self._state.now)

    def local_queues(self) -> Iterator[LocalQueue]:
        return iter(self._state.local_queues.values())

    def unfinished_from(self, key: LocalQueueKey) -> list[WorkloadKey]:
        """Who waits or holds quota of a local queue, whether a queue will look at it or not."""
        entries = self._state.by_local_queue.get(key, {}).values()
        return [entry.workload.key for entry in entries if entry.phase is not Phase.FINISHED]

    def counted_from(self, key: LocalQueueKey) -> tuple[int, list[KnownWorkload]]:
        """Of a local queue: how many are pending, and who holds quota.

        There may be very many who wait or have finished: one comparison for each of them.
        """
        entries = self._state.by_local_queue.get(key, {}).values()
        begun = [entry for entry in entries if entry.phase is not Phase.PENDING]
        return len(entries) - len(begun), [_known(e) for e in begun if e.phase in HOLDING]

    def waiting_by_local_queue(self, name: QueueName) -> dict[LocalQueueKey, tuple[int, int]]:
        """How many are in line in a queue and how many are parked, by where they came from."""
        return self._state.queues[name].pending.counts_by_local_queue()

    def spec(self, name: QueueName) -> Queue | None:
        queue = self._state.queues.get(name)
        return None if queue is None else queue.spec

    def specs(self) -> Iterator[Queue]:
        return (queue.spec for queue in self._state.queues.values())

    def is_held(self, name: QueueName) -> bool:
        """Does anybody hold quota of the queue?"""
        queue = self._state.queues.get(name)
        return queue is not None and bool(queue.holders)

    def queues(self) -> Iterator[KnownQueue]:
        for tree in self._state.trees_now():
            for queue in tree.queues:
                yield self._known_queue(queue)

    def cohorts_above(self, name: QueueName) -> tuple[str, ...]:
        return _above(self._state.queue_now(name).node)

    def _known_queue(self, queue: QueueState) -> KnownQueue:
        in_line, parked = queue.pending.counts()
        why = queue.inactive
        quotas = quotas_of(queue.spec)
        return KnownQueue(
            spec=queue.spec,
            inactive=None if why is None else inactivity(self._state, queue, why),
            cohorts=_above(queue.node),
            quotas=quotas,
            capacity={cell: potential(queue.node, cell) for cell in quotas},
            used=dict(queue.used),
            in_line=in_line if why is None else 0,
            parked=parked if why is None else in_line + parked,
            waiting_for_owners=_waiting_for_owners(queue) if why is None else 0,
            coming_back=_coming_back(queue) if why is None else {},
            holders=tuple(_known(order.entry) for order in queue.holders),
            share=self._share(queue.node, queue.tree),
        )

    # --- cohorts ---

    def cohorts(self) -> Iterator[KnownCohort]:
        for tree in (
            *self._state.trees_now(),
            *trees_without_queues(self._state.queues.values(), self._state.cohorts),
        ):
            yield from self._cohorts_of(tree)

    def _cohorts_of(self, tree: Tree) -> Iterator[KnownCohort]:
        used: list[Counter[FlavorResource]] = [Counter() for _ in tree.nodes]
        admitted = [0 for _ in tree.nodes]
        for node in reversed(tree.nodes):  # children come before their parents
            queue = tree.queue_at[node.index]
            if queue is not None:
                used[node.index].update(queue.used)
                admitted[node.index] = sum(
                    order.entry.status.admitted_at is not None for order in queue.holders
                )
            else:
                yield KnownCohort(
                    name=node.name,
                    cohorts=_above(node),
                    quota=dict(node.subtree),
                    used=used[node.index],
                    admitted=admitted[node.index],
                    share=self._share(node, tree),
                )
            if node.parent is not None:
                used[node.parent.index].update(used[node.index])
                admitted[node.parent.index] += admitted[node.index]

    def _share(self, node: Node, tree: Tree) -> float | None:
        if not self._state.config.fair_sharing:
            return 0.0
        share = share_of(node, tree.snapshot).share
        return None if share.is_infinite else share.value


def _coming_back(queue: QueueState) -> Counter[LocalQueueKey]:
    return Counter(entry.workload.local_queue for entry in queue.pending.coming_back())


def _waiting_for_owners(queue: QueueState) -> int:
    """By what was said last to each shape that waits. Cost: one step per shape."""
    pending = queue.pending
    if queue.spec.strategy is Strategy.STRICT_FIFO:
        head = pending.head()
        return int(head is not None and _is_for_owner(pending.reasons_for(head)))
    return sum(
        count
        for entry, count in pending.by_shape()
        if entry.place is not None and _is_for_owner(pending.reasons_for(entry))
    )


def _is_for_owner(reasons: tuple[Reason, ...]) -> bool:
    return any(isinstance(reason, WaitsForOwner) for reason in reasons)


def _known(entry: Entry) -> KnownWorkload:
    return KnownWorkload(
        entry.workload,
        entry.status,
        entry.phase,
        entry.queue,
        entry.usage,
        entry.order_time,
        entry.search.pods_seen,
    )


def _above(node: Node) -> tuple[str, ...]:
    return tuple(cohort.name for cohort in node.ancestors())
