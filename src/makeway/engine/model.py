"""The engine's values: workloads, flavors, queues, cohorts, quotas, assignments.

Facts are frozen: they are replaced, never modified. Amounts are integers in the smallest unit
of their resource (milli for cpu, else bytes or counts); times are seconds on one axis chosen by
the driver, on which `now` never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

from makeway.backoff import backoff_s
from makeway.engine.matching import UNCONSTRAINED, Constraints, Taint, Toleration
from makeway.selectors import Requirement, all_hold

WorkloadKey = NewType("WorkloadKey", str)  # namespace/name
LocalQueueKey = NewType("LocalQueueKey", str)  # namespace/name
QueueName = NewType("QueueName", str)
CohortName = NewType("CohortName", str)
FlavorName = NewType("FlavorName", str)
ResourceName = NewType("ResourceName", str)
CheckName = NewType("CheckName", str)
PodSetName = NewType("PodSetName", str)

PODS = ResourceName("pods")  # counted for every pod where a queue has quota on it


class FlavorResource(NamedTuple):
    """The cell in which quota is counted: one resource of one flavor."""

    flavor: FlavorName
    resource: ResourceName


Amounts = Mapping[FlavorResource, int]


class Quota(NamedTuple):
    nominal: int = 0
    borrowing_limit: int | None = None  # None: may borrow whatever is lent
    lending_limit: int | None = None  # None: lends everything


NO_QUOTA = Quota()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    name: FlavorName
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()  # granted to every pod that gets this flavor


class Strategy(Enum):
    """What the first of a queue does to those behind it while it has to wait."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(Enum):
    NONE = "None"
    HOLD = "Hold"  # admits nothing, lets run what runs
    HOLD_AND_DRAIN = "HoldAndDrain"


class Inactive(Enum):
    """Why a queue admits nothing; the values are Kueue's words."""

    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    CHECK_INACTIVE = "AdmissionCheckInactive"
    COHORT_CYCLE = "CohortCycle"


class Policy(Enum):
    """Whom a pending workload may preempt."""

    __hash__ = object.__hash__  # Enum's own is a call of a Python function at every look-up

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL = "LowerOrNewerEqualPriority"
    ANY = "Any"


class Sorting(Enum):
    """Who goes first of candidates with equal priority."""

    LOWEST_PRIORITY = "ByLowestPriority"  # says nothing more: priority comes first in any case
    LOWEST_RUNTIME = "ByLowestRuntime"
    LONGEST_RUNTIME = "ByLongestRuntime"
    LEAST_WORK_LOST = "ByLeastWorkLost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    within_queue: Policy = Policy.NEVER
    reclaim: Policy = Policy.NEVER  # from other queues of the cohort tree, while they borrow
    borrow_while_reclaiming: bool = False  # borrowWithinCohort: LowerPriority
    borrow_threshold: int | None = None  # victims above it only without borrowing
    after_waiting_s: float = 0.0  # since the first attempt; before, nobody new makes way
    sorting: tuple[Sorting, ...] = ()  # each breaks ties that those before it leave
    min_runtime_s: float = 0.0  # nobody of this queue is preempted before having run so long
    evictions_per_hour: int | None = None  # caused by its preemptors; None: without limit


