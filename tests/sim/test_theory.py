"""The simulation against what is known: queueing theory, conservation, bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, sqrt
from random import Random

import pytest

from makeway.engine.decisions import Admit, Reserve
from makeway.sim import simulate
from makeway.sim.generator import read_generator
from makeway.sim.record import JobOutcome, Steps
from makeway.sim.trace_jobs import TraceJob
from makeway.sim.world import World
from tests.harness.engine import check_admissions, check_state
from tests.prerequisites import IS_THOROUGH
from tests.sim.worlds import HOUR, cluster, flavor, job, play, queue, settings, trace

POLICIES = "  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}\n"


def poisson_jobs(seed: int, count: int, rate: float, mean_run: float) -> list[TraceJob]:
    source, at, jobs = Random(seed), 0.0, []
    for i in range(count):
        at += source.expovariate(rate)
        jobs.append(job(f"job-{i}", at=at, run=source.expovariate(1 / mean_run)))
    return jobs


def last(steps: Steps) -> int:
    return steps.values[-1] if steps.values else 0


def erlang_wait(servers: int, rate: float, mean_run: float) -> float:
    """The mean wait of M/M/c, by Erlang's formula."""
    load = rate * mean_run
    share = load / servers
    all_busy = load**servers / factorial(servers) / (1 - share)
    busy = all_busy / (sum(load**k / factorial(k) for k in range(servers)) + all_busy)
    return busy * mean_run / (servers - load)


