"""The priority of a Job or pod, from the classes that it or its pods name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from makeway.api.batch import PodSpec
from makeway.api.kinds import PRIORITY_CLASSES, WORKLOAD_CLASSES
from makeway.api.labels import PRIORITY_CLASS
from makeway.api.priorities import SYSTEM_PRIORITIES
from makeway.api.queueing import PriorityClassRef
from makeway.plane.picture import Object, Picture


class Priority(NamedTuple):
    value: int
    reference: PriorityClassRef | None  # None: no class says so


class Missing(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}" not found'


class Classes:
    """The priority classes that there are, kept as numbers: every Job asks for one."""

    def __init__(self, picture: Picture) -> None:
        self._of_workloads = picture.index(WORKLOAD_CLASSES, _value)
        self._of_pods = picture.index(PRIORITY_CLASSES, _value)
        self._defaults = picture.index(PRIORITY_CLASSES, _default)

    def priority_of(self, labels: Mapping[str, str], pods: PodSpec) -> Priority | Missing:
        """By the class of its label, else by that of its pods, else by the default class."""
        name = labels.get(PRIORITY_CLASS)
        if name:
            reference = PriorityClassRef(
                group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=name
            )
            return _priority(reference, self._of_workloads.values(name))
        # Of several default classes the one of least value counts, as Kubernetes has it.
        _, default = min(self._defaults.values(None), default=(0, ""))
        name = pods.priority_class_name or default
        if not name:
            return Priority(0, None)
        reference = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=name)
        of_system = [SYSTEM_PRIORITIES[name]] if name in SYSTEM_PRIORITIES else []
        return _priority(reference, self._of_pods.values(name) or of_system)


def _value(found: Object) -> tuple[str, int] | None:
    return None if found.view is None else (found.key.name, found.view.value)


def _default(found: Object) -> tuple[None, tuple[int, str]] | None:
    view = found.view
    is_default = view is not None and view.global_default
    return (None, (view.value, found.key.name)) if is_default else None


def _priority(reference: PriorityClassRef, values: Sequence[int]) -> Priority | Missing:
    return Priority(values[0], reference) if values else Missing(reference.kind, reference.name)
