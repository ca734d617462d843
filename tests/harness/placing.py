"""Nodes, pods and gangs as any server may have stored them, for stories about placing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from makeway.api.kinds import (
    BUDGETS,
    GANG_WORKLOADS,
    GANGS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.client.client import Document
from makeway.controller.placing import Placing
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from tests.harness.plane import Plane


class PlacingPlane(Plane):
    def __init__(self, *parts: Callable[[Picture], Part], **nodes: int) -> None:
        super().__init__(lambda picture: [make(picture) for make in parts or (Placing,)])
        for name, cpu in nodes.items():
            self.node(name, cpu=cpu)

    # Objects

    def node(self, name: str, *, cpu: int = 4, **spec: Any) -> None:
        amounts = {"cpu": str(cpu), "pods": "110"}
        self.put(
            NODES,
            {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": amounts}},
        )

    def pod(
        self,
        name: str,
        *,
        cpu: int = 4,
        priority: int = 10,
        on: str = "",
        group: str = "",
        workload: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        owner: str = "",
        ready: bool = True,
        **spec: Any,
    ) -> None:
        metadata: Document = {"name": name, "namespace": "lab", "labels": dict(labels or {})}
        metadata["annotations"] = dict(annotations or {})
        if workload:
            metadata["annotations"]["kueue.x-k8s.io/workload"] = workload
            metadata["labels"]["kueue.x-k8s.io/podset"] = "main"
        if owner:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
        spec = {"containers": [container], "priority": priority, **spec}
        if on:
            spec["nodeName"] = on
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        status: Document = {"phase": "Running" if on else "Pending", "conditions": []}
        if on and ready:
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        self.put(PODS, {"metadata": metadata, "spec": spec, "status": status})

    def group(self, name: str, min_count: int, *, priority: int = 100, **spec: Any) -> None:
        policy = {"gang": {"minCount": min_count}}
        spec = {"schedulingPolicy": policy, "priority": priority, **spec}
        self.put(POD_GROUPS, {"metadata": {"name": name, "namespace": "lab"}, "spec": spec})

    def own_gang(self, name: str, min_count: int, **spec: Any) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}
        self.put(GANGS, {"metadata": {"name": name, "namespace": "lab"}, "spec": spec})

    def gang_workload(self, name: str, min_count: int, **spec: Any) -> None:
        group = {"name": "workers", "policy": {"gang": {"minCount": min_count}}}
        spec = {"podGroups": [group], **spec}
        metadata = {"name": name, "namespace": "lab", "generation": 1}
        self.put(GANG_WORKLOADS, {"metadata": metadata, "spec": spec})

    def priority_class(self, name: str, value: int) -> None:
        self.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def workload(
        self, name: str, count: int, *, priority: int = 10, mode: str = "Pod", given_back: int = 0
    ) -> None:
        """A queue Workload that is admitted."""
        template = {"spec": {"containers": [{"name": "main"}]}}
        status: Document = {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"},
                {"type": "Admitted", "status": "True", "reason": "Admitted"},
            ],
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [{"name": "main", "count": count}],
            },
        }
        if given_back:
            status["reclaimablePods"] = [{"name": "main", "count": given_back}]
        annotations = {"makeway.dev/preemption-mode": mode}
        self.put(
            WORKLOADS,
            {
                "metadata": {"name": name, "namespace": "lab", "annotations": annotations},
                "spec": {
                    "priority": priority,
                    "podSets": [{"name": "main", "count": count, "template": template}],
                },
                "status": status,
            },
        )

    def budget(self, name: str, *, allowed: int = 0, spec: Any = None, **labels: str) -> None:
        spec = {"selector": {"matchLabels": labels}, **(spec or {})}
        status = {"disruptionsAllowed": allowed}
        metadata = {"name": name, "namespace": "lab", "generation": 1}
        self.put(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})

    def annotate(self, resource: Resource, name: str, annotations: dict[str, str]) -> None:
        found = self.get(resource, name)
        metadata = {**found["metadata"], "annotations": annotations}
        self.put(resource, {**found, "metadata": metadata})

    def ended(self, *names: str) -> None:
        """Pods that were asked to go are gone now."""
        for name in names:
            self.delete(PODS, name, grace_s=0)

    # What became of it

    def nodes_of(self, *names: str) -> list[str]:
        return [self.get(PODS, name)["spec"].get("nodeName", "") for name in names]

    def nominated(self, *names: str) -> list[str]:
        return [self.get(PODS, n)["status"].get("nominatedNodeName", "") for n in names]

    def leaving(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.all(PODS)
            if pod["metadata"].get("deletionTimestamp")
        ]

    def events(self, reason: str) -> list[tuple[str, str]]:
        return [(s.about["metadata"]["name"], s.message) for s in self.said if s.reason == reason]
