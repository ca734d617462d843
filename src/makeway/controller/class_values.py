"""Workloads have the priority that their WorkloadPriorityClass has now.

A class may get another value, or be made anew with one. Whoever waits or runs under it follows at
once, be it of a Job, of pods, or made by hand. Between two changes of its class a Workload keeps a
priority that somebody gave it by hand.
"""

from __future__ import annotations

from makeway.api.kinds import WORKLOAD_CLASSES, WORKLOADS, Resource
from makeway.api.versions import QUEUEING_GROUP
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.workload_writes import workload_patch
from makeway.plane.parts import Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, Patch


class ClassValues(Reconciler):
    """Its keys are classes."""

    resources: tuple[Resource, ...] = (WORKLOAD_CLASSES, WORKLOADS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._values = picture.index(WORKLOAD_CLASSES, _value)
        self._workloads = picture.index(WORKLOADS, _class_of)

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOAD_CLASSES:
            self.mark(*self._values.touched(change))

    def reconcile(self, key: Key, now: float) -> Plan:
        values = self._values.values(key)
        return Plan([patch for value in values for patch in self._patches(key, value)])

    def _patches(self, key: Key, value: int) -> list[Patch]:
        behind = [k for k, priority in self._workloads.items(key) if priority != value]
        documents = [self._picture.get(WORKLOADS, workload) for workload in behind]
        patches = [
            workload_patch(document, spec={"priority": value})
            for document in documents
            if document is not None and not _is_finished(document)
        ]
        return [patch for patch in patches if patch is not None]


def _value(found: Object) -> tuple[Key, int] | None:
    return None if found.view is None else (found.key, found.view.value)


def _class_of(found: Object) -> tuple[Key, int] | None:
    """By the class that a Workload refers to, its priority."""
    spec = found.document.get("spec") or {}
    reference = spec.get("priorityClassRef") or {}
    if reference.get("group") != QUEUEING_GROUP:
        return None
    return Key("", reference["name"]), spec.get("priority") or 0


def _is_finished(document: Document) -> bool:
    return "Finished" in true_types(conditions_of(document))
