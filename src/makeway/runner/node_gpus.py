"""Which GPUs a node has, which of them may be handed out, and telling the node so.

A GPU that was drained, or that a process outside of Makeway uses, is not handed out. A node offers
so many fewer (`status.allocatable`), except for one that a pod still holds: that pod counts itself.
One whose pod has just ended is offered, too, and handed out as soon as that has let go of it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.api.devices import (
    DRAINED,
    GPU_LIST,
    NVIDIA,
    UNAVAILABLE,
    DeviceId,
    format_unavailable,
    gpus_of,
    parse_drained,
)
from makeway.api.kinds import NODES, Resource
from makeway.api.labels import GPU_UUIDS
from makeway.logs import Fields
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, status_patch
from makeway.runner import gpu_locks
from makeway.runner.gpu_reading import Device, user_text
from makeway.runner.gpus import Pool, held_on
from makeway.runner.host import GpuPart, Host

log = logging.getLogger("makeway.runner")

BY_ANOTHER = "held by another Makeway of this machine"
LETTING_GO = "not yet let go by its last job"
LETTING_GO_S = 10.0  # so long its last job may take
LOOK_AGAIN_S = {BY_ANOTHER: 5.0, LETTING_GO: 0.1}  # nobody tells when others let go of a lock


class NodeGpus:
    """What is known of every node's GPUs."""

    def __init__(
        self, host: Host, machine: str = "", devices: Callable[[], Sequence[Device]] = tuple
    ) -> None:
        """`machine` is the node that is this machine, whose GPUs are as `devices` tells."""
        self._host, self._machine, self._devices = host, machine, devices
        self._counts: dict[str, Mapping[str, int]] = {}
        self._drained: dict[str, frozenset[DeviceId]] = {}
        self._uuids: dict[str, tuple[str, ...]] = {}
        # When a pod of ours was last seen to hold a GPU.
        self._held_at: dict[tuple[str, DeviceId], float] = {}

    def hear(self, node: Node) -> None:
        name, annotations = node.metadata.name, node.metadata.annotations
        self._counts[name] = gpus_of(node.status.capacity or node.status.allocatable)
        self._drained[name] = parse_drained(annotations.get(DRAINED, ""))
        self._uuids[name] = tuple(filter(None, annotations.get(GPU_UUIDS, "").split(",")))

    def devices_of(self, node: str) -> Sequence[Device]:
        """Of the machine itself; nothing is known of those that were only declared."""
        return self._devices() if node == self._machine else ()

    def pools(self, node: str) -> dict[str, Pool]:
        """All that may be handed out, by resource; with why some may not."""
        barred = self.barred(node)
        known: dict[str, list[Device]] = {}
        for device in self.devices_of(node):
            known.setdefault(device.resource, []).append(device)
        pools = {}
        for resource, count in self._counts.get(node, {}).items():
            mine = known.get(resource, ())
            is_declared = not known or not resource.startswith(NVIDIA)
            ids = tuple(range(count)) if is_declared else tuple(device.id for device in mine)
            links = {d.id: d.links for d in mine if isinstance(d.id, int)}
            pools[resource] = Pool(ids, {i: why for i, why in barred.items() if i in ids}, links)
        return pools

    def uuids_of(self, node: str) -> Sequence[str]:
        """By index; none: they are only declared."""
        return self._uuids.get(node, ())

    def parts_of(self, node: str, held: Collection[DeviceId]) -> tuple[GpuPart, ...]:
        """Of GPUs that are divided, those among them."""
        return tuple(d.part for d in self.devices_of(node) if d.part is not None and d.id in held)

    def barred(self, node: str) -> dict[DeviceId, str]:
        """Why GPUs are not handed out: somebody took them out, or uses them without asking us."""
        drained = sorted(self._drained.get(node, ()), key=str)
        reasons: dict[DeviceId, str] = dict.fromkeys(drained, "drained")
        held, now = self._held(node), time.monotonic()
        self._held_at |= {(node, device): now for device in held}

        def bar(device: DeviceId, why: str) -> None:
            if now < self._held_at.get((node, device), -LETTING_GO_S) + LETTING_GO_S:
                reasons.setdefault(device, LETTING_GO)  # one that is drained stays so
            else:
                reasons[device] = why

        for device in self.devices_of(node):
            if device.id in held:
                continue
            if living := [process for process in device.processes if not process.is_gone()]:
                bar(device.id, user_text(living[0].pid))
        names: list[tuple[DeviceId, str]] = [*enumerate(self.uuids_of(node))]
        names += [(d.id, d.uuid) for d in self.devices_of(node) if isinstance(d.id, str)]
        taken = gpu_locks.taken() if names else set()
        for device_id, uuid in names:
            if uuid in taken and device_id not in held:
                bar(device_id, BY_ANOTHER)
        return reasons

    def free_of(self, node: str) -> dict[str, int]:
        """How many of each kind the node offers: all but those that are barred for longer."""
        held = self._held(node)
        return {
            resource: len(pool.ids)
            - sum(device not in held and why != LETTING_GO for device, why in pool.barred.items())
            for resource, pool in self.pools(node).items()
        }

    def _held(self, node: str) -> set[DeviceId]:
        return set().union(*held_on(node, self._host.states().values()).values())


