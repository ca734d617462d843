"""The checkers by themselves, on objects written by hand."""

from typing import Any

import pytest

from tests.simulation.checkers import Cell, Quotas
from tests.simulation.witness import COHORTS, QUEUES, Truth

CPU = Cell("any", "cpu")


def put(truth: Truth, kind: str, name: str, cpu: str, **more: Any) -> None:
    limits: dict[str, str] = {
        key: more.pop(key) for key in ("borrowingLimit", "lendingLimit") if key in more
    }
    resources = [{"name": "cpu", "nominalQuota": cpu, **limits}]
    group: dict[str, Any] = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "any", "resources": resources}],
    }
    spec = {"resourceGroups": [group], **more}
    truth.put(kind, ("", name), {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("own", "other", "used", "room"),
    [
        ({}, {}, 0, 20),
        ({}, {}, 15, 5),
        ({"borrowingLimit": "3"}, {}, 0, 13),
        ({"borrowingLimit": "3"}, {}, 12, 1),
        ({}, {"lendingLimit": "4"}, 0, 14),
        ({"lendingLimit": "4"}, {}, 0, 20),
        ({"borrowingLimit": "0"}, {"lendingLimit": "0"}, 7, 3),
    ],
)
def test_room_of_a_queue_of_ten_beside_another_of_ten(
    own: dict[str, str], other: dict[str, str], used: int, room: int
) -> None:
    truth = Truth()
    put(truth, QUEUES, "own", "10", cohortName="all", **own)
    put(truth, QUEUES, "other", "10", cohortName="all", **other)
    quotas = Quotas(truth)
    quotas.charge("own", {CPU: used * 1000})

    assert quotas.available("queue own", CPU) == room * 1000


def test_quota_comes_from_far_up_the_tree() -> None:
    truth = Truth()
    put(truth, COHORTS, "top", "6")
    put(truth, COHORTS, "middle", "0", parentName="top", borrowingLimit="4")
    put(truth, QUEUES, "own", "2", cohortName="middle")

    assert Quotas(truth).available("queue own", CPU) == 6000
