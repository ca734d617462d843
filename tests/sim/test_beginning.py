"""A simulation that is stopped, written down and taken up again goes on as if nothing had been."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from makeway.engine.model import WorkloadKey
from makeway.sim.beginning import Beginning, beginning_of
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Arrival, Continuation
from makeway.sim.record import JobRun
from makeway.sim.trace_jobs import TraceJob
from makeway.sim.world import World
from tests.prerequisites import samples
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, queue, settings, trace

DAY = 24 * HOUR
END = 2 * DAY
FRICTION = (
    "termination: 4m,"
    ' startup: [{flavor: "*", delay: 2m, distribution: Exponential}],'
    ' checkpoints: [{queue: x, interval: 10m}, {queue: "*", interval: 25m}],'
    " stockouts: [{flavor: a, from: 1h, for: 1h}, {flavor: b, from: 3h, for: 2h, share: 0.5}],"
    " cancellations: [{queue: z, share: 0.3, patience: {delay: 1h, distribution: Exponential}}],"
    " onPreemption: [{queue: y, policy: Terminate}],"
    " speeds: [{flavor: b, factor: 1.7}]"
)
NODES = ", nodes: [{flavor: a, count: 3, capacity: {nvidia.com/gpu: 2}}]"
CHECKS = (
    ", checks: [{name: budget, delay: 5m, distribution: Exponential, rejects: 0.05, retries: 0.2,"
    " retryAfter: 2m}]"
)
CHECK = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: budget}
spec: {controllerName: example.com/budget}
"""
CHECKED = "  admissionChecksStrategy: {admissionChecks: [{name: budget}]}\n"
PREEMPTION = """\
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}
"""


@dataclass
class Story:
    """A few dozen jobs in three queues of a cohort, in each other's way."""

    cluster: SimulatedCluster
    jobs: list[TraceJob]
    seed: int

    def world(self, *, is_recorded: bool = True) -> World:
        return World(self.cluster, trace(self.jobs), self.seed, is_recorded=is_recorded)

    def continued(self, first: World, beginning: Beginning) -> World:
        """The same jobs, of which only their own future is told to the second world."""
        jobs = {run.key: run.job for run in first.demand.runs}
        arrivals = [
            Arrival(run.job, first.demand.workload(run))
            for run in first.demand.runs
            if run.job.submit_s > beginning.at
        ]
        return World(self.cluster, Continuation(self.cluster, beginning, jobs, arrivals), self.seed)


def story(seed: int, more: str = "", extra: str = "") -> Story:
    draws = Random(seed)
    strategy = draws.choice(("StrictFIFO", "BestEffortFIFO"))
    rules = PREEMPTION + f"  queueingStrategy: {strategy}\n{extra}"
    documents = [flavor("a"), flavor("b"), settings(FRICTION + more), *([CHECK] if extra else [])]
    documents += [queue(name, cohort="lab", more=rules, a=2, b=1) for name in "xyz"]
    jobs = [
        job(
            f"j{i}",
            at=draws.uniform(0, 4 * HOUR),
            run=draws.expovariate(1 / (40 * MINUTE)),
            gpus=draws.choice((1, 1, 2)),
            on=draws.choice("xyz"),
            priority=draws.choice((0, 0, 1)),
        )
        for i in range(40)
    ]
    return Story(cluster(*documents), jobs, seed)


def course(world: World) -> dict[WorkloadKey, tuple[object, ...]]:
    return {run.key: _course(run) for run in world.record.runs}


def _course(run: JobRun) -> tuple[object, ...]:
    ended = None if run.ended_at is None else pytest.approx(run.ended_at)
    started = None if run.first_run_at is None else pytest.approx(run.first_run_at)
    return run.outcome, started, ended, run.evictions, pytest.approx(run.lost_s)


@pytest.mark.parametrize(
    ("more", "extra"),
    [("", ""), (NODES, ""), (CHECKS, CHECKED)],
    ids=["quota", "nodes", "checks"],
)
def test_going_on_from_a_beginning_is_going_on(more: str, extra: str) -> None:
    waiting = running = 0
    for seed in range(samples(16)):
        told = story(seed, more, extra)
        whole = told.world()
        whole.run(END)
        moments = Random(seed)
        for at in (moments.uniform(HOUR, 5 * HOUR) for _ in range(2)):
            first = told.world()
            first.run(at)
            beginning = beginning_of(first)
            waiting += sum(open_job.status.assignment is None for open_job in beginning.jobs)
            running += sum(open_job.run_from is not None for open_job in beginning.jobs)
            second = told.continued(first, beginning)
            second.run(END)
            after = course(second)
            expected = {key: way for key, way in course(whole).items() if key in after}
            assert after == expected, f"seed {seed}, stopped at {at}"
    assert waiting
    assert running


def test_a_world_of_which_no_record_is_kept_goes_the_same_way() -> None:
    for seed in range(samples(8)):
        recorded, bare = story(seed).world(), story(seed).world(is_recorded=False)
        recorded.run(END)
        bare.run(END)
        assert course(bare) == course(recorded), f"seed {seed}"
        assert len(recorded.record.stay_job) > 40 > len(bare.record.stay_job)


@pytest.mark.parametrize("rule", ["", ", workloadSorting: [ByLongestRuntime]"])
def test_without_a_record_pods_are_told_of_where_a_rule_asks(rule: str) -> None:
    """Of those who run the older one has to go under the rule, the newer one without it."""
    policy = f"  preemption: {{withinClusterQueue: LowerPriority{rule}}}\n"
    lab = cluster(flavor("a"), queue("q", a=2, more=policy))
    jobs = [
        job("older", run=HOUR),
        job("newer", at=MINUTE, run=HOUR),
        job("urgent", at=2 * MINUTE, priority=1),
    ]
    for is_recorded in (True, False):
        world = World(lab, trace(jobs), is_recorded=is_recorded)
        world.run(END)
        evicted = [run.job.name for run in world.record.runs if run.evictions]
        assert evicted == (["older"] if rule else ["newer"])


def test_a_beginning_tells_nothing_of_what_is_to_come() -> None:
    """The same until two hours, and another world from then on: the same beginning."""
    told = story(3)
    later = [job if job.submit_s < 2 * HOUR else job._replace(run_s=1.0) for job in told.jobs]
    longer = [
        job._replace(run_s=job.run_s + DAY) if job.submit_s + job.run_s / 1.7 > 2 * HOUR else job
        for job in later
    ]

    beginnings = []
    for jobs in (told.jobs, later, longer):
        world = World(told.cluster, trace(jobs), told.seed)
        world.run(2 * HOUR)
        beginnings.append(beginning_of(world))

    assert beginnings[0].jobs
    assert beginnings[0] == beginnings[1] == beginnings[2]
