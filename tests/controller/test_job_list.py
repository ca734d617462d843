"""Jobs at a glance: which are told of, in which order, and what of them to whom."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import JOBS, NODES, PODS, WORKLOADS
from makeway.api.labels import JOB_UID, QUEUE_NAME
from makeway.controller.job_list import Asked, JobList, asked_in
from makeway.controller.prospects import prospects
from makeway.engine.engine import Engine
from makeway.plane.picture import Picture
from tests.harness import documents
from tests.harness.engine import Scenario, queue

DONE = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00Z"}


class Lab:
    """Jobs 1 to 6 of two people; the first two have ended."""

    def __init__(self) -> None:
        self.picture = Picture()
        for number in range(1, 7):
            user = "ann" if number % 2 else "bob"
            self.take(number, user, *([DONE] if number < 3 else []))
        self.list = JobList(Engine(), self.picture, lambda: 1_767_229_200.0)

    def take(self, number: int, user: str, *conditions: dict[str, Any]) -> None:
        job = documents.job(
            f"job{number}",
            {
                "namespace": user,
                "uid": f"u{number}",
                "resourceVersion": str(number),
                "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
                "labels": {"makeway.dev/id": str(number), QUEUE_NAME: user},
                "annotations": {"makeway.dev/submitted-by": user},
            },
        )
        job["status"] = {"conditions": list(conditions)}
        self.picture.take(JOBS, job)

    def numbers(self, **asked: Any) -> list[int]:
        return [row["id"] for row in self.list.answer(Asked(**asked))["items"]]


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({}, [3, 4, 5, 6]),
        ({"ended": "true"}, [1, 2, 3, 4, 5, 6]),
        ({"ended": "only"}, [1, 2]),
        ({"user": "ann"}, [3, 5]),
        ({"queue": "bob", "ended": "true"}, [2, 4, 6]),
        ({"namespace": "bob"}, [4, 6]),
        ({"number": "5"}, [5]),
        ({"name": "job4"}, [4]),
        ({"limit": 2}, [3, 4]),  # of those that wait or run the oldest
        ({"limit": 1, "ended": "only"}, [2]),  # of those that have ended the latest
        ({"limit": 5, "ended": "true"}, [2, 3, 4, 5, 6]),
    ],
)
def test_who_is_told_of(lab: Lab, asked: dict[str, Any], numbers: list[int]) -> None:
    assert lab.numbers(**asked) == numbers


def test_a_pod_without_a_job_is_told_of_with_its_workload(lab: Lab) -> None:
    queued = {"kueue.x-k8s.io/managed": "true", QUEUE_NAME: "ann"}
    pod = documents.pod("loose", {"namespace": "ann", "uid": "p1", "labels": queued})
    made = documents.workload("pod-loose", queueName="ann")
    made["metadata"] |= {"namespace": "ann", "labels": {JOB_UID: "p1"}}
    made["status"] = {"conditions": [documents.condition("Admitted")]}
    for resource, document in (
        (PODS, pod),
        (WORKLOADS, documents.owned(made, pod, controller=True)),
    ):
        document["metadata"]["resourceVersion"] = "9"
        lab.picture.take(resource, document)

    (row,) = [row for row in lab.list.answer(Asked())["items"] if row["kind"] == "Pod"]
    assert (row["name"], row["workload"], row["status"]) == ("loose", "pod-loose", "admitted")


def test_how_many_more_there_are_is_said(lab: Lab) -> None:
    assert lab.list.answer(Asked(limit=3))["metadata"] == {"remainingItemCount": 1}
    assert lab.list.answer(Asked())["metadata"] == {}


def test_what_is_asked_is_read_with_care() -> None:
    assert asked_in("a", {"limit": "7", "ended": "only"}) == Asked("a", ended="only", limit=7)
    assert asked_in("", {"limit": "lots"}) == Asked()
    assert asked_in("", {"limit": "999999"}).limit == 5000


# --- prospects ---


@pytest.mark.parametrize(
    ("cpu", "pods", "never"),
    [
        ("4", 1, []),
        ("4", 3, []),
        ("4", 4, ["never: 16 cpu asked, 12 exist for ClusterQueue main"]),
        ("9", 1, ["never: 9 cpu asked, 8 exist on the largest node"]),
    ],
)
def test_a_job_that_could_never_run_is_known_before_it_is_made(
    cpu: str, pods: int, never: list[str]
) -> None:
    lab, picture = Scenario(queue("main", cpu=12_000)), Picture()
    node = {"metadata": {"name": "n", "resourceVersion": "1"}, "status": {"capacity": {"cpu": 8}}}

    picture.take(NODES, node)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    job = documents.job("train", {"labels": {QUEUE_NAME: "main"}}, parallelism=pods)
    job["spec"]["template"]["spec"] = {"containers": [container], "restartPolicy": "Never"}

    assert prospects(lab.engine, picture, "default", job)["never"] == never


def test_who_asks_for_a_gpu_where_there_are_parts_alone_is_told_how_to_ask() -> None:
    parts: dict[str, Any] = {"nvidia.com/mig-1g.18gb": 2}
    lab = Scenario(queue("main", **parts))
    requests = {"requests": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "x", "resources": requests}
    job = documents.job("train", {"labels": {QUEUE_NAME: "main"}})
    job["spec"]["template"]["spec"] = {"containers": [container], "restartPolicy": "Never"}

    (never,) = prospects(lab.engine, Picture(), "default", job)["never"]

    instead = "ClusterQueue main has no nvidia.com/gpu but nvidia.com/mig-1g.18gb (--gpu-resource)"
    assert never == f"never: 1 GPU asked, and {instead}"


def test_what_is_no_job_has_no_prospects() -> None:
    assert prospects(Engine(), Picture(), "default", ["nonsense"])["never"] == []
