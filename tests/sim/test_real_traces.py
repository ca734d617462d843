"""Recorded jobs of real clusters, played to the end."""

from __future__ import annotations

from makeway.sim import simulate
from makeway.sim.cluster import parse_cluster
from makeway.sim.proposal import propose
from makeway.sim.record import JobOutcome
from makeway.sim.traces import read_trace
from tests.prerequisites import samples, shared_path

NASA = "traces/NASA-iPSC-1993-3.1-cln.swf.gz"
PHILLY = "traces/philly.csv.gz"
NASA_JOBS = samples(18_239)
PHILLY_JOBS = samples(4_000)  # all 82 247 are for the benchmark


def test_the_nasa_log_replays_to_the_end_on_its_128_nodes() -> None:
    trace = read_trace(shared_path(NASA)).first(NASA_JOBS)
    quota = propose(trace, 0.95)
    assert 'nominalQuota: "128"' in quota

    result = simulate(parse_cluster(quota, "proposed"), trace)

    assert result.is_complete
    assert result.finished == NASA_JOBS
    # The log has start times for submissions, so on its own machine hardly anybody waits.
    assert result.wait().p95 == 0
    assert result.use("default").peak == 128_000


def test_philly_jobs_are_preempted_and_all_finish() -> None:
    trace = read_trace(shared_path(PHILLY)).first(PHILLY_JOBS)
    quota = propose(trace, 0.5)

    result = simulate(parse_cluster(quota, "proposed"), trace)

    assert result.is_complete
    assert result.finished == PHILLY_JOBS
    assert result.preemptions > 0
    assert result.outcomes[JobOutcome.NEVER_FITS] == 0
    assert result.use("default").peak <= result.use("default").quota
