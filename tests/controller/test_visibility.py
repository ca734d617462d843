"""Pods that were admitted and have no node: what the largest node has, and who is there."""

from itertools import count
from typing import Any

import pytest

from makeway.api.kinds import NODES, PODS, WORKLOADS, Resource
from makeway.controller.visibility import Visibility
from makeway.plane.picture import Picture
from tests.harness.engine import Scenario, queue

BUSY = "0/2 nodes are available: 2 Insufficient cpu."


class Cluster:
    def __init__(self) -> None:
        self._picture, self._revisions = Picture(), count(1)
        lab = Scenario(queue("main", cpu=9))
        lab.pending("train", on="main", cpu=6)
        self._engine = lab.engine
        self._take(WORKLOADS, "train", ownerReferences=owned_by("job"))
        self.node("small", cpu="4", memory="64Gi")
        self.node("large", cpu="8", memory="32Gi")

    def _take(
        self, resource: Resource, name: str, spec: Any = None, status: Any = None, **metadata: Any
    ) -> None:
        metadata |= {"name": name, "uid": name, "resourceVersion": str(next(self._revisions))}
        if resource != NODES:
            metadata["namespace"] = "default"
        self._picture.take(
            resource, {"metadata": metadata, "spec": spec or {}, "status": status or {}}
        )

    def node(self, name: str, **amounts: str) -> None:
        self._take(NODES, name, status={"allocatable": amounts})

    def pod(self, name: str, message: str = "", on: str = "", **requests: str) -> None:
        container = {"name": "main", "image": "x", "resources": {"requests": requests}}
        spec = {"containers": [container], "nodeName": on}
        scheduled = {
            "type": "PodScheduled",
            "status": "True" if on else "False",
            "message": message,
        }
        owners = {} if on else {"ownerReferences": owned_by("job")}
        self._take(PODS, name, spec, {"phase": "Pending", "conditions": [scheduled]}, **owners)

    def lines(self) -> list[str]:
        explanation = Visibility(self._engine, self._picture, lambda: 0.0).explain(
            "default", "train"
        )
        assert explanation is not None
        return [line for line in explanation["lines"] if "node" in line]


def owned_by(uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid, "controller": True}]


def test_whoever_schedules_them_pods_say_why_and_the_largest_node_is_named() -> None:
    cluster = Cluster()
    cluster.pod("train-0", BUSY, cpu="6", memory="1Gi")
    cluster.pod("train-1", BUSY, cpu="6", memory="1Gi")
    cluster.pod("other", on="large", cpu="3")

    assert cluster.lines() == [
        f"2 pods of it have no node: {BUSY}",
        "The largest node has 8 cpu: large; pods there: default/other",
    ]


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        ("9", "The largest node has 8 cpu: large; it is empty"),
        ("8", None),  # there is room for it: something else keeps it from there
    ],
)
def test_a_node_that_would_do_is_not_named(cpu: str, said: str | None) -> None:
    cluster = Cluster()
    cluster.pod("train-0", cpu=cpu)

    first, *rest = cluster.lines()
    assert first == "A pod of it has no node: nobody has looked at it yet"
    assert rest == ([] if said is None else [said])
