"""Another zero of time: what a server has in seconds since 1970, a simulation has from its start.

Each moment that stands in a workload, its status, or the engine's memory is moved alike.
"""

from __future__ import annotations

from dataclasses import replace

from makeway.engine import events as ev
from makeway.engine.model import Workload, WorkloadStatus


def moved_workload(workload: Workload, by_s: float) -> Workload:
    return replace(
        workload,
        created_at=workload.created_at + by_s,
        checkpoint_at=_moved(workload.checkpoint_at, by_s),
    )


def moved_status(status: WorkloadStatus, by_s: float) -> WorkloadStatus:
    eviction, preemptions = status.eviction, status.preemptions
    return status._replace(
        reserved_at=_moved(status.reserved_at, by_s),
        admitted_at=_moved(status.admitted_at, by_s),
        eviction=None if eviction is None else eviction._replace(at=eviction.at + by_s),
        ready_at=_moved(status.ready_at, by_s),
        pods_lost_at=_moved(status.pods_lost_at, by_s),
        requeue_at=_moved(status.requeue_at, by_s),
        history=tuple(
            trial._replace(
                assigned_at=trial.assigned_at + by_s,
                exhausted_at=_moved(trial.exhausted_at, by_s),
            )
            for trial in status.history
        ),
        preemptions=(
            None
            if preemptions is None
            else preemptions._replace(last_at=preemptions.last_at + by_s)
        ),
        first_attempt_at=_moved(status.first_attempt_at, by_s),
    )


def moved_memory(
    event: ev.EvictionsCaused | ev.UsageRecalled, by_s: float
) -> ev.EvictionsCaused | ev.UsageRecalled:
    if isinstance(event, ev.EvictionsCaused):
        return replace(event, times=tuple(at + by_s for at in event.times))
    return replace(event, at=event.at + by_s)


def _moved(at: float | None, by_s: float) -> float | None:
    return None if at is None else at + by_s
