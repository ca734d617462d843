"""The nodes to run on: this machine, or those that are declared."""

import os
from pathlib import Path
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
    monkeypatch.setattr(machine, "gpu_uuids", lambda: ["GPU-a", "GPU-b"])
    found = machine.machine(NOW)

    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert found["metadata"]["annotations"] == {"makeway.dev/gpu-uuids": "GPU-a,GPU-b"}
    assert "nvidia.com/gpu" not in machine.machine(NOW, has_gpus=False)["status"]["allocatable"]


@pytest.mark.parametrize(
    ("uuids", "found"),
    [
        (["GPU-5", "GPU-6"], ["GPU-5", "GPU-6"]),
        (["GPU-5", "GPU-????????-????"], ["0000:19:00.0", "0000:3b:00.0"]),  # not used yet
        ([], []),
    ],
)
def test_gpus_are_named_in_the_order_of_the_bus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uuids: list[str], found: list[str]
) -> None:
    for place, uuid in zip(("0000:19:00.0", "0000:3b:00.0"), uuids, strict=False):
        (tmp_path / place).mkdir()
        text = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n"
        (tmp_path / place / "information").write_text(text)
    monkeypatch.setattr(machine, "DRIVER", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)

    assert machine.gpu_uuids() == found


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
