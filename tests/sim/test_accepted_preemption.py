"""Preemption that people accept, simulated: what is lost, who waits, who has had how much."""

from __future__ import annotations

from makeway.sim import simulate
from makeway.sim.examples import load_example, load_variant
from makeway.sim.record import JobOutcome
from tests.sim.worlds import HOUR, MINUTE, flavor, job, play, queue, run, settings


def preempting(more: str = "") -> tuple[str, ...]:
    policy = f"  preemption: {{withinClusterQueue: LowerPriority{more}}}\n"
    return flavor("a"), queue("q", a=8, more=policy)


def test_in_the_example_lost_work_falls_by_more_than_half_and_nobody_waits_longer_for_it() -> None:
    cluster, trace = load_example("thrash")
    today = simulate(cluster, trace)
    for variant in ("thrash-min-runtime", "thrash-least-lost"):
        other = simulate(load_variant(variant), trace)
        assert other.work.lost < today.work.lost / 2
        assert other.wait().p95 <= 1.1 * today.wait().p95
        assert other.preemptions < today.preemptions


def test_who_has_just_saved_its_work_goes_first() -> None:
    result = play(
        preempting(", workloadSorting: [ByLeastWorkLost]"),
        job("saves", run=HOUR, gpus=4, checkpoint=10 * MINUTE),
        job("young", at=15 * MINUTE, run=HOUR, gpus=4),
        job("urgent", at=22 * MINUTE, run=MINUTE, gpus=4, priority=5),
    )
    assert (run(result, "saves").lost_s, run(result, "young").evictions) == (2 * MINUTE, 0)


def test_a_protected_job_is_preempted_when_its_time_is_over() -> None:
    result = play(
        preempting(", minRuntimeSeconds: 1200"),
        job("long", run=HOUR, gpus=8),
        job("urgent", at=5 * MINUTE, run=MINUTE, gpus=8, priority=5),
    )
    assert run(result, "urgent").first_run_at == 20 * MINUTE


def test_a_job_that_ends_when_preempted_does_not_come_back() -> None:
    result = play(
        (*preempting(), settings("onPreemption: [{queue: q, policy: Terminate}]")),
        job("notebook", run=HOUR, gpus=8),
        job("urgent", at=5 * MINUTE, run=MINUTE, gpus=8, priority=5),
    )
    assert run(result, "notebook").outcome is JobOutcome.TERMINATED
    assert run(result, "notebook").ended_at == 5 * MINUTE
    assert result.is_complete


CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing: {usageHalfLifeTime: 1h}
"""
LOCAL_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {0}, namespace: default}}
spec: {{clusterQueue: q}}
"""


def test_usage_of_the_past_counts_as_it_does_live() -> None:
    scope = "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}\n"
    locals_ = (LOCAL_QUEUE.format("ann"), LOCAL_QUEUE.format("ben"))
    world = (flavor("a"), queue("q", a=8, more=scope), *locals_, CONFIGURATION)
    result = play(
        world,
        job("ann-1", run=HOUR, gpus=8, on="ann"),
        job("ann-2", at=MINUTE, run=HOUR, gpus=8, on="ann", priority=9),
        job("ben-1", at=2 * MINUTE, run=HOUR, gpus=8, on="ben"),
    )
    assert run(result, "ben-1").first_run_at == HOUR
    assert run(result, "ann-2").first_run_at == 2 * HOUR
