"""Handing out GPUs by index: what one pod holds, no other gets before it is over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from makeway.api.devices import DeviceId
from makeway.api.programs import ContainerProgram, Programs
from makeway.runner.host import PodState

# How each maker's programs are told which devices they may see.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "amd.com/gpu": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    "gpu.intel.com/i915": ("ZE_AFFINITY_MASK",),
}
_OTHERWISE = ("CUDA_VISIBLE_DEVICES",)
CHOICES_MAX = 15_000  # of GPUs that are near to each other, for one pod


class Pool(NamedTuple):
    """The GPUs of one kind on a node."""

    ids: Sequence[DeviceId]
    barred: Mapping[DeviceId, str] = {}  # not to be handed out, and why
    links: Mapping[int, Mapping[int, int]] = {}  # the larger, the nearer two are to each other


def held_on(node: str, pods: Iterable[PodState]) -> dict[str, set[DeviceId]]:
    """Which devices of a node its pods have: resource -> indexes."""
    held: dict[str, set[DeviceId]] = {}
    for pod in pods:
        if pod.node == node and not pod.is_over:
            for name, indexes in pod.devices.items():
                held.setdefault(name, set()).update(indexes)
    return held


def take(
    wanted: Mapping[str, int],
    pools: Mapping[str, Pool],
    held: Mapping[str, Collection[DeviceId]],
) -> dict[str, tuple[DeviceId, ...]] | None:
    """What nobody holds, the nearest to each other; None if there are too few."""
    taken: dict[str, tuple[DeviceId, ...]] = {}
    for name, count in wanted.items():
        pool = pools.get(name, Pool(()))
        free = [i for i in pool.ids if i not in held.get(name, ()) and i not in pool.barred]
        if len(free) < count:
            return None
        taken[name] = _nearest(free, count, pool.links)
    return taken


def _nearest(
    free: Sequence[DeviceId], count: int, links: Mapping[int, Mapping[int, int]]
) -> tuple[DeviceId, ...]:
    """Those that are nearest to each other; of equal ones those that leave the others together.

    Every choice is looked at, as long as they are not too many: 8 of 16 are 12 870.
    """
    if not links or comb(len(free), count) > CHOICES_MAX:
        return tuple(free[:count])

    def near(one: DeviceId, other: DeviceId) -> int:
        if isinstance(one, str) or isinstance(other, str):
            return 0
        return links.get(one, {}).get(other, 0)

    def cost(chosen: tuple[DeviceId, ...]) -> tuple[int, int]:
        rest = [one for one in free if one not in chosen]
        inside = sum(near(a, b) for a, b in combinations(chosen, 2))
        return -inside, sum(near(a, b) for a in chosen for b in rest)

    return min(combinations(free, count), key=cost)


def deal(
    programs: Programs, devices: Mapping[str, tuple[DeviceId, ...]]
) -> dict[str, dict[str, tuple[DeviceId, ...]]]:
    """Which container gets which of the pod's devices: container -> resource -> indexes.

    What runs together shares nothing. An init container has gone before the others come, so it
    uses theirs, from the far end: the sidecars that run beside it take from the near one.
    """
    dealt: dict[str, dict[str, tuple[DeviceId, ...]]] = {}
    sidecars = [c for c in programs.init_containers if c.is_sidecar]
    for resource, indexes in devices.items():
        position = 0
        for container in (*sidecars, *programs.containers):
            count = _count(container, resource)
            part = indexes[position : position + count]
            dealt.setdefault(container.name, {})[resource] = part
            position += count
        for container in programs.init_containers:
            if not container.is_sidecar:
                count = _count(container, resource)
                part = indexes[len(indexes) - count :]
                dealt.setdefault(container.name, {})[resource] = part
    return dealt


def _count(container: ContainerProgram, resource: str) -> int:
    return container.resources.requested().get(resource, 0)


def visible(
    of_node: Mapping[str, int], devices: Mapping[str, Sequence[DeviceId]]
) -> dict[str, str]:
    """The variables that show a container its devices, and no others of its node."""
    shown: dict[str, list[str]] = {}
    for resource in of_node:
        for name in _VARIABLES.get(resource, _OTHERWISE):
            shown.setdefault(name, []).extend(map(str, devices.get(resource, ())))
    variables = {name: ",".join(ids) for name, ids in shown.items()}
    if "CUDA_VISIBLE_DEVICES" in variables:
        # The order in which nvidia-smi counts them.
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return variables
