"""Our kinds, in the shape of `kueue.x-k8s.io/v1beta2`; older versions are brought here first.

Makeway's own additions to Kueue's fields are marked "(ours)".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from makeway.api.batch import PodTemplateSpec, Taint, Toleration
from makeway.api.meta import UNNAMED, Condition, LabelSelector, ObjectMeta, TypedReference
from makeway.api.schema import Amount, Duration, Int32, Quantity, Time, unsupported
from makeway.api.versions import HUB_VERSION, QUEUEING_GROUP

HUB = f"{QUEUEING_GROUP}/{HUB_VERSION}"

QueueingStrategy = Literal["StrictFIFO", "BestEffortFIFO"]
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]
FungibilityPreference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
WithinClusterQueue = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
ReclaimWithinCohort = Literal["Never", "LowerPriority", "Any"]
BorrowWithinCohortPolicy = Literal["Never", "LowerPriority"]
FallbackFailurePolicy = Literal["DeactivateWorkload", "RetryAllFlavors"]
FallbackTrigger = Literal["TimeoutForPodsReadyExceeded", "AdmissionCheckRejected"]
WorkloadSorting = Literal[
    "ByLowestPriority", "ByLowestRuntime", "ByLongestRuntime", "ByLeastWorkLost"
]
OnPreemption = Literal["Requeue", "Terminate"]
AdmissionMode = Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]

ANY_FLAVOR = "*"  # in a fallback rule: every flavor without a rule of its own

TOPOLOGY = "topology-aware scheduling"
MULTI_CLUSTER = "multi-cluster dispatch"
USAGE_HISTORY = "admission fair sharing of cohorts and ClusterQueues"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavorSpec:
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: object = unsupported(TOPOLOGY)
    resource_weights: object = unsupported("weights of resources in fair sharing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "ResourceFlavor"

    metadata: ObjectMeta = UNNAMED
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    name: str
    nominal_quota: Amount
    borrowing_limit: Amount | None = None  # None: borrows without limit
    lending_limit: Amount | None = None  # None: lends everything


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuotas:
    name: str
    resources: tuple[ResourceQuota, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]  # in the order in which they are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRule:
    """When a flavor counts as exhausted for a workload that holds it (ours)."""

    name: str  # a flavor, or "*"
    trigger: FallbackTrigger | None = None
    timeout: Duration | None = None

    @property
    def fires_on(self) -> FallbackTrigger | None:
        """The trigger, which is the timeout if not written; None exempts the flavor from "*"."""
        if self.trigger is None and self.timeout is not None:
            return "TimeoutForPodsReadyExceeded"
        return self.trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackStrategy:
    failure_policy: FallbackFailurePolicy = "DeactivateWorkload"
    strategy: Literal["TimeoutBased"] | None = None  # the only one there is; says nothing
    rules: tuple[FallbackRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    when_can_borrow: FungibilityPolicy = "MayStopSearch"
    when_can_preempt: FungibilityPolicy = "TryNextFlavor"
    preference: FungibilityPreference | None = None  # None: BorrowingOverPreemption
    fallback_strategy: FallbackStrategy | None = None  # (ours) None: flavors are never exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWithinCohort:
    policy: BorrowWithinCohortPolicy = "Never"
    max_priority_threshold: Int32 | None = None  # None: any lower priority


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionBudget:
    """How many evictions the preemptors of a queue may cause, but for its own quota (ours)."""

    evictions_per_hour: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueuePreemption:
    within_cluster_queue: WithinClusterQueue = "Never"
    reclaim_within_cohort: ReclaimWithinCohort = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    # (ours) since the first attempt; None: preempts at once
    trigger_after_workload_waiting_seconds: Int32 | None = None
    # (ours) who goes first of candidates with equal priority; empty: the most recently reserved
    workload_sorting: tuple[WorkloadSorting, ...] = ()
    # (ours) nobody of this queue is preempted before; None: at any time
    min_runtime_seconds: Int32 | None = None
    budget: PreemptionBudget | None = None  # (ours) None: without limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Aging:
    """Who waits long comes earlier in line (ours)."""

    every_seconds: Int32  # of waiting ...
    priority: Int32 = 1  # ... count as so much priority
    maximum: Int32  # and as no more than this, however long


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionScope:
    admission_mode: AdmissionMode


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckRule:
    name: str
    on_flavors: tuple[str, ...] = ()  # empty: for every flavor


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionChecksStrategy:
    admission_checks: tuple[AdmissionCheckRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    weight: Quantity = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueSpec:
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""  # empty: lends to and borrows from nobody
    queueing_strategy: QueueingStrategy = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None  # None: no namespace may use this queue
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: ClusterQueuePreemption = ClusterQueuePreemption()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None  # None: weight 1
    admission_scope: AdmissionScope | None = None  # None: local queues stand in one line
    aging: Aging | None = None  # (ours) None: priority stays as it is
    concurrent_admission_policy: object = unsupported("pursuing several flavors at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    name: str
    total: Amount = 0
    borrowed: Amount = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorUsage:
    name: str
    resources: tuple[ResourceUsage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharingStatus:
    weighted_share: int = 0
    admission_fair_sharing_status: object = unsupported(USAGE_HISTORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CausedEvictions:
    """How many evictions the preemptors of a queue have caused at one time (ours)."""

    time: Time
    count: Int32 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreemptionStatus:
    """What counts against the budget of a queue (ours)."""

    evictions: tuple[CausedEvictions, ...] = ()  # of the last hour


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueStatus:
    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: Int32 = 0
    reserving_workloads: Int32 = 0
    admitted_workloads: Int32 = 0
    fair_sharing: FairSharingStatus | None = None
    preemption: QueuePreemptionStatus | None = None  # (ours)
    pending_workloads_status: object = None  # v1beta1 only; nobody fills it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "ClusterQueue"

    metadata: ObjectMeta = UNNAMED
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSpec:
    parent_name: str = ""  # empty: root of its tree
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None  # None: weight 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortStatus:
    fair_sharing: FairSharingStatus | None = None
    conditions: tuple[Condition, ...] = ()  # (ours) UnsupportedField


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "Cohort"

    metadata: ObjectMeta = UNNAMED
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionCostMilestone:
    """What it costs to stop a workload so long after its admission (ours)."""

    seconds: Int32
    cost: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPreemption:
    """What is to be considered when a workload may have to make way (ours)."""

    disruption_cost_milestones: tuple[DisruptionCostMilestone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueSpec:
    cluster_queue: str = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None  # None: weight 1
    preemption: WorkloadPreemption | None = None  # (ours) for workloads that have none
    wall_time_policy: object = unsupported("wall time budgets")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharingStatus:
    consumed_resources: Mapping[str, Quantity] = field(default_factory=dict)
    last_update: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueFairSharingStatus:
    weighted_share: int = 0
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueStatus:
    conditions: tuple[Condition, ...] = ()
    pending_workloads: Int32 = 0
    reserving_workloads: Int32 = 0
    admitted_workloads: Int32 = 0
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None
    wall_time_flavor_usage: object = unsupported("wall time budgets")
    flavors: object = None  # v1beta1 only; repeats the ResourceFlavors


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "LocalQueue"

    metadata: ObjectMeta = UNNAMED
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    name: str = "main"
    template: PodTemplateSpec
    count: Int32 = 1
    min_count: Int32 | None = None  # None: all pods or none
    topology_request: object = unsupported(TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassRef:
    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority: Int32 | None = None  # None: not resolved from its class; counts as 0
    priority_class_ref: PriorityClassRef | None = None
    active: bool = True
    maximum_execution_time_seconds: Int32 | None = None  # None: without limit
    preemption: WorkloadPreemption | None = None  # (ours) None: as its LocalQueue has it
    on_preemption: OnPreemption | None = None  # (ours) None: Requeue
    preemption_gates: object = unsupported("preemption gates")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAssignment:
    name: str = "main"
    flavors: Mapping[str, str] = field(default_factory=dict)  # resource -> flavor
    resource_usage: Mapping[str, Amount] = field(default_factory=dict)  # of all pods together
    count: Int32 | None = None  # None: as many as the spec asks for
    topology_assignment: object = unsupported(TOPOLOGY)
    delayed_topology_request: object = unsupported(TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    cluster_queue: str
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueState:
    count: Int32 | None = None
    requeue_at: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetUpdate:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckState:
    name: str
    state: CheckState
    message: str = ""
    last_transition_time: Time | None = None
    retry_count: Int32 | None = None
    requeue_after_seconds: Int32 | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimablePod:
    name: str
    count: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetRequest:
    name: str
    resources: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCount:
    reason: str
    underlying_cause: str = ""
    count: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingStats:
    evictions: tuple[EvictionCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorAssignmentRecord:
    """A flavor that the workload has held (ours)."""

    resource_flavor: str
    assignment_time: Time | None = None  # the last time; None: not tried yet
    exhausted_time: Time | None = None  # None: it has not failed
    reason: str = ""  # why it failed


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorAmounts:
    """Amounts of one flavor (ours)."""

    flavor: str
    resources: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionClaim:
    """What a preemptor has first call on, while its victims make way (ours)."""

    pod_set_assignments: tuple[PodSetAssignment, ...] = ()
    held_before: tuple[FlavorAmounts, ...] = ()  # by its queue, when the place was cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionState:
    """A workload as a preemptor, and as a victim (ours)."""

    claim: PreemptionClaim | None = None  # None: no place is kept for it
    count: Int32 | None = None  # how often others made way since it last ran for long; None: never
    last_time: Time | None = None  # when they last did
    preempted_by: str = ""  # namespace/name of the workload that it makes way for
    first_attempt_time: Time | None = None  # from when its wait counts; None: it does not


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: Int32 | None = None
    scheduling_stats: SchedulingStats | None = None
    flavor_assignment_history: tuple[FlavorAssignmentRecord, ...] = ()  # (ours)
    preemption: PreemptionState | None = None  # (ours)
    cluster_name: object = unsupported(MULTI_CLUSTER)
    nominated_cluster_names: object = unsupported(MULTI_CLUSTER)
    unhealthy_nodes: object = unsupported(TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "Workload"

    metadata: ObjectMeta = UNNAMED
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPriorityClass:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "WorkloadPriorityClass"

    metadata: ObjectMeta = UNNAMED
    value: Int32
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckSpec:
    controller_name: str
    parameters: TypedReference | None = None
    retry_delay_minutes: object = unsupported("a delay set by the check; its controller says when")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckStatus:
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    API_VERSION: ClassVar[str] = HUB
    KIND: ClassVar[str] = "AdmissionCheck"

    metadata: ObjectMeta = UNNAMED
    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = AdmissionCheckStatus()
