"""What LimitRanges and RuntimeClasses make of a new pod, as Kubernetes' admission does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from makeway.api.batch import PodSpec
from makeway.api.kinds import PODS
from makeway.api.pod_rules import PodRules
from makeway.api.quantity import format_amount
from makeway.server import errors
from makeway.server.surroundings import Surroundings

Document = dict[str, Any]
NOTE = "kubernetes.io/limit-ranger"  # annotation: what was filled in
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))


def fill_limit_range(limits: Document) -> None:
    """What containers get follows from the bounds, where nothing else is said."""
    items = (limits.get("spec") or {}).get("limits")
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or item.get("type") != "Container":
            continue
        most, least = _amounts(item, "max"), _amounts(item, "min")
        default = {**most, **_amounts(item, "default")}
        requests = {**least, **default, **_amounts(item, "defaultRequest")}
        item.update({k: v for k, v in (("default", default), ("defaultRequest", requests)) if v})


def _amounts(item: Document, name: str) -> Document:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def fill_pod(pod: Document, spec: Document, around: Surroundings) -> None:
    _add_overhead(pod, spec, around)
    rules = around.pod_rules(pod["metadata"]["namespace"])
    said = [
        text
        for place, word in _CONTAINERS
        for container in spec.get(place) or ()
        if isinstance(container, dict)
        for text in _fill_container(container, word, rules)
    ]
    if said:
        annotations = pod["metadata"].get("annotations") or {}
        note = f"LimitRanger plugin set: {'; '.join(said)}"
        pod["metadata"]["annotations"] = {**annotations, NOTE: note}


def _fill_container(container: Document, word: str, rules: PodRules) -> Iterable[str]:
    """Yields what was filled in, in Kubernetes' words."""
    resources = container.setdefault("resources", {})
    if not isinstance(resources, dict):
        return
    limits, requests = _amounts(resources, "limits"), _amounts(resources, "requests")
    for name, kind, written, default in (
        ("requests", "request", {**limits, **requests}, rules.container.default_request),
        ("limits", "limit", limits, rules.container.default),
    ):
        missing = sorted(set(default) - set(written))
        if missing:
            added = {resource: format_amount(resource, default[resource]) for resource in missing}
            resources[name] = {**written, **added}
            yield f"{', '.join(missing)} {kind} for {word} {container.get('name', '')}"


def _add_overhead(pod: Document, spec: Document, around: Surroundings) -> None:
    name = spec.get("runtimeClassName")
    if not isinstance(name, str) or not name:
        return
    overhead = around.overhead_of(name)
    if overhead is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise errors.forbidden(PODS, pod["metadata"]["name"], why)
    if spec.get("overhead", overhead) != overhead:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise errors.forbidden(PODS, pod["metadata"]["name"], why)
    if overhead:
        spec["overhead"] = overhead


def check_pod(name: str, namespace: str, spec: PodSpec, around: Surroundings) -> None:
    for where, problem in around.pod_rules(namespace).violations(spec):
        raise errors.forbidden(PODS, name, f"spec{where}: {problem}")
