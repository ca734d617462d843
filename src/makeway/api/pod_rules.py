"""What a namespace and a runtime class add to the requests of pods, and what they forbid.

A LimitRange fills in requests and limits that a container does not name, and says how much may be
asked for; a RuntimeClass has an overhead for each pod of it. Kubernetes applies both when it makes
a pod. Queues have to count them before, or pods that were admitted ask for more than was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.api.batch import (
    Amounts,
    Container,
    LimitRange,
    LimitRangeItem,
    PodSpec,
    ResourceRequirements,
    all_containers,
    pod_requests,
)
from makeway.api.quantity import format_amount, format_quantity

ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"
ABOVE_RATIO = "limits must not be above the limitRange maxLimitRequestRatio"


OF_CONTAINERS, OF_PODS = LimitRangeItem(type="Container"), LimitRangeItem(type="Pod")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What holds for the pods of a namespace."""

    container: LimitRangeItem = OF_CONTAINERS
    pod: LimitRangeItem = OF_PODS
    overheads: Mapping[str, Amounts] = field(default_factory=dict)  # by runtime class

    def completed(self, spec: PodSpec) -> PodSpec:
        """The pod as Kubernetes will make it."""
        overhead = spec.overhead or self.overheads.get(spec.runtime_class_name, {})
        filled = self.container.default or self.container.default_request
        if not filled:
            return spec if overhead == spec.overhead else replace(spec, overhead=overhead)
        return replace(
            spec,
            overhead=overhead,
            containers=tuple(map(self._filled, spec.containers)),
            init_containers=tuple(map(self._filled, spec.init_containers)),
        )

    def _filled(self, container: Container) -> Container:
        return replace(container, resources=self.filled(container.resources))

    def filled(self, written: ResourceRequirements) -> ResourceRequirements:
        """A limit without a request is one; only then comes what the namespace fills in."""
        return replace(
            written,
            requests={**self.container.default_request, **written.requested()},
            limits={**self.container.default, **written.limits},
        )

    def violations(self, spec: PodSpec) -> Iterator[tuple[str, str]]:
        """What a completed pod asks for that no pod of the namespace may, and where in it."""
        for place, index, container in all_containers(spec):
            resources = container.resources
            for problem in _problems(self.container, resources.requests, resources.limits):
                yield f".{place}[{index}]", problem
        for problem in _problems(self.pod, pod_requests(spec), _total_limits(spec)):
            yield "", problem


NO_RULES = PodRules()


def rules_of(ranges: Iterable[LimitRange], overheads: Mapping[str, Amounts]) -> PodRules:
    """Of several LimitRanges the strictest bounds count, and the first defaults."""
    items = [item for limits in ranges for item in limits.spec.limits]
    if not items and not overheads:
        return NO_RULES
    return PodRules(
        container=_summary(OF_CONTAINERS, items), pod=_summary(OF_PODS, items), overheads=overheads
    )


def _summary(found: LimitRangeItem, items: Sequence[LimitRangeItem]) -> LimitRangeItem:
    for item in items:
        if item.type != found.type:
            continue
        own = completed_item(item)
        ratios = {**found.max_limit_request_ratio, **own.max_limit_request_ratio}
        found = LimitRangeItem(
            type=found.type,
            max={r: min(found.max.get(r, a), a) for r, a in {**found.max, **own.max}.items()},
            min={r: max(found.min.get(r, a), a) for r, a in {**found.min, **own.min}.items()},
            default={**own.default, **found.default},
            default_request={**own.default_request, **found.default_request},
            max_limit_request_ratio={
                resource: min(found.max_limit_request_ratio.get(resource, ratio), ratio)
                for resource, ratio in ratios.items()
            },
        )
    return found


def completed_item(item: LimitRangeItem) -> LimitRangeItem:
    """As Kubernetes stores it: what containers get follows from the bounds, if nothing says so."""
    if item.type != "Container":
        return item
    default = {**item.max, **item.default}
    return replace(
        item, default=default, default_request={**item.min, **default, **item.default_request}
    )


def _total_limits(spec: PodSpec) -> Amounts:
    total: dict[str, int] = {}
    for container in spec.containers:
        for resource, amount in container.resources.limits.items():
            total[resource] = total.get(resource, 0) + amount
    return {**total, **(spec.resources.limits if spec.resources is not None else {})}


def _problems(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for resource, most in sorted(item.max.items()):
        asked = max(requests.get(resource, 0), limits.get(resource, 0))
        if asked > most:
            yield f"{ABOVE_MAX} ({resource}: {_of(resource, asked)}, {_of(resource, most)})"
    for resource, least in sorted(item.min.items()):
        both = [amounts[resource] for amounts in (requests, limits) if resource in amounts]
        if both and min(both) < least:
            yield f"{BELOW_MIN} ({resource}: {_of(resource, min(both))}, {_of(resource, least)})"
    for resource, ratio in sorted(item.max_limit_request_ratio.items()):
        if limits.get(resource, 0) > ratio * requests.get(resource, 0):
            yield f"{ABOVE_RATIO} ({resource}: {format_quantity(ratio)})"


def _of(resource: str, amount: int) -> str:
    return format_amount(resource, amount)
