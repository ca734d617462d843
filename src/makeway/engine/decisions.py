"""What the engine can answer, with reasons as data. Text is made at the edge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from makeway.engine.model import (
    Assignment,
    Cause,
    Changes,
    CheckName,
    EvictionReason,
    FlavorName,
    FlavorResource,
    FlavorTrial,
    PodSetName,
    Preemptions,
    QueueName,
    ResourceName,
    Trigger,
    WorkloadKey,
)


class VictimRule(Enum):
    """The rule under which a victim is taken; the values are Kueue's words."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


# --- why a workload waits ------------------------------------------------------------------


class NotCovered(NamedTuple):
    """No resource group of the queue has this resource."""

    pod_set: PodSetName
    resource: ResourceName


class MismatchKind(Enum):
    MISSING = "Missing"  # there is no such flavor
    TAINT = "Taint"  # one is not tolerated
    AFFINITY = "Affinity"  # labels contradict the node selector or affinity
    EXHAUSTED = "Exhausted"  # the flavor failed this workload


class FlavorMismatch(NamedTuple):
    """The flavor is out of the question, however much of it is free."""

    pod_set: PodSetName
    flavor: FlavorName
    kind: MismatchKind
    detail: str = ""


class ExceedsCapacity(NamedTuple):
    """More than the tree could ever offer this queue."""

    pod_set: PodSetName
    cell: FlavorResource
    earlier: int  # asked for by the pod sets before
    requested: int
    capacity: int
    # Of both together, with as few pods as they would do with; None: all of them are wanted.
    least: int | None = None

    @property
    def is_final(self) -> bool:
        """Whether fewer pods would not fit either."""
        whole = self.earlier + self.requested
        return (whole if self.least is None else self.least) > self.capacity


class Preemptability(Enum):
    """Whether others could be made to give way for a shortfall."""

    FORBIDDEN = "Forbidden"  # by policy, as the request exceeds nominal quota
    NO_VICTIMS = "NoVictims"  # those who may be preempted would not free enough
    POSSIBLE = "Possible"


class Shortfall(NamedTuple):
    """The quota is there but in use."""

    pod_set: PodSetName
    cell: FlavorResource
    missing: int
    preemption: Preemptability


class LostToOthers(NamedTuple):
    """It would have fitted, had not another head of this cycle come first."""


class VictimsTaken(NamedTuple):
    """Its victims were taken by another head of this cycle, and no others would do."""


class WaitingForVictims(NamedTuple):
    """It may start as soon as these have let go."""

    victims: tuple[WorkloadKey, ...]


class HeldForPreemptor(NamedTuple):
    """The place was cleared for another workload, which comes first."""

    preemptor: WorkloadKey


class PodsNotReady(NamedTuple):
    """Nobody is admitted before the pods of this one, which holds quota, are ready."""

    workload: WorkloadKey


class WaitsForOwner(NamedTuple):
    """It would begin to borrow what another waits for who borrows less far, or not at all."""

    cell: FlavorResource
    owner: WorkloadKey
    queue: QueueName  # of the owner


class PreemptionPaused(NamedTuple):
    """It has made others give way again and again, and never ran for long: not so soon again."""

    preemptions: Preemptions
    until: float


class PreemptsLater(NamedTuple):
    """Its queue lets nobody preempt who has not waited long enough since its first attempt."""

    since: float
    until: float


class VictimsProtected(NamedTuple):
    """Some whom it may preempt have not run for the time that their queue grants them."""

    until: float  # from then on enough of them have
    victims: tuple[WorkloadKey, ...]  # whose protection it waits for, the longest one last


class BudgetSpent(NamedTuple):
    """The preemptors of its queue have caused as many evictions in an hour as it grants them."""

    limit: int
    needed: int  # evictions that it would cause
    until: float  # from then on so many are left


class NamespaceNotAdmitted(NamedTuple):
    namespace: str


class Defective(NamedTuple):
    """The workload can't run as it is written."""

    problem: str


Reason = (
    NotCovered
    | FlavorMismatch
    | ExceedsCapacity
    | Shortfall
    | LostToOthers
    | VictimsTaken
    | WaitingForVictims
    | HeldForPreemptor
    | PodsNotReady
    | WaitsForOwner
    | PreemptionPaused
    | PreemptsLater
    | VictimsProtected
    | BudgetSpent
    | NamespaceNotAdmitted
    | Defective
)


