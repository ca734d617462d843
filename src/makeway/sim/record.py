"""What happened, as it happened: the raw material of every figure in a report.

Everything grows with the number of happenings, a few machine words each, and nothing is copied
per cycle. What is derived from it (means, percentiles, pictures) is derived once, at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from makeway.engine.decisions import Decision, Reason
from makeway.engine.explain import Explanation
from makeway.engine.model import FlavorName, FlavorResource, QueueName, WorkloadKey
from makeway.sim.trace_jobs import TraceJob


class Steps:
    """A value that changes at moments and holds in between."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times = array("d")
        self.values = array("q")

    @property
    def now(self) -> int:
        return self.values[-1] if self.values else 0

    def add(self, at: float, change: int) -> None:
        if self.times and self.times[-1] == at:
            self.values[-1] += change
        else:
            self.values.append(self.now + change)
            self.times.append(at)

    def pieces(self, until: float) -> Iterator[tuple[float, float, int]]:
        """From, to and value, without gaps from the first change on."""
        times, values = self.times, self.values
        last = len(times) - 1
        for i, value in enumerate(values):
            end = times[i + 1] if i < last else until
            if end > times[i]:
                yield times[i], end, value

    def integral(self, until: float) -> float:
        return sum((end - start) * value for start, end, value in self.pieces(until))

    def peak(self) -> int:
        return max(self.values, default=0)


class JobOutcome(Enum):
    """How a job left, or where it stood when the simulation ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    DEACTIVATED = "deactivated"
    NEVER_FITS = "never fits"
    RUNNING = "running at the end"
    WAITING = "waiting at the end"
    TO_COME = "not submitted by the end"


class Incident(NamedTuple):
    """Something that happened to a job other than by a decision."""

    what: str
    detail: str = ""


class Moment(NamedTuple):
    """A line of a job's story; the last one explains where it stands if it has not ended."""

    at: float
    what: Decision | Incident | Explanation


class StayEnding(Enum):
    """How a stay on machines ended."""

    FINISHED = "finished"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    OPEN = "open"


STAY_ENDINGS = tuple(StayEnding)


class JobRun:
    """One job in the simulated world, from submission to its end."""

    __slots__ = (
        "attempt",
        "checkpoint_s",
        "done_s",
        "ended_at",
        "evictions",
        "first_run_at",
        "flavors",
        "held_from",
        "index",
        "job",
        "key",
        "lost_s",
        "outcome",
        "pods_admitted",
        "pods_asked",
        "priority",
        "queue",
        "reasons",
        "run_from",
        "size",
        "story",
        "usage",
    )

    def __init__(self, job: TraceJob, index: int, key: WorkloadKey, queue: QueueName) -> None:
        self.job = job
        self.index = index
        self.key = key
        self.queue = queue
        self.priority = 0
        self.size = 0  # how much of the main resource it asks for, smallest unit
        self.pods_asked = 1
        self.pods_admitted = 1
        self.checkpoint_s: float | None = None  # None: an eviction loses everything
        self.outcome = JobOutcome.TO_COME
        self.attempt = 0  # what was planned for an earlier attempt no longer counts
        self.usage: dict[FlavorResource, int] | None = None  # quota held; None: none
        self.flavors: tuple[FlavorName, ...] = ()  # held
        self.held_from = 0.0
        self.run_from: float | None = None  # None: no pods run
        self.first_run_at: float | None = None
        self.ended_at: float | None = None
        self.done_s = 0.0  # progress that an eviction does not take
        self.lost_s = 0.0  # progress taken by evictions
        self.evictions = 0
        self.reasons: tuple[Reason, ...] = ()  # given last for its waiting
        self.story: list[Moment] | None = None  # None: nobody asked for it


class Placed(NamedTuple):
    """All pods of a job have their nodes."""

    workload: WorkloadKey
    nodes: tuple[str, ...]  # each once, sorted


class MadeWay(NamedTuple):
    """A whole job is preempted for the sake of another one's place on nodes."""

    workload: WorkloadKey
    preemptor: WorkloadKey


class NoRoom(NamedTuple):
    """A gang waits for nodes."""

    workload: WorkloadKey
    why: str


PlacementResult = Placed | MadeWay | NoRoom


@dataclass(frozen=True, slots=True)
class Eviction:
    at: float
    job: int
    queue: QueueName
    cause: str  # the word of Kueue's condition
    by: int  # index of the preemptor; -1 where there is none


class SimulationRecord:
    def __init__(self) -> None:
        self.runs: list[JobRun] = []  # in order of submission
        self.used: dict[tuple[QueueName, FlavorResource], Steps] = {}
        self.busy: dict[FlavorResource, Steps] = {}  # by jobs whose pods run
        self.waiting: dict[QueueName, Steps] = {}
        self.running: dict[QueueName, Steps] = {}
        self.evictions: list[Eviction] = []
        self.counts: dict[str, int] = {}  # requeues, fallbacks, failures, answers of checks ...
        self.dry: list[tuple[float, float, str]] = []  # stockouts: from, to, flavor
        # Stays on machines, one line each: whose, from, to, flavor, how it ended, did pods run.
        self.stay_job = array("L")
        self.stay_from = array("d")
        self.stay_to = array("d")
        self.stay_ending = array("B")
        self.stay_ran = array("B")
        self.steps = 0  # happenings in the world
        self.cycles = 0

    def add_queue(self, name: QueueName, cells: tuple[FlavorResource, ...]) -> None:
        self.waiting[name] = Steps()
        self.running[name] = Steps()
        for cell in cells:
            self.used[name, cell] = Steps()
            self.busy.setdefault(cell, Steps())

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def charge(self, at: float, queue: QueueName, usage: Mapping[FlavorResource, int]) -> None:
        for cell, amount in usage.items():
            self.used[queue, cell].add(at, amount)

    def release(self, at: float, queue: QueueName, usage: Mapping[FlavorResource, int]) -> None:
        for cell, amount in usage.items():
            self.used[queue, cell].add(at, -amount)

    def stay(self, run: JobRun, start: float, end: float, ending: StayEnding, *, ran: bool) -> None:
        if end > start or ran:
            self.stay_job.append(run.index)
            self.stay_from.append(start)
            self.stay_to.append(end)
            self.stay_ending.append(STAY_ENDINGS.index(ending))
            self.stay_ran.append(ran)
