"""What each event means for the state: one function per event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from makeway.engine import events as ev
from makeway.engine.entry import HOLDING, Entry, Phase, Standing
from makeway.engine.fallback import without_exhaustion
from makeway.engine.lifecycle import Step
from makeway.engine.model import (
    CheckName,
    CheckState,
    Eviction,
    EvictionReason,
    FlavorName,
    LocalQueueKey,
    WorkloadStatus,
)
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState


def apply(state: ClusterState, event: ev.Event) -> None:
    """Take note of something that has happened."""
    HANDLERS[type(event)](state, event)


def on_config(state: ClusterState, event: ev.ConfigChanged) -> None:
    state.config = event.config
    for entry in state.entries.values():
        state.reshape(entry)
        state.attention[entry.workload.key] = entry
    state.wake_all()


def on_flavor(state: ClusterState, event: ev.FlavorChanged) -> None:
    state.flavors[event.flavor.name] = event.flavor
    _flavor_touched(state, event.flavor.name)


def on_flavor_removed(state: ClusterState, event: ev.FlavorRemoved) -> None:
    state.flavors.pop(event.name, None)
    _flavor_touched(state, event.name)


def _flavor_touched(state: ClusterState, name: FlavorName) -> None:
    for queue in state.queues.values():
        if any(quotas.flavor == name for group in queue.spec.groups for quotas in group.flavors):
            state.reassess(queue)
            state.wake(queue)


def on_check(state: ClusterState, event: ev.CheckChanged) -> None:
    state.checks[event.name] = event.is_active
    _check_touched(state, event.name)


def on_check_removed(state: ClusterState, event: ev.CheckRemoved) -> None:
    state.checks.pop(event.name, None)
    _check_touched(state, event.name)


def _check_touched(state: ClusterState, name: CheckName) -> None:
    for queue in state.queues.values():
        if any(check.name == name for check in queue.spec.checks):
            state.reassess(queue)
            state.wake(queue)


def on_cohort(state: ClusterState, event: ev.CohortChanged) -> None:
    state.cohorts[event.cohort.name] = event.cohort
    state.forest_is_stale = True


def on_cohort_removed(state: ClusterState, event: ev.CohortRemoved) -> None:
    state.cohorts.pop(event.name, None)
    state.forest_is_stale = True


def on_queue(state: ClusterState, event: ev.QueueChanged) -> None:
    spec = event.queue
    queue = state.queues.get(spec.name)
    if queue is None:
        state.forest_is_stale = True
        queue = state.queues[spec.name] = QueueState(spec)
        for entry in state.orphans.pop(spec.name, {}).values():
            state.take_hold(queue, entry)
        state.line_up_again(state.waiting_for(spec.name))
        return
    before = queue.spec
    if before == spec:
        return
    state.forest_is_stale = True
    queue.configure(spec)
    waiting = state.waiting_for(spec.name)
    if before.fungibility.fallbacks != spec.fungibility.fallbacks:
        for entry in waiting:
            state.reshape(entry)
    if before.namespaces != spec.namespaces:
        state.line_up_again(waiting)
    elif before.stop_policy != spec.stop_policy:
        state.line_up_again(entry for entry in waiting if _minds_stops(entry))
    for order in queue.holders:
        state.attention[order[5].workload.key] = order[5]


def _minds_stops(entry: Entry) -> bool:
    """Whether a stopped queue means more to who waits than that nobody is admitted."""
    was_stopped = entry.eviction is not None and (
        entry.eviction.reason is EvictionReason.QUEUE_STOPPED
    )
    return was_stopped or entry.is_preemptor


def on_queue_removed(state: ClusterState, event: ev.QueueRemoved) -> None:
    queue = state.queues.pop(event.name, None)
    if queue is None:
        return
    state.forest_is_stale = True
    for entry in state.waiting_for(event.name):
        queue.pending.discard(entry)
        queue.tree.preemptors.pop(entry.workload.key, None)
        entry.is_preemptor = False
        entry.booking = None
        entry.booked = None
        entry.queue = None
    state.orphans[event.name] = {order[5].workload.key: order[5] for order in queue.holders}
    for order in queue.holders:
        order[5].victim_order = None


def on_local_queue(state: ClusterState, event: ev.LocalQueueChanged) -> None:
    key = event.local_queue.key
    before = state.local_queues.get(key)
    state.local_queues[key] = event.local_queue
    if before is not None and before.queue != event.local_queue.queue:
        for entry in state.by_local_queue.get(key, {}).values():
            entry.history = ()
            state.reshape(entry)
    _local_queue_touched(state, key)


def on_local_queue_removed(state: ClusterState, event: ev.LocalQueueRemoved) -> None:
    state.local_queues.pop(event.key, None)
    _local_queue_touched(state, event.key)


def _local_queue_touched(state: ClusterState, key: LocalQueueKey) -> None:
    entries = state.by_local_queue.get(key, {}).values()
    state.line_up_again(entry for entry in entries if entry.phase is Phase.PENDING)
    for entry in entries:
        if entry.phase in HOLDING:
            state.attention[entry.workload.key] = entry


def on_namespace(state: ClusterState, event: ev.NamespaceChanged) -> None:
    state.namespaces[event.name] = event.labels
    _namespace_touched(state, event.name)


def on_namespace_removed(state: ClusterState, event: ev.NamespaceRemoved) -> None:
    state.namespaces.pop(event.name, None)
    _namespace_touched(state, event.name)


def _namespace_touched(state: ClusterState, name: str) -> None:
    """Those turned away because of their namespace get another chance; heads are looked at anew.

    Whoever is in line is asked about its namespace when its turn comes; preemptors keep theirs.
    """
    for queue in state.queues.values():
        held = queue.pending.held()
        state.line_up_again(entry for entry in held if entry.workload.namespace == name)
        head = queue.pending.head()
        if head is not None and head.workload.namespace == name and queue.inactive is None:
            state.touch(queue.tree)


def on_seen(state: ClusterState, event: ev.WorkloadSeen) -> None:
    workload, status = event.workload, event.status
    key = workload.key
    if key in state.entries:
        on_removed(state, ev.WorkloadRemoved(key))
    state.serial += 1
    entry = state.entries[key] = Entry(workload, state.serial)
    state.by_local_queue.setdefault(workload.local_queue, {})[key] = entry
    entry.eviction = status.eviction
    entry.requeue_count = status.requeue_count
    entry.requeue_at = status.requeue_at
    entry.checks = dict(status.checks)
    entry.history = status.history
    entry.reclaimable = dict(status.reclaimable)
    entry.pods_ready = status.pods_ready
    entry.lost_at = status.pods_lost_at
    if (
        workload.active
        and entry.eviction is not None
        and entry.eviction.reason is EvictionReason.DEACTIVATED
    ):
        _pardon(entry)  # by hand, while nobody looked
    state.reshape(entry)
    if status.finished:
        entry.phase = Phase.FINISHED
    elif status.assignment is not None:
        _restore_holder(state, entry, status)
    elif not workload.active:
        entry.phase = Phase.INACTIVE
    else:
        if status.preemptor:
            state.returning.add(key)
        state.line_up(entry)


def _restore_holder(state: ClusterState, entry: Entry, status: WorkloadStatus) -> None:
    assert status.assignment is not None
    assert status.queue is not None, f"{entry.workload.key} holds quota of no queue"
    entry.assignment = status.assignment
    entry.reserved_at = status.reserved_at or 0.0
    entry.admitted_at = status.admitted_at
    entry.queue = status.queue
    entry.pods_seen = False
    if status.eviction is not None:
        entry.phase = Phase.EVICTING
    elif status.admitted_at is not None:
        entry.phase = Phase.ADMITTED
    else:
        entry.phase = Phase.RESERVED
    entry.usage = state.charged_for(entry)
    queue = state.queues.get(status.queue)
    if queue is None:
        state.orphans.setdefault(status.queue, {})[entry.workload.key] = entry
    else:
        state.take_hold(queue, entry)
    state.attention[entry.workload.key] = entry


def on_edited(state: ClusterState, event: ev.WorkloadEdited) -> None:
    workload = event.workload
    entry = state.entries.get(workload.key)
    if entry is None:
        on_seen(state, ev.WorkloadSeen(workload))
        return
    before = entry.workload
    if entry.phase is Phase.PENDING:
        state.leave_line(entry)
    if workload.local_queue != before.local_queue:
        del state.by_local_queue[before.local_queue][workload.key]
        state.by_local_queue.setdefault(workload.local_queue, {})[workload.key] = entry
        entry.history = ()
    queue = state.holding_queue(entry)
    if queue is not None:
        queue.let_go(entry)
    entry.workload = workload
    if queue is not None:
        queue.hold(entry)
        state.touch(queue.tree)
        if workload.victim_priority != before.victim_priority:
            state.wake_tree(queue)  # it may have become a candidate for who waits
    state.reshape(entry)
    if entry.phase is Phase.PENDING:
        if workload.active:
            state.line_up(entry)
        else:
            state.step(entry, Step.DEACTIVATE)
    elif entry.phase is Phase.INACTIVE and workload.active:
        _pardon(entry)
        state.step(entry, Step.ACTIVATE)
        state.reshape(entry)
        state.line_up(entry)
    elif entry.phase in HOLDING:
        if workload.active and not before.active:
            _pardon(entry)
        state.attention[workload.key] = entry


def _pardon(entry: Entry) -> None:
    """Wanted again by hand: whatever was held against it is forgotten."""
    entry.history = ()
    entry.requeue_count = 0
    entry.requeue_at = None


def on_removed(state: ClusterState, event: ev.WorkloadRemoved) -> None:
    entry = state.entries.pop(event.key, None)
    if entry is None:
        return
    del state.by_local_queue[entry.workload.local_queue][event.key]
    state.attention.pop(event.key, None)
    state.returning.discard(event.key)
    if entry.phase is Phase.PENDING:
        state.leave_line(entry)
    elif entry.phase in HOLDING:
        state.release(entry)
    entry.phase = Phase.FINISHED


def on_finished(state: ClusterState, event: ev.WorkloadFinished) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase is Phase.FINISHED:
        return
    if entry.phase is Phase.PENDING:
        state.leave_line(entry)
    elif entry.phase in HOLDING:
        state.release(entry)
    state.step(entry, Step.FINISH)


def on_pods(state: ClusterState, event: ev.PodsChanged) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in HOLDING:
        return
    entry.pods_seen = True
    if event.are_ready:
        entry.pods_ready = True
        entry.lost_at = None
        entry.history = without_exhaustion(entry.history)
    else:
        if entry.pods_ready:
            entry.lost_at = event.at
        entry.pods_ready = False
    entry.ready_pod_sets = event.ready_pod_sets
    state.attention[event.key] = entry


def on_reclaimed(state: ClusterState, event: ev.PodsReclaimed) -> None:
    entry = state.entries.get(event.key)
    if entry is None:
        return
    queue = state.holding_queue(entry)
    if queue is not None:
        state.uncharge(queue, entry.usage)
    was_waiting = entry.phase is Phase.PENDING
    if was_waiting:
        state.leave_line(entry)
    entry.reclaimable = dict(event.counts)
    state.reshape(entry)
    if was_waiting:
        state.line_up(entry)
    if entry.assignment is not None:
        entry.usage = state.charged_for(entry)
    if queue is not None:
        state.charge(queue, entry.usage)
        queue.generation += 1
        state.wake_tree(queue)


def on_check_answered(state: ClusterState, event: ev.CheckAnswered) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in HOLDING:
        return
    entry.checks[event.check] = event.state
    if event.state is CheckState.RETRY:
        entry.retry_after_s = max(entry.retry_after_s, event.retry_after_s)
    state.attention[event.key] = entry


def on_evicted(state: ClusterState, event: ev.Evicted) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in (Phase.RESERVED, Phase.ADMITTED):
        return
    state.evict(entry, Eviction(event.reason, event.at))
    if event.reason is EvictionReason.PREEMPTED_IN_PLACEMENT:
        entry.requeue_count += 1
        entry.requeue_at = event.at + state.config.backoff.delay_s(entry.requeue_count)


def on_pods_gone(state: ClusterState, event: ev.PodsGone) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase is not Phase.EVICTING:
        return
    state.release(entry)
    entry.checks = {}
    if entry.workload.active:
        state.step(entry, Step.LET_GO)
        state.reshape(entry)
        state.line_up(entry)
    else:
        state.step(entry, Step.DEACTIVATE)


def on_forgotten(state: ClusterState, event: ev.Forgotten) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.before is None:
        return
    before, entry.before = entry.before, None
    match entry.phase:
        case Phase.EVICTING:
            _forget_eviction(state, entry, before)
        case Phase.ADMITTED if before.phase is Phase.RESERVED:
            state.step(entry, Step.FORGET)
            entry.admitted_at = None
            state.attention[event.key] = entry
        case Phase.RESERVED | Phase.ADMITTED:
            state.release(entry)
            if entry.phase is Phase.ADMITTED:
                state.step(entry, Step.FORGET)
            state.step(entry, Step.FORGET)
            _restore(state, entry, before)
            state.line_up(entry)
        case Phase.INACTIVE if before.phase is Phase.PENDING:
            state.step(entry, Step.ACTIVATE)
            _restore(state, entry, before)
            state.line_up(entry)


def _forget_eviction(state: ClusterState, entry: Entry, before: Standing) -> None:
    """It goes on; what made it stop is looked at again, and so is who counted on it."""
    queue = state.holding_queue(entry)
    if queue is not None:
        queue.let_go(entry)
    state.step(entry, Step.FORGET)
    if before.phase is Phase.ADMITTED:
        state.step(entry, Step.ADMIT)
    else:
        entry.admitted_at = None
    _restore(state, entry, before)
    state.attention[entry.workload.key] = entry
    if queue is not None:
        queue.hold(entry)
        state.wake_tree(queue)


def _restore(state: ClusterState, entry: Entry, before: Standing) -> None:
    if entry.workload.active != before.is_active:
        entry.workload = replace(entry.workload, active=before.is_active)
    entry.eviction = before.eviction
    entry.history = before.history
    entry.requeue_count = before.requeue_count
    entry.requeue_at = before.requeue_at
    entry.retry_after_s = before.retry_after_s
    state.reshape(entry)


HANDLERS: dict[type, Callable[[ClusterState, Any], None]] = {
    ev.ConfigChanged: on_config,
    ev.FlavorChanged: on_flavor,
    ev.FlavorRemoved: on_flavor_removed,
    ev.CohortChanged: on_cohort,
    ev.CohortRemoved: on_cohort_removed,
    ev.QueueChanged: on_queue,
    ev.QueueRemoved: on_queue_removed,
    ev.LocalQueueChanged: on_local_queue,
    ev.LocalQueueRemoved: on_local_queue_removed,
    ev.NamespaceChanged: on_namespace,
    ev.NamespaceRemoved: on_namespace_removed,
    ev.CheckChanged: on_check,
    ev.CheckRemoved: on_check_removed,
    ev.WorkloadSeen: on_seen,
    ev.WorkloadEdited: on_edited,
    ev.WorkloadRemoved: on_removed,
    ev.WorkloadFinished: on_finished,
    ev.PodsChanged: on_pods,
    ev.PodsReclaimed: on_reclaimed,
    ev.CheckAnswered: on_check_answered,
    ev.Evicted: on_evicted,
    ev.PodsGone: on_pods_gone,
    ev.Forgotten: on_forgotten,
}
