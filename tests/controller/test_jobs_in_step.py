"""A Job that its user changes, and Workloads that were there before us."""

from __future__ import annotations

from makeway.api.kinds import JOBS, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import IN_USE, POD_SET, QUEUE_NAME, WORKLOAD
from makeway.client.client import Document
from makeway.plane.writes import Key
from tests.harness.jobs import TRAIN, JobPlane, running, workload_class

CLASS = "kueue.x-k8s.io/priority-class"


def relabel(plane: JobPlane, **labels: str | None) -> None:
    plane.edit(JOBS, TRAIN, {"metadata": {"labels": {QUEUE_NAME: labels["queue"]}}})
    plane.settle()


def test_a_waiting_job_changes_queue_size_and_nodes() -> None:
    plane = JobPlane()
    plane.submit()
    uid = plane.workload["metadata"]["uid"]
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    plane.edit(JOBS, TRAIN, {"spec": {"template": {"spec": {"nodeSelector": {"disk": "hdd"}}}}})
    relabel(plane, queue="other")

    pod_set = plane.workload["spec"]["podSets"][0]
    assert plane.workload["metadata"]["uid"] == uid
    assert plane.workload["spec"]["queueName"] == "other"
    assert pod_set["count"] == 5
    assert pod_set["template"]["spec"]["nodeSelector"] == {"disk": "hdd"}


def test_a_running_job_changes_queue_only_when_it_has_stopped() -> None:
    plane = running()
    relabel(plane, queue="other")
    plane.report(ready=1)
    assert plane.workload["spec"]["queueName"] == "main"
    assert plane.reasons_said() == ["QueueChangePending"]

    plane.evict()
    plane.stop_pods("train-0", "train-1")

    assert plane.workload["spec"]["queueName"] == "other"


def test_a_running_job_changes_its_priority_class_at_once() -> None:
    plane = JobPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("low", 1))
    plane.create(WORKLOAD_CLASSES, workload_class("high", 9))
    plane.submit(labels={CLASS: "low"})
    plane.admit()
    plane.edit(JOBS, TRAIN, {"metadata": {"labels": {CLASS: "high"}}})
    plane.settle()

    assert plane.workload["spec"]["priority"] == 9
    assert plane.workload["spec"]["priorityClassRef"]["name"] == "high"
    assert plane.job["spec"]["suspend"] is False


def test_preemption_annotations_follow_while_it_runs() -> None:
    plane = running()
    mode, cls = "makeway.dev/preemption-mode", "makeway.dev/preemption-priority-class"
    plane.edit(JOBS, TRAIN, {"metadata": {"annotations": {mode: "PodGroup", cls: "high"}}})
    plane.settle()
    assert plane.workload["metadata"]["annotations"] == {mode: "PodGroup", cls: "high"}

    plane.edit(JOBS, TRAIN, {"metadata": {"annotations": {cls: None}}})
    plane.settle()

    assert plane.workload["metadata"]["annotations"] == {mode: "PodGroup"}


def test_a_job_resized_while_it_runs_is_stopped_and_queued_anew() -> None:
    plane = running()
    uid = plane.workload["metadata"]["uid"]
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 6}})
    plane.settle()
    assert plane.job["spec"]["suspend"] is True
    assert plane.workload["metadata"]["uid"] == uid, "its pods still hold the quota"

    plane.stop_pods("train-0", "train-1")

    assert plane.workload["metadata"]["uid"] != uid
    assert plane.workload["spec"]["podSets"][0]["count"] == 6
    assert "pool" not in plane.workload["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"]


def test_the_size_that_a_user_gave_a_running_job_stays() -> None:
    plane = JobPlane(parallelism=8)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    plane.admit(count=3)
    plane.run_pods("train-0")
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    plane.settle()
    plane.stop_pods("train-0")

    assert plane.job["spec"]["parallelism"] == 5
    assert plane.workload["spec"]["podSets"][0]["count"] == 5