# Those that end by themselves, at `until`, for the whole line of a queue.
OnlyTime = PreemptsLater | VictimsProtected | BudgetSpent


# --- decisions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Quota is reserved; the workload may start once its checks are ready."""

    workload: WorkloadKey
    queue: QueueName
    assignment: Assignment
    borrow_level: int
    is_borrowing: bool
    checks: tuple[CheckName, ...]  # at least one, none of them ready yet
    waited_s: float  # since it was queued


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The workload may start."""

    workload: WorkloadKey
    queue: QueueName
    assignment: Assignment
    borrow_level: int
    is_borrowing: bool
    waited_s: float  # since it was queued
    checked_s: float = 0.0  # of that, since quota was reserved


class Victim(NamedTuple):
    workload: WorkloadKey
    queue: QueueName
    rule: VictimRule
    cells: tuple[FlavorResource, ...]  # the contested quota that it holds
    is_new: bool  # False: it was on its way out already


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """The victims have to make way; the preemptor is tried again when they have let go."""

    preemptor: WorkloadKey
    queue: QueueName
    victims: tuple[Victim, ...]  # at least one
    reasons: tuple[Reason, ...]  # what the preemptor is short of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    workload: WorkloadKey
    queue: QueueName
    reasons: tuple[Reason, ...]  # at least one
    is_preemptor: bool = False  # it waits for victims and has first call on what they free

    def __post_init__(self) -> None:
        assert self.reasons, f"{self.workload} waits without a reason"


class FlavorFailure(NamedTuple):
    flavor: FlavorName
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Stop a workload that holds quota, for another cause than preemption."""

    workload: WorkloadKey
    queue: QueueName
    reason: EvictionReason
    cause: Cause | None = None  # None: the reason tells all
    checks: tuple[CheckName, ...] = ()  # that asked for it
    flavors: tuple[FlavorFailure, ...] = ()  # that are exhausted by it
    starts_over: bool = False  # no flavor was left, so all of them are open again, those too
    requeue_at: float | None = None  # back-off; None: at once
    requeue_count: int = 0


class DeactivationReason(Enum):
    FLAVORS_EXHAUSTED = "DeactivatedDueToFlavorsExhausted"
    REQUEUE_LIMIT = "DeactivatedDueToRequeuingLimitExceeded"
    CHECK_REJECTED = "DeactivatedDueToAdmissionCheck"

    @property
    def cause(self) -> Cause:
        return Cause[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate:
    """Set `active: false`; a workload that holds quota is evicted with it."""

    workload: WorkloadKey
    queue: QueueName
    reason: DeactivationReason
    is_evicted: bool = False  # it held quota
    history: tuple[FlavorTrial, ...] = ()  # every flavor tried, when, and why it failed
    checks: tuple[CheckName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """The back-off is over: the workload stands in the queue again."""

    workload: WorkloadKey
    queue: QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOver:
    """No flavor was left for a waiting workload: all are open to it again, after a pause."""

    workload: WorkloadKey
    queue: QueueName
    requeue_at: float | None
    requeue_count: int


Decision = Reserve | Admit | Preempt | Wait | Evict | Deactivate | Requeue | StartOver


class HeadMode(Enum):
    """How a head stood when it was decided upon; the values are Kueue's words."""

    FIT = "Fit"
    PREEMPT = "Preempt"
    NO_FIT = "NoFit"
    DEFERRED_FIT = "DeferredFit"


class HeadResult(Enum):
    ADMITTED = "Admitted"
    PREEMPTING = "Preempting"
    NO_CANDIDATES = "PreemptionNoCandidates"
    NO_FIT = "NoFit"
    SKIPPED = "Skipped"
    PENDING_PREEMPTION = "PendingPreemption"


class HeadOutcome(NamedTuple):
    """One head of a cycle, in the order in which the cycle took them."""

    workload: WorkloadKey
    queue: QueueName
    mode: HeadMode
    result: HeadResult
    borrow_level: int
    rank: tuple[int, int, float, str, int]  # its place among the heads of all trees, small first


class Cycle(NamedTuple):
    """What one cycle answered."""

    number: int
    decisions: tuple[Decision, ...]
    order: tuple[HeadOutcome, ...]
    not_nominated: tuple[WorkloadKey, ...]  # heads turned away before flavors were looked at
    changes: Changes
    next_at: float | None  # call again at this time, though nothing happen before; None: no need
    had_heads: bool
