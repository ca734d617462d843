"""Admission together with the parts that keep Jobs and pods in step with their Workloads."""

from __future__ import annotations

from typing import Any

from makeway.api.kinds import JOBS, PODS, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import MANAGED, QUEUE_NAME
from makeway.client.client import Document
from makeway.controller.jobs import Jobs
from makeway.controller.pods import Pods
from tests.harness import jobs, pods
from tests.harness.queues import QueuePlane

URGENT = {"kueue.x-k8s.io/priority-class": "urgent"}


class MixedPlane(QueuePlane):
    """One queue of 4 cpu for Jobs and pods; hands for whoever runs them."""

    def __init__(self) -> None:
        super().__init__(
            lambda picture, engine: Jobs(picture),
            lambda picture, engine: Pods(picture),
            cohortName="",
        )
        self.create(WORKLOAD_CLASSES, jobs.workload_class("urgent", 100))

    def job(self, name: str, **spec: Any) -> None:
        document = jobs.job(**spec)
        document["metadata"] |= {"name": name, "labels": {QUEUE_NAME: "a"}}
        self.create(JOBS, document)
        self.settle()

    def pods(self, *documents: Document) -> None:
        """As their users write them."""
        for document in documents:
            metadata = document["metadata"]
            del metadata["finalizers"], document["spec"]["schedulingGates"]
            del metadata["labels"][MANAGED]
            metadata["labels"][QUEUE_NAME] = "a"
            self.create(PODS, document)
        self.settle()

    def start(self, *names: str) -> None:
        for name in names:
            self.bind(name, "box")
            self.edit(PODS, name, {"status": {"phase": "Running"}}, "status")

    def end(self, *names: str, phase: str) -> None:
        for name in names:
            self.edit(PODS, name, {"status": {"phase": phase}}, "status")
            if "deletionTimestamp" in self.get(PODS, name)["metadata"]:
                self.delete(PODS, name, grace_s=0)
        self.settle()

    def is_suspended(self, name: str) -> bool:
        return bool(self.get(JOBS, name)["spec"]["suspend"])

    def is_released(self, name: str) -> bool:
        return not self.get(PODS, name)["spec"].get("schedulingGates")

    def is_leaving(self, name: str) -> bool:
        return "deletionTimestamp" in self.get(PODS, name)["metadata"]


def test_a_job_is_held_back_admitted_and_started() -> None:
    plane = MixedPlane()
    plane.job("train", suspend=False)

    assert not plane.is_suspended("train")
    assert plane.reasons_said()[-1] == "Started"
    assert len(plane.admitted()) == 1


def test_a_deleted_job_gives_its_quota_to_the_next_when_its_pod_is_gone() -> None:
    plane = MixedPlane()
    plane.job("train", parallelism=4)
    plane.create(PODS, jobs.pod("train-0", plane.get(JOBS, "train")["metadata"]["uid"]))
    plane.job("next", parallelism=4)
    plane.delete(JOBS, "train")
    plane.settle()
    assert plane.is_suspended("next")

    plane.delete(PODS, "train-0", grace_s=0)
    plane.settle()

    assert not plane.is_suspended("next")


def test_a_pod_is_released_and_gives_its_quota_to_the_next() -> None:
    plane = MixedPlane()
    plane.pods(pods.pod("first", cpu="3"), pods.pod("second", cpu="3"))
    plane.start("first")
    assert not plane.is_released("second")

    plane.end("first", phase="Succeeded")

    assert plane.is_released("second")


def test_a_preempted_pod_goes_and_its_preemptor_starts_then() -> None:
    plane = MixedPlane()
    plane.pods(pods.pod("slow", cpu="3"))
    plane.start("slow")
    plane.pods(pods.pod("fast", cpu="3", labels=URGENT))
    assert plane.is_leaving("slow")
    assert not plane.is_released("fast")

    plane.end("slow", phase="Failed")

    assert plane.find(PODS, "slow") is None
    assert plane.is_released("fast")


def test_a_preempted_group_is_admitted_again_when_its_pods_are_back() -> None:
    plane = MixedPlane()
    plane.pods(pods.member("one", 2, cpu="2"), pods.member("two", 2, cpu="2"))
    plane.start("one", "two")
    plane.pods(pods.pod("fast", cpu="4", labels=URGENT))
    plane.end("one", "two", phase="Failed")
    plane.start("fast")
    plane.end("fast", phase="Succeeded")
    ring = plane.get(WORKLOADS, "ring")
    assert ring["status"].get("admission") is None  # nobody holds quota for pods that aren't

    plane.pods(pods.member("three", 2, cpu="2"), pods.member("four", 2, cpu="2"))

    assert plane.is_released("three")
    assert plane.is_released("four")
