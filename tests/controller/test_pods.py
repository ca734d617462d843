"""A pod that waits in a queue by itself, from first sight to the end."""

from __future__ import annotations

import pytest

from makeway.api.kinds import FLAVORS, PODS, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import ADMISSION_GATE, IN_USE, JOB_UID, MANAGED, POD_SET, PREBUILT, WORKLOAD
from makeway.client.client import ApiError, Document
from makeway.plane.writes import Delete, Key, Patch
from tests.harness.jobs import flavor, workload_class
from tests.harness.jobs import pod as pod_of_job
from tests.harness.pods import PodPlane, pod, running

SOLO = Key("lab", "solo")

# First sight


def test_a_queued_pod_gets_a_workload_that_asks_for_it() -> None:
    plane = PodPlane()
    plane.submit("solo", cpu="3")

    metadata, spec = plane.workload["metadata"], plane.workload["spec"]
    [pod_set] = spec["podSets"]
    assert metadata["name"].startswith("pod-solo-")
    assert metadata["labels"] == {JOB_UID: plane.pod("solo")["metadata"]["uid"]}
    assert metadata["ownerReferences"][0]["kind"] == "Pod"
    assert metadata["finalizers"] == [IN_USE]
    assert (spec["queueName"], spec["priority"]) == ("main", 0)
    assert (pod_set["name"], pod_set["count"]) == ("main", 1)
    assert "schedulingGates" not in pod_set["template"]["spec"]
    assert plane.is_gated("solo")
    assert plane.reasons_said() == ["CreatedWorkload"]


