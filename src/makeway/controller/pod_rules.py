"""The LimitRanges and RuntimeClasses that there are, as they count for the pods of a namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
    return (None, None) if any(map(_has_class, _pod_sets(workload.document))) else None


def _pod_sets(workload: Mapping[str, Any]) -> Iterable[Any]:
    """As somebody wrote them: a Workload that can't be read is told so elsewhere."""
    spec = workload.get("spec")
    pod_sets = spec.get("podSets") if isinstance(spec, dict) else None
    return pod_sets if isinstance(pod_sets, list) else ()


def _has_class(pod_set: Any) -> bool:
    for field in ("template", "spec", "runtimeClassName"):
        pod_set = pod_set.get(field) if isinstance(pod_set, dict) else None
    return bool(pod_set)
