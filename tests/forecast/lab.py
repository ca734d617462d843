"""A queue with a few GPUs, who is there, and what was seen before, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from makeway.engine.model import WorkloadKey
from makeway.forecast.arrivals import Arrivals
from makeway.forecast.forecasting import Situation
from makeway.forecast.run_times import PastJob, RunTimes
from makeway.sim.beginning import beginning_of
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.demand import Demand
from makeway.sim.trace_jobs import TraceJob
from makeway.sim.world import World
from tests.sim.worlds import cluster, flavor, job, queue, trace

ONE_GPU = (flavor("a"), queue("q", a=1))


def past_job(job: TraceJob, lab: SimulatedCluster | None = None) -> PastJob:
    """A job with what the engine would be told of it."""
    demand = Demand(lab or cluster(*ONE_GPU), trace([job]))
    return PastJob(job, demand.workload(demand.runs[0]))


def ran(run_s: float, name: str = "old", user: str = "ann", **more: float) -> PastJob:
    return past_job(job(name, run=run_s, **more)._replace(user=user))  # type: ignore[arg-type]


def taught(*past: PastJob) -> RunTimes:
    run_times = RunTimes()
    for one in past:
        run_times.learn(one)
    return run_times


def situation(
    present: Sequence[TraceJob],
    at: float,
    past: Sequence[PastJob] = (),
    documents: Sequence[str] = ONE_GPU,
) -> Situation:
    """Where jobs stand at a time, if they came as told and nothing ended by then."""
    lab = cluster(*documents)
    world = World(lab, trace(one._replace(run_s=1e9) for one in present))
    world.run(at)
    known = [one for one in past if one.job.run_s < inf]
    return Situation(
        cluster=lab,
        beginning=beginning_of(world),
        run_times=taught(*known),
        arrivals=Arrivals(past, at),
    )


def key(name: str) -> WorkloadKey:
    return WorkloadKey(f"default/{name}")
