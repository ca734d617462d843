"""What placement can answer, with its reasons as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, overload

from makeway.engine.model import EvictionReason, ResourceName, WorkloadKey
from makeway.placement.model import GangKey, NodeName, PodKey, Unit


class Place(NamedTuple):
    pod: PodKey
    node: NodeName


Placement = tuple[Place, ...]  # sorted by pod


class Cause(Enum):
    """Why a node takes no (more) members."""

    UNSCHEDULABLE = "Unschedulable"
    TAINT = "UntoleratedTaint"
    SELECTOR = "NodeSelectorMismatch"
    TOPOLOGY = "OutsideTopology"
    RESOURCE = "Insufficient"
    APART = "MembersApart"
    FITS = "Fits"  # the node takes members; the gang as a whole needs more


class Blocked(NamedTuple):
    """Nodes that say no for one and the same cause: a line of `0/5000 nodes are available`."""

    cause: Cause
    resource: ResourceName | None  # the scarcest; set exactly for Cause.RESOURCE
    nodes: int
    example: NodeName


class DomainLack(NamedTuple):
    """How many members one value of the topology key has room for."""

    domain: str
    fitting: int  # members, each shape counted by itself
    fitting_after_preemption: int  # members with every candidate gone


class WaitReason(Enum):
    GANG_MISSING = "GangMissing"  # pods name a gang that we have not seen
    MEMBERS_MISSING = "MembersMissing"  # fewer pods exist than the gang needs
    NOT_ENOUGH_ROOM = "NotEnoughRoom"  # the nodes lack room even with every candidate gone
    MAY_NOT_PREEMPT = "MayNotPreempt"  # preemptionPolicy: Never
    NO_CANDIDATES = "NoCandidates"  # no pod of lower preemption priority is in the way
    VICTIMS_LEAVING = "VictimsLeaving"  # the nominated placement is valid, its room not yet free


NO_ROOM = (WaitReason.NOT_ENOUGH_ROOM, WaitReason.NO_CANDIDATES)


class VictimReason(Enum):
    IN_THE_WAY = "InTheWay"  # with the pod in place, the preemptor has too little room
    UNIT = "PreemptedWithItsGang"  # the pod stands elsewhere, but its gang goes as a whole


class VictimUnit(NamedTuple):
    unit: Unit
    pods: tuple[PodKey, ...]  # pods of the unit that are not leaving already, sorted
    in_the_way: tuple[PodKey, ...]  # pods on nodes that the preemptor gets; never empty
    priority: int  # preemption priority; below the preemptor's, at most the plan's level
    violations: int  # pods beyond what a budget allows

    def why(self, pod: PodKey) -> VictimReason:
        return VictimReason.IN_THE_WAY if pod in self.in_the_way else VictimReason.UNIT


class SpareReason(Enum):
    ABOVE_LEVEL = "AboveLevel"  # victims of lower priority are enough
    BUDGET = "DisruptionBudget"  # the unit goes only if nothing else helps
    FITS = "FitsBeside"  # the preemptor has room with the unit in place
    ELSEWHERE = "Elsewhere"  # the unit stands on no usable node of the chosen domain


class Spared(NamedTuple):
    unit: Unit
    priority: int
    reason: SpareReason


class SparedUnits(Sequence[Spared]):
    """Candidates that stay. There may be as many as pods, so they take shape when looked at."""

    __slots__ = ("_keys", "_priorities", "_reasons")

    def __init__(
        self, keys: Sequence[Unit], priorities: Sequence[int], reasons: Sequence[SpareReason]
    ) -> None:
        self._keys, self._priorities, self._reasons = keys, priorities, reasons

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> Spared: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Spared]: ...
    def __getitem__(self, index: int | slice) -> Spared | Sequence[Spared]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Spared(self._keys[index], int(self._priorities[index]), self._reasons[index])


NOBODY_SPARED = SparedUnits((), (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPods:
    """Bind these pods now: all that have to run together, and more that fit."""

    preemptor: Unit
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptUnits:
    """Evict all of the victims and nominate all of the placement, or do nothing at all."""

    preemptor: Unit
    placement: Placement  # nominated; at least as many members as have to run together
    victims: tuple[VictimUnit, ...]  # empty when pods that leave already make enough room
    level: int | None  # no preemption priority of a victim is higher; None without victims
    violations: int  # victim pods beyond what budgets allow
    spared: SparedUnits
    domain: str  # the node, the value of the topology key, or "" for the whole cluster
    workloads: tuple[WorkloadKey, ...] = ()  # queue Workloads of which every pod goes
    reason: EvictionReason = EvictionReason.PREEMPTED_IN_PLACEMENT

    @property
    def pods(self) -> tuple[PodKey, ...]:
        return tuple(sorted(pod for victim in self.victims for pod in victim.pods))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForNodes:
    preemptor: Unit
    reason: WaitReason
    needed: int  # members still to be placed together
    nominated: Placement = ()  # the nominations that stand; empty unless VICTIMS_LEAVING
    blocked: tuple[Blocked, ...] = ()  # the most frequent cause first
    fitting: int = 0  # members that have room without victims, in the best domain
    domains: tuple[DomainLack, ...] = ()  # the best domain first; empty without a topology key


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind:
    """A bind stopped short of what has to run together: evict the pods bound with it."""

    gang: GangKey
    pods: tuple[PodKey, ...]


PlacementDecision = BindPods | PreemptUnits | WaitForNodes | Unwind
