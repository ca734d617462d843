"""A Job that its user changes, and Workloads that were there before us."""

from __future__ import annotations

from makeway.api.labels import IN_USE, POD_SET, QUEUE_NAME, WORKLOAD
from makeway.client.client import Document
from makeway.client.resources import JOBS, WORKLOAD_CLASSES, WORKLOADS
from makeway.controller.jobs import Jobs
from makeway.plane.writes import Key
from tests.controller.lab import TRAIN, Lab, running, workload_class

CLASS = "kueue.x-k8s.io/priority-class"


def relabel(lab: Lab, **labels: str | None) -> None:
    lab.edit(JOBS, TRAIN, {"metadata": {"labels": {QUEUE_NAME: labels["queue"]}}})
    lab.settle()


def test_a_waiting_job_changes_queue_size_and_nodes() -> None:
    lab = Lab()
    lab.submit()
    uid = lab.workload["metadata"]["uid"]
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    lab.edit(JOBS, TRAIN, {"spec": {"template": {"spec": {"nodeSelector": {"disk": "hdd"}}}}})
    relabel(lab, queue="other")

    pod_set = lab.workload["spec"]["podSets"][0]
    assert lab.workload["metadata"]["uid"] == uid
    assert lab.workload["spec"]["queueName"] == "other"
    assert pod_set["count"] == 5
    assert pod_set["template"]["spec"]["nodeSelector"] == {"disk": "hdd"}


def test_a_running_job_changes_queue_only_when_it_has_stopped() -> None:
    lab = running()
    relabel(lab, queue="other")
    lab.report(ready=1)
    assert lab.workload["spec"]["queueName"] == "main"
    assert lab.reasons_said() == ["QueueChangePending"]

    lab.evict()
    lab.stop_pods("train-0", "train-1")

    assert lab.workload["spec"]["queueName"] == "other"


def test_a_running_job_changes_its_priority_class_at_once() -> None:
    lab = Lab()
    lab.put(WORKLOAD_CLASSES, workload_class("low", 1))
    lab.put(WORKLOAD_CLASSES, workload_class("high", 9))
    lab.submit(labels={CLASS: "low"})
    lab.admit()
    lab.edit(JOBS, TRAIN, {"metadata": {"labels": {CLASS: "high"}}})
    lab.settle()

    assert lab.workload["spec"]["priority"] == 9
    assert lab.workload["spec"]["priorityClassRef"]["name"] == "high"
    assert lab.job["spec"]["suspend"] is False


def test_preemption_annotations_follow_while_it_runs() -> None:
    lab = running()
    mode, cls = "makeway.dev/preemption-mode", "makeway.dev/preemption-priority-class"
    lab.edit(JOBS, TRAIN, {"metadata": {"annotations": {mode: "PodGroup", cls: "high"}}})
    lab.settle()
    assert lab.workload["metadata"]["annotations"] == {mode: "PodGroup", cls: "high"}

    lab.edit(JOBS, TRAIN, {"metadata": {"annotations": {cls: None}}})
    lab.settle()

    assert lab.workload["metadata"]["annotations"] == {mode: "PodGroup"}


def test_a_job_resized_while_it_runs_is_stopped_and_queued_anew() -> None:
    lab = running()
    uid = lab.workload["metadata"]["uid"]
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 6}})
    lab.settle()
    assert lab.job["spec"]["suspend"] is True
    assert lab.workload["metadata"]["uid"] == uid, "its pods still hold the quota"

    lab.stop_pods("train-0", "train-1")

    assert lab.workload["metadata"]["uid"] != uid
    assert lab.workload["spec"]["podSets"][0]["count"] == 6
    assert "pool" not in lab.workload["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"]


def test_the_size_that_a_user_gave_a_running_job_stays() -> None:
    lab = Lab(parallelism=8)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    lab.admit(count=3)
    lab.run_pods("train-0")
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    lab.settle()
    lab.stop_pods("train-0")

    assert lab.job["spec"]["parallelism"] == 5
    assert lab.workload["spec"]["podSets"][0]["count"] == 5