@pytest.mark.parametrize(("servers", "share"), [(1, 0.5), (2, 0.7), (8, 0.8)])
def test_one_queue_waits_as_long_as_theory_says(servers: int, share: float) -> None:
    mean_run, batches = 100.0, 20
    count = 12_000 if IS_THOROUGH else 3_000  # with fewer the error is not known well enough
    rate = share * servers / mean_run
    jobs = poisson_jobs(servers, count, rate, mean_run)

    result = simulate(cluster(flavor("a"), queue("q", a=servers)), trace(jobs))

    waits = [result.wait_of(run) for run in result.runs]
    means = [_mean(waits[i::1][: count // batches]) for i in range(0, count, count // batches)]
    error = sqrt(sum((m - _mean(means)) ** 2 for m in means) / (batches - 1) / batches)
    assert abs(_mean(waits) - erlang_wait(servers, rate, mean_run)) < 3 * error


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_with_quota_for_all_nobody_waits() -> None:
    jobs = poisson_jobs(1, 2_000, 1.0, HOUR)

    result = simulate(cluster(flavor("a"), queue("q", a=2_000)), trace(jobs))

    assert result.wait().longest == 0
    assert result.wait().slowdown_mean == 1
    assert [run.ended_at for run in result.runs] == [j.submit_s + j.run_s for j in jobs]


NODES = (
    " nodes: [{flavor: a, count: 3, capacity: {nvidia.com/gpu: 4}},"
    " {flavor: b, count: 2, capacity: {nvidia.com/gpu: 4}}],"  # less than there is quota for
)


def stormy(seed: int, count: int, nodes: str = "") -> tuple[tuple[str, ...], list[TraceJob]]:
    """Everything at once: cohort, priorities, preemption, checkpoints, stockouts, failures."""
    source = Random(seed)
    rules = f"""{POLICIES}  flavorFungibility:
    fallbackStrategy:
      failurePolicy: RetryAllFlavors
      rules: [{{name: b, trigger: TimeoutForPodsReadyExceeded, timeout: 10m}}]
"""
    documents = (
        *(flavor("a"), flavor("b")),
        queue("x", cohort="all", a=4, b=4, more=rules),
        queue("y", cohort="all", a=6, b=2, more=rules),
        queue("z", cohort="all", a=0, b=3, more=rules),
        settings(
            f"{nodes} termination: 30s,"
            " checkpoints: [{queue: x, interval: 10m}],"
            " startup: [{delay: 1m, distribution: Exponential}],"
            " stockouts: [{flavor: b, every: 4h, for: 30m, stopsRunning: true}],"
            " failures: [{flavor: a, every: 2h}],"
            ' cancellations: [{share: "0.05", patience: {delay: 2h, distribution: Exponential}}]'
        ),
    )
    jobs = [
        job(
            f"job-{i}",
            at=source.uniform(0, count * 150),
            run=source.expovariate(1 / 1800),
            gpus=source.choice((1, 1, 2, 4, 8)),
            on=source.choice("xyz"),
            priority=source.choice((0, 0, 1)),
        )
        for i in range(count)
    ]
    return documents, jobs


@pytest.mark.parametrize("seed", range(3))
def test_work_is_neither_made_nor_lost(seed: int) -> None:
    documents, jobs = stormy(seed, 300)

    result = play(documents, *jobs, seed=seed)

    busy = sum(steps.integral(result.end) for steps in result.record.busy.values())
    work = result.work
    assert busy == pytest.approx(work.useful + work.lost + work.kept)
    assert work.useful == pytest.approx(
        sum(run.job.run_s * run.size for run in result.runs if run.outcome is JobOutcome.FINISHED)
    )
    assert sum(result.outcomes.values()) == len(jobs)
    assert all(last(steps) == 0 for steps in result.record.used.values())
    assert all(last(steps) == 0 for steps in result.record.waiting.values())


class WatchedWorld(World):
    """Looks at the whole state after every cycle, and at every job's way."""

    def _decide(self) -> None:
        super()._decide()
        check_state(self.engine.state)
        self.check_usage()

    def check_usage(self) -> None:
        """What the world believes to be charged is what the engine charges."""
        for (name, cell), steps in self.record.used.items():
            assert last(steps) == self.engine.state.queues[name].used.get(cell, 0), (name, cell)
        for name, state in self.engine.state.queues.items():
            assert last(self.record.waiting[name]) == len(state.pending)

    def _carry_out(self, decision: object) -> None:
        if isinstance(decision, Admit | Reserve):
            run = self.runs[decision.workload]
            is_new = run.usage is None
            assert is_new or isinstance(decision, Admit), f"{run.key} holds quota twice"
            assert run.run_from is None, f"{run.key} runs twice"
            if is_new:
                check_admissions(self.engine.state, [decision.workload])
        super()._carry_out(decision)  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", ["", NODES], ids=["quota", "nodes"])
@pytest.mark.parametrize("seed", range(4))
def test_invariants_hold_at_every_event(seed: int, nodes: str) -> None:
    documents, jobs = stormy(seed, 80, nodes)
    world = WatchedWorld(cluster(*documents), trace(jobs), seed)

    assert world.run()

    assert all(run.ended_at is not None for run in world.record.runs)
    assert not world.engine.state.entries


BASELINE = """\
cohorts:
- className: cohort
  count: {cohorts}
  queuesSets:
  - className: cq
    count: 6
    nominalQuota: 20
    borrowingLimit: 100
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 350
      creationIntervalMs: 100
      workloads: [{{className: small, runtimeMs: 200, priority: 50, request: 1}}]
    - count: 100
      creationIntervalMs: 500
      workloads: [{{className: medium, runtimeMs: 500, priority: 100, request: 5}}]
    - count: 50
      creationIntervalMs: 1200
      workloads: [{{className: large, runtimeMs: 1000, priority: 200, request: 20}}]
"""


def test_the_load_of_kueues_performance_test_takes_its_work_and_what_was_lost() -> None:
    result = simulate((), read_generator(BASELINE.format(cohorts=2), "baseline.yaml"))

    makespan = result.makespan
    assert result.finished == 2 * 6 * 500
    assert makespan.work_s == pytest.approx(66.0)
    assert makespan.seconds > 66.0
    # The load itself needs a second until it fills the quota: the first large job comes at 1.2 s.
    assert 0 <= makespan.unused_s < 1.2
    assert result.wait(priority=200).longest < 0.3  # the important ones hardly wait
