"""Start by start, the simulator does what a page of independent code does.

`MAKEWAY_REFERENCE_TRACES=20000 MAKEWAY_REFERENCE_JOBS=18239` compares more random traces than every
day, and all of the recorded log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from makeway.sim import Result, simulate
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.record import JobOutcome
from makeway.sim.trace_jobs import CPUS, GPUS, Trace
from makeway.sim.traces import read_trace
from tests.prerequisites import IS_THOROUGH, samples, shared_path
from tests.sim.reference import PlainJob, RankedJob, start_times, stays_with_preemption
from tests.sim.worlds import cluster, flavor, job, queue, trace

TRACES = int(os.environ.get("MAKEWAY_REFERENCE_TRACES", samples(200)))
RANKED_TRACES = TRACES // 2
NASA_JOBS = int(os.environ.get("MAKEWAY_REFERENCE_JOBS", 6000 if IS_THOROUGH else 3000))
NASA = "traces/NASA-iPSC-1993-3.1-cln.swf.gz"
STRATEGIES = ("StrictFIFO", "BestEffortFIFO")


@cache
def one_queue(capacity: int, strategy: str) -> SimulatedCluster:
    more = f"  queueingStrategy: {strategy}\n"
    return cluster(flavor("a"), queue("q", a=capacity, more=more))


def simulated_starts(queues: SimulatedCluster, jobs: Trace) -> list[float | None]:
    result = simulate(queues, jobs)
    assert result.is_complete
    assert {run.outcome for run in result.runs} <= {JobOutcome.FINISHED, JobOutcome.NEVER_FITS}
    return [run.first_run_at for run in result.runs]


def first_difference(
    simulated: Sequence[float | None], expected: Sequence[float | None], jobs: Sequence[PlainJob]
) -> str | None:
    for i, (got, want) in enumerate(zip(simulated, expected, strict=True)):
        if got != want:
            return f"job {i}, {jobs[i]}, starts at {got} and should at {want}"
    return None


def random_jobs(random: Random, capacity: int) -> list[PlainJob]:
    """Up to 60 jobs, many at one moment; one in ten asks for too much, one in ten has no length."""
    jobs, now = [], 0.0
    for _ in range(random.randint(1, 60)):
        now += random.choice((0, 0, 1, 1, 2, 5, random.random()))
        too_big = random.random() < 0.1
        size = capacity + random.randint(1, 9) if too_big else random.randint(1, capacity)
        run_s = 0.0 if random.random() < 0.1 else random.choice((1, 3, 7, 20 * random.random()))
        jobs.append(PlainJob(now, run_s, size))
    return jobs


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_traces_start_as_the_reference_says(strategy: str) -> None:
    never, without_length, waited = 0, 0, 0
    for seed in range(TRACES):
        random = Random(seed)
        capacity = random.randint(1, 12)
        jobs = random_jobs(random, capacity)
        rows = trace(
            job(f"job-{i}", at=one.submit_s, run=one.run_s, gpus=one.size)
            for i, one in enumerate(jobs)
        )

        expected = start_times(jobs, capacity, is_strict=strategy == "StrictFIFO")
        simulated = simulated_starts(one_queue(capacity, strategy), rows)

        assert first_difference(simulated, expected, jobs) is None, f"seed {seed}"
        never += expected.count(None)
        without_length += sum(one.run_s == 0 for one in jobs)
        waited += sum(
            at is not None and at > one.submit_s for at, one in zip(expected, jobs, strict=True)
        )
    # The traces have what they are to have.
    assert min(never, without_length, waited) > TRACES


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_nasa_log_on_96_nodes_starts_as_the_reference_says(strategy: str) -> None:
    log = read_trace(shared_path(NASA)).first(NASA_JOBS)
    sizes = [dict(one.amounts)[CPUS] // 1000 for one in log.jobs]
    rows = replace(
        log,
        jobs=tuple(
            one._replace(amounts=((GPUS, size),)) for one, size in zip(log.jobs, sizes, strict=True)
        ),
    )
    jobs = [
        PlainJob(one.submit_s, one.run_s, size) for one, size in zip(log.jobs, sizes, strict=True)
    ]

    expected = start_times(jobs, 96, is_strict=strategy == "StrictFIFO")
    simulated = simulated_starts(one_queue(96, strategy), rows)

    assert first_difference(simulated, expected, jobs) is None
    assert expected.count(None) > 50, "jobs of all 128 nodes"


# --- one queue in which the more important preempt the less important ---


@cache
def preempting_queue(capacity: int, strategy: str) -> SimulatedCluster:
    policy = "  preemption: {withinClusterQueue: LowerPriority}\n"
    more = f"  queueingStrategy: {strategy}\n{policy}"
    return cluster(flavor("a"), queue("q", a=capacity, more=more))


def random_ranked_jobs(random: Random, capacity: int) -> list[RankedJob]:
    """Up to 60 jobs of four priorities, many at one moment; one in 15 asks for too much."""
    jobs, now = [], 0.0
    for _ in range(random.randint(2, 60)):
        now += random.choice((0, 0, 1, 1, 2, 5, random.random()))
        size = random.randint(1, max(1, capacity if random.random() < 0.4 else capacity // 3))
        size += capacity if random.random() < 1 / 15 else 0
        run_s = random.choice((1, 3, 7, 1 + 30 * random.random()))
        jobs.append(RankedJob(now, run_s, size, random.randrange(4)))
    return jobs


def simulated_stays(result: Result) -> list[list[tuple[float, float]]]:
    assert result.is_complete
    record = result.record
    stays: list[list[tuple[float, float]]] = [[] for _ in result.runs]
    for i, ran in enumerate(record.stay_ran):
        if ran:
            stays[record.stay_job[i]].append((record.stay_from[i], record.stay_to[i]))
    return stays


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_traces_with_preemption_run_as_the_reference_says(strategy: str) -> None:
    """Every stay of every job, from and to. Pauses between preemptions are another matter: off."""
    preempted, again = 0, 0
    for seed in range(RANKED_TRACES):
        random = Random(seed)
        capacity = random.randint(1, 16)
        jobs = random_ranked_jobs(random, capacity)
        rows = trace(
            job(f"job-{i}", at=j.submit_s, run=j.run_s, gpus=j.size, priority=j.priority)
            for i, j in enumerate(jobs)
        )

        expected = stays_with_preemption(jobs, capacity, is_strict=strategy == "StrictFIFO")
        queues = preempting_queue(capacity, strategy)
        result = simulate(queues, rows, gates={"PreemptionBackoff": False})

        for i, (got, want) in enumerate(zip(simulated_stays(result), expected, strict=True)):
            assert got == want, f"seed {seed}, job {i}, {jobs[i]}"
        preempted += sum(len(stays) > 1 for stays in expected)
        again += sum(len(stays) > 2 for stays in expected)
    # The traces have what they are to have.
    assert preempted > RANKED_TRACES
    assert again > RANKED_TRACES / 4
