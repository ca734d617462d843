"""ClusterState: our picture of queues and workloads.

It changes when an event is applied (what each event means stands in happenings.py) and when a
cycle's decisions are counted; it can be rebuilt from the objects at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from weakref import WeakValueDictionary

from makeway.engine.entry import HOLDING, Entry, Phase, QueueOrder, Shape
from makeway.engine.fallback import exhausted_for, with_assigned
from makeway.engine.lifecycle import Step, after
from makeway.engine.model import (
    Assignment,
    CheckName,
    Cohort,
    CohortName,
    Config,
    Eviction,
    EvictionReason,
    Flavor,
    FlavorName,
    FlavorResource,
    LocalQueue,
    LocalQueueKey,
    PodSet,
    PodSetAssignment,
    QueueName,
    RequeueTime,
    StopPolicy,
    Strategy,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.tree import Grove, Inactive, QueueState, Tree


class ClusterState:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.flavors: dict[FlavorName, Flavor] = {}
        self.cohorts: dict[CohortName, Cohort] = {}
        self.queues: dict[QueueName, QueueState] = {}
        self.local_queues: dict[LocalQueueKey, LocalQueue] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.checks: dict[CheckName, bool] = {}  # name -> is active
        self.entries: dict[WorkloadKey, Entry] = {}
        self.cycle = 0
        self.unsettled: dict[int, Tree] = {}  # trees in which the next cycle has work, by id
        self.attention: dict[WorkloadKey, Entry] = {}  # entries whose clocks to look at
        self._clock: list[tuple[float, int, Entry]] = []  # heap; may hold times long passed over
        self.by_local_queue: dict[LocalQueueKey, dict[WorkloadKey, Entry]] = {}
        self.orphans: dict[QueueName, dict[WorkloadKey, Entry]] = {}  # hold quota of no queue
        self.trees: list[Tree] = []
        self.forest_is_stale = False  # queues or cohorts were edited since the trees were planted
        self._recount: set[QueueName] = set()  # queues charged while the forest was stale
        self.returning: set[WorkloadKey] = set()  # were preemptors; their queue isn't here yet
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()
        self.serial = 0
        self._changes = 0

    # --- what a cycle decides is counted at once ---

    def reserve(self, entry: Entry, assignment: Assignment, admits: bool, now: float) -> None:
        """The workload leaves the queue and holds quota from now on."""
        queue = self.queue_of(entry)
        queue.pending.discard(entry)
        self.drop_preemptor(entry)
        entry.before = entry.standing()
        entry.assignment = assignment
        entry.reserved_at = now
        entry.admitted_at = now if admits else None
        entry.eviction = None
        entry.requeue_at = None
        entry.retry_after_s = 0.0
        entry.scan = None
        entry.pods_ready = False
        entry.pods_seen = True
        entry.lost_at = None
        entry.ready_pod_sets = frozenset()
        entry.order_time = self._order_time(entry)
        if queue.spec.fungibility.fallbacks.rules:
            entry.history = with_assigned(entry.history, assignment.flavors(), now)
        self.step(entry, Step.ADMIT if admits else Step.RESERVE)
        entry.usage = self.charged_for(entry)
        self.take_hold(queue, entry)
        self.attention[entry.workload.key] = entry

    def admit(self, entry: Entry, now: float) -> None:
        """All checks are ready."""
        entry.before = entry.standing()
        self.step(entry, Step.ADMIT)
        entry.admitted_at = now
        self.attention[entry.workload.key] = entry

    def evict(self, entry: Entry, eviction: Eviction) -> None:
        """The workload has to stop; it is charged until its pods are gone."""
        entry.before = entry.standing()
        queue = self.holding_queue(entry)
        if queue is not None:
            queue.let_go(entry)
        self.step(entry, Step.EVICT)
        entry.eviction = eviction
        entry.order_time = self._order_time(entry)
        if queue is not None:
            queue.hold(entry)
            queue.generation += 1
            self.touch(queue.tree)

    def make_preemptor(self, entry: Entry, booking: dict[FlavorResource, int] | None) -> None:
        """It has first call on what its victims free; `booking` is what it needs, if known."""
        queue = self.queue_of(entry)
        entry.booking = booking
        queue.tree.preemptors[entry.workload.key] = entry
        if not self.config.gates.hold_for_preemptor:
            if queue.spec.strategy is Strategy.BEST_EFFORT_FIFO:
                queue.pending.pinned = entry
        elif not entry.is_preemptor:
            entry.is_preemptor = True
            if entry.place is not None:
                queue.pending.discard(entry)
                queue.pending.add(entry, self.order_of(entry))
        entry.is_preemptor = True

    def drop_preemptor(self, entry: Entry) -> None:
        if not entry.is_preemptor:
            return
        entry.is_preemptor = False
        entry.booking = None
        entry.booked = None
        queue = self.queues.get(entry.queue) if entry.queue is not None else None
        if queue is None:
            return
        queue.tree.preemptors.pop(entry.workload.key, None)
        if queue.pending.pinned is entry:
            queue.pending.pinned = None
        if self.config.gates.hold_for_preemptor:
            if entry.place is not None:
                queue.pending.discard(entry)
                queue.pending.add(entry, self.order_of(entry))
            self.wake_tree(queue)  # its place is no longer kept from others

    def back_off(self, entry: Entry, now: float) -> bool:
        """Count a requeue and set the pause before it; False when the limit is reached."""
        backoff = self.config.backoff
        if backoff.limit is not None and entry.requeue_count >= backoff.limit:
            return False
        entry.requeue_count += 1
        delay_s = backoff.delay_s(entry.requeue_count)
        entry.requeue_at = now + delay_s if delay_s else None
        return True

    def start_over(self, entry: Entry) -> None:
        """All flavors are open to a waiting workload again, after its pause."""
        entry.history = ()
        entry.scan = None
        self.leave_line(entry)
        self.reshape(entry)
        self.line_up(entry)

    def deactivate(self, entry: Entry) -> None:
        """`active: false`, as if the user had said so."""
        if entry.phase is Phase.PENDING:
            entry.before = entry.standing()
        entry.workload = replace(entry.workload, active=False)
        if entry.phase is Phase.PENDING:
            self.leave_line(entry)
            self.step(entry, Step.DEACTIVATE)

    # --- waiting ---

    def pod_sets_of(self, entry: Entry) -> tuple[PodSet, ...]:
        """The pod sets with the pods taken off that need no place any more."""
        if not entry.reclaimable:
            return entry.workload.pod_sets
        return tuple(
            replace(ps, count=max(0, ps.count - entry.reclaimable.get(ps.name, 0)))
            for ps in entry.workload.pod_sets
        )

    def order_of(self, entry: Entry) -> QueueOrder:
        goes_first = self.config.gates.hold_for_preemptor and entry.is_preemptor
        workload = entry.workload
        return (
            -workload.priority,
            0 if goes_first else 1,
            entry.order_time,
            workload.uid,
            entry.serial,
        )

    def _order_time(self, entry: Entry) -> float:
        eviction, created_at = entry.eviction, entry.workload.created_at
        if eviction is None:
            return created_at
        match eviction.reason:
            case EvictionReason.ADMISSION_CHECK:
                return eviction.at
            case EvictionReason.PREEMPTED | EvictionReason.PREEMPTED_IN_PLACEMENT:
                by = self.config.after_preemption
            case EvictionReason.PODS_READY_TIMEOUT | EvictionReason.FLAVOR_FALLBACK:
                by = self.config.after_pods_ready_timeout
            case _:
                return created_at
        return eviction.at if by is RequeueTime.EVICTION else created_at

    def line_up(self, entry: Entry) -> None:
        """Put a pending workload where it belongs: in its queue, held back, or nowhere."""
        entry.queue = None
        local_queue = self.local_queues.get(entry.workload.local_queue)
        if local_queue is None or local_queue.stop_policy is not StopPolicy.NONE:
            return
        queue = self.queues.get(local_queue.queue)
        if queue is None:
            return
        entry.queue = local_queue.queue
        if entry.history:
            entry.shape = self._shape_of(entry)  # the queue's rules say which trials count
        if entry.requeue_at is not None or self.waits_for_restart(entry, queue):
            queue.pending.hold(entry)
            self.attention[entry.workload.key] = entry
            return
        queue.pending.add(entry, self.order_of(entry))
        if entry.workload.key in self.returning:
            self.returning.remove(entry.workload.key)
            self.make_preemptor(entry, None)
        if queue.inactive is None:
            self.touch(queue.tree)

    def waits_for_restart(self, entry: Entry, queue: QueueState) -> bool:
        stopped = queue.spec.stop_policy is not StopPolicy.NONE
        return (
            stopped
            and entry.eviction is not None
            and entry.eviction.reason is EvictionReason.QUEUE_STOPPED
        )

    def leave_line(self, entry: Entry) -> None:
        if entry.queue is None:
            return
        queue = self.queues[entry.queue]
        if entry.is_preemptor:
            self.drop_preemptor(entry)
        queue.pending.discard(entry)
        entry.queue = None
        self.touch(queue.tree)

    def line_up_again(self, entries: Iterable[Entry]) -> None:
        """Take many out of their lines together, and put each where it belongs now."""
        entries = list(entries)
        by_queue: dict[QueueName, list[Entry]] = {}
        for entry in entries:
            if entry.queue is not None:
                if entry.is_preemptor:
                    self.drop_preemptor(entry)
                by_queue.setdefault(entry.queue, []).append(entry)
                entry.queue = None
        for name, members in by_queue.items():
            self.queues[name].pending.discard_all(members)
            self.touch(self.queues[name].tree)
        for entry in entries:
            self.line_up(entry)

    def end_backoff(self, entry: Entry) -> None:
        entry.requeue_at = None
        self.leave_line(entry)
        self.line_up(entry)

    def waiting_for(self, name: QueueName) -> list[Entry]:
        """Pending workloads whose local queue points at this queue."""
        return [
            entry
            for local_queue in self.local_queues.values()
            if local_queue.queue == name
            for entry in self.by_local_queue.get(local_queue.key, {}).values()
            if entry.phase is Phase.PENDING
        ]

    def reshape(self, entry: Entry) -> None:
        """Compute anew what places it in a queue; a waiting entry is moved accordingly."""
        was_waiting = entry.place is not None
        queue = self.queues.get(entry.queue) if entry.queue is not None else None
        if was_waiting and queue is not None:
            queue.pending.discard(entry)
        entry.order_time = self._order_time(entry)
        entry.shape = self._shape_of(entry)
        if was_waiting and queue is not None:
            queue.pending.add(entry, self.order_of(entry))

    def _shape_of(self, entry: Entry) -> Shape:
        if not self.config.gates.equal_shapes_together:
            return Shape(is_shared=False) if entry.shape.is_shared else entry.shape
        local_queue = self.local_queues.get(entry.workload.local_queue)
        queue = self.queues.get(local_queue.queue) if local_queue is not None else None
        exhausted = exhausted_for(entry, queue) if queue is not None and entry.history else ()
        key = (entry.workload.priority, self.pod_sets_of(entry), exhausted)
        return self._shapes.setdefault(key, Shape(is_shared=True))

    # --- holding quota ---

    def queue_of(self, entry: Entry) -> QueueState:
        assert entry.queue is not None, f"{entry.workload.key} is in no queue"
        return self.queues[entry.queue]

    def holding_queue(self, entry: Entry) -> QueueState | None:
        """The queue whose quota it holds; None if it holds none, or the queue is gone."""
        if entry.phase not in HOLDING or entry.queue is None:
            return None
        return self.queues.get(entry.queue)

    def charged_for(self, entry: Entry) -> dict[FlavorResource, int]:
        """What is charged for a holder: its assignment less the pods given back."""
        assert entry.assignment is not None
        if not entry.reclaimable:
            return entry.assignment.usage()
        wanted = {pod_set.name: pod_set.count for pod_set in self.pod_sets_of(entry)}
        return Assignment(
            tuple(_scaled(ps, wanted.get(ps.name, ps.count)) for ps in entry.assignment.pod_sets)
        ).usage()

    def take_hold(self, queue: QueueState, entry: Entry) -> None:
        entry.queue = queue.spec.name
        queue.hold(entry)
        queue.generation += 1
        self.charge(queue, entry.usage)
        self.touch(queue.tree)

    def release(self, entry: Entry) -> None:
        """Its quota is free again, which may help others of the tree."""
        queue = self.holding_queue(entry)
        if queue is None:
            for orphans in self.orphans.values():
                orphans.pop(entry.workload.key, None)
        else:
            queue.let_go(entry)
            self.uncharge(queue, entry.usage)
            queue.generation += 1
            self.wake_tree(queue)
        entry.assignment = None
        entry.usage = {}
        entry.admitted_at = None
        entry.pods_ready = False
        entry.queue = None

    def charge(self, queue: QueueState, usage: Mapping[FlavorResource, int]) -> None:
        if self.forest_is_stale:
            self._recount.add(queue.spec.name)
            for cell, amount in usage.items():
                queue.used[cell] = queue.used.get(cell, 0) + amount
        else:
            queue.tree.charge(queue, usage)

    def uncharge(self, queue: QueueState, usage: Mapping[FlavorResource, int]) -> None:
        self.charge(queue, {cell: -amount for cell, amount in usage.items()})

    def step(self, entry: Entry, step: Step) -> None:
        entry.phase = after(entry.phase, step)

    # --- waking ---

    def touch(self, tree: Tree) -> None:
        """Something in the tree is not as the last cycle saw it."""
        self._changes += 1
        tree.changed_at = self._changes
        tree.settled = None
        tree.is_due = True
        self.unsettled[id(tree)] = tree

    def wake(self, *queues: QueueState) -> None:
        """Who waits in these queues, which are of one tree, gets another chance."""
        for queue in queues:
            for entry in queue.pending.wake():
                queue.pending.add(entry, self.order_of(entry))
        self.touch(queues[0].tree)

    def wake_tree(self, queue: QueueState) -> None:
        self.wake(*queue.tree.queues)

    def wake_all(self) -> None:
        for queue in self.queues.values():
            self.wake(queue)

    # --- trees ---

    def settle_forest(self) -> None:
        """Plant the trees anew that have changed; the others stay as they are.

        Edits of queues and cohorts only note that the forest is stale, so that a thousand edits
        cost one planting.
        """
        if not self.forest_is_stale:
            return
        self.forest_is_stale = False
        kept = {id(tree): tree for tree in self.trees}
        self.trees = []
        for members in self._groves():
            old = members.queues[0].tree if members.queues else None
            if old is not None and id(old) in kept and members.is_planted_as(old):
                self.trees.append(old)
                if any(queue.spec.name in self._recount for queue in old.queues):
                    old.recount()
            else:
                self._plant(members)
        self._recount.clear()
        alive = {id(tree) for tree in self.trees}
        self.unsettled = {key: tree for key, tree in self.unsettled.items() if key in alive}

    def _plant(self, grove: Grove) -> None:
        waiting = [entry for queue in grove.queues for entry in queue.tree.preemptors.values()]
        tree = grove.plant()
        self.trees.append(tree)
        for entry in waiting:
            if entry.is_preemptor and self.queue_of(entry).tree is tree:
                tree.preemptors[entry.workload.key] = entry
        for queue in tree.queues:
            queue.generation += 1
            self.reassess(queue)
            self.wake(queue)

    def _groves(self) -> list[Grove]:
        """Who belongs together: one grove per root cohort, one per queue without cohort."""
        groves: dict[CohortName, Grove] = {}
        lone: list[Grove] = []
        for queue in self.queues.values():
            if queue.spec.cohort is None:
                lone.append(Grove([queue], {}, None))
                continue
            root = self._root_of(queue.spec.cohort)
            groves.setdefault(root, Grove([], {}, root)).queues.append(queue)
        for name in self.cohorts:
            root = self._root_of(name)
            if root in groves:
                groves[root].cohorts[name] = self.cohorts[name]
        return [*groves.values(), *lone]

    def _root_of(self, name: CohortName) -> CohortName:
        """The topmost cohort; of a cycle, the first of its names, which is then cut there."""
        path = [name]
        while (cohort := self.cohorts.get(path[-1])) is not None and cohort.parent is not None:
            if cohort.parent in path:
                return min(path[path.index(cohort.parent) :])
            path.append(cohort.parent)
        return path[-1]

    def is_in_cycle(self, name: CohortName | None) -> bool:
        """Do the parents of this cohort lead back to themselves?"""
        seen: set[CohortName] = set()
        while name is not None:
            if name in seen:
                return True
            seen.add(name)
            cohort = self.cohorts.get(name)
            name = cohort.parent if cohort is not None else None
        return False

    def reassess(self, queue: QueueState) -> None:
        """Is the queue active, and if not, why?"""
        queue.inactive = self._why_inactive(queue)
        self.touch(queue.tree)

    def _why_inactive(self, queue: QueueState) -> Inactive | None:
        spec = queue.spec
        if spec.is_leaving:
            return Inactive.TERMINATING
        if spec.stop_policy is not StopPolicy.NONE:
            return Inactive.STOPPED
        if self.is_in_cycle(spec.cohort):
            return Inactive.COHORT_CYCLE
        for group in spec.groups:
            if any(quotas.flavor not in self.flavors for quotas in group.flavors):
                return Inactive.FLAVOR_NOT_FOUND
        for check in spec.checks:
            if check.name not in self.checks:
                return Inactive.CHECK_NOT_FOUND
            if not self.checks[check.name]:
                return Inactive.CHECK_INACTIVE
        return None

    # --- clocks ---

    def set_clock(self, entry: Entry, at: float) -> None:
        heappush(self._clock, (at, entry.serial, entry))

    def next_clock(self) -> float | None:
        return self._clock[0][0] if self._clock else None

    def take_due(self, now: float) -> list[Entry]:
        """Entries one of whose times has come; each has to be looked at anew."""
        due: dict[WorkloadKey, Entry] = {}
        while self._clock and self._clock[0][0] <= now:
            entry = heappop(self._clock)[2]
            if self.entries.get(entry.workload.key) is entry:
                due[entry.workload.key] = entry
        return list(due.values())

    @property
    def version(self) -> int:
        """A number that grows when who waits or holds quota may have changed."""
        return self._changes + self.serial

    # --- what survives a restart ---

    def status_of(self, key: WorkloadKey) -> WorkloadStatus:
        entry = self.entries[key]
        holds = entry.phase in HOLDING
        return WorkloadStatus(
            assignment=entry.assignment,
            queue=entry.queue if holds else None,
            reserved_at=entry.reserved_at if holds else None,
            admitted_at=entry.admitted_at,
            eviction=entry.eviction,
            finished=entry.phase is Phase.FINISHED,
            pods_ready=entry.pods_ready,
            pods_lost_at=entry.lost_at if holds else None,
            requeue_count=entry.requeue_count,
            requeue_at=entry.requeue_at,
            checks=dict(entry.checks),
            history=entry.history,
            preemptor=entry.is_preemptor,
            reclaimable=dict(entry.reclaimable),
        )


def _scaled(assigned: PodSetAssignment, wanted: int) -> PodSetAssignment:
    """The assignment of no more pods than wanted; usage is the same for each of them."""
    if wanted >= assigned.count:
        return assigned
    usage = tuple((r, amount * wanted // assigned.count) for r, amount in assigned.usage)
    return replace(assigned, count=wanted, usage=usage)
