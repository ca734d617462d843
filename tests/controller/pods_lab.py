"""Pods that wait in a queue without a Job, and all who have to do with them, on a desk."""

from __future__ import annotations

from typing import Any

from makeway.api.labels import ADMISSION_GATE, GROUP_NAME, GROUP_TOTAL, MANAGED, QUEUE_NAME
from makeway.client.client import Document
from makeway.client.picture import Picture
from makeway.client.resources import FLAVORS, PODS, WORKLOADS
from makeway.client.writes import Key
from makeway.controller.conditions import with_condition
from makeway.controller.pods import Pods
from tests.controller.desk import Desk
from tests.controller.lab import flavor


class PodLab(Desk):
    """A desk with hands for whoever creates pods, for the queues, and for whoever runs pods."""

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

    # The queues

    @property
    def workload(self) -> Document:
        [document] = self.picture.all(WORKLOADS)
        return document

    @property
    def has_workload(self) -> bool:
        return bool(list(self.picture.keys(WORKLOADS)))

    @property
    def workload_key(self) -> Key:
        return Key("lab", self.workload["metadata"]["name"])

    def condition(self, type: str) -> tuple[str, str]:
        conditions = (self.workload.get("status") or {}).get("conditions") or ()
        found = [(c["status"], c["reason"]) for c in conditions if c["type"] == type]
        return found[0] if found else ("", "")

    @property
    def holds_quota(self) -> bool:
        return self.condition("QuotaReserved")[0] == "True"

    def say(self, type: str, status: str, reason: str, message: str = "", **fields: Any) -> None:
        conditions = (self.workload.get("status") or {}).get("conditions") or []
        new = with_condition(conditions, type, status, reason, message, self.now)
        self.edit(WORKLOADS, self.workload_key, {"status": {"conditions": new, **fields}}, "status")

    def reserve(self) -> None:
        assigned = [
            {"name": pod_set["name"], "count": pod_set["count"], "flavors": {"cpu": "spot"}}
            for pod_set in self.workload["spec"]["podSets"]
        ]
        if self.condition("Evicted")[0] == "True":
            self.say("Evicted", "False", "QuotaReserved")
        admission = {"clusterQueue": "big", "podSetAssignments": assigned}
        self.say("QuotaReserved", "True", "QuotaReserved", admission=admission)

    def admit(self) -> None:
        self.reserve()
        self.say("Admitted", "True", "Admitted")
        self.settle()

    def evict(self) -> None:
        self.say("Evicted", "True", "Preempted", "Preempted to accommodate a workload (lab/eval)")
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
