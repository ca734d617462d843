"""A pod that waits in a queue by itself, from first sight to the end."""

from __future__ import annotations

import pytest

from makeway.api.labels import ADMISSION_GATE, IN_USE, JOB_UID, MANAGED, POD_SET, PREBUILT, WORKLOAD
from makeway.client.client import ApiError, Document
from makeway.client.resources import FLAVORS, PODS, WORKLOAD_CLASSES, WORKLOADS
from makeway.controller.pods import Pods
from makeway.plane.writes import Delete, Key, Patch
from tests.controller.lab import flavor, workload_class
from tests.controller.lab import pod as pod_of_job
from tests.controller.pods_lab import PodLab, pod, running

SOLO = Key("lab", "solo")

# First sight


def test_a_queued_pod_gets_a_workload_that_asks_for_it() -> None:
    lab = PodLab()
    lab.create("solo", cpu="3")

    metadata, spec = lab.workload["metadata"], lab.workload["spec"]
    [pod_set] = spec["podSets"]
    assert metadata["name"].startswith("pod-solo-")
    assert metadata["labels"] == {JOB_UID: lab.pod("solo")["metadata"]["uid"]}
    assert metadata["ownerReferences"][0]["kind"] == "Pod"
    assert metadata["finalizers"] == [IN_USE]
    assert (spec["queueName"], spec["priority"]) == ("main", 0)
    assert (pod_set["name"], pod_set["count"]) == ("main", 1)
    assert "schedulingGates" not in pod_set["template"]["spec"]
    assert lab.is_gated("solo")
    assert lab.reasons_said() == ["CreatedWorkload"]


