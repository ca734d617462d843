"""Pods that run, and the units in which they are preempted, as arrays with a slot each.

A unit is all pods of a gang whose mode is PodGroup, or else a single pod. Its importance is its
preemption priority, then being part of a gang, then its size, then how long it has run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from makeway.placement.model import (
    DisruptionMode,
    Gang,
    Pod,
    PodKey,
    Unit,
    gang_unit,
    pod_unit,
    victim_priority,
)
from makeway.placement.nodes import Columns, Flags, Ints, Rows, grown

NOWHERE = -1
Floats = npt.NDArray[np.float64]


class UnitTable:
    """Exactly the pods that are bound to a node, each in exactly one unit."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        # By slot of a pod.
        self.pods: list[Pod | None] = []
        self.slot_of: dict[PodKey, int] = {}
        self.row: Rows = np.full(16, NOWHERE, dtype=np.intp)  # of the node; -1: it is unknown
        self.unit: Rows = np.zeros(16, dtype=np.intp)
        self.taken: Ints = np.zeros((16, len(columns)), dtype=np.int64)
        self.stays: Flags = np.zeros(16, dtype=np.bool_)  # the pod runs and is not leaving already
        # By slot of a unit.
        self.keys: list[Unit | None] = []
        self.unit_of: dict[Unit, int] = {}
        self.members: list[set[int]] = []  # slots of pods, leaving pods included
        self.priority: Ints = np.zeros(16, dtype=np.int64)
        self.in_gang: Flags = np.zeros(16, dtype=np.bool_)
        self.size: Ints = np.zeros(16, dtype=np.int64)  # pods that are not leaving
        # The earliest start of a pod; inf: no pod has started.
        self.started: Floats = np.zeros(16, dtype=np.float64)
        self._vacant_slots: list[int] = []
        self._vacant_units: list[int] = []
        self._by_key: list[Unit] = []  # sorted, but for units that came or went since
        self._unsorted: list[Unit] = []
        self._rank: Ints | None = None  # rank of units by key; None: units came or went since

    def add(self, pod: Pod, row: int, gang: Gang | None) -> None:
        """File a bound pod under its unit; `gang` is None for a pod without one."""
        slot = self._new_slot()
        unit = self._unit_for(pod, gang)
        self.pods[slot] = pod
        self.slot_of[pod.key] = slot
        self.row[slot] = row
        self.unit[slot] = unit
        amounts = self.columns.amounts(pod.shape)
        self.fit_columns()
        self.taken[slot] = 0
        self.taken[slot, : len(amounts)] = amounts
        self.stays[slot] = not pod.terminating
        self.members[unit].add(slot)
        self.priority[unit] = victim_priority(gang or pod)
        self.in_gang[unit] = gang is not None
        if not pod.terminating:
            self.size[unit] += 1
            self.started[unit] = min(self.started[unit], _start(pod))

    def fit_columns(self) -> None:
        if self.taken.shape[1] < len(self.columns):
            self.taken = grown(self.taken, len(self.taken), len(self.columns))

    def remove(self, key: PodKey) -> None:
        slot = self.slot_of.pop(key)
        pod, unit = self.pods[slot], int(self.unit[slot])
        assert pod is not None, key
        self.pods[slot] = None
        self.row[slot] = NOWHERE
        self.members[unit].discard(slot)
        self._vacant_slots.append(slot)
        if self.stays[slot]:
            self._lose(slot, pod, unit)
        if not self.members[unit]:
            unit_key = self.keys[unit]
            assert unit_key is not None, key
            del self.unit_of[unit_key]
            self.keys[unit] = None
            self._vacant_units.append(unit)
            self._rank = None

    def leave(self, pod: Pod) -> None:
        """Note that a pod is leaving: it takes its room, but is no candidate any more."""
        slot = self.slot_of[pod.key]
        before, unit = self.pods[slot], int(self.unit[slot])
        assert before is not None, pod
        assert pod.terminating, pod
        self.pods[slot] = pod
        if self.stays[slot]:
            self._lose(slot, before, unit)

    def _lose(self, slot: int, pod: Pod, unit: int) -> None:
        self.stays[slot] = False
        self.size[unit] -= 1
        if self.started[unit] == _start(pod):
            self.started[unit] = self._earliest_start(unit, _start(pod))

    def _earliest_start(self, unit: int, bound: float) -> float:
        """When the first of the staying pods started; none did before `bound`."""
        earliest = float("inf")
        for slot in self.members[unit]:
            pod = self.pods[slot]
            if pod is not None and self.stays[slot]:
                earliest = min(earliest, _start(pod))
                if earliest <= bound:
                    break
        return earliest

    def _unit_for(self, pod: Pod, gang: Gang | None) -> int:
        if gang is not None and gang.mode is DisruptionMode.GANG:
            key = gang_unit(gang.key)
        else:
            key = pod_unit(pod.key)
        unit = self.unit_of.get(key)
        if unit is None:
            unit = self._new_unit()
            self._unsorted.append(key)
            self._rank = None
            self.unit_of[key] = unit
            self.keys[unit] = key
            self.size[unit] = 0
            self.started[unit] = np.inf
        return unit

    def _new_slot(self) -> int:
        if self._vacant_slots:
            return self._vacant_slots.pop()
        self.pods.append(None)
        slots = len(self.pods)
        if slots > len(self.row):
            self.row = grown(self.row, 2 * slots)
            self.row[slots - 1 :] = NOWHERE
            self.unit = grown(self.unit, 2 * slots)
            self.taken = grown(self.taken, 2 * slots, self.taken.shape[1])
            self.stays = grown(self.stays, 2 * slots)
        return slots - 1

    def _new_unit(self) -> int:
        if self._vacant_units:
            return self._vacant_units.pop()
        self.keys.append(None)
        self.members.append(set())
        units = len(self.keys)
        if units > len(self.priority):
            self.priority = grown(self.priority, 2 * units)
            self.in_gang = grown(self.in_gang, 2 * units)
            self.size = grown(self.size, 2 * units)
            self.started = grown(self.started, 2 * units)
        return units - 1

    def importance(self, units: Rows) -> Rows:
        """Return these units, the most important first."""
        if self._rank is None:
            self._rank = self._rank_by_key()
        order = np.lexsort(
            (
                self._rank[units],
                self.started[units],
                -self.size[units],
                ~self.in_gang[units],
                -self.priority[units],
            )
        )
        return units[order]

    def _rank_by_key(self) -> Ints:
        """Cheap when few units came and went: sorting what is nearly sorted takes one pass."""
        known = [key for key in self._by_key if key in self.unit_of]
        unsorted = {key: None for key in self._unsorted if key in self.unit_of}
        if len(known) + len(unsorted) != len(self.unit_of):  # some went and came back
            known = [key for key in known if key not in unsorted]
        self._by_key = sorted([*known, *unsorted])
        self._unsorted = []
        rank = np.zeros(len(self.keys), dtype=np.int64)
        rank[[self.unit_of[key] for key in self._by_key]] = np.arange(len(self._by_key))
        return rank

    def staying(self, unit: int) -> list[Pod]:
        """The pods of a unit that are not leaving, by key."""
        found = [pod for s in self.members[unit] if self.stays[s] and (pod := self.pods[s])]
        return found if len(found) < 2 else sorted(found, key=lambda pod: pod.key)


def _start(pod: Pod) -> float:
    return float("inf") if pod.started_at is None else pod.started_at
