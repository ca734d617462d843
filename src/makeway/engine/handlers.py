"""What each event means for the state: one function per event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from makeway.engine import events as ev
from makeway.engine.entry import Entry, UndoPoint
from makeway.engine.fallback import without_exhaustion
from makeway.engine.model import (
    HOLDING,
    CheckName,
    CheckState,
    Eviction,
    EvictionReason,
    FlavorName,
    LocalQueueKey,
    Phase,
    Workload,
    WorkloadStatus,
)
from makeway.engine.state import WITHOUT_QUOTA, ClusterState, without_backoff
from makeway.engine.tree import QueueState

_PREEMPTIONS = (EvictionReason.PREEMPTED, EvictionReason.PREEMPTED_IN_PLACEMENT)


def handle(state: ClusterState, event: ev.Event) -> None:
    HANDLERS[type(event)](state, event)


def on_config(state: ClusterState, event: ev.ConfigChanged) -> None:
    before, state.config = state.config, event.config
    if before.history != event.config.history:
        state.begin_history()
    state.count_unready()
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
    state.flavors_edited += 1
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
    name = event.cohort.name
    is_edited = state.cohorts.get(name) != event.cohort
    if is_edited:
        state.forget_preemptions(name)  # in the tree that it was in
    state.cohorts[name] = event.cohort
    if is_edited:
        state.forget_preemptions(name)  # and in the one where it is now
    state.trees_are_stale = True


def on_cohort_removed(state: ClusterState, event: ev.CohortRemoved) -> None:
    state.forget_preemptions(event.name)
    state.cohorts.pop(event.name, None)
    state.trees_are_stale = True


def on_queue(state: ClusterState, event: ev.QueueChanged) -> None:
    spec = event.queue
    queue = state.queues.get(spec.name)
    if queue is None:
        state.trees_are_stale = True
        state.forget_preemptions(spec.cohort)
        queue = state.queues[spec.name] = QueueState(spec)
        state.begin_lanes(queue)
        for entry in state.orphans.pop(spec.name, {}).values():
            state.charge_holder(queue, entry)
            state.attention[entry.workload.key] = entry  # what it missed meanwhile is seen to
        state.line_up_again(state.waiting_for(spec.name))
        return
    before = queue.spec
    if before == spec:
        return
    state.trees_are_stale = True
    state.forget_preemptions(before.cohort, spec.cohort, edited=spec.name)
    queue.configure(spec)
    state.begin_lanes(queue)
    waiting = state.waiting_for(spec.name)
    if before.fungibility.fallbacks != spec.fungibility.fallbacks:
        for entry in waiting:
            state.reshape(entry)
    if before.namespaces != spec.namespaces or before.aging != spec.aging:
        state.line_up_again(waiting)
    elif before.stop_policy != spec.stop_policy:
        state.line_up_again(entry for entry in waiting if _requeues_on_stop(entry))
    for order in queue.holders:
        state.attention[order.entry.workload.key] = order.entry


def _requeues_on_stop(entry: Entry) -> bool:
    """Evicted by the stop, or a preemptor that loses its claim by it."""
    eviction = entry.status.eviction
    was_stopped = eviction is not None and eviction.reason is EvictionReason.QUEUE_STOPPED
    return was_stopped or entry.status.claim is not None


def on_evictions_caused(state: ClusterState, event: ev.EvictionsCaused) -> None:
    state.budgets.note(event.queue, event.times)


def on_queue_removed(state: ClusterState, event: ev.QueueRemoved) -> None:
    queue = state.queues.get(event.name)
    if queue is None:
        return
    state.trees_are_stale = True
    state.forget_preemptions(queue.spec.cohort)
    state.leave_lines(state.waiting_for(event.name))
    del state.queues[event.name]
    state.orphans[event.name] = {order.entry.workload.key: order.entry for order in queue.holders}
    for order in queue.holders:
        order.entry.victim_order = None


def on_local_queue(state: ClusterState, event: ev.LocalQueueChanged) -> None:
    key = event.local_queue.key
    before = state.local_queues.get(key)
    state.local_queues[key] = event.local_queue
    state.has_costs = state.has_costs or bool(event.local_queue.milestones)
    if before is not None and before.queue != event.local_queue.queue:
        for entry in list(state.by_local_queue.get(key, {}).values()):
            state.move(entry, entry.status._replace(history=()))
    _local_queue_touched(state, key)


def on_usage_recalled(state: ClusterState, event: ev.UsageRecalled) -> None:
    state.history.recall(event.key, event.used, event.at)


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

    Whoever is in line is asked about its namespace when its turn comes; preemptors keep theirs. Who
    is parked may be an owner no more.
    """
    for queue in state.queues.values():
        held = queue.pending.held()
        state.line_up_again(entry for entry in held if entry.workload.namespace == name)
        head, namespaces = queue.pending.head(), queue.spec.namespaces
        is_choosy = namespaces is not None and bool(namespaces.requirements)
        if is_choosy and not queue.pending.is_empty:
            queue.pending.version += 1  # by which it is known who claims what
            state.touch(queue.tree)
        elif head is not None and head.workload.namespace == name and queue.inactive is None:
            state.touch(queue.tree)


def on_seen(state: ClusterState, event: ev.WorkloadSeen) -> None:
    workload, status = event.workload, event.status
    known = state.entries.get(workload.key)
    if known is not None and (known.workload, known.status) == (workload, status):
        return  # nothing new
    on_removed(state, ev.WorkloadRemoved(workload.key))
    is_wanted_again = (  # by hand, while nobody looked
        workload.active
        and status.eviction is not None
        and status.eviction.reason is EvictionReason.DEACTIVATED
    )
    if is_wanted_again:
        status = _wanted_again(status)
    elif status.assignment is None and ends_by(workload, status.eviction):
        status = status._replace(finished=True)  # its pods went while nobody looked
    state.add(workload, status)


