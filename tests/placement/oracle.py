"""Plain answers for small clusters, by trying everything; shares no code with what it judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product

from makeway.placement.model import DisruptionMode, Gang, Node, Pod

Units = dict[str, list[Pod]]


def amounts(pod: Pod) -> dict[str, int]:
    return {**{str(resource): amount for resource, amount in pod.shape.requests}, "pods": 1}


def free_on(node: Node, pods: Iterable[Pod]) -> dict[str, int]:
    free = {str(resource): amount for resource, amount in node.capacity.items()}
    for pod in pods:
        if pod.node == node.name:
            for resource, amount in amounts(pod).items():
                free[resource] = free.get(resource, 0) - amount
    return free


def fits(pod: Pod, free: dict[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in amounts(pod).items())


def priority_of(pod: Pod, gangs: dict[str, Gang]) -> int:
    """Preemption priority: the gang's where there is one."""
    owner: Pod | Gang = gangs[pod.gang] if pod.gang is not None else pod
    return owner.priority if owner.preemption_priority is None else owner.preemption_priority


def units_of(pods: Iterable[Pod], gangs: dict[str, Gang]) -> Units:
    """Pods that run and are not leaving, by the unit in which they are preempted."""
    units: Units = {}
    for pod in pods:
        if pod.node is not None and not pod.terminating:
            together = pod.gang is not None and gangs[pod.gang].mode is DisruptionMode.GANG
            units.setdefault(f"gang {pod.gang}" if together else f"pod {pod.key}", []).append(pod)
    return units


def can_place(members: Sequence[Pod], needed: int, nodes: Sequence[Node], pods: list[Pod]) -> bool:
    """Is there any way to put `needed` of the members on the nodes beside `pods`?"""
    frees = [free_on(node, pods) for node in nodes]
    for chosen in combinations(members, needed):
        for where in product(range(len(nodes)), repeat=needed):
            left = [dict(free) for free in frees]
            if _all_fit(chosen, where, left):
                return True
    return False


def _all_fit(chosen: Sequence[Pod], where: Sequence[int], left: list[dict[str, int]]) -> bool:
    for pod, index in zip(chosen, where, strict=True):
        if not fits(pod, left[index]):
            return False
        for resource, amount in amounts(pod).items():
            left[index][resource] -= amount
    return True


def least_level(
    members: Sequence[Pod],
    needed: int,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    gangs: dict[str, Gang],
    below: int,
) -> int | None:
    """The smallest priority N such that losing all candidates up to N is enough; None: never."""
    staying = [pod for pod in pods if pod.node is not None and not pod.terminating]
    levels = sorted({priority_of(pod, gangs) for pod in staying} - {*range(below, 2**10)})
    for level in levels:
        left = [pod for pod in staying if priority_of(pod, gangs) > level]
        if can_place(members, needed, nodes, left):
            return level
    return None
