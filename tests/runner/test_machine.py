"""The nodes to run on: this machine, or those that are declared."""

import os
from typing import Any

import pytest

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.runner import machine
from makeway.runner.machine import NotANode, host_name, nodes_from

NOW = 1_700_000_000.0


def node(name: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def test_this_machine_is_a_node_that_is_ready() -> None:
    document = machine.machine(NOW)

    found = decode_as(Node, document).object
    assert found is not None
    assert found.status.allocatable["cpu"] == len(os.sched_getaffinity(0)) * 1000
    assert found.status.allocatable["memory"] > 2**28
    assert found.metadata.labels["kubernetes.io/hostname"] == found.metadata.name
    assert document["status"]["conditions"][0]["type"] == "Ready"


def test_gpus_are_counted_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu_count", lambda: 4)

    assert machine.machine(NOW)["status"]["allocatable"]["nvidia.com/gpu"] == "4"


@pytest.mark.parametrize(
    ("host", "name"),
    [("box", "box"), ("GPU_Box.lab.example.com", "gpu-box"), ("-x-", "x"), ("", "localhost")],
)
def test_the_name_of_the_machine_is_one_that_an_object_may_have(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)

    assert host_name() == name


def test_a_declared_node_gets_what_its_agent_would_fill_in() -> None:
    (found,) = nodes_from([node("n1", allocatable={"cpu": 8})], NOW)

    assert found["status"]["capacity"]["cpu"] == found["status"]["allocatable"]["cpu"] == 8
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert found["status"]["conditions"][0]["status"] == "True"


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ([node("n1")], "n1 has nothing to give"),
        ([node("n1", capacity={"cpu": 1}), node("n1", capacity={"cpu": 1})], "declared twice"),
        ([node("n1", capacity={"cpu": "many"})], "cpu"),
        ([node("", capacity={"cpu": 1})], "no metadata.name"),
        ([node("n1") | {"kind": "Pod"}], "kind"),
    ],
)
def test_what_is_no_node_is_refused(documents: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(NotANode, match=why):
        nodes_from(documents, NOW)
