"""Everything that a state holds, as the events by which a fresh engine would come to hold it.

What is left out are notes that a search may forget: who is parked, which flavors were tried, what
was told. So whoever is begun with these events looks at everybody once more, and from there on
decides as the one that they were taken from would have, had it forgotten its notes at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.engine import events as ev
from makeway.engine.entry import Entry
from makeway.engine.lifecycle import can_be_forgotten
from makeway.engine.model import HOLDING
from makeway.engine.state import ClusterState


def beginning(state: ClusterState, now: float) -> tuple[ev.Event, ...]:
    """Queues and what they stand on first, then workloads in the order in which they came."""
    return (
        ev.ConfigChanged(state.config),
        *(ev.NamespaceChanged(name, labels) for name, labels in state.namespaces.items()),
        *(ev.CheckChanged(name, is_active) for name, is_active in state.checks.items()),
        *(ev.FlavorChanged(flavor) for flavor in state.flavors.values()),
        *(ev.CohortChanged(cohort) for cohort in state.cohorts.values()),
        *(ev.QueueChanged(queue.spec) for queue in state.queues.values()),
        *(ev.LocalQueueChanged(local_queue) for local_queue in state.local_queues.values()),
        *_past(state, now),
        *(event for entry in state.entries.values() for event in _told_of(entry)),
    )


def _past(state: ClusterState, now: float) -> Iterator[ev.Event]:
    policy = state.config.history
    if policy is not None:
        for key in state.local_queues:
            yield ev.UsageRecalled(key, state.history.consumed(key, now, policy), now)
    for name in state.queues:
        if times := state.budgets.spent(name, now):
            yield ev.EvictionsCaused(name, times)


def _told_of(entry: Entry) -> Iterator[ev.Event]:
    key, status, search = entry.workload.key, entry.status, entry.search
    yield ev.WorkloadSeen(entry.workload, status)
    if entry.phase in HOLDING and search.pods_seen:
        at = status.ready_at if status.pods_ready else status.pods_lost_at
        yield ev.PodsChanged(key, status.pods_ready, at or 0.0, search.ready_pod_sets)
    undo = entry.undo
    if undo is not None and can_be_forgotten(entry.phase, undo.phase()):
        yield ev.DecisionRecalled(key, undo.status, undo.is_active)