def test_a_pod_that_came_without_a_gate_is_left_alone_and_told_so() -> None:
    lab = PodLab()
    late = pod("late", schedulingGates=None)
    late["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "main"}, "finalizers": []}
    lab.put(PODS, late)
    lab.settle()

    assert lab.sent == []
    assert lab.reasons_said() == ["NotQueued"]
    assert ADMISSION_GATE in lab.said[0].message


def test_pods_of_a_job_wait_in_no_queue_of_their_own() -> None:
    lab = PodLab()
    part = pod("part")
    part["metadata"]["ownerReferences"] = pod_of_job("x", "uid-of-job")["metadata"][
        "ownerReferences"
    ]
    lab.put(PODS, part)
    lab.settle()

    assert lab.sent == []


def test_a_class_that_is_not_there_yet_keeps_a_pod_waiting() -> None:
    lab = PodLab()
    lab.create("solo", labels={"kueue.x-k8s.io/priority-class": "urgent"})
    assert lab.reasons_said() == ["PriorityClassNotFound"]

    lab.put(WORKLOAD_CLASSES, workload_class("urgent", 100))
    lab.settle()

    assert lab.workload["spec"]["priority"] == 100


def test_a_waiting_pod_may_go_to_another_queue() -> None:
    lab = PodLab()
    lab.create("solo")
    lab.edit(PODS, SOLO, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
    lab.settle()

    assert lab.workload["spec"]["queueName"] == "other"


def test_what_makeway_lacks_is_told() -> None:
    lab = PodLab()
    lab.create("solo", annotations={"kueue.x-k8s.io/pod-group-serving": "true"})

    assert lab.condition("UnsupportedField")[0] == "True"


# Start and end


def test_an_admitted_pod_is_released_in_one_write_with_what_its_flavor_adds() -> None:
    lab = PodLab()
    own = {"key": "own", "operator": "Exists"}
    other_gate = {"name": "example.com/data"}
    gates = [{"name": ADMISSION_GATE}, other_gate]
    lab.create("solo", nodeSelector={"disk": "ssd"}, tolerations=[own], schedulingGates=gates)
    lab.sent.clear()
    lab.admit()

    spec, metadata = lab.pod("solo")["spec"], lab.pod("solo")["metadata"]
    assert spec["schedulingGates"] == [other_gate]
    assert spec["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["own", "spot"]
    assert metadata["labels"][POD_SET] == "main"
    assert metadata["annotations"][WORKLOAD] == lab.workload_key.name
    assert [type(w) for w in lab.sent if w.resource == PODS] == [Patch]
    assert lab.reasons_said()[-1] == "Started"


def test_a_pod_waits_for_a_flavor_that_is_not_there() -> None:
    lab = PodLab()
    lab.delete(FLAVORS, Key("", "spot"))
    lab.create("solo")
    lab.admit()
    assert "FlavorNotFound" in lab.reasons_said()

    lab.put(FLAVORS, flavor("spot", {"pool": "spot"}))
    lab.settle()

    assert not lab.is_gated("solo")


def test_a_pod_that_contradicts_its_flavor_is_given_up() -> None:
    lab = PodLab()
    lab.create("solo", nodeSelector={"pool": "reserved"})
    lab.admit()

    assert lab.condition("Finished") == ("True", "FailedToStart")
    assert lab.is_gated("solo")
    assert not lab.pod("solo")["metadata"].get("finalizers")


def test_a_ready_pod_makes_its_workload_ready() -> None:
    lab = running()

    assert lab.condition("PodsReady") == ("True", "Started")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_frees_its_quota_and_is_held_no_longer(phase: str) -> None:
    lab = running()
    lab.end("solo", phase)

    assert lab.condition("Finished") == ("True", phase)
    assert not lab.workload["metadata"].get("finalizers")
    assert not lab.pod("solo")["metadata"].get("finalizers")
    assert lab.reasons_said() == ["FinishedWorkload"]


def test_a_pod_that_had_its_time_is_switched_off_and_ended() -> None:
    lab = PodLab()
    lab.create("solo", labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
    lab.admit()
    lab.run("solo")
    assert lab.next_at == lab.now + 60

    lab.settle(lab.now + 61)

    assert lab.workload["spec"]["active"] is False
    assert lab.is_leaving("solo")


# Eviction


def test_an_evicted_pod_says_why_and_goes() -> None:
    lab = running()
    lab.sent.clear()
    lab.evict()

    conditions = {c["type"]: c.get("reason") for c in lab.pod("solo")["status"]["conditions"]}
    assert conditions["TerminationTarget"] == "WorkloadEvictedDueToPreempted"
    assert [type(write) for write in lab.sent] == [Patch, Delete]
    assert lab.is_leaving("solo")
    assert lab.reasons_said() == ["Stopped"]


def test_quota_is_held_until_an_evicted_pod_has_stopped_and_both_are_gone_then() -> None:
    lab = running()
    lab.evict()
    assert lab.holds_quota

    lab.end("solo", "Failed")

    assert not lab.has_workload
    assert not lab.has_pod("solo")


def test_a_pod_evicted_before_it_started_goes_on_waiting() -> None:
    lab = PodLab()
    lab.create("solo")
    lab.reserve()
    lab.evict()

    assert not lab.holds_quota
    assert lab.is_gated("solo")
    assert not lab.is_leaving("solo")


def test_a_pod_that_ended_before_its_eviction_reached_it_has_ended() -> None:
    lab = running()
    lab.edit(PODS, SOLO, {"status": {"phase": "Succeeded"}}, "status")
    lab.evict()

    assert lab.condition("Finished") == ("True", "Succeeded")
    assert lab.has_pod("solo")


# Deletion


@pytest.mark.parametrize("is_admitted", [False, True])
def test_a_deleted_pod_that_has_no_node_takes_its_workload_along(is_admitted: bool) -> None:
    lab = PodLab()
    lab.create("solo")
    if is_admitted:
        lab.admit()
    lab.remove("solo")

    assert not lab.has_pod("solo")
    assert not lab.has_workload


def test_a_deleted_pod_that_runs_holds_its_quota_until_it_has_stopped() -> None:
    lab = running()
    lab.remove("solo")
    assert lab.holds_quota

    lab.end("solo", "Succeeded")

    assert not lab.has_pod("solo")


def test_a_pod_that_is_deleted_by_force_is_not_waited_for() -> None:
    lab = running()
    lab.edit(PODS, SOLO, {"metadata": {"deletionGracePeriodSeconds": 0}})
    lab.remove("solo")

    assert not lab.has_pod("solo")
    assert not lab.has_workload


def test_a_waiting_pod_whose_workload_was_deleted_gets_another() -> None:
    lab = PodLab()
    lab.create("solo")
    before = lab.workload["metadata"]["uid"]
    lab.delete(WORKLOADS, lab.workload_key)
    lab.settle()

    assert lab.workload["metadata"]["uid"] != before
    assert lab.is_gated("solo")


def test_a_running_pod_whose_workload_was_deleted_is_ended_first() -> None:
    lab = running()
    lab.delete(WORKLOADS, lab.workload_key)
    lab.settle()
    assert lab.is_leaving("solo")
    assert lab.holds_quota

    lab.end("solo", "Failed")

    assert not lab.has_workload
    assert not lab.has_pod("solo")


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
    lab = PodLab()
    taken_over = pod("taken-over", nodeName="box", schedulingGates=None)
    metadata = taken_over["metadata"]
    metadata |= {**whose, "labels": {**metadata["labels"], **whose.get("labels", {})}}
    for reference in metadata.get("ownerReferences", ()):
        reference |= {"name": "serving", "uid": "uid-of-serving"}
    lab.put(PODS, taken_over)
    lab.settle()
    assert lab.sent == []

    lab.remove("taken-over")

    lab.report("taken-over", phase="Failed")
    assert not lab.has_pod("taken-over")  # nor is it held


def test_a_pod_that_runs_without_quota_is_ended() -> None:
    lab = PodLab()
    lab.create("solo", schedulingGates=None, nodeName="box")

    assert lab.is_leaving("solo")
    assert not lab.has_workload


# Trouble


def test_a_create_whose_answer_was_lost_makes_no_second_workload() -> None:
    lab = PodLab()
    lab.fates_unknown = 1
    lab.create("solo")
    lab.settle(lab.now + 60)

    assert lab.workload["spec"]["queueName"] == "main"


def test_a_write_that_is_refused_is_told_once() -> None:
    lab = PodLab()
    lab.refusals = [ApiError(403, "Forbidden", "no")] * 2
    lab.create("solo")
    for _ in range(2):
        lab.settle(lab.now + 60)

    assert lab.reasons_said() == ["Refused", "CreatedWorkload"]


def test_another_controller_takes_over_between_the_word_and_the_deletion() -> None:
    lab = running()
    lab.refusals = [ApiError(500, "InternalError", "down")]
    lab.evict()
    lab.restart(Pods(lab.picture))
    lab.settle()

    assert lab.is_leaving("solo")
    assert MANAGED in lab.pod("solo")["metadata"]["finalizers"]
