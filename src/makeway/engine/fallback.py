"""Which flavors are exhausted for whom, and what follows when a trigger fires.

A flavor is exhausted for a workload only when a trigger fired while the workload held it: it
was not running in time, or an admission check said no. Time that passed without holding a flavor
never counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from makeway.engine.flavors import mismatch_of
from makeway.engine.model import (
    PODS,
    FallbackRule,
    Fallbacks,
    Flavor,
    FlavorName,
    FlavorResource,
    FlavorTrial,
    PodSet,
    PodSetName,
    ResourceGroup,
    Trigger,
    WorkloadStatus,
)
from makeway.engine.quota import potential
from makeway.engine.tree import QueueState

ANY_FLAVOR = "*"


def rule_for(fallbacks: Fallbacks, flavor: FlavorName, trigger: Trigger) -> FallbackRule | None:
    """The rule that names the flavor wins over "*"; one without trigger exempts from "*"."""
    general = None
    for rule in fallbacks.rules:
        if rule.flavor == flavor:
            if rule.trigger is trigger:
                return rule
            if rule.trigger is None:
                return None
        elif rule.flavor == ANY_FLAVOR and rule.trigger is trigger:
            general = rule
    return general


def exhausted_for(history: tuple[FlavorTrial, ...], queue: QueueState) -> tuple[FlavorName, ...]:
    """The flavors passed over for a workload; a trial counts while a rule for it exists."""
    fallbacks = queue.spec.fungibility.fallbacks
    return tuple(
        trial.flavor
        for trial in history
        if trial.reason is not None and rule_for(fallbacks, trial.flavor, trial.reason)
    )


def with_assigned(
    history: tuple[FlavorTrial, ...], flavors: Collection[FlavorName], now: float
) -> tuple[FlavorTrial, ...]:
    """Note that these flavors were assigned now."""
    lines = {trial.flavor: trial for trial in history}
    for flavor in flavors:
        before = lines.get(flavor)
        lines[flavor] = (
            FlavorTrial(flavor, now) if before is None else before._replace(assigned_at=now)
        )
    return tuple(lines[flavor] for flavor in sorted(lines))


def with_exhausted(
    status: WorkloadStatus, flavors: Collection[FlavorName], trigger: Trigger, now: float
) -> tuple[FlavorTrial, ...]:
    """The history with these flavors exhausted; a rule may be newer than their assignment."""
    lines = {trial.flavor: trial for trial in status.history}
    for flavor in flavors:
        line = lines.get(flavor) or FlavorTrial(flavor, status.reserved_at or 0.0)
        lines[flavor] = line._replace(exhausted_at=now, reason=trigger)
    return tuple(lines[flavor] for flavor in sorted(lines))


def without_exhaustion(
    history: tuple[FlavorTrial, ...], flavors: Collection[FlavorName]
) -> tuple[FlavorTrial, ...]:
    """Pods are ready on these flavors: what was held against them is forgiven, and only that."""
    return tuple(
        trial._replace(exhausted_at=None, reason=None) if trial.flavor in flavors else trial
        for trial in history
    )


def timeout_due_at(status: WorkloadStatus, queue: QueueState, flavor: FlavorName) -> float | None:
    """When the clock of a held flavor runs out; None if no rule sets one."""
    rule = rule_for(queue.spec.fungibility.fallbacks, flavor, Trigger.TIMEOUT)
    if rule is None or rule.timeout_s is None:
        return None
    since = next((t.assigned_at for t in status.history if t.flavor == flavor), status.reserved_at)
    return (since or 0.0) + rule.timeout_s


def choose_exhausted(
    status: WorkloadStatus,
    queue: QueueState,
    due: Collection[FlavorName],
    flavors: Mapping[FlavorName, Flavor],
    pod_sets: tuple[PodSet, ...],
) -> tuple[FlavorName, ...]:
    """Of the flavors that are due, those to blame: the ones that have an alternative, or all.

    So a common cpu flavor isn't blamed for a dry gpu flavor.
    """
    exhausted = set(exhausted_for(status.history, queue))
    replaceable = []
    for flavor in due:
        without = exhausted | {flavor}
        if all(
            _eligible(pod_set, group, queue, flavors, without)
            for pod_set, group in _held_groups(status, queue, flavor, pod_sets)
        ):
            replaceable.append(flavor)
    return tuple(sorted(replaceable or due))


def _held_groups(
    status: WorkloadStatus, queue: QueueState, flavor: FlavorName, pod_sets: tuple[PodSet, ...]
) -> Iterator[tuple[PodSet, ResourceGroup]]:
    """The pod sets that hold the flavor, each with the resource group it holds it in."""
    assert status.assignment is not None
    by_name: dict[PodSetName, PodSet] = {pod_set.name: pod_set for pod_set in pod_sets}
    for assigned in status.assignment.pod_sets:
        for resource, held in assigned.flavors:
            group = queue.group_of.get(resource)
            if held == flavor and group is not None and assigned.name in by_name:
                yield by_name[assigned.name], group


def has_eligible_flavors(
    history: tuple[FlavorTrial, ...],
    queue: QueueState,
    flavors: Mapping[FlavorName, Flavor],
    pod_sets: tuple[PodSet, ...],
) -> bool:
    """Is there, for every needed group of every pod set, a flavor left to try?"""
    exhausted = set(exhausted_for(history, queue))
    return all(
        _eligible(pod_set, group, queue, flavors, exhausted)
        for pod_set in pod_sets
        for group in queue.spec.groups
        if any(resource in group.resources for resource, _ in pod_set.requests)
    )


def _eligible(
    pod_set: PodSet,
    group: ResourceGroup,
    queue: QueueState,
    flavors: Mapping[FlavorName, Flavor],
    exhausted: Collection[FlavorName],
) -> list[FlavorName]:
    """Flavors of the group that are not exhausted, match, and could ever offer enough."""
    return [
        quotas.flavor
        for quotas in group.flavors
        if quotas.flavor not in exhausted
        and quotas.flavor in flavors
        and mismatch_of(flavors[quotas.flavor], pod_set) is None
        and _could_offer(pod_set, group, quotas.flavor, queue)
    ]


def _could_offer(
    pod_set: PodSet, group: ResourceGroup, flavor: FlavorName, queue: QueueState
) -> bool:
    pods = pod_set.count if pod_set.min_count is None else pod_set.min_count
    return all(
        (1 if resource == PODS else amount) * pods
        <= potential(queue.node, FlavorResource(flavor, resource))
        for resource, amount in (*pod_set.requests, (PODS, 1))
        if resource in group.resources
    )
