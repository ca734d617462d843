"""Who lacks nothing but GPUs that are not handed out now waits for these."""

from __future__ import annotations

import json
from typing import Any

import pytest

from makeway.api.kinds import NODES, QUEUES
from makeway.controller.automatic import documents
from makeway.controller.set_aside import gpus_waited_for
from makeway.engine.decisions import ExceedsCapacity, NotCovered
from makeway.engine.explain import Obstacle
from makeway.engine.model import FlavorName, FlavorResource, PodSetName, ResourceName
from makeway.plane.picture import Picture

GPU, PART = "nvidia.com/gpu", "nvidia.com/mig-1g.18gb"
MAIN = PodSetName("main")
LISTED = [{"id": 3, "resource": GPU}, {"id": "MIG-a", "resource": PART}]


def beyond(resource: str, asked: int) -> Obstacle:
    """All that there is for now is asked for, and more."""
    cell = FlavorResource(FlavorName("automatic"), ResourceName(resource))
    return ExceedsCapacity(MAIN, cell, 0, asked, 0)


@pytest.fixture
def picture() -> Picture:
    """GPU 3 and a part of another are set aside, and there are no others."""
    annotations = {
        "makeway.dev/unavailable-gpus": "3: drained\nMIG-a: used by ann (python, pid 12)",
        "makeway.dev/gpu-list": json.dumps(LISTED),
    }
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "box", "resourceVersion": "1", "annotations": annotations},
        "status": {"capacity": {GPU: "1", PART: "1"}, "allocatable": {GPU: "0", PART: "0"}},
    }
    found = Picture()
    found.take(NODES, node)
    for kind, document in documents({GPU: "0", PART: "0"}, ()):
        if kind == QUEUES:
            document["metadata"]["resourceVersion"] = "1"
            found.take(QUEUES, document)
    return found


@pytest.mark.parametrize(
    ("obstacles", "waited"),
    [
        ([beyond(GPU, 1)], ["GPU 3 is drained"]),
        ([beyond(PART, 1)], ["GPU MIG-a is used by ann (python, pid 12)"]),
        ([beyond(GPU, 2)], []),
        ([beyond("cpu", 1)], []),
        ([beyond(GPU, 1), NotCovered(MAIN, ResourceName("tpu"))], []),
    ],
)
def test_only_gpus_of_the_kind_that_would_do_are_waited_for(
    picture: Picture, obstacles: list[Obstacle], waited: list[str]
) -> None:
    assert [str(gpu) for gpu in gpus_waited_for(picture, "default", obstacles)] == waited
    assert gpus_waited_for(picture, "other", obstacles) == []
