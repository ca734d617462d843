"""The LimitRanges and RuntimeClasses that there are, as they count for the pods of a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.kinds import LIMIT_RANGES, RUNTIME_CLASSES, WORKLOADS, Resource
from makeway.api.pod_rules import PodRules, rules_of
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key


class PodRulesIn:
    resources: tuple[Resource, ...] = (LIMIT_RANGES, RUNTIME_CLASSES)

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._ranges = picture.index(
            LIMIT_RANGES,
            lambda found: None if found.view is None else (found.key.namespace, found.view),
        )
        self._overheads = picture.index(
            RUNTIME_CLASSES,
            lambda found: None if found.view is None else (None, found.view.overhead.pod_fixed),
        )
        # Workloads with pods of any runtime class: few have.
        self._classed = picture.index(WORKLOADS, _names_class)
        self._known: dict[str, PodRules] = {}  # by namespace, until something changes

    def of(self, namespace: str) -> PodRules:
        if namespace not in self._known:
            overheads = {key.name: amounts for key, amounts in self._overheads.items(None)}
            self._known[namespace] = rules_of(self._ranges.values(namespace), overheads)
        return self._known[namespace]

    def concerned(self, change: Change) -> Iterable[Key]:
        """The Workloads for whose pods another rule holds now."""
        self._known.clear()
        if change.resource == RUNTIME_CLASSES:
            return self._classed.keys(None)
        return [k for k in self._picture.keys(WORKLOADS) if k.namespace == change.key.namespace]


def _names_class(workload: Object) -> tuple[None, None] | None:
    pod_sets = (workload.document.get("spec") or {}).get("podSets") or ()
    specs = (((pod_set.get("template") or {}).get("spec") or {}) for pod_set in pod_sets)
    return (None, None) if any(spec.get("runtimeClassName") for spec in specs) else None
