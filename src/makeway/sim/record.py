"""What happened, as it happened: the raw material of every figure in a report.

Everything grows with the number of events, a few machine words each, and nothing is copied
per cycle. What is derived from it (means, percentiles, pictures) is derived once, at the end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from makeway.engine.decisions import Decision
from makeway.engine.explain import Explanation, Obstacle
from makeway.engine.model import FlavorName, FlavorResource, QueueName, WorkloadKey
from makeway.sim.circles import Circles
from makeway.sim.trace_jobs import TraceJob


class Steps:
    """A value that changes at moments and holds in between."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times = array("d")
        self.values = array("q")

    def add(self, at: float, change: int) -> None:
        times, values = self.times, self.values
        if times and times[-1] == at:
            values[-1] += change
        else:
            values.append(values[-1] + change if values else change)
            times.append(at)

    def pieces(self, until: float, since: float = 0.0) -> Iterator[tuple[float, float, int]]:
        """From, to and value, without gaps from the first change on, of a span of time."""
        times, values = self.times, self.values
        last = len(times) - 1
        for i in range(max(0, bisect_right(times, since) - 1), len(times)):
            start, end = max(times[i], since), min(times[i + 1] if i < last else until, until)
            if end > start:
                yield start, end, values[i]

    def integral(self, until: float, since: float = 0.0) -> float:
        return sum((end - start) * value for start, end, value in self.pieces(until, since))

    def peak(self, until: float, since: float = 0.0) -> int:
        return max((value for _, _, value in self.pieces(until, since)), default=0)


class JobOutcome(Enum):
    """How a job left, or where it stood when the simulation ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    DEACTIVATED = "deactivated"
    TERMINATED = "ended by preemption"
    NEVER_FITS = "never fits"
    RUNNING = "running at the end"
    WAITING = "waiting at the end"
    TO_COME = "not submitted by the end"


class Incident(NamedTuple):
    """Something that happened to a job other than by a decision."""

    what: str
    detail: str = ""


class Moment(NamedTuple):
    """A line of a job's story; the last one explains where it stands, unless it ran to its end."""

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
_NUMBER_OF = {ending.value: number for number, ending in enumerate(STAY_ENDINGS)}


@dataclass(slots=True, eq=False)
class JobRun:
    """One job in the simulated world, from submission to its end."""

    job: TraceJob
    index: int
    key: WorkloadKey
    queue: QueueName
    submitted_at: float = 0.0  # for a job that is still to come, as the trace has it
    priority: int = 0
    size: int = 0  # how much of the main resource the job asks for, smallest unit
    before: tuple[int, ...] = ()  # jobs that have to end before it is submitted
    pods_asked: int = 1
    pods_admitted: int = 1
    checkpoint_s: float | None = None  # None: an eviction loses all progress
    ends_when_preempted: bool = False
    outcome: JobOutcome = JobOutcome.TO_COME
    attempt: int = 0  # what was planned for an earlier attempt no longer counts
    usage: dict[FlavorResource, int] | None = None  # None: the job holds no quota
    flavors: tuple[FlavorName, ...] = ()  # the flavors of that quota
    flavor_speed: float = 1.0  # on those, relative to the trace
    held_from: float = 0.0
    machines_from: float | None = None  # None: the job has no machines
    run_from: float | None = None  # None: no pods run
    first_run_at: float | None = None
    ended_at: float | None = None
    done_s: float = 0.0  # progress that an eviction does not take
    lost_s: float = 0.0  # progress taken by evictions
    begun_s: float = 0.0  # progress that it had when the simulation began
    evictions: int = 0
    reasons: tuple[Obstacle, ...] = ()  # the reasons given last for waiting
    story: list[Moment] | None = None  # None: nobody asked for the story

    @property
    def speed(self) -> float:
        """Progress per second; with fewer pods than asked for, the work takes longer."""
        return self.pods_admitted / self.pods_asked * self.flavor_speed

    def tell(self, at: float, what: Decision | Incident | Explanation) -> None:
        if self.story is not None:
            self.story.append(Moment(at, what))


@dataclass(frozen=True, slots=True)
class RecordedEviction:
    at: float
    job: int
    queue: QueueName
    cause: str  # the word of Kueue's condition
    by: int  # index of the preemptor; -1 where there is none