class Aging(NamedTuple):
    """Who waits long comes earlier in line, though it be no more important."""

    every_s: float
    step: int  # for each of these times so much priority ...
    most: int  # ... but no more than this

    def boost(self, waited_s: float) -> int:
        return min(self.most, max(0, int(waited_s // self.every_s)) * self.step)

    def next_after(self, waited_s: float) -> float | None:
        """When, in time waited, it rises next; None: it does no more."""
        if self.boost(waited_s) >= self.most:
            return None
        return (waited_s // self.every_s + 1) * self.every_s


class Search(Enum):
    """Go on to the next flavor, or stop with what was found."""

    TRY_NEXT = "TryNextFlavor"
    MAY_STOP = "MayStopSearch"


class Preference(Enum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class Trigger(Enum):
    """What exhausts a flavor for a workload that holds it."""

    TIMEOUT = "TimeoutForPodsReadyExceeded"
    CHECK_REJECTED = "AdmissionCheckRejected"


class FailurePolicy(Enum):
    DEACTIVATE = "DeactivateWorkload"
    RETRY_ALL = "RetryAllFlavors"


class FallbackRule(NamedTuple):
    flavor: str  # a flavor's name, or "*" for all that no rule of this trigger names
    trigger: Trigger | None  # None: the rule only exempts its flavor from "*"
    timeout_s: float | None = None  # set exactly for Trigger.TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallbacks:
    rules: tuple[FallbackRule, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy.DEACTIVATE


NO_FALLBACKS = Fallbacks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fungibility:
    when_can_borrow: Search = Search.MAY_STOP
    when_can_preempt: Search = Search.TRY_NEXT
    preference: Preference | None = None  # None: BORROWING_OVER_PREEMPTION, but for a gate
    fallbacks: Fallbacks = NO_FALLBACKS


class FlavorQuotas(NamedTuple):
    flavor: FlavorName
    quotas: Mapping[ResourceName, Quota]


class ResourceGroup(NamedTuple):
    """Resources that always get one and the same flavor, and the flavors in order of preference."""

    resources: tuple[ResourceName, ...]
    flavors: tuple[FlavorQuotas, ...]


class NamespaceSelector(NamedTuple):
    """`None` in place of a selector admits no namespace; an empty one admits all."""

    requirements: tuple[Requirement, ...] = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
        return not self.requirements or all_hold(self.requirements, labels)


class QueueCheck(NamedTuple):
    """An admission check of a queue, and the flavors for which it is asked."""

    name: CheckName
    flavors: frozenset[FlavorName] = frozenset()  # empty: all


EVERY_NAMESPACE = NamespaceSelector()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: QueueName
    groups: tuple[ResourceGroup, ...] = ()
    cohort: CohortName | None = None
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    namespaces: NamespaceSelector | None = EVERY_NAMESPACE
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    stop_policy: StopPolicy = StopPolicy.NONE
    checks: tuple[QueueCheck, ...] = ()
    weight: float = 1.0
    is_leaving: bool = False  # it is being deleted, and goes when nobody holds its quota
    aging: Aging | None = None  # None: the order in line is by priority as it is written
    counts_history: bool = False  # who of its local queues has used less comes first

    @property
    def admits_every_namespace(self) -> bool:
        """Whether it chooses none; without a selector it admits nobody."""
        return self.namespaces is not None and not self.namespaces.requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    name: CohortName
    parent: CohortName | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0


class Milestone(NamedTuple):
    """What it costs to stop a workload that has been admitted for so long."""

    after_s: float
    cost: float


Milestones = tuple[Milestone, ...]  # by time


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    key: LocalQueueKey
    queue: QueueName
    stop_policy: StopPolicy = StopPolicy.NONE
    milestones: Milestones = ()  # of workloads that have none of their own
    weight: float = 1.0  # among those of its queue, where usage of the past counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Identical pods of a workload."""

    name: PodSetName
    count: int
    requests: tuple[tuple[ResourceName, int], ...]  # of one pod, sorted by resource
    min_count: int | None = None  # None: all or nothing
    constraints: Constraints = UNCONSTRAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    key: WorkloadKey
    uid: str
    local_queue: LocalQueueKey
    namespace: str
    priority: int = 0
    preemption_priority: int | None = None  # as a victim; None: its priority
    created_at: float = 0.0
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True
    to_deactivate: Cause | None = None  # why it is not to be active; None: its user wants it so
    defect: str | None = None  # why it can't be run as it is written; None when it is sound
    stands_aside: bool = False  # while it has its defect: others pass, however strict the queue
    milestones: Milestones = ()  # empty: those of its local queue
    ends_when_preempted: bool = False  # it is not queued again
    checkpoint_at: float | None = None  # work before that is not lost; None: all of it is

    @property
    def victim_priority(self) -> int:
        return self.priority if self.preemption_priority is None else self.preemption_priority


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAssignment:
    name: PodSetName
    count: int
    flavors: tuple[tuple[ResourceName, FlavorName], ...]  # sorted by resource
    usage: tuple[tuple[ResourceName, int], ...]  # of all its pods, sorted by resource


class Assignment(NamedTuple):
    """Which flavors a workload gets, and how much of each is charged for it."""

    pod_sets: tuple[PodSetAssignment, ...]

    def usage(self) -> dict[FlavorResource, int]:
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            flavors = dict(pod_set.flavors)
            for resource, amount in pod_set.usage:
                cell = FlavorResource(flavors[resource], resource)
                total[cell] = total.get(cell, 0) + amount
        return total

    def flavors(self) -> tuple[FlavorName, ...]:
        """The flavors held, each once, sorted."""
        return tuple(sorted({flavor for ps in self.pod_sets for _, flavor in ps.flavors}))


class EvictionReason(Enum):
    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    FLAVOR_FALLBACK = "FlavorFallback"
    QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"
    PREEMPTED_IN_PLACEMENT = "PreemptedInPlacement"
    NODE_REBOOTED = "NodeRebooted"


class Cause(Enum):
    """What is behind an eviction whose reason doesn't tell; all but the last are Kueue's words."""

    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    REQUEUE_LIMIT = "RequeuingLimitExceeded"
    CHECK_REJECTED = "AdmissionCheck"
    TIME_IS_UP = "MaximumExecutionTimeExceeded"
    FLAVORS_EXHAUSTED = "FlavorsExhausted"


class Eviction(NamedTuple):
    reason: EvictionReason
    at: float
    preemptor: WorkloadKey | None = None  # for whom it had to make way; None: not known, or nobody
    cause: Cause | None = None  # None: the reason tells all, or not known


class CheckState(Enum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


class FlavorTrial(NamedTuple):
    """One line of a workload's history of flavors."""

    flavor: FlavorName
    assigned_at: float  # the last time
    exhausted_at: float | None = None
    reason: Trigger | None = None


class Claim(NamedTuple):
    """What a preemptor has first call on: the place that its victims clear."""

    assignment: Assignment | None = None  # None: a place that was written down as a mere fact
    held_before: Mapping[FlavorResource, int] = {}  # by its queue, when the place was cleared


class Preemptions(NamedTuple):
    """How often a workload has made others give way since it last ran for long."""

    times: int  # at least one
    last_at: float


class WorkloadStatus(NamedTuple):
    """What has become of a workload; all of it survives a restart of the driver."""

    assignment: Assignment | None = None  # holds quota exactly when this is set
    queue: QueueName | None = None  # the queue that holds it
    reserved_at: float | None = None
    admitted_at: float | None = None  # None while checks are open
    eviction: Eviction | None = None  # of the last eviction, until the next admission
    finished: bool = False
    pods_ready: bool = False
    ready_at: float | None = None  # since when they are; None: they are not, or it is not known
    pods_lost_at: float | None = None  # when pods that had been ready no longer were
    requeue_count: int = 0
    requeue_at: float | None = None  # back-off: not before this time
    checks: Mapping[CheckName, CheckState] = {}
    retry_after_s: float = 0.0  # the longest pause that a check which says Retry asks for
    history: tuple[FlavorTrial, ...] = ()
    claim: Claim | None = None  # set for a preemptor while its victims make way
    reclaimable: Mapping[PodSetName, int] = {}
    preemptions: Preemptions | None = None  # None: none since it last ran for long
    first_attempt_at: float | None = None  # of this wait, where its queue counts from there


NEW = WorkloadStatus()  # nothing has become of it yet


class Protection(NamedTuple):
    """For how long nobody may preempt a workload."""

    since: float
    until: float


class PastUsage(NamedTuple):
    """What a local queue has used lately, where that counts."""

    local_queue: LocalQueueKey
    usage: float  # the number by which local queues are compared, small first
    of_share: float | None  # as a part of what its weight entitles it to; None: nobody used any
    half_life_s: float
    consumed: Mapping[ResourceName, float]  # in the smallest unit
    is_growing: bool  # it holds something now


class StatusChange(NamedTuple):
    """What an event or a cycle has made of a workload's status."""

    before: WorkloadStatus | None  # None: it was not known
    after: WorkloadStatus | None  # None: it is not known any more


Changes = Mapping[WorkloadKey, StatusChange]


class Phase(Enum):
    __hash__ = object.__hash__  # Enum's own is a call of a Python function at every look-up

    PENDING = "pending"
    RESERVED = "reserved"  # holds quota, checks are open
    ADMITTED = "admitted"  # holds quota, may run
    EVICTING = "evicting"  # still holds quota: its pods have not let go yet
    INACTIVE = "inactive"  # not wanted to run
    FINISHED = "finished"


HOLDING = frozenset({Phase.RESERVED, Phase.ADMITTED, Phase.EVICTING})


def phase_of(is_active: bool, status: WorkloadStatus) -> Phase:
    """`is_active`: whether the workload is wanted to run."""
    if status.finished:
        return Phase.FINISHED
    if status.assignment is None:
        return Phase.PENDING if is_active else Phase.INACTIVE
    if status.eviction is not None:
        return Phase.EVICTING
    return Phase.RESERVED if status.admitted_at is None else Phase.ADMITTED


class RequeueTime(Enum):
    """By which time an evicted workload takes its place in the queue again."""

    EVICTION = "UseEvictionTimestamp"
    CREATION = "UseCreationTimestamp"


class ShareRule(Enum):
    """When fair sharing may take a workload of another queue."""

    AT_MOST_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    BELOW_INITIAL_SHARE = "LessThanInitialShare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    hold_for_preemptor: bool = True
    owners_first: bool = True
    preemption_backoff: bool = True
    partial_admission: bool = True
    equal_shapes_together: bool = True  # SchedulingEquivalenceHashing
    keep_scan_progress: bool = True  # FlavorFungibilityPreserveScanProgress
    implicit_preference: bool = False  # FlavorFungibilityImplicitPreferenceDefault
    reassign_on_overlap: bool = True  # RecomputeAssignmentUponPreemptionTargetsOverlap


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReadyPolicy:
    """waitForPodsReady: how long the pods of an admitted workload may take to be ready."""

    timeout_s: float
    recovery_timeout_s: float | None = None  # None: a lost pod never evicts
    blocks_admission: bool = False  # nobody is admitted before the pods of all others are ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    base_s: float = 60.0
    max_s: float = 3600.0
    limit: int | None = None  # requeues before a workload is deactivated; None: no end

    def delay_s(self, count: int) -> float:
        """The pause before requeue number `count` (1 is the first); zero base means no pause."""
        return backoff_s(count, self.base_s, self.max_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPolicy:
    """How usage of the past counts (Kueue's admissionFairSharing)."""

    half_life_s: float
    sampling_s: float = 300.0  # so much of its run time counts for a workload when it is admitted
    weights: Mapping[ResourceName, float] = field(default_factory=dict)  # 1 where none is given


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    fair_sharing: bool = False
    history: HistoryPolicy | None = None  # None: the past does not count
    share_rules: tuple[ShareRule, ...] = (
        ShareRule.AT_MOST_FINAL_SHARE,
        ShareRule.BELOW_INITIAL_SHARE,
    )
    after_preemption: RequeueTime = RequeueTime.CREATION
    after_pods_ready_timeout: RequeueTime = RequeueTime.EVICTION
    pods_ready: PodsReadyPolicy | None = None  # None: waitForPodsReady is off
    backoff: Backoff = Backoff()
    preemption_backoff: Backoff = Backoff(base_s=1.0)  # between two issues of victims
    # At the longest such pause nobody is woken when it is over, but by the next change of its tree:
    # a simulation need not play a circle for ever.
    pauses_until_change: bool = False
    skips_hopeless: bool = True  # heads for which a glance tells that a search would find nothing
    # Nobody is there to read the reasons of every moment. So heads that are refused for the sake of
    # owners, as they were before, are passed over, too, though it may be another owner by now; one
    # of each shape is told why it waits; and a cycle that would only park everybody is spared.
    is_simulated: bool = False
    # If not, heads of which a glance tells that a search would find nothing are told nothing, the
    # first time as little as later: a forecast asks when, not why.
    tells_reasons: bool = True
    # Passed over are whole lines in which all are refused for the sake of owners, or short. Who is
    # second in such a line comes up when owners leave more, and not by itself a cycle later: among
    # those who come up in one moment another may be first. A forecast can do with that.
    skips_refused_lines: bool = False
    # Not what becomes of statuses, nor in which order a cycle took its heads: a simulation carries
    # decisions out, and asks for nothing else.
    tells_decisions_only: bool = False
    gates: Gates = Gates()
