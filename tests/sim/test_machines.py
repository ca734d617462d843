"""Simulated nodes: quota says that a job may run, placement says where."""

from __future__ import annotations

from makeway.sim.record import JobOutcome
from tests.sim.worlds import HOUR, MINUTE, flavor, job, play, queue, run, settings, told

TWO_NODES = settings("nodes: [{flavor: a, count: 2, capacity: {nvidia.com/gpu: 8}}]")


def test_a_gang_is_placed_on_nodes_as_a_whole() -> None:
    result = play((flavor("a"), queue("q", a=16), TWO_NODES), job("gang", gpus=16, run=HOUR))

    assert run(result, "gang").ended_at == HOUR
    assert run(result, "gang").pods_asked == 2  # none is bigger than a node
    assert told(result, "gang")[2] == "placed"


def test_fragments_keep_a_gang_waiting_though_its_quota_is_there() -> None:
    result = play(
        (flavor("a"), queue("q", a=16), TWO_NODES),
        job("left", gpus=5, run=HOUR),
        job("right", gpus=5, run=2 * HOUR),
        job("big", at=MINUTE, gpus=6, run=MINUTE),
    )

    assert run(result, "big").first_run_at == HOUR
    assert "waits for nodes" in told(result, "big")
    assert result.work.idle >= 6 * (HOUR - MINUTE) * 0.99


def test_the_more_important_gang_takes_nodes_from_the_less_important_one() -> None:
    result = play(
        (flavor("a"), queue("q", a=64), TWO_NODES),  # more quota than nodes
        job("low", gpus=16, run=HOUR),
        job("high", at=10 * MINUTE, gpus=16, run=MINUTE, priority=9),
    )

    assert run(result, "high").first_run_at == 10 * MINUTE
    assert result.evictions == {"PreemptedInPlacement": 1}
    assert run(result, "low").outcome is JobOutcome.FINISHED
    assert run(result, "low").lost_s == 10 * MINUTE


def test_a_failing_node_takes_all_jobs_on_it() -> None:
    world = settings(
        "nodes: [{flavor: a, count: 1, capacity: {nvidia.com/gpu: 8}}],"
        " failures: [{flavor: a, at: 30m}]"
    )

    result = play(
        (flavor("a"), queue("q", a=16), world),
        job("one", gpus=4, run=HOUR),
        job("two", gpus=4, run=HOUR),
    )

    assert [one.ended_at for one in result.runs] == [1.5 * HOUR, 1.5 * HOUR]
    assert result.record.counts["jobs hit by failures"] == 2


def test_a_job_may_be_cancelled_while_it_waits_for_nodes() -> None:
    result = play(
        (flavor("a"), queue("q", a=64), TWO_NODES),
        job("first", gpus=16, run=HOUR),
        job("second", at=MINUTE, gpus=16, run=MINUTE, cancel=10 * MINUTE),
    )

    assert "waits for nodes" in told(result, "second")
    assert run(result, "second").outcome is JobOutcome.CANCELLED
