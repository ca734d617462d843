"""What is in use stays, though somebody deletes it."""

import pytest

from makeway.api.labels import IN_USE
from makeway.client import Resource
from makeway.client.client import Conflict
from makeway.client.resources import FLAVORS, QUEUES, WORKLOADS
from makeway.controller.in_use import LOOK_AGAIN_S, InUse
from makeway.controller.queue_status import EVERY_S, QueueStatus
from makeway.plane.writes import Key
from tests.controller.test_admission import Hall

ANY, A = Key("", "any"), Key("", "a")


def hall_with_keeper() -> Hall:
    hall = Hall()
    engine = hall.admission.engine
    keepers = [InUse(hall.picture, engine, kind) for kind in (FLAVORS, QUEUES)]
    hall.restart(hall.admission, *keepers, QueueStatus(hall.picture, engine))
    hall.settle()
    return hall


@pytest.mark.parametrize(("kind", "key"), [(FLAVORS, ANY), (QUEUES, A)])
def test_flavors_and_queues_are_held_from_the_start(kind: Resource, key: Key) -> None:
    hall = hall_with_keeper()
    assert hall.get(kind, key)["metadata"]["finalizers"] == [IN_USE]

    hall.edit(kind, key, {"metadata": {"finalizers": ["example.com/other"]}})
    hall.refusals.append(Conflict(409, "Conflict", "it has changed"))
    hall.settle()
    hall.settle(hall.now + 1)
    assert hall.get(kind, key)["metadata"]["finalizers"] == ["example.com/other", IN_USE]


def test_a_deleted_queue_admits_nothing_more_and_goes_when_its_last_workload_ends() -> None:
    hall = hall_with_keeper()
    hall.submit("runs", 2)
    hall.settle()
    hall.delete(QUEUES, A)
    hall.submit("late", 1)
    hall.settle(hall.now + EVERY_S)
    hall.settle(hall.now + EVERY_S)

    assert hall.admitted() == {"runs"}
    status = hall.get(QUEUES, A)["status"]
    active = next(c for c in status["conditions"] if c["type"] == "Active")
    assert (active["status"], active["reason"]) == ("False", "Terminating")
    assert status["admittedWorkloads"] == 1
    assert hall.message("late", "QuotaReserved") == "ClusterQueue a is inactive: Terminating"

    hall.add_condition("runs", "Finished", "True", "JobFinished")
    hall.settle(hall.now + LOOK_AGAIN_S)
    assert not hall.picture.has(QUEUES, A)
    hall.settle(hall.now + EVERY_S)
    hall.settle(hall.now + EVERY_S)
    assert hall.message("late", "QuotaReserved") == "ClusterQueue a doesn't exist"


def test_a_deleted_flavor_goes_with_the_last_queue_that_names_it() -> None:
    hall = hall_with_keeper()
    hall.delete(FLAVORS, ANY)
    hall.delete(QUEUES, A)
    hall.submit("train", 2, queue="b")
    hall.settle(hall.now + LOOK_AGAIN_S)
    assert not hall.picture.has(QUEUES, A)
    assert hall.picture.has(FLAVORS, ANY)
    assert hall.admitted() == {"train"}

    hall.delete(WORKLOADS, Key("lab", "train"))
    hall.delete(QUEUES, Key("", "b"))
    hall.settle(hall.now + LOOK_AGAIN_S)
    hall.settle(hall.now + LOOK_AGAIN_S)
    assert not hall.picture.has(FLAVORS, ANY)


def test_after_a_restart_a_deleted_queue_is_still_held_by_who_runs_in_it() -> None:
    hall = hall_with_keeper()
    hall.submit("runs", 2)
    hall.settle()
    hall.delete(QUEUES, A)
    hall.begin_anew()
    hall.restart(hall.admission, InUse(hall.picture, hall.admission.engine, QUEUES))

    hall.settle(hall.now + LOOK_AGAIN_S)
    assert hall.picture.has(QUEUES, A)
