"""What placement can answer, with its reasons as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    FITS = "Fits"  # it takes some; the gang as a whole needs more


class Blocked(NamedTuple):
    """Nodes that say no for one and the same cause: a line of `0/5000 nodes are available`."""

    cause: Cause
    resource: ResourceName | None  # the scarcest; set exactly for Cause.RESOURCE
    nodes: int
    example: NodeName


class DomainLack(NamedTuple):
    """How many members one value of the topology key has room for."""

    domain: str
    fitting: int  # each kind of members counted by itself
    fitting_after_preemption: int  # with every candidate gone


class WaitReason(Enum):
    GANG_MISSING = "GangMissing"  # its pods name a gang that we have not seen
    MEMBERS_MISSING = "MembersMissing"  # fewer pods exist than the gang needs
    NOT_ENOUGH_ROOM = "NotEnoughRoom"  # also with every candidate gone
    MAY_NOT_PREEMPT = "MayNotPreempt"  # preemptionPolicy: Never
    NO_CANDIDATES = "NoCandidates"  # nobody of lower preemption priority is in the way
    VICTIMS_LEAVING = "VictimsLeaving"  # the nominated placement is valid, its room not yet free


NO_ROOM = (WaitReason.NOT_ENOUGH_ROOM, WaitReason.NO_CANDIDATES)


class VictimReason(Enum):
    IN_THE_WAY = "InTheWay"  # with it in place, the preemptor has too little room
    UNIT = "PreemptedWithItsGang"  # elsewhere, but of a gang that goes as a whole


class Victim(NamedTuple):
    unit: Unit
    pods: tuple[PodKey, ...]  # all of the unit that are not leaving already, sorted
    in_the_way: tuple[PodKey, ...]  # those on nodes that the preemptor gets; never empty
    priority: int  # preemption priority; below the preemptor's, at most the plan's level
    violations: int  # pods beyond what a budget allows

    def why(self, pod: PodKey) -> VictimReason:
        return VictimReason.IN_THE_WAY if pod in self.in_the_way else VictimReason.UNIT


class SpareReason(Enum):
    ABOVE_LEVEL = "AboveLevel"  # victims of lower priority are enough
    BUDGET = "DisruptionBudget"  # goes only if nothing else helps
    FITS = "FitsBeside"  # the preemptor has room with it in place
    ELSEWHERE = "Elsewhere"  # on no node of the chosen domain that the preemptor can use


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

    def __iter__(self) -> Iterator[Spared]:
        return (self[i] for i in range(len(self)))


NOBODY_SPARED = SparedUnits((), (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Bind these pods now: all that have to run together, and further ones that fit."""

    preemptor: Unit
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Evict all of the victims and nominate all of the placement, or do nothing at all."""

    preemptor: Unit
    placement: Placement  # nominated; at least as many members as have to run together
    victims: tuple[Victim, ...]  # empty when those that leave already make enough room
    level: int | None  # no victim has a preemption priority above it; None without victims
    violations: int  # victim pods beyond what budgets allow
    spared: SparedUnits
    domain: str  # the node, the value of the topology key, or "" for the whole cluster
    workloads: tuple[WorkloadKey, ...] = ()  # queue Workloads of which every pod goes
    reason: EvictionReason = EvictionReason.PREEMPTED_IN_PLACEMENT

    @property
    def pods(self) -> tuple[PodKey, ...]:
        return tuple(sorted(pod for victim in self.victims for pod in victim.pods))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    preemptor: Unit
    reason: WaitReason
    nominated: Placement  # what is still nominated; empty unless VICTIMS_LEAVING
    blocked: tuple[Blocked, ...]  # the most frequent first
    needed: int  # members still to be placed together
    fitting: int  # how many have room without victims, in the best domain
    domains: tuple[DomainLack, ...] = ()  # the best first; empty without a topology key


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind:
    """A bind stopped short of what has to run together: evict those that were bound with it."""

    gang: GangKey
    pods: tuple[PodKey, ...]


Decision = Bind | Preempt | Wait | Unwind
