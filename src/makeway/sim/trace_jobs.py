"""What a trace tells: jobs, and oddities of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from makeway.api.manifests import Position


class SimulationError(Exception):
    """The simulation can't be run as asked; the text names the place and what would be right."""


class FilePosition(NamedTuple):
    """Where in a file; lines and columns count from 1, 0 is unknown."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join(str(part) for part in self if part)


def position_of(position: Position) -> FilePosition:
    return FilePosition(position.source, position.line, position.column)


GPUS, CPUS, MEMORY = "gpus", "cpus", "memory"


class TraceJob(NamedTuple):
    """One job of a trace. Times are seconds from the start of the trace."""

    name: str
    queue: str  # as the trace spells the queue; empty where it names none
    submit_s: float
    run_s: float  # run time without evictions
    amounts: tuple[tuple[str, int], ...]  # of all pods: word or resource, smallest unit; sorted
    pods: int = 1
    pods_min: int | None = None  # the job also runs with so few, for longer; None: all or nothing
    priority: str = ""  # a number or the name of a class
    cancel_s: float | None = None  # when the user gives up; None: never
    checkpoint_s: float | None = None  # None: the setting of the queue counts
    user: str = ""
    program: str = ""  # what it runs, where the trace tells; empty: its name has to tell
    flavors: tuple[str, ...] = ()  # as the trace spells those it may run on; empty: any
    run_on: tuple[tuple[str, float], ...] = ()  # run time on certain flavors, where it differs
    requested_s: float | None = None  # the run time that its user asked for; None: not known
    after: tuple[str, ...] = ()  # names of jobs that have to end before it is submitted
    think_s: float | None = None  # it comes so long after those, whenever that is; None: not before


@dataclass(slots=True)
class Oddity:
    """Something about rows of a trace that a reader of the results has to know."""

    what: str
    is_left_out: bool  # such rows are not simulated
    count: int = 0
    examples: list[str] = field(default_factory=list)  # the first few, with their places


EXAMPLES_SHOWN = 3


class Oddities:
    """Counted by kind, in the order of their first appearance."""

    def __init__(self) -> None:
        self._by_what: dict[str, Oddity] = {}

    def note(self, what: str, example: str = "", *, is_left_out: bool = False) -> None:
        oddity = self._by_what.setdefault(what, Oddity(what, is_left_out))
        oddity.count += 1
        if example and len(oddity.examples) < EXAMPLES_SHOWN:
            oddity.examples.append(example)

    def all(self) -> tuple[Oddity, ...]:
        return tuple(self._by_what.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    source: str
    layout: str  # how the file was read: "SWF", "Philly", "CSV (submit=timestamp, …)"
    jobs: tuple[TraceJob, ...]  # sorted by time of submission
    rows: int  # rows that hold a job, or should
    origin: float | None = None  # seconds since 1970 of the start; None where only spans are known
    oddities: tuple[Oddity, ...] = ()
    manifests: tuple[dict[str, object], ...] = ()  # queue objects that come with the trace
    warnings: tuple[str, ...] = ()  # what is surely not meant so
    drawn_from: int | None = None  # under another load: how many jobs were recorded

    def first(self, count: int) -> Trace:
        return replace(self, jobs=self.jobs[:count])


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    return tuple(sorted(jobs, key=lambda job: job.submit_s))