def on_edited(state: ClusterState, event: ev.WorkloadEdited) -> None:
    workload = event.workload
    entry = state.entries.get(workload.key)
    if entry is None:
        state.add(workload, WorkloadStatus())
        return
    before, status = entry.workload, entry.status
    if workload == replace(before, checkpoint_at=workload.checkpoint_at):
        state.note_checkpoint(entry, workload)
        return
    state.has_costs = state.has_costs or bool(workload.milestones)
    status = status._replace(preemptions=None)
    if workload.active and not before.active and entry.phase is not Phase.FINISHED:
        status = _wanted_again(status)
    elif not workload.active and status.assignment is None:
        status = without_backoff(status)
    if workload.local_queue != before.local_queue:
        del state.by_local_queue[before.local_queue][workload.key]
        state.by_local_queue.setdefault(workload.local_queue, {})[workload.key] = entry
        status = status._replace(history=())
    state.move(entry, status, workload)


def _wanted_again(status: WorkloadStatus) -> WorkloadStatus:
    """Activated by hand: whatever was held against it is forgotten."""
    return without_backoff(status)._replace(history=())


def on_removed(state: ClusterState, event: ev.WorkloadRemoved) -> None:
    entry = state.entries.get(event.key)
    if entry is not None:
        state.remove(entry)


def on_finished(state: ClusterState, event: ev.WorkloadFinished) -> None:
    entry = state.entries.get(event.key)
    if entry is not None:
        state.move(entry, entry.status._replace(**WITHOUT_QUOTA, finished=True))


def on_pods(state: ClusterState, event: ev.PodsChanged) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in HOLDING:
        return
    entry.search.pods_seen = True
    entry.search.ready_pod_sets = event.ready_pod_sets
    is_due = not event.are_ready or event.key in state.attention  # ready pods have no clock
    status = entry.status
    if event.are_ready:
        history = status.history
        if history and status.assignment is not None:
            history = without_exhaustion(history, status.assignment.flavors())
        since = status.ready_at if status.pods_ready else event.at
        status = status._replace(
            pods_ready=True, ready_at=since, pods_lost_at=None, history=history
        )
    elif status.pods_ready:
        status = status._replace(pods_ready=False, ready_at=None, pods_lost_at=event.at)
    state.note(entry, status)
    if is_due:
        state.attention[event.key] = entry
    else:
        state.attention.pop(event.key, None)


def on_reclaimed(state: ClusterState, event: ev.PodsReclaimed) -> None:
    entry = state.entries.get(event.key)
    if entry is not None:
        state.move(entry, entry.status._replace(reclaimable=dict(event.counts)))


def on_check_answered(state: ClusterState, event: ev.CheckAnswered) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in HOLDING:
        return
    status = entry.status
    pause_s = event.retry_after_s if event.state is CheckState.RETRY else 0.0
    state.move(
        entry,
        status._replace(
            checks={**status.checks, event.check: event.state},
            retry_after_s=max(status.retry_after_s, pause_s),
        ),
    )


def on_evicted(state: ClusterState, event: ev.Evicted) -> None:
    entry = state.entries.get(event.key)
    if entry is None or entry.phase not in (Phase.RESERVED, Phase.ADMITTED):
        return
    status = entry.status._replace(eviction=Eviction(event.reason, event.at))
    if event.reason is EvictionReason.PREEMPTED_IN_PLACEMENT:
        count = status.requeue_count + 1
        requeue_at = event.at + state.config.backoff.delay_s(count)
        status = status._replace(requeue_count=count, requeue_at=requeue_at)
    state.decide(entry, status)


def on_pods_gone(state: ClusterState, event: ev.PodsGone) -> None:
    entry = state.entries.get(event.key)
    if entry is not None and entry.phase is Phase.EVICTING:
        is_over = ends_by(entry.workload, entry.status.eviction)
        state.move(entry, entry.status._replace(**WITHOUT_QUOTA, finished=is_over))


def ends_by(workload: Workload, eviction: Eviction | None) -> bool:
    """Whether a workload that was evicted so is not to be queued again."""
    return workload.ends_when_preempted and eviction is not None and eviction.reason in _PREEMPTIONS


def on_forgotten(state: ClusterState, event: ev.Forgotten) -> None:
    entry = state.entries.get(event.key)
    if entry is not None:
        state.forget(entry)


def on_decision_recalled(state: ClusterState, event: ev.DecisionRecalled) -> None:
    entry = state.entries.get(event.key)
    if entry is not None:
        entry.undo = UndoPoint(event.status, event.is_active)


HANDLERS: dict[type, Callable[[ClusterState, Any], None]] = {
    ev.ConfigChanged: on_config,
    ev.FlavorChanged: on_flavor,
    ev.FlavorRemoved: on_flavor_removed,
    ev.CohortChanged: on_cohort,
    ev.CohortRemoved: on_cohort_removed,
    ev.QueueChanged: on_queue,
    ev.QueueRemoved: on_queue_removed,
    ev.EvictionsCaused: on_evictions_caused,
    ev.LocalQueueChanged: on_local_queue,
    ev.LocalQueueRemoved: on_local_queue_removed,
    ev.UsageRecalled: on_usage_recalled,
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
    ev.DecisionRecalled: on_decision_recalled,
}
