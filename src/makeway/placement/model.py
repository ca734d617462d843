"""The values of placement: nodes, pods, gangs and budgets.

Facts are frozen: they are replaced, never modified. Amounts are integers in the smallest unit of
their resource, times are seconds on the driver's axis, as in `engine.model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

from makeway.engine.matching import UNCONSTRAINED, Constraints, Taint
from makeway.engine.model import ResourceName, WorkloadKey
from makeway.selectors import Requirement, all_hold

NodeName = NewType("NodeName", str)
PodKey = NewType("PodKey", str)  # namespace/name
GangKey = NewType("GangKey", str)  # namespace/name of the group, and the replica if several
BudgetKey = NewType("BudgetKey", str)  # namespace/name

HOSTNAME = "kubernetes.io/hostname"  # the topology key whose value defaults to the name of the node
NAME_FIELD = "field:metadata.name"  # in a requirement: the name of the node; no label is called so


class DisruptionMode(Enum):
    """What is preempted together."""

    POD = "Pod"
    GANG = "PodGroup"


class Selector(NamedTuple):
    """All must hold. As in kube-scheduler, no requirements match no pod, and so do no labels."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return bool(self.requirements and labels) and all_hold(self.requirements, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: NodeName
    capacity: Mapping[ResourceName, int]  # allocatable; without `pods` there is no pod limit
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class Apart(NamedTuple):
    """At most one member of a gang within one value of `topology_key` (anti-affinity)."""

    topology_key: str


class Spread(NamedTuple):
    """Between any two values of `topology_key`, members differ in number by at most `max_skew`."""

    topology_key: str
    max_skew: int = 1
    min_domains: int = 1  # with fewer values, no value has more than `max_skew` members


class PodShape(NamedTuple):
    """What placement needs to know of a pod; pods of one shape are interchangeable."""

    requests: tuple[tuple[ResourceName, int], ...]  # sorted by resource, positive, without `pods`
    constraints: Constraints = UNCONSTRAINED
    apart: Apart | None = None  # None: members may share nodes
    spread: Spread | None = None  # None: members need not be spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    key: PodKey
    namespace: str
    shape: PodShape
    priority: int = 0  # of the pod itself; in a gang, the priority of the gang counts
    preemption_priority: int | None = None  # priority as a victim; None: `priority`
    may_preempt: bool = True
    gang: GangKey | None = None
    node: NodeName | None = None  # None: not bound
    nominated: NodeName | None = None  # None: no node is kept for the pod
    terminating: bool = False  # the pod is being deleted and still takes its room
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: float = 0.0
    started_at: float | None = None  # None: the pod has not started
    workload: WorkloadKey | None = None  # the queue Workload of the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    key: GangKey
    min_count: int = 1  # 0: no gang policy, pods are placed one by one
    mode: DisruptionMode = DisruptionMode.POD
    priority: int = 0
    preemption_priority: int | None = None  # priority as a victim; None: `priority`
    may_preempt: bool = True
    topology_key: str | None = None  # all members go within one value; None: anywhere
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget: how many more pods may go."""

    key: BudgetKey
    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()  # names of pods already charged


class Unit(NamedTuple):
    """One pod, or a gang as a whole: what is placed together, or preempted together."""

    key: str  # a PodKey or a GangKey; the two may be alike
    is_gang: bool


def pod_unit(key: PodKey) -> Unit:
    return Unit(key, is_gang=False)


def gang_unit(key: GangKey) -> Unit:
    return Unit(key, is_gang=True)


def victim_priority(owner: Pod | Gang) -> int:
    """The preemption priority; below the scheduling priority, preemptions would go round."""
    if owner.preemption_priority is None:
        return owner.priority
    return max(owner.priority, owner.preemption_priority)