class Loss(NamedTuple):
    """Progress that an eviction or a failure took."""

    at: float
    job: int
    usage: Mapping[FlavorResource, int]
    machine_s: float  # time on those machines that was in vain
    by: int  # index of the preemptor; -1 where there is none


class SimulationRecord:
    def __init__(self) -> None:
        self.runs: list[JobRun] = []  # in order of submission
        self.used: dict[tuple[QueueName, FlavorResource], Steps] = {}
        self.busy: dict[FlavorResource, Steps] = {}  # quota of jobs whose pods run
        self.rented: dict[FlavorResource, Steps] = {}  # machines that jobs have, pods or not
        self.waiting: dict[QueueName, Steps] = {}  # jobs
        self.wanted: dict[QueueName, Steps] = {}  # what those jobs ask for of the main resource
        self.running: dict[QueueName, Steps] = {}
        self.evictions: list[RecordedEviction] = []
        self.losses: list[Loss] = []
        self.counts: dict[str, int] = {}  # requeues, fallbacks, failures, answers of checks ...
        self.circles = Circles()
        self.stockouts: list[tuple[float, float, str, float]] = []  # from, to, flavor, share
        # Stays on machines, a line each: of which job, where, from, to, how it ended, did pods run.
        self.stay_job = array("L")
        self.stay_flavors = array("L")  # a place in `flavor_sets`
        self.flavor_sets: dict[tuple[FlavorName, ...], int] = {}
        self.stay_from = array("d")
        self.stay_to = array("d")
        self.stay_ending = array("B")
        self.stay_ran = array("B")
        self.steps = 0  # events in the world
        self.cycles = 0

    def add_queue(self, name: QueueName, cells: tuple[FlavorResource, ...]) -> None:
        self.waiting[name] = Steps()
        self.wanted[name] = Steps()
        self.running[name] = Steps()
        self.add_cells(name, cells)

    def add_cells(self, name: QueueName, cells: Iterable[FlavorResource]) -> None:
        """What is counted in a queue; also what somebody holds that it has no quota of any more."""
        for cell in cells:
            self.used.setdefault((name, cell), Steps())
            self.busy.setdefault(cell, Steps())
            self.rented.setdefault(cell, Steps())

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def add_waiting(self, at: float, run: JobRun, change: int) -> None:
        self.waiting[run.queue].add(at, change)
        self.wanted[run.queue].add(at, change * run.size)

    def add_held(self, at: float, run: JobRun, sign: int) -> None:
        """The job's quota is charged to its queue (1) or released (-1)."""
        for cell, amount in (run.usage or {}).items():
            self.used[run.queue, cell].add(at, sign * amount)

    def add_running(self, at: float, run: JobRun, sign: int) -> None:
        """The job's pods run on its quota (1) or no longer do (-1)."""
        self.running[run.queue].add(at, sign)
        for cell, amount in (run.usage or {}).items():
            self.busy[cell].add(at, sign * amount)

    def add_rented(self, at: float, cell: FlavorResource, change: int) -> None:
        self.rented[cell].add(at, change)

    def stay(self, run: JobRun, start: float, end: float, ending: StayEnding, *, ran: bool) -> None:
        if end > start or ran:
            self.stay_job.append(run.index)
            place = self.flavor_sets.setdefault(run.flavors, len(self.flavor_sets))
            self.stay_flavors.append(place)
            self.stay_from.append(start)
            self.stay_to.append(end)
            self.stay_ending.append(_NUMBER_OF[ending.value])
            self.stay_ran.append(ran)


class Unrecorded(SimulationRecord):
    """Of a run that is asked for nothing but when its jobs start and end: it has no series."""

    def add_waiting(self, at: float, run: JobRun, change: int) -> None:
        pass

    def add_held(self, at: float, run: JobRun, sign: int) -> None:
        pass

    def add_running(self, at: float, run: JobRun, sign: int) -> None:
        pass

    def add_rented(self, at: float, cell: FlavorResource, change: int) -> None:
        pass

    def stay(self, run: JobRun, start: float, end: float, ending: StayEnding, *, ran: bool) -> None:
        pass
