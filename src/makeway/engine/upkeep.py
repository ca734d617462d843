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
from makeway.engine.entry import Entry
from makeway.engine.fallback import (
    choose_exhausted,
    has_eligible_flavors,
    rule_for,
    timeout_due_at,
    with_exhausted,
)
from makeway.engine.model import (
    Cause,
    CheckName,
    CheckState,
    Eviction,
    EvictionReason,
    FailurePolicy,
    FlavorName,
    Phase,
    StopPolicy,
    Trigger,
    WorkloadStatus,
)
from makeway.engine.state import ClusterState, with_active, without_backoff
from makeway.engine.tree import QueueState


def tend(state: ClusterState, now: float) -> list[Decision]:
    """See to all that is due; every cycle begins with this."""
    next_at = state.next_at()
    if not state.attention and (next_at is None or next_at > now):
        return []  # nothing is
    upkeep = Upkeep(state, now)
    upkeep.run()
    return upkeep.decisions


class Upkeep:
    def __init__(self, state: ClusterState, now: float) -> None:
        self.state = state
        self.now = now
        self.decisions: list[Decision] = []

    def run(self) -> None:
        if self.state.wake_times:
            self.state.wake_due(self.now)
        due = (*self.state.clocks.take_due(self.now), *self.state.attention.values())
        self.state.attention.clear()
        for _, entry in sorted({entry.serial: entry for entry in due}.items()):
            if self.state.entries.get(entry.workload.key) is entry:
                self._see_to(entry)
        self.state.attention.clear()  # what was decided just now has its clock set already

    def _see_to(self, entry: Entry) -> None:
        if entry.phase is Phase.PENDING:
            self._see_to_backoff(entry)
        elif entry.phase in (Phase.RESERVED, Phase.ADMITTED):
            queue = self.state.queues.get(entry.queue) if entry.queue is not None else None
            if queue is not None:
                self._correct_clocks(entry)
                self._stop_if_due(entry, queue)

    def _see_to_backoff(self, entry: Entry) -> None:
        requeue_at, queue = entry.status.requeue_at, entry.queue
        if queue is None:
            return
        if requeue_at is None:
            if entry.status.preemptions is not None:
                self.state.end_pause(entry)
            self.state.age(entry)
            return
        if requeue_at > self.now:
            self.state.clocks.set(entry, requeue_at)
            return
        self.state.move(entry, entry.status._replace(requeue_at=None))
        self.decisions.append(Requeue(workload=entry.workload.key, queue=queue))

    def _stop_if_due(self, entry: Entry, queue: QueueState) -> None:
        stopped = self._drain_reason(entry, queue)
        if stopped is not None:
            self._evict(entry, queue, stopped)
        elif not entry.workload.active:
            cause = entry.workload.to_deactivate
            status = without_backoff(entry.status)
            self._evict(entry, queue, EvictionReason.DEACTIVATED, status, cause=cause)
        elif not self._see_to_checks(entry, queue):
            self._see_to_clocks(entry, queue)

    def _correct_clocks(self, entry: Entry) -> None:
        """No clock has more than its whole time left, even if the wall clock was set back."""
        status, now = entry.status, self.now
        times = [trial.assigned_at for trial in status.history]
        times += [at for at in (status.admitted_at, status.pods_lost_at) if at is not None]
        if max(times, default=now) <= now:
            return
        self.state.move(
            entry,
            status._replace(
                admitted_at=_no_later(status.admitted_at, now),
                pods_lost_at=_no_later(status.pods_lost_at, now),
                history=tuple(
                    trial._replace(assigned_at=min(trial.assigned_at, now))
                    for trial in status.history
                ),
            ),
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
        states = entry.status.checks
        rejected = tuple(sorted(c for c, s in states.items() if s is CheckState.REJECTED))
        retried = tuple(sorted(c for c, s in states.items() if s is CheckState.RETRY))
        if rejected:
            self._reject(entry, queue, rejected)
        elif retried:
            pause_s = entry.status.retry_after_s
            requeue_at = self.now + pause_s if pause_s else None
            status = entry.status._replace(requeue_at=requeue_at, retry_after_s=0.0)
            self._evict(entry, queue, EvictionReason.ADMISSION_CHECK, status, checks=retried)
        else:
            if entry.phase is Phase.RESERVED and self._checks_are_ready(entry, queue):
                self._admit(entry, queue)
            return False
        return True

    def _checks_are_ready(self, entry: Entry, queue: QueueState) -> bool:
        status = entry.status
        assert status.assignment is not None
        checks = queue.checks_for(status.assignment)
        return all(status.checks.get(check) is CheckState.READY for check in checks)

    def _admit(self, entry: Entry, queue: QueueState) -> None:
        status = entry.status
        assert status.assignment is not None
        assert status.reserved_at is not None
        self.state.decide(entry, status._replace(admitted_at=self.now))
        self.decisions.append(
            Admit(
                workload=entry.workload.key,
                queue=queue.spec.name,
                assignment=status.assignment,
                borrow_level=0,
                is_borrowing=queue.is_borrowing(entry.usage),
                waited_s=self.now - entry.order_time,
                checked_s=self.now - status.reserved_at,
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
        assert entry.status.assignment is not None
        fallbacks = queue.spec.fungibility.fallbacks
        covers = {check.name: check.flavors for check in queue.spec.checks}
        for flavor in entry.status.assignment.flavors():
            is_covered = any(not covers.get(check) or flavor in covers[check] for check in checks)
            if is_covered and rule_for(fallbacks, flavor, Trigger.CHECK_REJECTED):
                yield flavor

    # --- clocks ---

    def _see_to_clocks(self, entry: Entry, queue: QueueState) -> None:
        if entry.status.pods_ready or not entry.search.pods_seen:
            return
        has_been_ready = (
            entry.status.pods_lost_at is not None
        )  # which stopped the clocks of its flavors
        timers = {} if has_been_ready else dict(self._flavor_timers(entry, queue))
        if timers:
            due = tuple(flavor for flavor, at in timers.items() if at <= self.now)
            if due:
                self._fall_back(entry, queue, due, Trigger.TIMEOUT)
            else:
                self.state.clocks.set(entry, min(timers.values()))
            return
        at = self._pods_ready_due_at(entry)
        if at is None:
            return
        if at > self.now:
            self.state.clocks.set(entry, at)
        else:
            self._time_out(entry, queue)

    def _flavor_timers(self, entry: Entry, queue: QueueState) -> Iterator[tuple[FlavorName, float]]:
        """When each held flavor's clock runs out, but for those of pod sets that are ready."""
        assert entry.status.assignment is not None
        waiting = {
            flavor
            for pod_set in entry.status.assignment.pod_sets
            if pod_set.name not in entry.search.ready_pod_sets
            for _, flavor in pod_set.flavors
        }
        for flavor in sorted(waiting):
            at = timeout_due_at(entry.status, queue, flavor)
            if at is not None:
                yield flavor, at

    def _pods_ready_due_at(self, entry: Entry) -> float | None:
        policy, status = self.state.config.pods_ready, entry.status
        if policy is None or status.admitted_at is None:
            return None
        if status.pods_lost_at is None:
            return status.admitted_at + policy.timeout_s
        if policy.recovery_timeout_s is None:
            return None
        return status.pods_lost_at + policy.recovery_timeout_s

    def _time_out(self, entry: Entry, queue: QueueState) -> None:
        status = self.state.backed_off(entry.status, self.now)
        if status is None:
            self._deactivate(entry, queue, DeactivationReason.REQUEUE_LIMIT)
        else:
            has_been_ready = entry.status.pods_lost_at is not None
            cause = Cause.WAIT_FOR_RECOVERY if has_been_ready else Cause.WAIT_FOR_START
            self._evict(entry, queue, EvictionReason.PODS_READY_TIMEOUT, status, cause=cause)

    # --- fallbacks ---

    def _fall_back(
        self, entry: Entry, queue: QueueState, due: tuple[FlavorName, ...], trigger: Trigger
    ) -> None:
        """Flavors are exhausted by this; what is left to try decides how it goes on."""
        pod_sets, flavors = self.state.pod_sets_of(entry), self.state.flavors
        blamed = choose_exhausted(entry.status, queue, due, flavors, pod_sets)
        history = with_exhausted(entry.status, blamed, trigger, self.now)
        failures = tuple(FlavorFailure(flavor, trigger) for flavor in blamed)
        status = entry.status._replace(history=history)
        starts_over = not has_eligible_flavors(history, queue, flavors, pod_sets)
        if starts_over:
            if queue.spec.fungibility.fallbacks.failure_policy is FailurePolicy.DEACTIVATE:
                self._deactivate(entry, queue, DeactivationReason.FLAVORS_EXHAUSTED, status)
                return
            after_pause = self.state.backed_off(status._replace(history=()), self.now)
            if after_pause is None:
                self._deactivate(entry, queue, DeactivationReason.REQUEUE_LIMIT, status)
                return
            status = after_pause
        reason = EvictionReason.FLAVOR_FALLBACK
        self._evict(entry, queue, reason, status, flavors=failures, starts_over=starts_over)

    # --- stopping ---

    def _evict(
        self,
        entry: Entry,
        queue: QueueState,
        reason: EvictionReason,
        status: WorkloadStatus | None = None,  # None: as it is
        checks: tuple[CheckName, ...] = (),
        flavors: tuple[FlavorFailure, ...] = (),
        starts_over: bool = False,
        cause: Cause | None = None,
    ) -> None:
        eviction = Eviction(reason, self.now, cause=cause)
        status = (status or entry.status)._replace(eviction=eviction)
        self.state.decide(entry, status)
        self.decisions.append(
            Evict(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                cause=cause,
                checks=checks,
                flavors=flavors,
                starts_over=starts_over,
                requeue_at=status.requeue_at,
                requeue_count=status.requeue_count,
            )
        )

    def _deactivate(
        self,
        entry: Entry,
        queue: QueueState,
        reason: DeactivationReason,
        status: WorkloadStatus | None = None,  # None: as it is
        checks: tuple[CheckName, ...] = (),
    ) -> None:
        eviction = Eviction(EvictionReason.DEACTIVATED, self.now, cause=reason.cause)
        status = without_backoff(status or entry.status)._replace(eviction=eviction)
        self.state.decide(entry, status, with_active(entry.workload, False))
        self.decisions.append(
            Deactivate(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                is_evicted=True,
                history=status.history,
                checks=checks,
            )
        )


def _no_later(at: float | None, now: float) -> float | None:
    return None if at is None else min(at, now)
