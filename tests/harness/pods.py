"""Pods that wait in a queue without a Job, and all who have to do with them."""

from __future__ import annotations

from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, PODS
from makeway.api.labels import ADMISSION_GATE, GROUP_NAME, GROUP_TOTAL, MANAGED, QUEUE_NAME
from makeway.client.client import Document
from makeway.controller.pods import Pods
from makeway.plane.writes import Key
from tests.harness.jobs import OneWorkload, flavor


class PodPlane(OneWorkload):
    """Has hands for whoever creates pods and for whoever runs them."""

    def __init__(self, configuration: Configuration = Configuration()) -> None:  # noqa: B008
        super().__init__(
            lambda picture: [Pods(picture, configuration)], configuration=configuration
        )
        self.create(FLAVORS, flavor("spot", {"pool": "spot"}, tolerates="spot"))

    # Users

    def submit(self, name: str, **fields: Any) -> None:
        self.create(PODS, pod(name, **fields))
        self.settle()

    def submit_elsewhere(self, document: Document) -> None:
        """To a server that does not hold queued pods back."""
        metadata = document["metadata"]
        plain = {"name": metadata["name"], "namespace": metadata["namespace"]}
        stored = self.create(PODS, {**document, "metadata": plain})
        self.put(PODS, {**stored, "metadata": {**stored["metadata"], **metadata}})
        self.settle()

    def create_group(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.create(PODS, member(name, len(names), **fields))
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
        return self.find(PODS, Key("lab", name)) is not None

    def is_gated(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("schedulingGates"))

    def is_leaving(self, name: str) -> bool:
        return "deletionTimestamp" in self.pod(name)["metadata"]

    def start(self, *names: str) -> None:
        for name in names:
            self.bind(name, "box")
            ready = [{"type": "Ready", "status": "True"}]
            self.report(name, phase="Running", conditions=ready)

    def end(self, name: str, phase: str) -> None:
        """One that was told to go is gone then, unless a finalizer holds it."""
        self.report(name, phase=phase)
        if self.has_pod(name) and self.is_leaving(name):
            self.delete(PODS, Key("lab", name), grace_s=0)
            self.settle()

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
    whole = {name: value for name, value in whole.items() if value is not None}
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


def running(name: str = "solo") -> PodPlane:
    plane = PodPlane()
    plane.submit(name)
    plane.admit()
    plane.start(name)
    plane.said.clear()
    return plane


def running_group(*names: str, **fields: Any) -> PodPlane:
    plane = PodPlane()
    plane.create_group(*names, **fields)
    plane.admit()
    plane.start(*names)
    plane.said.clear()
    return plane
