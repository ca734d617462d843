"""Gangs as users write them: the Workload of KEP-5710's first draft, today's PodGroup, our Gang.

A Workload of `scheduling.k8s.io` describes groups of pods, each group in so many replicas; pods
name workload, group and replica. A PodGroup is one such replica as an object of its own; pods name
just that. Where a cluster serves neither, a Gang of ours says what a PodGroup would, and pods name
it by a label. All say the same to placement: how many pods have to run together, whether they are
preempted one by one or together, and at which priorities.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from makeway.api.batch import PreemptionPolicy
from makeway.api.meta import UNNAMED, Condition, ObjectMeta, TypedReference
from makeway.api.schema import Int32, Whole

PreemptionMode = Literal["Pod", "PodGroup"]
PODS_NOT_MATCHING_PRIORITY = "PodsNotMatchingPriority"  # condition of a Workload or PodGroup
PRIORITY_RESOLVED = "PriorityResolved"  # condition of both: class names stand for numbers
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"  # condition of a PodGroup; True is final


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    min_count: Int32
    preemption_mode: PreemptionMode = "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFields:
    """Says what it says by being there."""

    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicy:
    """Exactly one of the two; basic: pods are placed one by one."""

    gang: GangPolicy | None = None
    basic: NoFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupTemplate:
    name: str
    policy: GroupPolicy
    replicas: Int32 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWorkloadSpec:
    pod_groups: tuple[PodGroupTemplate, ...]
    controller_ref: TypedReference | None = None
    priority_class_name: str = ""  # empty: the global default class, or priority 0
    preemption_priority_class_name: str = ""  # empty: as priority_class_name


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWorkloadStatus:
    priority: Int32 | None = None  # None: not resolved from the class yet
    preemption_priority: Int32 | None = None  # None: not resolved from the class yet
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWorkload:
    """The Workload of `scheduling.k8s.io`; the queueing kind of the same name is another."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha1"
    KIND: ClassVar[str] = "Workload"

    metadata: ObjectMeta = UNNAMED
    spec: GangWorkloadSpec
    status: GangWorkloadStatus = GangWorkloadStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSchedulingPolicy:
    min_count: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingPolicy:
    """Exactly one of the two; basic: pods are placed one by one."""

    gang: GangSchedulingPolicy | None = None
    basic: NoFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionMode:
    """Exactly one of the two: pods go one by one, or all together."""

    single: NoFields | None = None
    all: NoFields | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyConstraint:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingConstraints:
    topology: tuple[TopologyConstraint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupSpec:
    scheduling_policy: SchedulingPolicy
    disruption_mode: DisruptionMode | None = None  # None: single
    priority_class_name: str = ""
    priority: Int32 | None = None  # None: not resolved from the class yet
    preemption_policy: PreemptionPolicy | None = None  # None: as its class says
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupStatus:
    conditions: tuple[Condition, ...] = ()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    KIND: ClassVar[str] = "PodGroup"

    metadata: ObjectMeta = UNNAMED
    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """As NoFields, of a kind to which nobody else will add some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSchedulingPolicy:
    """As of a PodGroup."""

    gang: GangSchedulingPolicy | None = None
    basic: Nothing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDisruptionMode:
    """As of a PodGroup."""

    single: Nothing | None = None
    all: Nothing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpec:
    """That of a PodGroup, but for the numbers that Kubernetes fills in from the class."""

    scheduling_policy: OwnSchedulingPolicy
    disruption_mode: OwnDisruptionMode | None = None  # None: single
    priority_class_name: str = ""
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()

    priority: ClassVar[None] = None
    preemption_policy: ClassVar[None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStatus:
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Our own kind, for clusters that serve no PodGroup."""

    API_VERSION: ClassVar[str] = "makeway.dev/v1"
    KIND: ClassVar[str] = "Gang"

    metadata: ObjectMeta = UNNAMED
    spec: GangSpec
    status: GangStatus = GangStatus()
