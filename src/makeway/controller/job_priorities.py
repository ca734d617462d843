"""The priority of a Job or pod, from the classes that it or its pods name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from makeway.api.batch import PodSpec, PriorityClass
from makeway.api.codec import decode_as
from makeway.api.labels import PRIORITY_CLASS
from makeway.api.priorities import SYSTEM_PRIORITIES
from makeway.api.queueing import PriorityClassRef, WorkloadPriorityClass
from makeway.client.client import Document, Resource
from makeway.client.resources import PRIORITY_CLASSES, WORKLOAD_CLASSES
from makeway.plane.writes import Key


class Priority(NamedTuple):
    value: int
    reference: PriorityClassRef | None  # None: no class says so


class Missing(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} doesn't exist"


class Classes:
    """The priority classes that there are, kept as numbers: every Job asks for one."""

    def __init__(self) -> None:
        self._of_workloads: dict[str, int] = {}
        self._of_pods: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._defaults: dict[str, int] = {}  # those of pods that are marked as global default

    def changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        if resource == WORKLOAD_CLASSES:
            self._of_workloads.pop(key.name, None)
            found = decode_as(WorkloadPriorityClass, document).object if document else None
            if found is not None:
                self._of_workloads[key.name] = found.value
        elif resource == PRIORITY_CLASSES:
            self._take_pods_class(key.name, document)

    def _take_pods_class(self, name: str, document: Document | None) -> None:
        self._of_pods.pop(name, None)
        self._defaults.pop(name, None)
        found = decode_as(PriorityClass, document).object if document else None
        if found is not None:
            self._of_pods[name] = found.value
            if found.global_default:
                self._defaults[name] = found.value

    def priority_of(self, labels: Mapping[str, str], pods: PodSpec) -> Priority | Missing:
        """By the class of its label, else by that of its pods, else by the default class."""
        name = labels.get(PRIORITY_CLASS)
        if name:
            reference = PriorityClassRef(
                group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=name
            )
            return _priority(reference, self._of_workloads)
        name = pods.priority_class_name or self._default()
        if not name:
            return Priority(0, None)
        reference = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=name)
        return _priority(reference, self._of_pods)

    def _default(self) -> str:
        """Of several default classes the one of least value, as Kubernetes has it."""
        return min(self._defaults, key=lambda name: (self._defaults[name], name), default="")


def _priority(reference: PriorityClassRef, values: dict[str, int]) -> Priority | Missing:
    value = values.get(reference.name)
    if value is None:
        return Missing(reference.kind, reference.name)
    return Priority(value, reference)
