"""What is in use stays, though somebody deletes it."""

import pytest

from makeway.api.kinds import FLAVORS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import IN_USE
from makeway.client.client import Conflict
from makeway.controller.in_use import LOOK_AGAIN_S, InUse
from makeway.controller.queue_status import EVERY_S, QueueStatus
from makeway.plane.writes import Key
from tests.harness.queues import QueuePlane

ANY, A = Key("", "any"), Key("", "a")


def plane_with_keepers() -> QueuePlane:
    plane = QueuePlane(
        lambda picture, engine: InUse(picture, engine, FLAVORS),
        lambda picture, engine: InUse(picture, engine, QUEUES),
        QueueStatus,
    )
    plane.settle()
    return plane


@pytest.mark.parametrize(("kind", "key"), [(FLAVORS, ANY), (QUEUES, A)])
def test_flavors_and_queues_are_held_from_the_start(kind: Resource, key: Key) -> None:
    plane = plane_with_keepers()
    assert plane.get(kind, key)["metadata"]["finalizers"] == [IN_USE]

    plane.edit(kind, key, {"metadata": {"finalizers": ["example.com/other"]}})
    plane.refusals.append(Conflict(409, "Conflict", "it has changed"))
    plane.settle()
    plane.settle(plane.now + 1)
    assert plane.get(kind, key)["metadata"]["finalizers"] == ["example.com/other", IN_USE]


def test_a_deleted_queue_admits_nothing_more_and_goes_when_its_last_workload_ends() -> None:
    plane = plane_with_keepers()
    plane.submit("runs", 2)
    plane.settle()
    plane.delete(QUEUES, A)
    plane.submit("late", 1)
    plane.settle(plane.now + EVERY_S)
    plane.settle(plane.now + EVERY_S)

    assert plane.admitted() == {"runs"}
    status = plane.get(QUEUES, A)["status"]
    active = next(c for c in status["conditions"] if c["type"] == "Active")
    assert (active["status"], active["reason"]) == ("False", "Terminating")
    assert status["admittedWorkloads"] == 1
    assert plane.message("late", "QuotaReserved") == "ClusterQueue a is inactive: Terminating"

    plane.add_condition("runs", "Finished", "True", "JobFinished")
    plane.settle(plane.now + LOOK_AGAIN_S)
    assert plane.find(QUEUES, A) is None
    plane.settle(plane.now + EVERY_S)
    plane.settle(plane.now + EVERY_S)
    assert plane.message("late", "QuotaReserved") == "ClusterQueue a doesn't exist"


def test_a_deleted_flavor_goes_with_the_last_queue_that_names_it() -> None:
    plane = plane_with_keepers()
    plane.delete(FLAVORS, ANY)
    plane.delete(QUEUES, A)
    plane.submit("train", 2, queue="b")
    plane.settle(plane.now + LOOK_AGAIN_S)
    assert plane.find(QUEUES, A) is None
    assert plane.find(FLAVORS, ANY)
    assert plane.admitted() == {"train"}

    plane.delete(WORKLOADS, Key("lab", "train"))
    plane.delete(QUEUES, Key("", "b"))
    plane.settle(plane.now + LOOK_AGAIN_S)
    plane.settle(plane.now + LOOK_AGAIN_S)
    assert plane.find(FLAVORS, ANY) is None


def test_after_a_restart_a_deleted_queue_is_still_held_by_who_runs_in_it() -> None:
    plane = plane_with_keepers()
    plane.submit("runs", 2)
    plane.settle()
    plane.delete(QUEUES, A)
    plane.restart()

    plane.settle(plane.now + LOOK_AGAIN_S)
    assert plane.find(QUEUES, A)
