"""What the queues hear of a Job's pods, and what they do not; time limits, and what we lack."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import JOBS, WORKLOADS
from makeway.client.client import Conflict
from tests.harness.jobs import TRAIN, JobPlane, running


def test_pods_are_ready_when_all_are_ready_or_have_succeeded() -> None:
    plane = running()
    plane.report(ready=1)
    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")

    plane.report(ready=1, succeeded=1)

    assert plane.condition_of("PodsReady") == ("True", "Started")


def test_ready_pods_that_are_lost_and_come_back_have_recovered() -> None:
    plane = running()
    plane.report(ready=2)
    plane.report(ready=1)
    assert plane.condition_of("PodsReady") == ("False", "WaitForRecovery")

    plane.report(ready=2)

    assert plane.condition_of("PodsReady") == ("True", "Recovered")


def test_a_new_admission_starts_with_pods_not_ready() -> None:
    plane = running()
    plane.report(ready=2)
    plane.evict()
    plane.stop_pods("train-0", "train-1")
    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")

    plane.settle(plane.now + 100)
    plane.admit()

    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")


def test_pods_that_succeeded_in_an_earlier_admission_do_not_make_new_ones_ready() -> None:
    plane = running(completions=6)
    plane.report(ready=2, succeeded=2)
    plane.evict()
    plane.stop_pods("train-0", "train-1")
    plane.settle(plane.now + 100)
    plane.admit()
    plane.report(active=2, succeeded=2)
    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")

    plane.report(active=2, ready=2, succeeded=2)

    assert plane.condition_of("PodsReady") == ("True", "Started")


def test_readiness_left_over_from_an_earlier_admission_does_not_count() -> None:
    plane = JobPlane()
    plane.submit()
    plane.say("PodsReady", "True", "Started")
    plane.now += 100
    plane.admit()

    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")


@pytest.mark.parametrize(
    ("succeeded", "reclaimable"),
    [(0, 0), (3, 0), (4, 0), (5, 1), (7, 3)],
)
def test_pods_that_nobody_replaces_give_their_quota_back(succeeded: int, reclaimable: int) -> None:
    plane = JobPlane(parallelism=4, completions=8)
    plane.submit()
    plane.admit(count=4)
    plane.report(succeeded=succeeded)

    told = plane.workload["status"].get("reclaimablePods") or [{"count": 0}]
    assert told[0]["count"] == reclaimable


@pytest.mark.parametrize(
    ("succeeded", "failed", "reclaimable"),
    [(0, "", 0), (1, "", 1), (1, "2", 2), (0, "0,2-3", 3), (1, "0,2-3", 4), (0, "not a list", 0)],
)
def test_indexes_that_failed_for_good_give_their_quota_back(
    succeeded: int, failed: str, reclaimable: int
) -> None:
    indexed: Any = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}
    plane = JobPlane(parallelism=4, completions=4, **indexed)
    plane.submit()
    plane.admit()
    plane.report(succeeded=succeeded, failedIndexes=failed)

    told = plane.workload["status"].get("reclaimablePods") or [{"count": 0}]
    assert told[0]["count"] == reclaimable


def test_a_job_admitted_in_part_gives_back_no_more_than_it_has() -> None:
    plane = JobPlane(parallelism=8, completions=8)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    plane.admit(count=3)
    plane.report(succeeded=6)

    # Of 8 pods asked for, 2 are needed: the charge for the 3 admitted falls to 2.
    assert plane.workload["status"]["reclaimablePods"] == [{"name": "main", "count": 6}]


def test_a_status_written_by_the_queues_meanwhile_is_not_overwritten() -> None:
    plane = running()
    plane.refusals = [Conflict(409, "Conflict", "changed meanwhile")]
    plane.report(ready=2)
    assert plane.condition_of("PodsReady") == ("False", "WaitForStart")
    plane.say("Preempted", "True", "InClusterQueue")
    plane.settle(plane.now + 1)

    assert plane.condition_of("PodsReady") == ("True", "Started")
    assert plane.condition_of("Preempted") == ("True", "InClusterQueue")


# Time limits


def timed(limit_s: int) -> JobPlane:
    plane = JobPlane()
    plane.submit(labels={"kueue.x-k8s.io/max-exec-time-seconds": str(limit_s)})
    plane.admit()
    plane.run_pods("train-0")
    return plane


def test_who_is_admitted_for_too_long_is_deactivated() -> None:
    plane = timed(60)
    assert plane.next_at == plane.now + 60
    plane.settle(plane.now + 59)
    assert plane.workload["spec"]["active"] is True

    plane.settle(plane.now + 1)

    assert plane.workload["spec"]["active"] is False
    assert plane.condition_of("DeactivationTarget") == ("True", "MaximumExecutionTimeExceeded")
    assert plane.job["spec"]["suspend"] is True
    told = {saying.reason: saying.message for saying in plane.said}
    assert told["MaximumExecutionTimeExceeded"] == "The maximum execution time (60s) exceeded"
    why = "The workload is deactivated due to exceeding the maximum execution time"
    assert told["Stopped"] == why


def test_time_admitted_adds_up_over_evictions() -> None:
    plane = timed(60)
    plane.settle(plane.now + 40)
    plane.evict()
    plane.settle(plane.now + 500)
    plane.stop_pods("train-0")
    assert plane.workload["status"]["accumulatedPastExecutionTimeSeconds"] == 40
    plane.admit()
    plane.settle(plane.now + 21)

    assert plane.workload["spec"]["active"] is False


def test_who_is_switched_on_again_by_hand_has_all_its_time() -> None:
    plane = timed(60)
    plane.settle(plane.now + 60)
    plane.evict()
    plane.stop_pods("train-0")
    plane.edit(WORKLOADS, plane.workload_key, {"spec": {"active": True}})
    plane.settle()

    assert plane.workload["spec"]["active"] is True
    assert plane.condition_of("DeactivationTarget") == ("", "")
    assert "accumulatedPastExecutionTimeSeconds" not in plane.workload["status"]


def test_a_deactivation_cut_short_by_a_crash_is_completed() -> None:
    plane = timed(60)
    plane.say("DeactivationTarget", "True", "MaximumExecutionTimeExceeded", "time is up")
    plane.restart()
    plane.settle()

    assert plane.workload["spec"]["active"] is False


# What Makeway lacks


def test_what_makeway_lacks_is_told_on_the_workload() -> None:
    plane = JobPlane()
    topology = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    plane.job_to_be["spec"]["template"]["metadata"]["annotations"] = topology
    plane.submit()

    assert plane.condition_of("UnsupportedField") == ("True", "UnsupportedField")
    [told] = [c for c in plane.workload["status"]["conditions"] if c["type"] == "UnsupportedField"]
    assert "topology-aware scheduling" in told["message"]


def test_what_is_no_longer_asked_for_is_no_longer_told() -> None:
    plane = JobPlane()
    plane.submit(annotations={"kueue.x-k8s.io/priority-boost": "5"})
    assert plane.condition_of("UnsupportedField")[0] == "True"

    patch = {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": None}}}
    plane.edit(JOBS, TRAIN, patch)
    plane.settle()

    assert plane.condition_of("UnsupportedField")[0] == "False"
