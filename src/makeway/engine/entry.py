"""What the engine knows of one workload: the workload, its status, and notes on searches for it."""

from __future__ import annotations

from typing import NamedTuple

from makeway.engine.model import (
    Amounts,
    FlavorResource,
    Phase,
    PodSetName,
    QueueName,
    ResourceGroup,
    ResourceName,
    Workload,
    WorkloadStatus,
    phase_of,
)

Cells = tuple[tuple[FlavorResource, int], ...]  # how much of which
Demand = tuple[tuple[Amounts, ...], ...]  # per resource group, the choices of flavors there are
QueueOrder = tuple[int, int, float, str, int]  # small first: who is the head


class Place(NamedTuple):
    """One who waits, in a heap of those of its shape; told apart by identity."""

    order: QueueOrder
    entry: Entry


class VictimOrder(NamedTuple):
    """A holder of quota among those of its queue; small first: who is sacrificed."""

    is_staying: bool  # False: on its way out already
    priority: int
    minus_reserved_at: float  # the most recently reserved goes first
    uid: str
    serial: int  # no two are equal, so entries are never compared
    entry: Entry


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


class Search:
    """Notes that spare the engine work or keep it fair. A restart forgets them, and may."""

    __slots__ = (
        "attempts",
        "began_at",
        "claimed_usage",
        "pods_seen",
        "ready_pod_sets",
        "scan",
        "told",
        "was_put_off",
    )

    def __init__(self) -> None:
        self.scan: Scan | None = None
        self.began_at = -1  # the revision of its tree at which the search for flavors began
        self.was_put_off = False  # by others of its cycle, since the search began
        self.attempts = (0, 0)  # a revision of its tree, and how often it was tried since
        self.told: tuple[object, ...] | None = None  # the reasons given last for its waiting
        self.claimed_usage: Amounts | None = None  # of its claim, as found when it was made
        self.pods_seen = True  # False after a restart, until the driver has told of its pods
        self.ready_pod_sets: frozenset[PodSetName] = frozenset()


class UndoPoint(NamedTuple):
    """What a decision has changed, as it was before; restored if the write fails."""

    status: WorkloadStatus
    is_active: bool

    def phase(self) -> Phase:
        return phase_of(self.is_active, self.status)


class Entry:
    """A workload and what has become of it.

    Workload, status and what follows from them are written by ClusterState alone.
    """

    __slots__ = (
        "order_time",
        "phase",
        "place",
        "queue",
        "search",
        "serial",
        "shape",
        "status",
        "undo",
        "usage",
        "victim_order",
        "workload",
    )

    def __init__(self, workload: Workload, status: WorkloadStatus, serial: int) -> None:
        self.workload = workload
        self.status = status
        self.search = Search()
        self.serial = serial  # order of arrival; the last tie-break everywhere
        self.undo: UndoPoint | None = None  # of the last decision
        # What follows from workload and status, and from the queues there are.
        self.phase = phase_of(workload.active, status)
        self.queue: QueueName | None = None  # where it waits or holds quota
        self.usage: Amounts = NOTHING  # what is charged for it
        self.order_time = workload.created_at
        self.shape = Shape(is_shared=False)
        self.place: Place | None = None  # its item in a heap of waiting ones
        self.victim_order: VictimOrder | None = None  # its item among those who hold quota


NOTHING: Amounts = {}