def test_a_pod_that_came_without_a_gate_is_left_alone_and_told_so() -> None:
    plane = PodPlane()
    late = pod("late", schedulingGates=None)
    late["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "main"}, "finalizers": []}
    plane.submit_elsewhere(late)

    assert plane.sent == []
    assert plane.reasons_said() == ["NotQueued"]
    assert ADMISSION_GATE in plane.said[0].message


def test_pods_of_a_job_wait_in_no_queue_of_their_own() -> None:
    plane = PodPlane()
    part = pod("part")
    part["metadata"]["ownerReferences"] = pod_of_job("x", "uid-of-job")["metadata"][
        "ownerReferences"
    ]
    plane.create(PODS, part)
    plane.settle()

    assert plane.sent == []


def test_a_class_that_is_not_there_yet_keeps_a_pod_waiting() -> None:
    plane = PodPlane()
    plane.submit("solo", labels={"kueue.x-k8s.io/priority-class": "urgent"})
    assert plane.reasons_said() == ["WorkloadPriorityClassNotFound"]

    plane.create(WORKLOAD_CLASSES, workload_class("urgent", 100))
    plane.settle()

    assert plane.workload["spec"]["priority"] == 100


def test_a_waiting_pod_may_go_to_another_queue() -> None:
    plane = PodPlane()
    plane.submit("solo")
    plane.edit(PODS, SOLO, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
    plane.settle()

    assert plane.workload["spec"]["queueName"] == "other"


def test_what_makeway_lacks_is_told() -> None:
    plane = PodPlane()
    plane.submit("solo", annotations={"kueue.x-k8s.io/pod-group-serving": "true"})

    assert plane.condition_of("UnsupportedField")[0] == "True"


# Start and end


def test_an_admitted_pod_is_released_in_one_write_with_what_its_flavor_adds() -> None:
    plane = PodPlane()
    own = {"key": "own", "operator": "Exists"}
    other_gate = {"name": "example.com/data"}
    gates = [{"name": ADMISSION_GATE}, other_gate]
    plane.submit("solo", nodeSelector={"disk": "ssd"}, tolerations=[own], schedulingGates=gates)
    plane.sent.clear()
    plane.admit()

    spec, metadata = plane.pod("solo")["spec"], plane.pod("solo")["metadata"]
    assert spec["schedulingGates"] == [other_gate]
    assert spec["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["own", "spot"]
    assert metadata["labels"][POD_SET] == "main"
    assert metadata["annotations"][WORKLOAD] == plane.workload_key.name
    assert [type(w) for w in plane.sent if w.resource == PODS] == [Patch]
    assert plane.reasons_said()[-1] == "Started"


def test_a_pod_waits_for_a_flavor_that_is_not_there() -> None:
    plane = PodPlane()
    plane.delete(FLAVORS, Key("", "spot"))
    plane.submit("solo")
    plane.admit()
    assert "FlavorNotFound" in plane.reasons_said()

    plane.create(FLAVORS, flavor("spot", {"pool": "spot"}))
    plane.settle()

    assert not plane.is_gated("solo")


def test_a_pod_that_contradicts_its_flavor_is_given_up() -> None:
    plane = PodPlane()
    plane.submit("solo", nodeSelector={"pool": "reserved"})
    plane.admit()

    assert plane.condition_of("Finished") == ("True", "FailedToStart")
    assert plane.is_gated("solo")
    assert not plane.pod("solo")["metadata"].get("finalizers")


def test_a_ready_pod_makes_its_workload_ready() -> None:
    plane = running()

    assert plane.condition_of("PodsReady") == ("True", "Started")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_frees_its_quota_and_is_held_no_longer(phase: str) -> None:
    plane = running()
    plane.end("solo", phase)

    assert plane.condition_of("Finished") == ("True", phase)
    assert not plane.workload["metadata"].get("finalizers")
    assert not plane.pod("solo")["metadata"].get("finalizers")
    assert plane.reasons_said() == ["FinishedWorkload"]


def test_a_pod_that_had_its_time_is_switched_off_and_ended() -> None:
    plane = PodPlane()
    plane.submit("solo", labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
    plane.admit()
    plane.start("solo")
    assert plane.next_at == plane.now + 60

    plane.settle(plane.now + 61)

    assert plane.workload["spec"]["active"] is False
    assert plane.is_leaving("solo")


# Eviction


def test_an_evicted_pod_says_why_and_goes() -> None:
    plane = running()
    plane.sent.clear()
    plane.evict()

    conditions = {c["type"]: c.get("reason") for c in plane.pod("solo")["status"]["conditions"]}
    assert conditions["TerminationTarget"] == "WorkloadEvictedDueToPreempted"
    assert [type(write) for write in plane.sent] == [Patch, Delete]
    assert plane.is_leaving("solo")
    assert plane.reasons_said() == ["Stopped"]


def test_quota_is_held_until_an_evicted_pod_has_stopped_and_both_are_gone_then() -> None:
    plane = running()
    plane.evict()
    assert plane.holds_quota

    plane.end("solo", "Failed")

    assert not plane.has_workload
    assert not plane.has_pod("solo")


def test_a_pod_evicted_before_it_started_goes_on_waiting() -> None:
    plane = PodPlane()
    plane.submit("solo")
    plane.reserve()
    plane.evict()

    assert not plane.holds_quota
    assert plane.is_gated("solo")
    assert not plane.is_leaving("solo")


def test_a_pod_that_ended_before_its_eviction_reached_it_has_ended() -> None:
    plane = running()
    plane.edit(PODS, SOLO, {"status": {"phase": "Succeeded"}}, "status")
    plane.evict()

    assert plane.condition_of("Finished") == ("True", "Succeeded")
    assert plane.has_pod("solo")


# Deletion


@pytest.mark.parametrize("is_admitted", [False, True])
def test_a_deleted_pod_that_has_no_node_takes_its_workload_along(is_admitted: bool) -> None:
    plane = PodPlane()
    plane.submit("solo")
    if is_admitted:
        plane.admit()
    plane.remove("solo")

    assert not plane.has_pod("solo")
    assert not plane.has_workload


def test_a_deleted_pod_that_runs_holds_its_quota_until_it_has_stopped() -> None:
    plane = running()
    plane.remove("solo")
    assert plane.holds_quota

    plane.end("solo", "Succeeded")

    assert not plane.has_pod("solo")


def test_a_pod_that_is_deleted_by_force_is_not_waited_for() -> None:
    plane = running()
    plane.delete(PODS, SOLO, grace_s=0)
    plane.settle()

    assert not plane.has_pod("solo")
    assert not plane.has_workload


def test_a_waiting_pod_whose_workload_was_deleted_gets_another() -> None:
    plane = PodPlane()
    plane.submit("solo")
    before = plane.workload["metadata"]["uid"]
    plane.delete(WORKLOADS, plane.workload_key)
    plane.settle()

    assert plane.workload["metadata"]["uid"] != before
    assert plane.is_gated("solo")


def test_a_running_pod_whose_workload_was_deleted_is_ended_first() -> None:
    plane = running()
    plane.delete(WORKLOADS, plane.workload_key)
    plane.settle()
    assert plane.is_leaving("solo")
    assert plane.holds_quota

    plane.end("solo", "Failed")

    assert not plane.has_workload
    assert not plane.has_pod("solo")


@pytest.mark.parametrize(
    "whose",
    [
        {"ownerReferences": [{"kind": "StatefulSet", "apiVersion": "apps/v1", "controller": True}]},
        {"labels": {PREBUILT: "made-by-hand"}},
    ],
    ids=["owned", "prebuilt"],
)
def test_a_pod_for_which_another_object_answers_is_not_ended(whose: Document) -> None:
    """Kueue admits such pods with Workloads that are not made for them alone."""
    plane = PodPlane()
    taken_over = pod("taken-over", nodeName="box", schedulingGates=None)
    metadata = taken_over["metadata"]
    metadata |= {**whose, "labels": {**metadata["labels"], **whose.get("labels", {})}}
    for reference in metadata.get("ownerReferences", ()):
        reference |= {"name": "serving", "uid": "uid-of-serving"}
    plane.submit_elsewhere(taken_over)
    assert plane.sent == []

    plane.remove("taken-over")

    plane.end("taken-over", "Failed")
    assert not plane.has_pod("taken-over")  # nor is it held


def test_a_pod_that_runs_without_quota_is_ended() -> None:
    plane = PodPlane()
    plane.submit_elsewhere(pod("solo", schedulingGates=None, nodeName="box"))

    assert plane.is_leaving("solo")
    assert not plane.has_workload


# Trouble


def test_a_create_whose_answer_was_lost_makes_no_second_workload() -> None:
    plane = PodPlane()
    plane.fates_unknown = 1
    plane.submit("solo")
    plane.settle(plane.now + 60)

    assert plane.workload["spec"]["queueName"] == "main"


def test_a_write_that_is_refused_is_told_once() -> None:
    plane = PodPlane()
    plane.refusals = [ApiError(403, "Forbidden", "no")] * 2
    plane.submit("solo")
    for _ in range(2):
        plane.settle(plane.now + 60)

    assert plane.reasons_said() == ["Refused", "CreatedWorkload"]


def test_another_controller_takes_over_between_the_word_and_the_deletion() -> None:
    plane = running()
    plane.refusals = [ApiError(500, "InternalError", "down")]
    plane.evict()
    plane.restart()
    plane.settle()

    assert plane.is_leaving("solo")
    assert MANAGED in plane.pod("solo")["metadata"]["finalizers"]
