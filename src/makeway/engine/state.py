"""ClusterState: our picture of queues and workloads.

It changes when an event is applied (what each event means stands in handlers.py) and when a
cycle's decisions are counted; it can be rebuilt from the objects at any time.

Of a workload it keeps the workload itself, its status, and notes on searches for it. `move` writes
a status, and whatever follows from one is done there: the phase is checked, the workload stands in
line or is charged for what it holds, its tree has a new revision, and the change is handed out with
the answer to the event or the cycle that caused it. `note` does so for what leaves it in its place.
Nobody else writes one.

A preemptor has a *claim* in its status: first call on what its victims free. The claim lasts while
it stands in line. Each tree has an index of those who have one, kept up where they enter their line
and leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any
from weakref import WeakValueDictionary

from makeway.engine.budgets import Budgets
from makeway.engine.clocks import Clocks
from makeway.engine.cohorts import TreeMembers, is_in_cycle, members_of_trees, root_of
from makeway.engine.compiling import mypyc_attr
from makeway.engine.entry import NOTHING, Entry, QueueOrder, Shape, UndoPoint
from makeway.engine.fallback import exhausted_for, with_assigned
from makeway.engine.history import UsageHistory
from makeway.engine.lifecycle import can_be_forgotten, check_step
from makeway.engine.model import (
    NEW,
    Amounts,
    Assignment,
    Changes,
    CheckName,
    Claim,
    Cohort,
    CohortName,
    Config,
    Eviction,
    EvictionReason,
    Flavor,
    FlavorName,
    FlavorResource,
    HistoryPolicy,
    Inactive,
    LocalQueue,
    LocalQueueKey,
    Phase,
    PodSet,
    PodSetAssignment,
    Preemptions,
    QueueName,
    RequeueTime,
    StatusChange,
    StopPolicy,
    Strategy,
    Workload,
    WorkloadKey,
    WorkloadStatus,
    phase_of,
)
from makeway.engine.tree import QueueState, Tree

RAN_LONG_S = 300.0  # who ran for so long is no part of a circle that goes round fast

# What a status says of a workload that holds no quota, or none any more.
WITHOUT_QUOTA: dict[str, Any] = {
    "assignment": None,
    "queue": None,
    "reserved_at": None,
    "admitted_at": None,
    "pods_ready": False,
    "ready_at": None,
    "pods_lost_at": None,
    "checks": {},  # they answer for a reservation; the next one asks them anew
    "retry_after_s": 0.0,
}


@mypyc_attr(allow_interpreted_subclasses=True)
class ClusterState:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.flavors: dict[FlavorName, Flavor] = {}
        self.flavors_edited = 0  # how often
        self.cohorts: dict[CohortName, Cohort] = {}
        self.queues: dict[QueueName, QueueState] = {}
        self.local_queues: dict[LocalQueueKey, LocalQueue] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.checks: dict[CheckName, bool] = {}  # name -> is active
        self.entries: dict[WorkloadKey, Entry] = {}
        self.by_local_queue: dict[LocalQueueKey, dict[WorkloadKey, Entry]] = {}
        self.orphans: dict[QueueName, dict[WorkloadKey, Entry]] = {}  # hold quota of no queue
        self.trees: list[Tree] = []
        self.trees_are_stale = False  # queues or cohorts were edited since the trees were built
        self._recount: set[QueueName] = set()  # queues charged while the trees were stale
        self.unsettled: dict[int, Tree] = {}  # trees in which the next cycle has work, by id
        self.attention: dict[WorkloadKey, Entry] = {}  # entries whose clocks to look at
        self.preempting: dict[WorkloadKey, Entry] = {}  # who has preempted since it last ran long
        # Who holds quota and has no pods ready; kept only where that blocks the others.
        self.unready: dict[WorkloadKey, Entry] = {}
        self.clocks = Clocks()
        self.budgets = Budgets()
        self.history = UsageHistory()  # kept up while the configuration has it count
        self.wake_times: dict[QueueName, float] = {}  # when lines are looked at again, at latest
        self.has_costs = False  # somebody has said what a disruption costs
        self.has_special_lines = False  # in which waiting, or usage of the past, counts
        self.now = 0.0  # of the last cycle
        self.has_run = False  # there was a cycle
        self.cycle = 0
        self.serial = 0
        self.revision = 0  # grows when who waits or holds quota may have changed
        self._changes: dict[WorkloadKey, StatusChange] = {}  # not handed out yet
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    # --- statuses ---

    def add(self, workload: Workload, status: WorkloadStatus) -> None:
        """A workload that is new to us, with what became of it before we looked."""
        self.serial += 1
        holds = status.assignment is not None and not status.finished
        if not holds and status is not NEW:
            status = status._replace(**WITHOUT_QUOTA)
        entry = Entry(workload, status, self.serial)
        entry.search.pods_seen = not holds
        self.entries[workload.key] = entry
        self.by_local_queue.setdefault(workload.local_queue, {})[workload.key] = entry
        self._index_preemptions(entry)
        self.has_costs = self.has_costs or bool(workload.milestones)
        self.reshape(entry)
        self._put_in(entry)
        self._count(entry, 1)
        self._index_unready(entry)
        if holds:
            self.attention[workload.key] = entry
        self._note_change(workload.key, None, entry.status)

    def remove(self, entry: Entry) -> None:
        key = entry.workload.key
        del self.entries[key]
        del self.by_local_queue[entry.workload.local_queue][key]
        self.attention.pop(key, None)
        self.preempting.pop(key, None)
        self._count(entry, -1)
        self._take_out(entry)
        self._index_unready(entry, is_gone=True)
        self._note_change(key, entry.status, None)

    def move(self, entry: Entry, status: WorkloadStatus, workload: Workload | None = None) -> None:
        """Give a workload another status, and do what follows from it.

        Whoever leaves its line, or takes another place in it, gives up its claim.
        """
        workload = entry.workload if workload is None else workload
        before = entry.status
        if status == before and workload is entry.workload:
            return
        phase = phase_of(workload.active, status)
        if phase is not entry.phase:
            check_step(entry.phase, phase)
        if status.preemptions is not None and ran_long(before, status):
            status = status._replace(preemptions=None)
        counts_history = self.config.history is not None
        if counts_history:
            self._count(entry, -1)
        if before.assignment is not None and status.assignment is not None:
            self._move_holder(entry, workload, status, phase)
        else:
            if status.claim is not None and (phase is not Phase.PENDING or self._has_claim(entry)):
                status = status._replace(claim=None)
            self._take_out(entry)
            self._write(entry, workload, status, phase)
            self._put_in(entry)
        if counts_history:
            self._count(entry, 1)
        if self.preempting or entry.status.preemptions is not None:
            self._index_preemptions(entry)
        if self.config.pods_ready is not None:
            self._index_unready(entry)
        self._note_change(workload.key, before, entry.status)
        if phase is Phase.RESERVED or phase is Phase.ADMITTED:
            self.attention[workload.key] = entry

    def note(self, entry: Entry, status: WorkloadStatus) -> None:
        """Give it a status with which it holds what it held, or waits where it waited.

        Whether its pods are ready is another, or its claim, or what is noted of its attempts.
        """
        before = entry.status
        if status == before:
            return
        assert phase_of(entry.workload.active, status) is entry.phase, f"{entry.workload.key} moves"
        entry.status = status
        if status.claim is not before.claim:
            self._claim_or_waive(entry)
        if self.preempting or status.preemptions is not None:
            self._index_preemptions(entry)
        if self.config.pods_ready is not None:
            self._index_unready(entry)
        self._note_change(entry.workload.key, before, status)
        if entry.phase is Phase.RESERVED or entry.phase is Phase.ADMITTED:
            self.attention[entry.workload.key] = entry

    def decide(
        self, entry: Entry, status: WorkloadStatus, workload: Workload | None = None
    ) -> None:
        """Move by a decision of our own, which can be taken back if it can't be written."""
        undo = UndoPoint(entry.status, entry.workload.active)
        self.move(entry, status, workload)
        entry.undo = undo

    def forget(self, entry: Entry) -> None:
        """The last decision never happened; what others have said since stays."""
        undo, entry.undo = entry.undo, None
        if undo is None or not can_be_forgotten(entry.phase, undo.phase()):
            return
        if entry.status.eviction is not None and undo.status.eviction is None:
            self._uncount_preemption(entry.status.eviction)
        status = undo.status._replace(reclaimable=entry.status.reclaimable)
        if status.assignment is not None:
            status = status._replace(
                checks=entry.status.checks,
                pods_ready=entry.status.pods_ready,
                ready_at=entry.status.ready_at,
                pods_lost_at=entry.status.pods_lost_at,
            )
        self.move(entry, status, with_active(entry.workload, undo.is_active))

    def take_changes(self) -> Changes:
        """What has become of statuses since this was asked last."""
        changes, self._changes = self._changes, {}
        return changes

    def _index_preemptions(self, entry: Entry) -> None:
        if entry.status.preemptions is not None:
            self.preempting[entry.workload.key] = entry
        else:
            self.preempting.pop(entry.workload.key, None)

    def count_unready(self) -> None:
        """The configuration is another: find out anew who blocks the others."""
        self.unready.clear()
        for entry in self.entries.values():
            self._index_unready(entry)

    def _index_unready(self, entry: Entry, *, is_gone: bool = False) -> None:
        """When the last of them is ready or gone, everybody gets another chance."""
        policy = self.config.pods_ready
        if policy is None or not policy.blocks_admission:
            return
        key, status = entry.workload.key, entry.status
        if status.assignment is not None and not status.pods_ready and not is_gone:
            self.unready[key] = entry
        elif self.unready.pop(key, None) is not None and not self.unready:
            for tree in self.trees:
                self.touch(tree)

    def _note_change(
        self, key: WorkloadKey, before: WorkloadStatus | None, after: WorkloadStatus | None
    ) -> None:
        self.revision += 1
        if not self.config.tells_decisions_only:
            known = self._changes.get(key)
            self._changes[key] = StatusChange(before if known is None else known.before, after)

    def _write(
        self, entry: Entry, workload: Workload, status: WorkloadStatus, phase: Phase
    ) -> None:
        entry.workload, entry.status, entry.phase = workload, status, phase
        entry.order_time = self._order_time(entry)
        if phase is Phase.PENDING:
            entry.shape = self._shape_of(entry)

    def _take_out(self, entry: Entry) -> None:
        if entry.phase is Phase.PENDING:
            self._leave_line(entry)
        elif entry.status.assignment is not None:
            self._release(entry)

    def _put_in(self, entry: Entry) -> None:
        if entry.phase is Phase.PENDING:
            self._line_up(entry)
        elif entry.status.assignment is not None:
            self._take_hold(entry)

    # --- decisions that cycles and events share ---

    def reserve(self, entry: Entry, assignment: Assignment, admits: bool, now: float) -> None:
        """The workload leaves the queue and holds quota from now on."""
        queue = self.queue_of(entry)
        history = entry.status.history
        if queue.spec.fungibility.fallbacks.rules:
            history = with_assigned(history, assignment.flavors(), now)
        entry.search.scan = None
        entry.search.pods_seen = True
        entry.search.ready_pod_sets = frozenset()
        before = entry.status
        status = WorkloadStatus(  # what is not named here begins anew
            assignment=assignment,
            queue=queue.spec.name,
            reserved_at=now,
            admitted_at=now if admits else None,
            requeue_count=before.requeue_count,
            checks=before.checks,
            history=history,
            reclaimable=before.reclaimable,
            preemptions=before.preemptions,
        )
        self.decide(entry, status)
        if self.config.pods_ready is None and not queue.spec.fungibility.fallbacks.rules:
            self.attention.pop(entry.workload.key, None)  # it has no clock
        if self.config.history is not None:
            key = entry.workload.local_queue
            self.history.admit(key, entry.usage, now, self.config.history)

    def evict(
        self,
        entry: Entry,
        reason: EvictionReason,
        now: float,
        preemptor: WorkloadKey | None = None,
    ) -> None:
        """The workload has to stop; it is charged until its pods are gone."""
        self.decide(entry, entry.status._replace(eviction=Eviction(reason, now, preemptor)))

    def claim(self, entry: Entry, claim: Claim | None) -> None:
        self.note(entry, entry.status._replace(claim=claim))

    def count_preemption(self, entry: Entry, now: float) -> None:
        """It makes others give way once more, since it last ran for long."""
        before = entry.status.preemptions
        preemptions = Preemptions(1 if before is None else before.times + 1, now)
        self.note(entry, entry.status._replace(preemptions=preemptions))

    def _uncount_preemption(self, eviction: Eviction) -> None:
        """The eviction never happened, so its preemptor may try again at once."""
        entry = None if eviction.preemptor is None else self.entries.get(eviction.preemptor)
        counted = None if entry is None else entry.status.preemptions
        if entry is not None and counted is not None and counted.last_at == eviction.at:
            before = Preemptions(counted.times - 1, 0.0) if counted.times > 1 else None
            self.note(entry, entry.status._replace(preemptions=before))

    def forget_preemptions(
        self, *cohorts: CohortName | None, edited: QueueName | None = None
    ) -> None:
        """Quota or policy is another now: who went round in a circle may not do so any more.

        It concerns the trees of these cohorts, and the edited queue. Before the first cycle nothing
        is edited: we are only being told.
        """
        if not self.has_run or not self.preempting:
            return
        roots = {root_of(name, self.cohorts) for name in cohorts if name is not None}
        for entry in list(self.preempting.values()):
            queue = self.queues.get(entry.queue) if entry.queue is not None else None
            if queue is None:
                continue
            cohort = queue.spec.cohort
            if queue.spec.name == edited or (cohort and root_of(cohort, self.cohorts) in roots):
                self.note(entry, entry.status._replace(preemptions=None))

    def pause_preemption(self, entry: Entry, until: float) -> None:
        """It is tried again when its pause is over, whatever happens before."""
        preemptions, backoff = entry.status.preemptions, self.config.preemption_backoff
        assert preemptions is not None, f"{entry.workload.key} has preempted nobody"
        is_longest = backoff.delay_s(preemptions.times) >= backoff.max_s
        if not (is_longest and self.config.pauses_until_change):
            self.clocks.set(entry, until)

    def end_pause(self, entry: Entry) -> None:
        """It may take victims again: so it is looked at once more."""
        self.unpark(entry)
        self.touch(self.queue_of(entry).tree)

    def note_attempt(self, entry: Entry, now: float) -> None:
        """It was tried, and with it all of its shape: from now on their wait counts."""
        for other in list(self.queue_of(entry).pending.alike(entry)):
            if other.status.first_attempt_at is None:
                self.note(other, other.status._replace(first_attempt_at=now))

    def note_checkpoint(self, entry: Entry, workload: Workload) -> None:
        """It has less to lose now, which changes nothing before somebody looks for victims."""
        entry.workload = workload

    def wake_at(self, queue: QueueState, at: float) -> None:
        """Who waits in a queue is looked at again at this time, though nothing happen before."""
        name = queue.spec.name
        self.wake_times[name] = min(at, self.wake_times.get(name, at))

    def wake_due(self, now: float) -> None:
        for name in [name for name, at in self.wake_times.items() if at <= now]:
            del self.wake_times[name]
            if name in self.queues:
                self.queues[name].pending.version += 1  # by time alone, another may be the first
                self.wake(self.queues[name])

    def next_at(self) -> float | None:
        """When to be called again, though nothing happen before; None: no need."""
        clock = self.clocks.next_at()
        if not self.wake_times:
            return clock
        first = min(self.wake_times.values())
        return first if clock is None else min(first, clock)

    def unpark(self, entry: Entry) -> bool:
        """Put one who is parked alone back in line; False: it is not."""
        pending = self.queue_of(entry).pending
        if not pending.is_parked_alone(entry):
            return False
        pending.discard(entry)
        pending.add(entry, self.order_of(entry))
        return True

    def backed_off(self, status: WorkloadStatus, now: float) -> WorkloadStatus | None:
        """With a requeue counted and the pause before it set; None when the limit is reached."""
        backoff = self.config.backoff
        if backoff.limit is not None and status.requeue_count >= backoff.limit:
            return None
        count = status.requeue_count + 1
        delay_s = backoff.delay_s(count)
        return status._replace(requeue_count=count, requeue_at=now + delay_s if delay_s else None)

    # --- waiting ---

    def pod_sets_of(self, entry: Entry) -> tuple[PodSet, ...]:
        """The pod sets with the pods taken off that need no place any more."""
        reclaimable = entry.status.reclaimable
        if not reclaimable:
            return entry.workload.pod_sets
        return tuple(
            replace(ps, count=max(0, ps.count - reclaimable.get(ps.name, 0)))
            for ps in entry.workload.pod_sets
        )

    def order_of(self, entry: Entry) -> QueueOrder:
        goes_first = self.config.gates.hold_for_preemptor and entry.status.claim is not None
        workload = entry.workload
        first, second = -workload.priority, 0 if goes_first else 1
        if self.has_special_lines:
            first -= self.boost_of(entry)
            if self.counts_history(entry.queue):
                first, second = second, first
        return (
            first,
            second,
            entry.order_time,
            workload.uid,
            entry.serial,
        )

    def counts_history(self, name: QueueName | None) -> bool:
        """Whether usage of the past decides in which order local queues stand in this line."""
        queue = self.queues.get(name) if name is not None and self.config.history else None
        return queue is not None and queue.spec.counts_history

    def usage_of(self, key: LocalQueueKey) -> float:
        """What a local queue has used lately, as one number; by its weight."""
        policy = self.config.history
        if policy is None:
            return 0.0
        return self.history.usage(*self._weight_of(key), self.now, policy)

    def begin_lanes(self, queue: QueueState) -> None:
        """The queue is new, or counts the past now, or no longer."""
        is_special = queue.spec.aging is not None or queue.spec.counts_history
        self.has_special_lines = self.has_special_lines or is_special
        counts_history = self.counts_history(queue.spec.name)
        if counts_history != (queue.pending.usage_of is not None):
            waiting = self.waiting_for(queue.spec.name)
            self.leave_lines(waiting)
            queue.pending.begin_lanes(self.usage_of if counts_history else None)
            for entry in waiting:
                self._line_up(entry)

    def see_to_lanes(self, tree: Tree, policy: HistoryPolicy) -> None:
        """In a line that nobody passes, another local queue may be first as time goes by."""
        for queue in tree.queues:
            head = queue.pending.head() if self._is_strict_by_usage(queue) else None
            if head is None:
                continue
            first = self._weight_of(head.workload.local_queue)
            others = [self._weight_of(key) for key in queue.pending.lanes() if key != first[0]]
            history, now = self.history, self.now
            times = [history.overtakes_at(first, other, now, policy) for other in others]
            if (at := min(times, default=inf)) < inf:
                self.wake_at(queue, at)

    def _is_strict_by_usage(self, queue: QueueState) -> bool:
        return queue.pending.usage_of is not None and queue.spec.strategy is Strategy.STRICT_FIFO

    def _weight_of(self, key: LocalQueueKey) -> tuple[LocalQueueKey, float]:
        local_queue = self.local_queues.get(key)
        return key, 1.0 if local_queue is None else local_queue.weight

    def settle_history(self, policy: HistoryPolicy) -> None:
        """A cycle begins, or ends: what has changed counts from now on."""
        self.history.settle(self.now, policy)

    def begin_history(self) -> None:
        """The configuration is another: what runs is counted from now on."""
        self.history = UsageHistory()
        for entry in self.entries.values():
            self._count(entry, 1)
        for queue in self.queues.values():
            self.begin_lanes(queue)

    def _count(self, entry: Entry, sign: int) -> None:
        """What its local queue uses through it."""
        if self.config.history is not None and entry.usage:
            self.history.change(entry.workload.local_queue, entry.usage, sign)

    def boost_of(self, entry: Entry) -> int:
        """As how much more priority its waiting counts in line."""
        queue = self.queues.get(entry.queue) if entry.queue is not None else None
        aging = None if queue is None else queue.spec.aging
        return 0 if aging is None else aging.boost(self.now - waiting_since(entry))

    def age(self, entry: Entry) -> None:
        """Put one who waits where it belongs by now, and see to it again when that changes."""
        queue = self.queue_of(entry)
        aging, since = queue.spec.aging, waiting_since(entry)
        if aging is None:
            return
        if entry.place is not None and entry.place[0] != self.order_of(entry):
            self._sort_in_anew(entry, queue)
            if queue.pending.head() is entry:
                self.touch(queue.tree)
        rises_at = aging.next_after(max(0.0, self.now - since))
        if rises_at is not None:
            self.clocks.set(entry, min(since, self.now) + rises_at)

    def _order_time(self, entry: Entry) -> float:
        eviction, created_at = entry.status.eviction, entry.workload.created_at
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

    def _line_up(self, entry: Entry) -> None:
        """Put a pending workload where it belongs: in its queue, held back, or nowhere."""
        local_queue = self.local_queues.get(entry.workload.local_queue)
        if local_queue is None or local_queue.stop_policy is not StopPolicy.NONE:
            return
        queue = self.queues.get(local_queue.queue)
        if queue is None:
            return
        entry.queue = local_queue.queue
        if entry.status.history or self.config.history is not None:
            entry.shape = self._shape_of(entry)  # the queue's rules say which trials count
        if entry.status.requeue_at is not None or self.waits_for_restart(entry, queue):
            queue.pending.hold(entry)
            self.attention[entry.workload.key] = entry
            return
        queue.pending.add(entry, self.order_of(entry))
        if queue.spec.aging is not None:
            self.attention[entry.workload.key] = entry
        if entry.status.claim is not None:
            self._claim_or_waive(entry)
        if queue.inactive is None:
            had_only_newcomers = queue.tree.has_only_newcomers
            self.touch(queue.tree)
            queue.tree.has_only_newcomers = had_only_newcomers and self._only_adds_claims(queue)

    def _only_adds_claims(self, queue: QueueState) -> bool:
        """Whether whoever lines up claims something beside the others, if it claims anything.

        Not where another claimed in its place, nor where some may claim nothing any more, which is
        seen when their line is looked at again.
        """
        is_passed = queue.spec.strategy is Strategy.BEST_EFFORT_FIFO
        return is_passed and queue.spec.admits_every_namespace

    def waits_for_restart(self, entry: Entry, queue: QueueState) -> bool:
        eviction = entry.status.eviction
        return (
            queue.spec.stop_policy is not StopPolicy.NONE
            and eviction is not None
            and eviction.reason is EvictionReason.QUEUE_STOPPED
        )

    def _leave_line(self, entry: Entry) -> None:
        if entry.queue is None:
            return
        queue = self.queues[entry.queue]
        queue.pending.discard(entry)
        if entry.status.claim is not None and self._has_claim(entry):
            self._waive(entry, queue)
        entry.queue = None
        self.touch(queue.tree)

    def line_up_again(self, entries: Iterable[Entry]) -> None:
        """Take many out of their lines together, and put each where it belongs now."""
        entries = list(entries)
        self.leave_lines(entries)
        for entry in entries:
            self._line_up(entry)

    def leave_lines(self, entries: Iterable[Entry]) -> None:
        by_queue: dict[QueueName, list[Entry]] = {}
        for entry in entries:
            if entry.queue is not None:
                if self._has_claim(entry):
                    self.claim(entry, None)
                by_queue.setdefault(entry.queue, []).append(entry)
                entry.queue = None
        for name, members in by_queue.items():
            self.queues[name].pending.discard_all(members)
            self.touch(self.queues[name].tree)

    def admits_namespace_of(self, entry: Entry, queue: QueueState) -> bool:
        labels, selector = self.namespaces.get(entry.workload.namespace), queue.spec.namespaces
        return selector is not None and labels is not None and selector.admits(labels)

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
        if was_waiting:
            self.queue_of(entry).pending.discard(entry)
        entry.order_time = self._order_time(entry)
        entry.shape = self._shape_of(entry)
        if was_waiting:
            self.queue_of(entry).pending.add(entry, self.order_of(entry))

    def _shape_of(self, entry: Entry) -> Shape:
        if not self.config.gates.equal_shapes_together:
            return Shape(is_shared=False) if entry.shape.is_shared else entry.shape
        local_queue = self.local_queues.get(entry.workload.local_queue)
        queue = self.queues.get(local_queue.queue) if local_queue is not None else None
        history = entry.status.history
        exhausted = exhausted_for(history, queue) if queue is not None and history else ()
        is_sound = entry.workload.defect is None
        has_lanes = queue is not None and queue.pending.usage_of is not None
        lane = entry.workload.local_queue if has_lanes else None
        key = (entry.workload.priority, self.pod_sets_of(entry), exhausted, is_sound, lane)
        return self._shapes.setdefault(key, Shape(is_shared=True))

    # --- claims of preemptors ---

    def _has_claim(self, entry: Entry) -> bool:
        """Whether a place is kept for it now; not while it is held back, whatever its status."""
        if entry.status.claim is None or entry.queue is None:
            return False
        queue = self.queues.get(entry.queue)
        return queue is not None and entry.workload.key in queue.tree.preemptors

    def _claim_or_waive(self, entry: Entry) -> None:
        """The claim of an entry in line is new, different, or gone."""
        if entry.queue is None:
            return
        queue = self.queues[entry.queue]
        if entry.status.claim is None:
            self._waive(entry, queue)
            return
        is_new = entry.workload.key not in queue.tree.preemptors
        queue.tree.preemptors[entry.workload.key] = entry
        if self.config.gates.hold_for_preemptor:
            if is_new:
                self._sort_in_anew(entry, queue)
        elif queue.spec.strategy is Strategy.BEST_EFFORT_FIFO:
            queue.pending.pinned = entry

    def _waive(self, entry: Entry, queue: QueueState) -> None:
        """Its place is no longer kept from others."""
        queue.tree.preemptors.pop(entry.workload.key, None)
        entry.search.claimed_usage = None
        if queue.pending.pinned is entry:
            queue.pending.pinned = None
        if self.config.gates.hold_for_preemptor:
            self._sort_in_anew(entry, queue)
            self.wake_tree(queue)

    def _sort_in_anew(self, entry: Entry, queue: QueueState) -> None:
        if entry.place is not None:
            queue.pending.discard(entry)
            queue.pending.add(entry, self.order_of(entry))

    # --- holding quota ---

    def queue_of(self, entry: Entry) -> QueueState:
        assert entry.queue is not None, f"{entry.workload.key} is in no queue"
        return self.queues[entry.queue]

    def _charged_for(self, entry: Entry) -> dict[FlavorResource, int]:
        """What is charged for a holder: its assignment less the pods given back."""
        assignment = entry.status.assignment
        assert assignment is not None
        if not entry.status.reclaimable:
            return assignment.usage()
        wanted = {pod_set.name: pod_set.count for pod_set in self.pod_sets_of(entry)}
        return Assignment(
            tuple(_scaled(ps, wanted.get(ps.name, ps.count)) for ps in assignment.pod_sets)
        ).usage()

    def _take_hold(self, entry: Entry) -> None:
        name = entry.status.queue
        assert name is not None, f"{entry.workload.key} holds quota of no queue"
        entry.queue = name
        entry.usage = self._charged_for(entry)
        queue = self.queues.get(name)
        if queue is None:
            self.orphans.setdefault(name, {})[entry.workload.key] = entry
        else:
            self.charge_holder(queue, entry)

    def charge_holder(self, queue: QueueState, entry: Entry) -> None:
        queue.hold(entry)
        queue.generation += 1
        self._charge(queue, entry.usage)
        self.touch(queue.tree)

    def _release(self, entry: Entry) -> None:
        """Its quota is free again, which may help others of the tree."""
        assert entry.queue is not None
        queue = self.queues.get(entry.queue)
        if queue is None:
            self.orphans[entry.queue].pop(entry.workload.key)
        else:
            queue.let_go(entry)
            self._charge(queue, {cell: -amount for cell, amount in entry.usage.items()})
            queue.generation += 1
            self.wake_tree(queue)
        entry.usage = NOTHING
        entry.queue = None

    def _move_holder(
        self, entry: Entry, workload: Workload, status: WorkloadStatus, phase: Phase
    ) -> None:
        """It goes on holding quota: perhaps less of it, on its way out, or more important."""
        queue = self.queues.get(entry.queue) if entry.queue is not None else None
        old, before = entry.workload, entry.status
        is_edited = workload is not old
        was_leaving, is_leaving = before.eviction is not None, status.eviction is not None
        leaves_or_stays = is_leaving is not was_leaving
        is_recounted = is_edited or status.reclaimable is not before.reclaimable
        if is_edited and queue is not None:
            queue.let_go(entry)
        self._write(entry, workload, status, phase)
        freed = self._recount_pods(entry) if is_recounted else NOTHING
        if queue is None:
            return
        if is_edited:
            queue.hold(entry)
        elif leaves_or_stays:
            queue.sort_anew(entry)
        if freed:
            self._charge(queue, {cell: -amount for cell, amount in freed.items()})
        if freed or leaves_or_stays:
            queue.generation += 1
        stays_after_all = was_leaving and not is_leaving  # so who counted on it looks again
        if freed or stays_after_all or workload.victim_priority != old.victim_priority:
            self.wake_tree(queue)
        elif is_edited or leaves_or_stays:
            self.touch(queue.tree)

    def _recount_pods(self, entry: Entry) -> Amounts:
        """Charge a holder for the pods that it has now; returns what is freed, cell by cell."""
        before, entry.usage = entry.usage, self._charged_for(entry)
        cells = {**before, **entry.usage}
        freed = {cell: before.get(cell, 0) - entry.usage.get(cell, 0) for cell in cells}
        return freed if any(freed.values()) else NOTHING

    def _charge(self, queue: QueueState, usage: Amounts) -> None:
        if self.trees_are_stale:
            self._recount.add(queue.spec.name)
            for cell, amount in usage.items():
                queue.used[cell] = queue.used.get(cell, 0) + amount
        else:
            queue.tree.charge(queue, usage)

    # --- waking ---

    def touch(self, tree: Tree) -> None:
        """Something in the tree is not as the last cycle saw it."""
        self.revision += 1
        tree.revision = self.revision
        tree.needs_cycle = True
        tree.has_only_newcomers = False
        self.unsettled[id(tree)] = tree

    def wake(self, *queues: QueueState) -> None:
        """Who waits in these queues, which are of one tree, gets another chance."""
        for queue in queues:
            if queue.pending.aside:
                self.wake_line(queue)
            elif queue.pending.classes:
                queue.pending.wake()
        self.touch(queues[0].tree)

    def wake_line(self, queue: QueueState) -> None:
        """The same in the middle of a cycle, which looks at the line anyhow."""
        for entry in queue.pending.wake():
            queue.pending.add(entry, self.order_of(entry))

    def wake_tree(self, queue: QueueState) -> None:
        queue.tree.refusals.clear()
        self.wake(*queue.tree.queues)

    def wake_all(self) -> None:
        for queue in self.queues.values():
            self.wake(queue)

    # --- trees ---

    def build_trees(self) -> None:
        """Build the trees anew that have changed; the others stay as they are.

        Edits of queues and cohorts only note that the trees are stale, so that a thousand edits
        cost one building.
        """
        if not self.trees_are_stale:
            return
        self.trees_are_stale = False
        kept = {id(tree): tree for tree in self.trees}
        self.trees = []
        for members in members_of_trees(self.queues.values(), self.cohorts):
            old = members.queues[0].tree
            if id(old) in kept and members.are_built_as(old):
                self.trees.append(old)
                if any(queue.spec.name in self._recount for queue in old.queues):
                    old.recount()
            else:
                tree = self._built(members)
                self.trees.append(tree)
                for queue in tree.queues:
                    queue.generation += 1
                    self.wake(queue)
        self._recount.clear()
        alive = {id(tree) for tree in self.trees}
        self.unsettled = {key: tree for key, tree in self.unsettled.items() if key in alive}

    def _built(self, members: TreeMembers) -> Tree:
        """The tree of these queues; whoever had a claim in one of them has it there."""
        claiming = [
            entry
            for queue in members.queues
            for entry in queue.tree.preemptors.values()
            if entry.queue == queue.spec.name
        ]
        tree = members.build()
        tree.preemptors.update((entry.workload.key, entry) for entry in claiming)
        for queue in members.queues:
            queue.inactive = self._why_inactive(queue)
        return tree

    def trees_now(self) -> list[Tree]:
        """The trees as the next cycle will see them; to be looked at only.

        While edits wait for their building, look-alikes are built: whoever asks changes nothing.
        """
        if not self.trees_are_stale:
            return self.trees
        return [
            self._built(members._replace(queues=[queue.lookalike() for queue in members.queues]))
            for members in members_of_trees(self.queues.values(), self.cohorts)
        ]

    def queue_now(self, name: QueueName) -> QueueState:
        """A queue as the next cycle will see it, in its tree; to be looked at only."""
        if not self.trees_are_stale:
            return self.queues[name]
        return next(tree.queue_named[name] for tree in self.trees_now() if name in tree.queue_named)

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
        if is_in_cycle(spec.cohort, self.cohorts):
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


def waiting_since(entry: Entry) -> float:
    eviction = entry.status.eviction
    return entry.workload.created_at if eviction is None else eviction.at


def ran_long(before: WorkloadStatus, after: WorkloadStatus) -> bool:
    """Whether it is stopped only now that it has been admitted for a good while."""
    return (
        after.eviction is not None
        and before.eviction is None
        and before.admitted_at is not None
        and after.eviction.at - before.admitted_at >= RAN_LONG_S
    )


def without_backoff(status: WorkloadStatus) -> WorkloadStatus:
    """Who is not to run has nothing to wait for, and begins anew should that change."""
    return status._replace(requeue_count=0, requeue_at=None)


def with_active(workload: Workload, is_active: bool) -> Workload:
    return workload if workload.active is is_active else replace(workload, active=is_active)


def _scaled(assigned: PodSetAssignment, wanted: int) -> PodSetAssignment:
    """The assignment of no more pods than wanted; usage is the same for each of them."""
    if wanted >= assigned.count:
        return assigned
    usage = tuple((r, amount * wanted // assigned.count) for r, amount in assigned.usage)
    return replace(assigned, count=wanted, usage=usage)
