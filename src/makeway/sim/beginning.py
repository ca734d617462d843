"""A beginning: what the state of a cluster is at a moment, so that a simulation can go on from it.

Queues, flavors and settings are the cluster's; a beginning has the jobs that have come and not
ended, with all that the engine keeps of them over a restart, and how far each is. It says nothing
of what they will do: their run times are for whoever goes on from here. What the engine remembers
only to spare itself work is left out, as after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from makeway.engine import events as ev
from makeway.engine.model import Workload, WorkloadKey, WorkloadStatus
from makeway.sim.record import JobRun
from makeway.sim.trace_jobs import TraceJob

if TYPE_CHECKING:
    from makeway.sim.world import World


class OpenJob(NamedTuple):
    """A job that has come and not ended."""

    job: TraceJob  # as far as it is known: its run time is infinite
    workload: Workload
    status: WorkloadStatus
    attempt: int = 0
    evictions: int = 0
    done_s: float = 0.0  # progress that an eviction does not take
    lost_s: float = 0.0  # progress that evictions took
    first_run_at: float | None = None  # None: its pods never ran
    machines_from: float | None = None  # since when it has machines; None: it has none
    run_from: float | None = None  # since when its pods run; None: they don't
    nodes: tuple[str, ...] = ()  # of its pods, in order; empty: they are on none

    def ran_s(self, now: float) -> float:
        """How long its present attempt has run, with what earlier ones have saved."""
        return self.done_s + (0.0 if self.run_from is None else max(0.0, now - self.run_from))


class Beginning(NamedTuple):
    at: float
    jobs: tuple[OpenJob, ...]  # in the order in which they came
    memory: tuple[ev.EvictionsCaused | ev.UsageRecalled, ...] = ()  # what counts of the past
    for_machines: tuple[WorkloadKey, ...] = ()  # who waits for machines, first come first


def beginning_of(world: World) -> Beginning:
    """Where a simulation stands. Nothing in it tells what is to come."""
    jobs = tuple(_open_job(world, run) for run in world.runs.values())
    for_machines = tuple(run.key for run in world.waiting_for_machines.values())
    return Beginning(world.now, jobs, tuple(_memory(world)), for_machines)


def _open_job(world: World, run: JobRun) -> OpenJob:
    known = world.engine.view[run.key]
    return OpenJob(
        job=run.job._replace(run_s=inf, cancel_s=None, run_on=()),
        workload=known.workload,
        status=known.status,
        attempt=run.attempt,
        evictions=run.evictions,
        done_s=run.done_s,
        lost_s=run.lost_s,
        first_run_at=run.first_run_at,
        machines_from=run.machines_from,
        run_from=run.run_from,
        nodes=() if world.machines is None else world.machines.nodes_of(run.key),
    )


def _memory(world: World) -> Iterator[ev.EvictionsCaused | ev.UsageRecalled]:
    view = world.engine.view
    for name in world.cluster.queues:
        if times := view.caused_evictions(name):
            yield ev.EvictionsCaused(name, times)
    for key in world.cluster.local_queues:
        if (past := view.past_usage(key, world.now)) is not None:
            yield ev.UsageRecalled(key, past.consumed, world.now)