def test_a_template_copied_from_a_job_that_ran_is_taken_as_it_is() -> None:
    plane = JobPlane()
    copied = {"labels": {POD_SET: "main"}, "annotations": {WORKLOAD: "job-other-12345"}}
    plane.job_to_be["spec"]["template"]["metadata"] = copied
    plane.submit()
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    plane.settle()
    assert plane.workload["spec"]["podSets"][0]["count"] == 5

    plane.admit(count=5)

    annotations = plane.job["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {WORKLOAD: plane.workload_key.name}


def test_what_an_admission_has_added_never_becomes_what_the_user_wrote() -> None:
    """A start that was on its way for long comes true when the quota has been given back."""
    plane = JobPlane()
    plane.submit()
    plane.admit()
    plane.say("Admitted", "False", "NoReservation")
    plane.say("QuotaReserved", "False", "Pending", admission=None)
    plane.run_pods("train-0", "train-1")
    plane.stop_pods("train-0", "train-1")

    written = {"disk": "ssd"}
    assert plane.workload["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] == written
    assert plane.job["spec"]["suspend"] is True
    assert plane.job["spec"]["template"]["spec"]["nodeSelector"] == written


def test_a_job_resized_in_the_moment_of_its_admission_is_queued_anew() -> None:
    plane = JobPlane()
    plane.submit()
    plane.reserve()
    plane.say("Admitted", "True", "Admitted")
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 6}})
    plane.settle()

    assert plane.job["spec"]["suspend"] is True
    assert plane.workload["spec"]["podSets"][0]["count"] == 6
    assert not plane.holds_quota


def test_a_waiting_job_can_leave_the_queues() -> None:
    plane = JobPlane()
    plane.submit()
    relabel(plane, queue=None)

    assert plane.all(WORKLOADS) == []
    assert plane.job["spec"]["suspend"] is True


# Workloads that were there before


def named(workload: Document, name: str) -> Document:
    metadata = {**workload["metadata"], "name": name}
    for filled_in in ("uid", "resourceVersion", "generation"):
        metadata.pop(filled_in)
    return {**workload, "metadata": metadata}


def test_a_workload_made_by_somebody_else_is_adopted_with_its_running_job() -> None:
    plane = running()
    old = plane.workload
    plane.edit(WORKLOADS, plane.workload_key, {"metadata": {"finalizers": None}})
    plane.delete(WORKLOADS, plane.workload_key)
    plane.create(WORKLOADS, named(old, "job-train-abcde"))
    plane.restart()
    plane.settle()

    assert plane.workload_key.name == "job-train-abcde"
    assert plane.job["spec"]["suspend"] is False


def test_of_two_workloads_the_one_that_holds_quota_stays() -> None:
    plane = JobPlane()
    plane.submit()
    waiting = plane.workload
    plane.create(WORKLOADS, named(waiting, "job-train-abcde"))
    admitted = {"clusterQueue": "big", "podSetAssignments": [{"name": "main", "count": 2}]}
    conditions = [
        {"type": type, "status": "True", "reason": type, "message": ""}
        for type in ("QuotaReserved", "Admitted")
    ]
    status = {"admission": admitted, "conditions": conditions}
    plane.edit(WORKLOADS, Key("lab", "job-train-abcde"), {"status": status}, "status")
    plane.settle()

    assert plane.workload_key.name == "job-train-abcde"
    assert plane.job["spec"]["suspend"] is False


def test_of_two_that_wait_the_one_of_the_known_name_stays() -> None:
    plane = JobPlane()
    plane.submit()
    known = plane.workload_key
    plane.create(WORKLOADS, named(plane.workload, "job-train-00000"))
    plane.settle()

    assert plane.workload_key == known


def test_workloads_of_other_kinds_are_left_alone() -> None:
    plane = JobPlane()
    plane.submit()
    other = named(plane.workload, "jobset-big-12345")
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "big", "uid": "u"}
    other["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    plane.create(WORKLOADS, other)
    plane.delete(WORKLOADS, Key("lab", "jobset-big-12345"))
    plane.settle()

    there = plane.get(WORKLOADS, Key("lab", "jobset-big-12345"))
    assert there["metadata"]["finalizers"] == [IN_USE]
