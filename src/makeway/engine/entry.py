"""What the engine knows of one workload."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from makeway.engine.model import (
    Assignment,
    CheckName,
    CheckState,
    Eviction,
    FlavorResource,
    FlavorTrial,
    PodSetName,
    QueueName,
    ResourceGroup,
    ResourceName,
    Workload,
)


class Phase(Enum):
    PENDING = "pending"
    RESERVED = "reserved"  # holds quota, checks are open
    ADMITTED = "admitted"  # holds quota, may run
    EVICTING = "evicting"  # still holds quota: its pods have not let go yet
    INACTIVE = "inactive"  # not wanted to run
    FINISHED = "finished"


HOLDING = frozenset({Phase.RESERVED, Phase.ADMITTED, Phase.EVICTING})

QueueOrder = tuple[int, int, float, str, int]  # small first: who is the head
VictimOrder = tuple[bool, int, float, str, int, "Entry"]  # small first: who is sacrificed


class Shape:
    """What makes workloads equal in the eyes of a queue; told apart by identity.

    Whoever has a shape keeps it alive: it is forgotten with the last workload that has it.
    """

    __slots__ = ("__weakref__", "is_shared")

    def __init__(self, is_shared: bool) -> None:
        self.is_shared = is_shared  # False: this workload goes its own way


class Scan(NamedTuple):
    """How far the search for flavors came, per pod set and resource: the last index tried."""

    tried: tuple[dict[ResourceName, int], ...]  # without an entry: begin with the first
    generation: int  # of the queue, when this was noted
    cycle: int
    shape: Shape
    groups: tuple[ResourceGroup, ...]  # the indices are of their flavors

    @property
    def has_more(self) -> bool:
        return any(self.tried)


class Standing(NamedTuple):
    """What a decision may change of an entry, as it was before; restored if the write fails."""

    phase: Phase
    is_active: bool
    eviction: Eviction | None
    history: tuple[FlavorTrial, ...]
    requeue_count: int
    requeue_at: float | None
    retry_after_s: float


class Entry:
    """A workload and where it stands. Changed only by ClusterState."""

    __slots__ = (
        "admitted_at",
        "assignment",
        "attempts",
        "before",
        "began_at",
        "booked",
        "booking",
        "checks",
        "eviction",
        "history",
        "is_preemptor",
        "lost_at",
        "order_time",
        "phase",
        "place",
        "pods_ready",
        "pods_seen",
        "queue",
        "ready_pod_sets",
        "reclaimable",
        "requeue_at",
        "requeue_count",
        "reserved_at",
        "retry_after_s",
        "scan",
        "serial",
        "shape",
        "told",
        "usage",
        "victim_order",
        "workload",
    )

    def __init__(self, workload: Workload, serial: int) -> None:
        self.workload = workload
        self.serial = serial  # order of arrival; the last tie-break everywhere
        self.phase = Phase.PENDING
        self.queue: QueueName | None = None  # where it waits or holds quota
        self.assignment: Assignment | None = None  # set exactly in the phases of HOLDING
        self.usage: dict[FlavorResource, int] = {}  # what is charged for it
        self.reserved_at = 0.0
        self.admitted_at: float | None = None
        self.eviction: Eviction | None = None
        self.pods_ready = False
        self.lost_at: float | None = None  # when pods that had been ready no longer were
        self.ready_pod_sets: frozenset[PodSetName] = frozenset()
        self.pods_seen = True  # False after a restart, until the driver has told
        self.requeue_count = 0
        self.requeue_at: float | None = None
        self.retry_after_s = 0.0  # asked for by a check that says Retry
        self.checks: dict[CheckName, CheckState] = {}
        self.history: tuple[FlavorTrial, ...] = ()
        self.reclaimable: dict[PodSetName, int] = {}
        self.before: Standing | None = None  # the last decision, if it should be forgotten
        self.is_preemptor = False
        self.booked: Assignment | None = None  # on which flavors, and for how many pods
        self.booking: dict[FlavorResource, int] | None = None  # the quota a preemptor waits for
        self.scan: Scan | None = None
        self.began_at = -1  # at which change of its tree the search for flavors began
        self.attempts = (0, 0)  # at which change of its tree, and how often it was tried since
        self.shape = Shape(is_shared=False)
        self.told: tuple[object, ...] | None = None  # the reasons given last for its waiting
        self.order_time = workload.created_at
        self.place: tuple[QueueOrder, Entry] | None = None  # its item in a heap of waiting ones
        self.victim_order: VictimOrder | None = None  # its item among those who hold quota

    def standing(self) -> Standing:
        return Standing(
            self.phase,
            self.workload.active,
            self.eviction,
            self.history,
            self.requeue_count,
            self.requeue_at,
            self.retry_after_s,
        )
