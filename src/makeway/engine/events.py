"""What can happen to us. Each event is a fact that the driver has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from makeway.engine.model import (
    NEW,
    CheckName,
    CheckState,
    Cohort,
    CohortName,
    Config,
    EvictionReason,
    Flavor,
    FlavorName,
    LocalQueue,
    LocalQueueKey,
    PodSetName,
    Queue,
    QueueName,
    ResourceName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    config: Config


@dataclass(frozen=True, slots=True)
class FlavorChanged:
    """A flavor is new or edited."""

    flavor: Flavor


@dataclass(frozen=True, slots=True)
class FlavorRemoved:
    name: FlavorName


@dataclass(frozen=True, slots=True)
class CohortChanged:
    cohort: Cohort


@dataclass(frozen=True, slots=True)
class CohortRemoved:
    """Queues that still name it keep it as a cohort without quota of its own."""

    name: CohortName


@dataclass(frozen=True, slots=True)
class QueueChanged:
    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueRemoved:
    """Who holds its quota goes on running, uncounted; who waits in it waits for its return."""

    name: QueueName


@dataclass(frozen=True, slots=True)
class EvictionsCaused:
    """What was written down of the evictions that a queue's preemptors have caused."""

    queue: QueueName
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LocalQueueChanged:
    local_queue: LocalQueue


@dataclass(frozen=True, slots=True)
class LocalQueueRemoved:
    key: LocalQueueKey


@dataclass(frozen=True, slots=True)
class UsageRecalled:
    """What was written down of a local queue's usage in the past."""

    key: LocalQueueKey
    used: Mapping[ResourceName, float]  # in the smallest unit
    at: float


@dataclass(frozen=True, slots=True)
class NamespaceChanged:
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamespaceRemoved:
    name: str


@dataclass(frozen=True, slots=True)
class CheckChanged:
    """An admission check exists; somebody answers for it if it is active."""

    name: CheckName
    is_active: bool


@dataclass(frozen=True, slots=True)
class CheckRemoved:
    name: CheckName


@dataclass(frozen=True, slots=True)
class WorkloadSeen:
    """A workload that is new to us, with what became of it before we looked."""

    workload: Workload
    status: WorkloadStatus = NEW


@dataclass(frozen=True, slots=True)
class WorkloadEdited:
    """Its queue, priority, shape or `active` has changed."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class WorkloadRemoved:
    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class WorkloadFinished:
    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class PodsChanged:
    """All pods of a workload are ready, or no longer are."""

    key: WorkloadKey
    are_ready: bool
    at: float
    ready_pod_sets: frozenset[PodSetName] = frozenset()  # those ready while others are not


@dataclass(frozen=True, slots=True)
class PodsReclaimed:
    """Pods that have succeeded and will not be replaced give their quota back."""

    key: WorkloadKey
    counts: Mapping[PodSetName, int]


@dataclass(frozen=True, slots=True)
class CheckAnswered:
    """Somebody has set the state of an admission check of a workload."""

    key: WorkloadKey
    check: CheckName
    state: CheckState
    retry_after_s: float = 0.0  # with RETRY: not before that much time


@dataclass(frozen=True, slots=True)
class Evicted:
    """Somebody other than the engine stopped a workload that holds quota."""

    key: WorkloadKey
    reason: EvictionReason
    at: float


@dataclass(frozen=True, slots=True)
class PodsGone:
    """None of an evicted workload's pods is active or terminating: its quota is free."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The write of the last decision on this workload failed: it never happened."""

    key: WorkloadKey


@dataclass(frozen=True, slots=True)
class DecisionRecalled:
    """How a workload stood before the last decision on it, should that have to be forgotten."""

    key: WorkloadKey
    status: WorkloadStatus
    is_active: bool


Event = (
    ConfigChanged
    | FlavorChanged
    | FlavorRemoved
    | CohortChanged
    | CohortRemoved
    | QueueChanged
    | QueueRemoved
    | EvictionsCaused
    | LocalQueueChanged
    | LocalQueueRemoved
    | UsageRecalled
    | NamespaceChanged
    | NamespaceRemoved
    | CheckChanged
    | CheckRemoved
    | WorkloadSeen
    | WorkloadEdited
    | WorkloadRemoved
    | WorkloadFinished
    | PodsChanged
    | PodsReclaimed
    | CheckAnswered
    | Evicted
    | PodsGone
    | Forgotten
    | DecisionRecalled
)