class GpuOffers(Reconciler):
    """Keeps what nodes offer of their GPUs, and what they say of them, up to date."""

    resources: tuple[Resource, ...] = (NODES,)

    def __init__(self, picture: Picture, gpus: NodeGpus) -> None:
        super().__init__()
        self._picture, self._gpus = picture, gpus

    def changed(self, change: Change) -> None:
        self.mark(change.key)

    def look_again(self) -> None:
        """A pod has ended, or somebody else has begun or ceased to use a GPU."""
        self.mark(*self._picture.keys(NODES))

    def reconcile(self, key: Key, now: float) -> Plan:
        document = self._picture.get(NODES, key)
        node = None if document is None else decode_as(Node, document).object
        if document is None or node is None:
            return NOTHING
        self._gpus.hear(node)
        status, barred = document.get("status") or {}, self._gpus.barred(key.name)
        again_at = look_again_at(now, barred.values())
        lasting = {device: why for device, why in barred.items() if why != LETTING_GO}
        annotations = {
            UNAVAILABLE: format_unavailable(lasting),
            GPU_LIST: _list_of(self._gpus.devices_of(key.name)),
        }
        offered = {name: str(count) for name, count in self._gpus.free_of(key.name).items()}
        before = status.get("allocatable") or {}
        new = {name: value for name, value in offered.items() if str(before.get(name)) != value}
        told = {n: v for n, v in annotations.items() if node.metadata.annotations.get(n, "") != v}
        if not new and not told:
            return Plan(next_at=again_at)
        log.info(Fields(node=key.name, offers=offered, unavailable=annotations[UNAVAILABLE]))
        return Plan([status_patch(NODES, document, {"allocatable": new}, told)], again_at)


def look_again_at(now: float, reasons: Iterable[str]) -> float | None:
    """When GPUs may have come free that nobody tells of; None: all is told."""
    waits = [LOOK_AGAIN_S[why] for why in reasons if why in LOOK_AGAIN_S]
    return now + min(waits) if waits else None


def _list_of(devices: Sequence[Device]) -> str:
    """What the GPUs are, which changes with the hardware only; empty: nothing is known."""
    told = [
        {
            "id": d.id,
            "resource": d.resource,
            "uuid": d.uuid,
            "model": d.model,
            "memory": d.memory_bytes,
        }
        for d in devices
    ]
    return json.dumps(told) if told else ""


def unavailable_text(pools: Mapping[str, Pool]) -> str:
    """`GPU 3 is drained, GPU 5 is used by ann (python, pid 12)`; empty: none is missing."""
    reasons = ((device, why) for pool in pools.values() for device, why in pool.barred.items())
    return ", ".join(f"GPU {device} is {why}" for device, why in reasons)
