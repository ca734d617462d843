"""Objects that are whole to a server and odd to us: they harm nobody else."""

from __future__ import annotations

import pytest

from makeway.api.labels import IS_GROUP
from makeway.client.client import Document
from makeway.client.resources import WORKLOADS
from makeway.controller.telling import EXPLAINED_AFTER_S
from makeway.engine.model import QueueName
from makeway.plane.writes import Key
from tests.controller.pods_lab import PodLab
from tests.controller.test_admission import Hall

BARE: list[Document] = [{}, {"type": "Odd"}, {"type": "QuotaReserved", "status": "False"}]


@pytest.mark.parametrize(
    "condition", BARE, ids=["empty", "type only", "neither reason nor message"]
)
def test_a_bare_condition_of_one_workload_stops_no_other(condition: Document) -> None:
    hall = Hall()
    hall.submit("odd", 9)
    odd = hall.get(WORKLOADS, Key("lab", "odd"))
    odd["metadata"]["resourceVersion"] = "900"
    odd["status"] = {"conditions": [condition]}
    change = hall.picture.take(WORKLOADS, odd)
    assert change is not None
    hall.admission.changed(change)
    hall.submit("train", 3)

    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)

    assert hall.condition("train", "Admitted")[0] == "True"


def test_what_can_not_be_read_under_an_old_name_does_not_hold_what_the_old_one_held() -> None:
    hall = Hall(cohortName="")
    hall.submit("train", 4)
    hall.settle()
    odd = hall.get(WORKLOADS, Key("lab", "train"))
    odd["metadata"] |= {"uid": "another", "resourceVersion": "900"}
    odd["spec"]["podSets"] = "none"

    change = hall.picture.take(WORKLOADS, odd)
    assert change is not None
    hall.admission.changed(change)
    hall.settle()

    assert not any(hall.admission.engine.state.queues[QueueName("a")].used.values())


def test_the_workload_of_a_group_that_asks_for_no_pods_goes() -> None:
    lab = PodLab()
    lab.create("solo")
    document = lab.workload
    document["metadata"] = {"name": "ring", "namespace": "lab", "annotations": {IS_GROUP: "true"}}
    document["spec"]["podSets"][0]["count"] = 0
    lab.put(WORKLOADS, document)

    lab.settle()

    assert lab.workload["metadata"]["name"] != "ring"


def test_a_bare_condition_of_a_pod_is_none() -> None:
    lab = PodLab()
    lab.create("solo")

    lab.report("solo", conditions=[{"status": "True"}])
    lab.admit()

    assert not lab.is_gated("solo")
