"""What the queues hear of a Job's pods, and what they do not; time limits, and what we lack."""

from __future__ import annotations

import pytest

from makeway.client.client import Conflict
from makeway.client.resources import JOBS, WORKLOADS
from makeway.controller.jobs import Jobs
from tests.controller.lab import TRAIN, Lab, running


def test_pods_are_ready_when_all_are_ready_or_have_succeeded() -> None:
    lab = running()
    lab.report(ready=1)
    assert lab.condition("PodsReady") == ("False", "WaitForStart")

    lab.report(ready=1, succeeded=1)

    assert lab.condition("PodsReady") == ("True", "Started")


def test_ready_pods_that_are_lost_and_come_back_have_recovered() -> None:
    lab = running()
    lab.report(ready=2)
    lab.report(ready=1)
    assert lab.condition("PodsReady") == ("False", "WaitForRecovery")

    lab.report(ready=2)

    assert lab.condition("PodsReady") == ("True", "Recovered")


def test_a_new_admission_starts_with_pods_not_ready() -> None:
    lab = running()
    lab.report(ready=2)
    lab.evict()
    lab.stop_pods("train-0", "train-1")
    assert lab.condition("PodsReady") == ("False", "WaitForStart")

    lab.settle(lab.now + 100)
    lab.admit()

    assert lab.condition("PodsReady") == ("False", "WaitForStart")


def test_pods_that_succeeded_in_an_earlier_admission_do_not_make_new_ones_ready() -> None:
    lab = running(completions=6)
    lab.report(ready=2, succeeded=2)
    lab.evict()
    lab.stop_pods("train-0", "train-1")
    lab.settle(lab.now + 100)
    lab.admit()
    lab.report(active=2, succeeded=2)
    assert lab.condition("PodsReady") == ("False", "WaitForStart")

    lab.report(active=2, ready=2, succeeded=2)

    assert lab.condition("PodsReady") == ("True", "Started")


def test_readiness_left_over_from_an_earlier_admission_does_not_count() -> None:
    lab = Lab()
    lab.submit()
    lab.say("PodsReady", "True", "Started")
    lab.now += 100
    lab.admit()

    assert lab.condition("PodsReady") == ("False", "WaitForStart")


@pytest.mark.parametrize(
    ("succeeded", "reclaimable"),
    [(0, 0), (3, 0), (4, 0), (5, 1), (7, 3)],
)
def test_pods_that_nobody_replaces_give_their_quota_back(succeeded: int, reclaimable: int) -> None:
    lab = Lab(parallelism=4, completions=8)
    lab.submit()
    lab.admit(count=4)
    lab.report(succeeded=succeeded)

    told = lab.workload["status"].get("reclaimablePods") or [{"count": 0}]
    assert told[0]["count"] == reclaimable


def test_a_job_admitted_in_part_gives_back_no_more_than_it_has() -> None:
    lab = Lab(parallelism=8, completions=8)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    lab.admit(count=3)
    lab.report(succeeded=6)

    # Of 8 pods asked for, 2 are needed: the charge for the 3 admitted falls to 2.
    assert lab.workload["status"]["reclaimablePods"] == [{"name": "main", "count": 6}]


def test_a_status_written_by_the_queues_meanwhile_is_not_overwritten() -> None:
    lab = running()
    lab.refusals = [Conflict(409, "Conflict", "changed meanwhile")]
    lab.report(ready=2)
    assert lab.condition("PodsReady") == ("False", "WaitForStart")
    lab.say("Preempted", "True", "InClusterQueue")
    lab.settle(lab.now + 1)

    assert lab.condition("PodsReady") == ("True", "Started")
    assert lab.condition("Preempted") == ("True", "InClusterQueue")


# Time limits


def timed(limit_s: int) -> Lab:
    lab = Lab()
    lab.submit(labels={"kueue.x-k8s.io/max-exec-time-seconds": str(limit_s)})
    lab.admit()
    lab.run_pods("train-0")
    return lab


def test_who_is_admitted_for_too_long_is_deactivated() -> None:
    lab = timed(60)
    assert lab.next_at == lab.now + 60
    lab.settle(lab.now + 59)
    assert lab.workload["spec"]["active"] is True

    lab.settle(lab.now + 1)

    assert lab.workload["spec"]["active"] is False
    assert lab.condition("DeactivationTarget") == ("True", "MaximumExecutionTimeExceeded")
    assert lab.job["spec"]["suspend"] is True


def test_time_admitted_adds_up_over_evictions() -> None:
    lab = timed(60)
    lab.settle(lab.now + 40)
    lab.evict()
    lab.settle(lab.now + 500)
    lab.stop_pods("train-0")
    assert lab.workload["status"]["accumulatedPastExecutionTimeSeconds"] == 40
    lab.admit()
    lab.settle(lab.now + 21)

    assert lab.workload["spec"]["active"] is False


def test_who_is_switched_on_again_by_hand_has_all_its_time() -> None:
    lab = timed(60)
    lab.settle(lab.now + 60)
    lab.evict()
    lab.stop_pods("train-0")
    lab.edit(WORKLOADS, lab.workload_key, {"spec": {"active": True}})
    lab.settle()

    assert lab.workload["spec"]["active"] is True
    assert lab.condition("DeactivationTarget") == ("", "")
    assert "accumulatedPastExecutionTimeSeconds" not in lab.workload["status"]


def test_a_deactivation_cut_short_by_a_crash_is_completed() -> None:
    lab = timed(60)
    lab.say("DeactivationTarget", "True", "MaximumExecutionTimeExceeded", "time is up")
    lab.restart(Jobs(lab.picture))
    lab.settle()

    assert lab.workload["spec"]["active"] is False


# What Makeway lacks


def test_what_makeway_lacks_is_told_on_the_workload() -> None:
    lab = Lab()
    topology = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    lab.job_to_be["spec"]["template"]["metadata"]["annotations"] = topology
    lab.submit()

    assert lab.condition("UnsupportedField") == ("True", "UnsupportedField")
    [told] = [c for c in lab.workload["status"]["conditions"] if c["type"] == "UnsupportedField"]
    assert "topology-aware scheduling" in told["message"]


def test_what_is_no_longer_asked_for_is_no_longer_told() -> None:
    lab = Lab()
    lab.submit(annotations={"kueue.x-k8s.io/priority-boost": "5"})
    assert lab.condition("UnsupportedField")[0] == "True"

    patch = {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": None}}}
    lab.edit(JOBS, TRAIN, patch)
    lab.settle()

    assert lab.condition("UnsupportedField")[0] == "False"
