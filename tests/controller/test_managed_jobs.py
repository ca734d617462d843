"""Which Jobs and pods a queue decides about, by their labels and by the configuration."""

from __future__ import annotations

from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import JOBS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from makeway.api.labels import QUEUE_NAME
from makeway.api.meta import LabelSelector
from makeway.client.client import Document
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.jobs import TRAIN, JobPlane, job
from tests.harness.pods import PodPlane

ALL = Configuration(manage_jobs_without_queue_name=True)
TEAMS_ONLY = LabelSelector(match_labels={"queued": "yes"})
IN_TEAMS = Configuration(managed_jobs_namespace_selector=TEAMS_ONLY)
ALL_IN_TEAMS = Configuration(
    manage_jobs_without_queue_name=True, managed_jobs_namespace_selector=TEAMS_ONLY
)


class Unlabelled(JobPlane):
    """The Job `train` names no queue, and is created to start at once."""

    def __init__(self, configuration: Configuration = Configuration()) -> None:  # noqa: B008
        super().__init__(configuration)
        del self.job_to_be["metadata"]["labels"][QUEUE_NAME]
        self.job_to_be["spec"]["suspend"] = False

    @property
    def state(self) -> tuple[bool, int]:
        return self.job["spec"]["suspend"], len(self.all(WORKLOADS))

    def label(self, **labels: Any) -> None:
        self.edit(NAMESPACES, Key("", "lab"), {"metadata": {"labels": labels}})
        self.settle()


def pod(name: str, **labels: str) -> Document:
    """As a user writes it."""
    return documents.pod(name, {"namespace": "lab", "labels": labels})


def pod_of_a_replica_set() -> Document:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "uid": "u"}}
    return documents.owned(pod("web-1", **NAMES_QUEUE), owner, controller=True)


NAMES_QUEUE = {QUEUE_NAME: "main"}
HELD, FREE = (True, 1), (False, 0)  # suspended, and how many Workloads it has


def test_a_job_without_a_queue_starts_at_once_where_nothing_else_is_said() -> None:
    plane = Unlabelled()
    plane.submit()

    assert plane.state == FREE


# manageJobsWithoutQueueName


def test_where_all_jobs_are_managed_one_without_a_queue_waits_with_a_workload() -> None:
    plane = Unlabelled(ALL)
    plane.submit()

    assert plane.state == HELD
    assert plane.workload["spec"]["queueName"] == ""


def test_and_enters_the_queue_that_it_is_given() -> None:
    plane = Unlabelled(ALL)
    plane.submit()
    plane.edit(JOBS, TRAIN, {"metadata": {"labels": {QUEUE_NAME: "main"}}})
    plane.settle()
    plane.admit()

    assert plane.workload["spec"]["queueName"] == "main"
    assert plane.job["spec"]["suspend"] is False


def test_on_a_server_that_holds_nothing_back_it_is_stopped_when_it_is_seen() -> None:
    plane = Unlabelled(ALL)
    plane.submit_elsewhere()

    assert plane.state == HELD
    assert [said.reason for said in plane.said][:1] == ["Suspended"]
    assert "names a LocalQueue" in plane.said[0].message


def test_a_pod_without_a_queue_waits_too_and_says_for_what() -> None:
    plane = PodPlane(ALL)
    plane.create(PODS, pod("solo"))
    plane.settle()

    assert plane.is_gated("solo")
    assert plane.reasons_said() == ["NotQueued"]


def test_the_system_has_no_part_in_it() -> None:
    plane = Unlabelled(ALL)
    elsewhere = job()
    elsewhere["metadata"] |= {"namespace": "kube-system"}
    elsewhere["spec"]["suspend"] = False
    plane.create(JOBS, elsewhere)
    plane.settle()

    assert plane.get(JOBS, Key("kube-system", "train"))["spec"]["suspend"] is False
    assert plane.all(WORKLOADS) == []


# managedJobsNamespaceSelector


def test_a_namespace_that_is_not_selected_has_no_queued_jobs() -> None:
    plane = JobPlane(IN_TEAMS)
    plane.job_to_be["spec"]["suspend"] = False
    plane.submit()  # though it names a queue

    assert (plane.job["spec"]["suspend"], plane.all(WORKLOADS)) == (False, [])


def test_a_namespace_that_is_selected_has_them_from_then_on() -> None:
    plane = Unlabelled(ALL_IN_TEAMS)
    plane.submit()
    assert plane.state == FREE

    plane.label(queued="yes")

    assert plane.state == HELD


def test_pods_of_a_namespace_that_is_not_selected_are_left_alone() -> None:
    plane = PodPlane(IN_TEAMS)
    plane.create(PODS, pod("solo", **NAMES_QUEUE))
    plane.settle()

    assert not plane.is_gated("solo")
    assert (plane.said, plane.all(WORKLOADS)) == ([], [])


# The LocalQueue named `default`


def test_a_job_without_a_queue_stands_in_the_one_named_default() -> None:
    plane = Unlabelled()
    plane.create(LOCAL_QUEUES, documents.local_queue("default", "big", "lab"))
    plane.submit()

    assert plane.job["metadata"]["labels"][QUEUE_NAME] == "default"
    assert plane.workload["spec"]["queueName"] == "default"


def test_one_that_names_a_queue_keeps_it() -> None:
    plane = JobPlane()
    plane.create(LOCAL_QUEUES, documents.local_queue("default", "big", "lab"))
    plane.submit()

    assert plane.workload["spec"]["queueName"] == "main"


def test_a_default_queue_is_for_its_own_namespace() -> None:
    plane = Unlabelled()
    plane.create(NAMESPACES, {"metadata": {"name": "attic"}})
    plane.create(LOCAL_QUEUES, documents.local_queue("default", "big", "attic"))
    plane.submit()

    assert plane.state == FREE


def test_nor_is_it_for_namespaces_that_are_not_selected() -> None:
    plane = Unlabelled(IN_TEAMS)
    plane.create(LOCAL_QUEUES, documents.local_queue("default", "big", "lab"))
    plane.submit()

    assert plane.state == FREE


def test_a_pod_of_a_job_gets_no_queue_of_its_own() -> None:
    plane = PodPlane()
    plane.create(LOCAL_QUEUES, documents.local_queue("default", "big", "lab"))
    owner = plane.create(JOBS, job())
    plane.create(PODS, documents.owned(pod("train-0"), owner, controller=True))
    plane.create(PODS, pod("solo"))

    assert plane.is_gated("solo")
    assert not plane.is_gated("train-0")


# Pods of controllers that no queue knows


def test_a_pod_of_a_replica_set_waits_in_the_queue_that_it_names() -> None:
    plane = PodPlane()
    plane.create(PODS, pod_of_a_replica_set())
    plane.settle()
    assert plane.is_gated("web-1")

    plane.admit()

    assert not plane.is_gated("web-1")


def test_one_that_came_without_a_gate_says_that_it_is_not_queued() -> None:
    plane = PodPlane()
    plane.submit_elsewhere(pod_of_a_replica_set())

    assert plane.reasons_said() == ["NotQueued"]
