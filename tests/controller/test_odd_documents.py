"""Objects that are whole to a server and odd to us: they harm nobody else."""

from __future__ import annotations

import pytest

from makeway.api.kinds import PODS, WORKLOADS
from makeway.api.labels import IS_GROUP
from makeway.client.client import Document
from makeway.controller.telling import EXPLAINED_AFTER_S
from makeway.engine.model import QueueName
from makeway.plane.writes import Key, Patch
from tests.harness.pods import PodPlane
from tests.harness.queues import QueuePlane

BARE: list[Document] = [{}, {"type": "Odd"}, {"type": "QuotaReserved", "status": "False"}]


@pytest.mark.parametrize(
    "condition", BARE, ids=["empty", "type only", "neither reason nor message"]
)
def test_a_bare_condition_of_one_workload_stops_no_other(condition: Document) -> None:
    plane = QueuePlane()
    plane.submit("odd", 9)
    odd = plane.get(WORKLOADS, Key("lab", "odd"))
    odd["status"] = {"conditions": [condition]}
    plane.put(WORKLOADS, odd)
    plane.submit("train", 3)

    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)

    assert plane.condition_of("train", "Admitted")[0] == "True"


def test_what_can_not_be_read_under_an_old_name_does_not_hold_what_the_old_one_held() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("train", 4)
    plane.settle()
    odd = plane.get(WORKLOADS, Key("lab", "train"))
    odd["metadata"]["uid"] = "another"
    odd["spec"]["podSets"] = "none"

    plane.put(WORKLOADS, odd)
    plane.settle()

    assert not any(plane.admission.engine.state.queues[QueueName("a")].used.values())


def test_the_workload_of_a_group_that_asks_for_no_pods_goes() -> None:
    plane = PodPlane()
    plane.submit("solo")
    document = plane.workload
    document["metadata"] = {"name": "ring", "namespace": "lab", "annotations": {IS_GROUP: "true"}}
    document["spec"]["podSets"][0]["count"] = 0
    plane.put(WORKLOADS, document)

    plane.settle()

    assert plane.workload["metadata"]["name"] != "ring"


def test_a_bare_condition_of_a_pod_is_none() -> None:
    plane = PodPlane()
    plane.submit("solo")

    plane.put(PODS, plane.pod("solo") | {"status": {"conditions": [{"status": "True"}]}})
    plane.admit()

    starts = [write for write in plane.sent if isinstance(write, Patch) and write.resource == PODS]
    assert "schedulingGates" in starts[0].patch["spec"]  # though our own server refuses that