def test_a_template_copied_from_a_job_that_ran_is_taken_as_it_is() -> None:
    lab = Lab()
    copied = {"labels": {POD_SET: "main"}, "annotations": {WORKLOAD: "job-other-12345"}}
    lab.job_to_be["spec"]["template"]["metadata"] = copied
    lab.submit()
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 5}})
    lab.settle()
    assert lab.workload["spec"]["podSets"][0]["count"] == 5

    lab.admit(count=5)

    annotations = lab.job["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {WORKLOAD: lab.workload_key.name}


def test_what_an_admission_has_added_never_becomes_what_the_user_wrote() -> None:
    """A start that was on its way for long comes true when the quota has been given back."""
    lab = Lab()
    lab.submit()
    lab.admit()
    lab.say("Admitted", "False", "NoReservation")
    lab.say("QuotaReserved", "False", "Pending", admission=None)
    lab.run_pods("train-0", "train-1")
    lab.stop_pods("train-0", "train-1")

    written = {"disk": "ssd"}
    assert lab.workload["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] == written
    assert lab.job["spec"]["suspend"] is True
    assert lab.job["spec"]["template"]["spec"]["nodeSelector"] == written


def test_a_job_resized_in_the_moment_of_its_admission_is_queued_anew() -> None:
    lab = Lab()
    lab.submit()
    lab.reserve()
    lab.say("Admitted", "True", "Admitted")
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 6}})
    lab.settle()

    assert lab.job["spec"]["suspend"] is True
    assert lab.workload["spec"]["podSets"][0]["count"] == 6
    assert not lab.holds_quota


def test_a_waiting_job_can_leave_the_queues() -> None:
    lab = Lab()
    lab.submit()
    relabel(lab, queue=None)

    assert list(lab.picture.keys(WORKLOADS)) == []
    assert lab.job["spec"]["suspend"] is True


# Workloads that were there before


def named(workload: Document, name: str) -> Document:
    metadata = {**workload["metadata"], "name": name}
    for filled_in in ("uid", "resourceVersion", "generation"):
        metadata.pop(filled_in)
    return {**workload, "metadata": metadata}


def test_a_workload_made_by_somebody_else_is_adopted_with_its_running_job() -> None:
    lab = running()
    old = lab.workload
    lab.edit(WORKLOADS, lab.workload_key, {"metadata": {"finalizers": None}})
    lab.delete(WORKLOADS, lab.workload_key)
    lab.put(WORKLOADS, named(old, "job-train-abcde"))
    lab.restart(Jobs(lab.picture))
    lab.settle()

    assert lab.workload_key.name == "job-train-abcde"
    assert lab.job["spec"]["suspend"] is False


def test_of_two_workloads_the_one_that_holds_quota_stays() -> None:
    lab = Lab()
    lab.submit()
    waiting = lab.workload
    lab.put(WORKLOADS, named(waiting, "job-train-abcde"))
    admitted = {"clusterQueue": "big", "podSetAssignments": [{"name": "main", "count": 2}]}
    conditions = [
        {"type": type, "status": "True", "reason": type, "message": ""}
        for type in ("QuotaReserved", "Admitted")
    ]
    status = {"admission": admitted, "conditions": conditions}
    lab.edit(WORKLOADS, Key("lab", "job-train-abcde"), {"status": status}, "status")
    lab.settle()

    assert lab.workload_key.name == "job-train-abcde"
    assert lab.job["spec"]["suspend"] is False


def test_of_two_that_wait_the_one_of_the_known_name_stays() -> None:
    lab = Lab()
    lab.submit()
    known = lab.workload_key
    lab.put(WORKLOADS, named(lab.workload, "job-train-00000"))
    lab.settle()

    assert lab.workload_key == known


def test_workloads_of_other_kinds_are_left_alone() -> None:
    lab = Lab()
    lab.submit()
    other = named(lab.workload, "jobset-big-12345")
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "big", "uid": "u"}
    other["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    lab.put(WORKLOADS, other)
    lab.delete(WORKLOADS, Key("lab", "jobset-big-12345"))
    lab.settle()

    there = lab.get(WORKLOADS, Key("lab", "jobset-big-12345"))
    assert there["metadata"]["finalizers"] == [IN_USE]
