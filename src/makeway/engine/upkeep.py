"""What has to be seen to before a cycle: clocks that ran out, answers of admission checks,
queues that drain. Everything here concerns one workload at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationReason,
    Decision,
    Evict,
    FlavorFailure,
    Requeue,
)
from makeway.engine.entry import HOLDING, Entry, Phase
from makeway.engine.fallback import (
    choose_exhausted,
    has_eligible_flavors,
    rule_for,
    timeout_due_at,
    with_exhausted,
)
from makeway.engine.model import (
    CheckName,
    CheckState,
    Eviction,
    EvictionReason,
    FailurePolicy,
    FlavorName,
    StopPolicy,
    Trigger,
)
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState


class Upkeep:
    def __init__(self, state: ClusterState, now: float) -> None:
        self.state = state
        self.now = now
        self.decisions: list[Decision] = []

    def run(self) -> None:
        entries = {entry.workload.key: entry for entry in self.state.take_due(self.now)}
        entries.update(self.state.attention)
        self.state.attention.clear()
        for entry in sorted(entries.values(), key=lambda entry: entry.serial):
            self._see_to(entry)
        self.state.attention.clear()  # what was decided just now has its clock set already

    def _see_to(self, entry: Entry) -> None:
        if entry.phase is Phase.PENDING:
            self._see_to_backoff(entry)
        elif entry.phase in (Phase.RESERVED, Phase.ADMITTED):
            queue = self.state.queues.get(entry.queue) if entry.queue is not None else None
            if queue is not None:
                self._see_to_holder(entry, queue)

    def _see_to_backoff(self, entry: Entry) -> None:
        if entry.requeue_at is None or entry.queue is None:
            return
        if entry.requeue_at > self.now:
            self.state.set_clock(entry, entry.requeue_at)
            return
        queue = entry.queue
        self.state.end_backoff(entry)
        self.decisions.append(Requeue(workload=entry.workload.key, queue=queue))

    def _see_to_holder(self, entry: Entry, queue: QueueState) -> None:
        self._correct_clocks(entry)
        before = entry.standing()
        self._stop_if_due(entry, queue)
        if entry.phase is Phase.EVICTING:
            entry.before = before  # of all that was counted and noted on the way

    def _stop_if_due(self, entry: Entry, queue: QueueState) -> None:
        stopped = self._drain_reason(entry, queue)
        if stopped is not None:
            self._evict(entry, queue, stopped)
        elif not entry.workload.active:
            self._evict(entry, queue, EvictionReason.DEACTIVATED)
        elif not self._see_to_checks(entry, queue):
            self._see_to_clocks(entry, queue)

    def _correct_clocks(self, entry: Entry) -> None:
        """No clock has more than its whole time left, even if the wall clock was set back."""
        now = self.now
        if entry.admitted_at is not None:
            entry.admitted_at = min(entry.admitted_at, now)
        if entry.lost_at is not None:
            entry.lost_at = min(entry.lost_at, now)
        if any(trial.assigned_at > now for trial in entry.history):
            entry.history = tuple(
                trial._replace(assigned_at=min(trial.assigned_at, now)) for trial in entry.history
            )

    def _drain_reason(self, entry: Entry, queue: QueueState) -> EvictionReason | None:
        """A local queue on hold keeps its workloads running though the queue behind it drains."""
        local_queue = self.state.local_queues.get(entry.workload.local_queue)
        policy = StopPolicy.NONE if local_queue is None else local_queue.stop_policy
        if policy is StopPolicy.HOLD_AND_DRAIN:
            return EvictionReason.LOCAL_QUEUE_STOPPED
        drains = queue.spec.stop_policy is StopPolicy.HOLD_AND_DRAIN
        if drains and policy is StopPolicy.NONE:
            return EvictionReason.QUEUE_STOPPED
        return None

    # --- admission checks ---

    def _see_to_checks(self, entry: Entry, queue: QueueState) -> bool:
        """Act on what the checks say; True if the workload was stopped for it."""
        states = entry.checks
        rejected = tuple(sorted(c for c, s in states.items() if s is CheckState.REJECTED))
        retried = tuple(sorted(c for c, s in states.items() if s is CheckState.RETRY))
        if rejected:
            self._reject(entry, queue, rejected)
        elif retried:
            entry.requeue_at = self.now + entry.retry_after_s if entry.retry_after_s else None
            entry.retry_after_s = 0.0
            self._evict(
                entry,
                queue,
                EvictionReason.ADMISSION_CHECK,
                checks=retried,
                requeue_at=entry.requeue_at,
            )
        else:
            if entry.phase is Phase.RESERVED and self._checks_are_ready(entry, queue):
                self._admit(entry, queue)
            return False
        return True

    def _checks_are_ready(self, entry: Entry, queue: QueueState) -> bool:
        assert entry.assignment is not None
        checks = queue.checks_for(entry.assignment.flavors())
        return all(entry.checks.get(check) is CheckState.READY for check in checks)

    def _admit(self, entry: Entry, queue: QueueState) -> None:
        assert entry.assignment is not None
        self.state.admit(entry, self.now)
        is_borrowing = queue.is_borrowing(entry.usage)
        self.decisions.append(
            Admit(
                workload=entry.workload.key,
                queue=queue.spec.name,
                assignment=entry.assignment,
                borrow_level=0,
                is_borrowing=is_borrowing,
                waited_s=self.now - entry.order_time,
                checked_s=self.now - entry.reserved_at,
            )
        )

    def _reject(self, entry: Entry, queue: QueueState, checks: tuple[CheckName, ...]) -> None:
        """A check said no: that exhausts the flavors it covers, if a rule says so."""
        due = tuple(self._rejected_flavors(entry, queue, checks))
        if due:
            self._fall_back(entry, queue, due, Trigger.CHECK_REJECTED)
        else:
            self._deactivate(entry, queue, DeactivationReason.CHECK_REJECTED, checks=checks)

    def _rejected_flavors(
        self, entry: Entry, queue: QueueState, checks: tuple[CheckName, ...]
    ) -> Iterator[FlavorName]:
        assert entry.assignment is not None
        fallbacks = queue.spec.fungibility.fallbacks
        covers = {check.name: check.flavors for check in queue.spec.checks}
        for flavor in entry.assignment.flavors():
            is_covered = any(not covers.get(check) or flavor in covers[check] for check in checks)
            if is_covered and rule_for(fallbacks, flavor, Trigger.CHECK_REJECTED):
                yield flavor

    # --- clocks ---

    def _see_to_clocks(self, entry: Entry, queue: QueueState) -> None:
        if entry.pods_ready or not entry.pods_seen:
            return
        has_been_ready = entry.lost_at is not None  # which stopped the clocks of its flavors
        timers = {} if has_been_ready else dict(self._flavor_timers(entry, queue))
        if timers:
            due = tuple(flavor for flavor, at in timers.items() if at <= self.now)
            if due:
                self._fall_back(entry, queue, due, Trigger.TIMEOUT)
            else:
                self.state.set_clock(entry, min(timers.values()))
            return
        at = self._pods_ready_due_at(entry)
        if at is None:
            return
        if at > self.now:
            self.state.set_clock(entry, at)
        else:
            self._time_out(entry, queue)

    def _flavor_timers(self, entry: Entry, queue: QueueState) -> Iterator[tuple[FlavorName, float]]:
        """When each held flavor's clock runs out, but for those of pod sets that are ready."""
        assert entry.assignment is not None
        waiting = {
            flavor
            for pod_set in entry.assignment.pod_sets
            if pod_set.name not in entry.ready_pod_sets
            for _, flavor in pod_set.flavors
        }
        for flavor in sorted(waiting):
            at = timeout_due_at(entry, queue, flavor)
            if at is not None:
                yield flavor, at

    def _pods_ready_due_at(self, entry: Entry) -> float | None:
        policy = self.state.config.pods_ready
        if policy is None or entry.phase is not Phase.ADMITTED:
            return None
        if entry.lost_at is not None:
            if policy.recovery_timeout_s is None:
                return None
            return entry.lost_at + policy.recovery_timeout_s
        assert entry.admitted_at is not None
        return entry.admitted_at + policy.timeout_s

    def _time_out(self, entry: Entry, queue: QueueState) -> None:
        if self.state.back_off(entry, self.now):
            self._evict(
                entry, queue, EvictionReason.PODS_READY_TIMEOUT, requeue_at=entry.requeue_at
            )
        else:
            self._deactivate(entry, queue, DeactivationReason.REQUEUE_LIMIT)

    # --- fallbacks ---

    def _fall_back(
        self, entry: Entry, queue: QueueState, due: tuple[FlavorName, ...], trigger: Trigger
    ) -> None:
        """Flavors are exhausted by this; what is left to try decides how it goes on."""
        pod_sets = self.state.pod_sets_of(entry)
        blamed = choose_exhausted(entry, queue, due, self.state.flavors, pod_sets)
        entry.history = with_exhausted(entry, blamed, trigger, self.now)
        entry.scan = None
        failures = tuple(FlavorFailure(flavor, trigger) for flavor in blamed)
        if not has_eligible_flavors(entry, queue, self.state.flavors, pod_sets):
            policy = queue.spec.fungibility.fallbacks.failure_policy
            if policy is FailurePolicy.DEACTIVATE:
                self._deactivate(entry, queue, DeactivationReason.FLAVORS_EXHAUSTED)
                return
            if not self.state.back_off(entry, self.now):
                self._deactivate(entry, queue, DeactivationReason.REQUEUE_LIMIT)
                return
            entry.history = ()
        self._evict(
            entry,
            queue,
            EvictionReason.FLAVOR_FALLBACK,
            flavors=failures,
            requeue_at=entry.requeue_at,
        )

    # --- stopping ---

    def _evict(
        self,
        entry: Entry,
        queue: QueueState,
        reason: EvictionReason,
        checks: tuple[CheckName, ...] = (),
        flavors: tuple[FlavorFailure, ...] = (),
        requeue_at: float | None = None,
    ) -> None:
        self.state.evict(entry, Eviction(reason, self.now))
        self.decisions.append(
            Evict(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                checks=checks,
                flavors=flavors,
                requeue_at=requeue_at,
                requeue_count=entry.requeue_count,
            )
        )

    def _deactivate(
        self,
        entry: Entry,
        queue: QueueState,
        reason: DeactivationReason,
        checks: tuple[CheckName, ...] = (),
    ) -> None:
        if entry.phase in HOLDING:
            self.state.evict(entry, Eviction(EvictionReason.DEACTIVATED, self.now))
        self.state.deactivate(entry)
        self.decisions.append(
            Deactivate(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                history=entry.history,
                checks=checks,
            )
        )
