"""Pods that wait in a queue without a Job, and all who have to do with them, on a desk."""

from __future__ import annotations

from typing import Any

from makeway.api.labels import ADMISSION_GATE, GROUP_NAME, GROUP_TOTAL, MANAGED, QUEUE_NAME
from makeway.client.client import Document
from makeway.client.resources import FLAVORS, PODS
from makeway.controller.pods import Pods
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.controller.lab import flavor
from tests.controller.queued_desk import QueuedDesk


class PodLab(QueuedDesk):
    """A desk with hands for whoever creates pods and for whoever runs them."""

    def __init__(self) -> None:
        picture = Picture()
        super().__init__(picture, Pods(picture))
        self.put(FLAVORS, flavor("spot", {"pool": "spot"}, tolerates="spot"))

    # Users

    def create(self, name: str, **fields: Any) -> None:
        self.put(PODS, pod(name, **fields))
        self.settle()

    def create_group(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.put(PODS, member(name, len(names), **fields))
            self.now += 1
        self.settle()

    def remove(self, *names: str) -> None:
        for name in names:
            self.delete(PODS, Key("lab", name))
        self.settle()

    # Whoever runs pods

    def pod(self, name: str) -> Document:
        return self.get(PODS, Key("lab", name))

    def has_pod(self, name: str) -> bool:
        return self.picture.has(PODS, Key("lab", name))

    def is_gated(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("schedulingGates"))

    def is_leaving(self, name: str) -> bool:
        return "deletionTimestamp" in self.pod(name)["metadata"]

    def run(self, *names: str) -> None:
        for name in names:
            self.edit(PODS, Key("lab", name), {"spec": {"nodeName": "box"}})
            ready = [{"type": "Ready", "status": "True"}]
            self.report(name, phase="Running", conditions=ready)

    def end(self, name: str, phase: str) -> None:
        self.report(name, phase=phase)

    def report(self, name: str, **status: Any) -> None:
        self.edit(PODS, Key("lab", name), {"status": status}, "status")
        self.settle()


def pod(
    name: str,
    *,
    cpu: str = "1",
    labels: Document | None = None,
    annotations: Document | None = None,
    **spec: Any,
) -> Document:
    """As a server stores it that holds queued pods back."""
    container = {"name": "main", "command": ["go"], "resources": {"requests": {"cpu": cpu}}}
    metadata = {
        "name": name,
        "namespace": "lab",
        "labels": {QUEUE_NAME: "main", MANAGED: "true", **(labels or {})},
        "annotations": annotations or {},
        "finalizers": [MANAGED],
    }
    gates = [{"name": ADMISSION_GATE}]
    whole = {"containers": [container], "schedulingGates": gates, **spec}
    return {"metadata": metadata, "spec": whole, "status": {"phase": "Pending"}}


def member(
    name: str,
    total: int,
    *,
    group: str = "ring",
    annotations: Document | None = None,
    **fields: Any,
) -> Document:
    return pod(
        name,
        labels={GROUP_NAME: group},
        annotations={GROUP_TOTAL: str(total), **(annotations or {})},
        **fields,
    )


def running(name: str = "solo") -> PodLab:
    lab = PodLab()
    lab.create(name)
    lab.admit()
    lab.run(name)
    lab.said.clear()
    return lab


def running_group(*names: str, **fields: Any) -> PodLab:
    lab = PodLab()
    lab.create_group(*names, **fields)
    lab.admit()
    lab.run(*names)
    lab.said.clear()
    return lab
