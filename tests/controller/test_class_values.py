"""A WorkloadPriorityClass and the Workloads that have their priority from it."""

from __future__ import annotations

from makeway.api.configuration import Configuration
from makeway.api.kinds import JOBS, PRIORITY_CLASSES, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import PRIORITY_CLASS
from makeway.plane.writes import Key
from tests.harness.jobs import JobPlane, workload_class
from tests.harness.pods import PodPlane

URGENT = Key("", "urgent")
URGENT_LABEL = {PRIORITY_CLASS: "urgent"}


def urgent_job(value: int = 100) -> JobPlane:
    plane = JobPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("urgent", value))
    plane.submit(labels=URGENT_LABEL)
    return plane


def priority_in(plane: JobPlane) -> int:
    return int(plane.workload["spec"]["priority"])


def test_who_waits_has_the_new_value_of_its_class_at_once() -> None:
    plane = urgent_job(100)
    plane.edit(WORKLOAD_CLASSES, URGENT, {"value": 20})
    plane.settle()

    assert priority_in(plane) == 20


def test_so_has_who_runs() -> None:
    plane = urgent_job(100)
    plane.admit()
    plane.edit(WORKLOAD_CLASSES, URGENT, {"value": 300})
    plane.settle()

    assert (priority_in(plane), plane.job["spec"]["suspend"]) == (300, False)


def test_a_class_that_is_made_anew_reaches_its_workloads() -> None:
    plane = urgent_job(100)
    plane.admit()
    plane.delete(WORKLOAD_CLASSES, URGENT)
    plane.settle()
    assert priority_in(plane) == 100  # nobody says otherwise

    plane.create(WORKLOAD_CLASSES, workload_class("urgent", 5))
    plane.settle()

    assert priority_in(plane) == 5


def test_a_workload_that_somebody_made_by_hand_follows_too() -> None:
    plane = urgent_job(100)
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"}
    spec = {**plane.workload["spec"], "priorityClassRef": reference, "priority": 100}
    metadata = {"name": "by-hand", "namespace": "lab"}
    plane.create(WORKLOADS, {"metadata": metadata, "spec": spec})
    plane.edit(WORKLOAD_CLASSES, URGENT, {"value": 7})
    plane.settle()

    priorities = {found["spec"]["priority"] for found in plane.all(WORKLOADS)}
    assert (len(plane.all(WORKLOADS)), priorities) == (2, {7})


def test_finished_workloads_and_those_of_other_classes_are_left_alone() -> None:
    plane = urgent_job(100)
    plane.create(WORKLOAD_CLASSES, workload_class("idle", 1))
    plane.say("Finished", "True", "Succeeded")
    plane.settle()
    plane.sent.clear()
    plane.edit(WORKLOAD_CLASSES, Key("", "idle"), {"value": 2})
    plane.edit(WORKLOAD_CLASSES, URGENT, {"value": 200})
    plane.settle()

    assert [write for write in plane.sent if write.resource == WORKLOADS] == []
    assert priority_in(plane) == 100


def test_a_label_that_names_a_missing_class_is_told_and_changes_nothing() -> None:
    plane = urgent_job(100)
    patch = {"metadata": {"labels": {PRIORITY_CLASS: "uregnt"}}}
    plane.edit(JOBS, Key("lab", "train"), patch)
    plane.said.clear()
    plane.settle()

    [said] = plane.said
    assert (said.reason, said.message) == (
        "WorkloadPriorityClassNotFound",
        'WorkloadPriorityClass "uregnt" not found',
    )
    assert priority_in(plane) == 100


# The class named `default`


def test_a_job_without_a_class_is_of_the_class_named_default() -> None:
    plane = JobPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("default", 50))
    plane.create(PRIORITY_CLASSES, workload_class("pods", 7))
    plane.job_to_be["spec"]["template"]["spec"]["priorityClassName"] = "pods"
    plane.submit()

    assert plane.job["metadata"]["labels"][PRIORITY_CLASS] == "default"
    assert priority_in(plane) == 50


def test_a_class_that_is_named_counts_before_the_default() -> None:
    plane = JobPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("default", 50))
    plane.create(WORKLOAD_CLASSES, workload_class("urgent", 100))
    plane.submit(labels=URGENT_LABEL)

    assert priority_in(plane) == 100


def test_a_gate_switches_the_default_class_off() -> None:
    plane = JobPlane(Configuration(feature_gates={"WorkloadPriorityClassDefaulting": False}))
    plane.create(WORKLOAD_CLASSES, workload_class("default", 50))
    plane.submit()

    assert PRIORITY_CLASS not in plane.job["metadata"]["labels"]
    assert priority_in(plane) == 0


def test_a_pod_without_a_class_is_of_the_class_named_default() -> None:
    plane = PodPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("default", 50))
    plane.submit("solo")

    assert plane.workload["spec"]["priority"] == 50
