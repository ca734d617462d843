"""A simulation that begins with what a server has now, under its queues or others.

How long everybody runs, and who else comes, is drawn once: all sides of a comparison have the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from makeway.engine.model import WorkloadKey
from makeway.forecast.forecasting import Situation
from makeway.forecast.live import SOURCE, LiveState
from makeway.forecast.run_times import Luck, PastJob
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Arrival, Continuation
from makeway.sim.demand import Demand
from makeway.sim.measuring import EVERYTHING, Measure
from makeway.sim.money import check_prices
from makeway.sim.result import Result
from makeway.sim.trace_jobs import Trace, TraceJob
from makeway.sim.world import Notice, Watch, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What will happen, as far as it does not depend on queues."""

    jobs: dict[WorkloadKey, TraceJob]  # what those do that are there
    arrivals: tuple[Arrival, ...]
    unknown: tuple[WorkloadKey, ...]  # nothing is known of how long they run: to the end
    until: float
    origin: float
    seed: int


def draw(live: LiveState, situation: Situation, until: float, seed: int) -> Draw:
    luck = Luck(seed, situation.run_times.settings.correlation)
    jobs, unknown = {}, []
    for job in live.beginning.jobs:
        past = PastJob(job.job, job.workload)
        run_s = situation.run_times.run_s(past, job.ran_s(live.beginning.at), luck)
        if run_s == inf:
            unknown.append(job.workload.key)
            run_s = until + job.ran_s(live.beginning.at)
        jobs[job.workload.key] = job.job._replace(run_s=run_s)
    arrivals = situation.arrivals.drawn(live.now, until, situation.run_times, luck, seed)
    return Draw(
        jobs=jobs,
        arrivals=tuple(one for one in arrivals if one.job.run_s < inf),
        unknown=tuple(unknown),
        until=until,
        origin=live.now,
        seed=seed,
    )


def with_trace(drawn: Draw, cluster: SimulatedCluster, trace: Trace, queue: str | None) -> Draw:
    """The jobs of a trace come from now on, in place of those drawn from the past."""
    demand = Demand(cluster, trace, (), queue)
    arrivals = []
    for run in demand.runs:
        workload = demand.workload(run)
        key = WorkloadKey(f"{workload.key}+")  # whoever is there may have the same name
        arrivals.append(Arrival(run.job, replace(workload, key=key)))
    return replace(drawn, arrivals=tuple(arrivals))


def play(
    live: LiveState,
    cluster: SimulatedCluster,
    drawn: Draw,
    *,
    measure: Measure = EVERYTHING,
    explain: Sequence[str] = (),
    watch: Watch | None = None,
    notice: Notice | None = None,
) -> Result:
    continuation = Continuation(cluster, live.beginning, drawn.jobs, drawn.arrivals)
    for run in continuation.all_runs:
        if run.job.name in explain or run.key in explain:
            run.story = []
    world = World(cluster, continuation, drawn.seed)
    check_prices(cluster, continuation.main_resource)
    is_complete = world.run(drawn.until, watch, notice)
    world.explain_open()
    jobs = tuple(run.job for run in continuation.all_runs)
    result = Result(
        cluster=cluster,
        trace=Trace(source=SOURCE, layout="live", jobs=jobs, rows=len(jobs), origin=drawn.origin),
        demand=continuation,
        record=world.record,
        seed=drawn.seed,
        end=world.now,
        is_complete=is_complete,
        until=drawn.until,
        measure=measure,
        label=cluster.source,
    )
    measure.window(result.last_submit, result.end)  # which is to be told before anything else
    return result
