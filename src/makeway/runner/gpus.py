"""Handing out GPUs by index: what one pod holds, no other gets before it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from makeway.api.devices import DeviceId
from makeway.api.programs import ContainerProgram, Programs
from makeway.runner.host import PodState

# How each maker's programs are told which devices they may see.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "amd.com/gpu": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    "gpu.intel.com/i915": ("ZE_AFFINITY_MASK",),
}
_OTHERWISE = ("CUDA_VISIBLE_DEVICES",)


def take(
    wanted: Mapping[str, int], of_node: Mapping[str, int], node: str, pods: Iterable[PodState]
) -> dict[str, tuple[DeviceId, ...]] | None:
    """The lowest indexes that nobody on the node holds; None if there are too few."""
    held: dict[str, set[DeviceId]] = {}
    for pod in pods:
        if pod.node == node and not pod.is_over:
            for name, indexes in pod.devices.items():
                held.setdefault(name, set()).update(indexes)
    taken: dict[str, tuple[DeviceId, ...]] = {}
    for name, count in wanted.items():
        taken_here = held.get(name, set())
        free = [index for index in range(of_node.get(name, 0)) if index not in taken_here]
        if len(free) < count:
            return None
        taken[name] = tuple(free[:count])
    return taken


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
    variables: dict[str, str] = {}
    for resource in of_node:
        indexes = ",".join(str(index) for index in devices.get(resource, ()))
        for name in _VARIABLES.get(resource, _OTHERWISE):
            variables[name] = indexes
    if "CUDA_VISIBLE_DEVICES" in variables:
        # The order in which nvidia-smi counts them.
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return variables
