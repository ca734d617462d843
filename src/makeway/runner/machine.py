"""The nodes to run on: this machine as a Node, or nodes that somebody declared."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.api.devices import GPU
from makeway.api.labels import GPU_UUIDS
from makeway.api.quantity import format_amount
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.runner.gpu_reading import Device, capacity_of

PODS_MAX = 500
DRIVER = Path("/proc/driver/nvidia/gpus")
ASKING_S = 10.0  # nvidia-smi may hang where a driver is broken
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class NotANode(Exception):
    """A document that was declared as a node isn't one; the text is for the user."""


def machine(now: float, devices: Sequence[Device] = (), *, has_gpus: bool = True) -> Document:
    """This machine, with all it has, or all but its GPUs.

    `devices` are these, where NVML tells of them: parts of some may be handed out in their place.
    """
    capacity = {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": format_amount("memory", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "pods": str(PODS_MAX),
    }
    uuids = gpu_uuids() if has_gpus else []
    if uuids:
        capacity |= capacity_of(devices) if devices else {GPU: str(len(uuids))}
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host_name(), "annotations": {GPU_UUIDS: ",".join(uuids)}},
        "status": {"capacity": capacity},
    }
    return completed(document, now)


def host_name() -> str:
    """Our name, as a name that an object may have."""
    name = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower().partition(".")[0])
    return name[:63].strip("-") or "localhost"


def has_driver() -> bool:
    """Whether it is worth while to ask NVML."""
    return DRIVER.is_dir() or shutil.which("nvidia-smi") is not None


def gpu_uuids() -> list[str]:
    """In the order in which CUDA counts them by their place on the bus."""
    found = [_uuid_of(path) for path in sorted(DRIVER.glob("*/information"))]
    return found if found and all(found) else _asked_uuids() or _unnamed()


def _uuid_of(path: Path) -> str:
    """Empty where the driver doesn't tell, as long as nobody has used the GPU."""
    for line in path.read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "GPU UUID":
            return "" if "?" in value else value.strip()
    return ""


def _unnamed() -> list[str]:
    """By their places on the bus, which are as good on one machine."""
    return sorted(path.name for path in DRIVER.iterdir()) if DRIVER.is_dir() else []


def _asked_uuids() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        answer = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=ASKING_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line for line in answer.stdout.splitlines() if line.startswith("GPU ")]
    return [line.rpartition("(UUID: ")[2].rstrip(")") for line in lines]


def nodes_from(documents: Iterable[Document], now: float) -> list[Document]:
    """Declared nodes, checked and with what a node's own agent would have filled in."""
    nodes: dict[str, Document] = {}
    for document in documents:
        decoded = decode_as(Node, document)
        if decoded.object is None:
            raise NotANode("; ".join(str(error) for error in decoded.errors))
        node = decoded.object
        name = node.metadata.name
        if not name:
            raise NotANode("a node has no metadata.name")
        if name in nodes:
            raise NotANode(f"node {name} is declared twice")
        if not node.status.capacity and not node.status.allocatable:
            raise NotANode(f"node {name} has nothing to give: write status.capacity")
        nodes[name] = completed(document, now)
    return list(nodes.values())


def completed(document: Document, now: float) -> Document:
    """A node with both amounts, the labels that selectors use, and the word that it is ready."""
    metadata, status = document["metadata"], document.get("status") or {}
    capacity = {"pods": str(PODS_MAX)} | (status.get("capacity") or status["allocatable"])
    labels = {
        "kubernetes.io/hostname": metadata["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "Ready"]
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "MakewayReady",
        "message": "makeway runs pods here as local processes",
        "lastHeartbeatTime": format_time(int(now)),
        "lastTransitionTime": format_time(int(now)),
    }
    return document | {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata | {"labels": labels | (metadata.get("labels") or {})},
        "status": status
        | {
            "capacity": capacity,
            "allocatable": capacity | (status.get("allocatable") or {}),
            "conditions": [*others, ready],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": metadata["name"]},
            ],
        },
    }
