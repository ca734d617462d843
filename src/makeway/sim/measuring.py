"""What part of a run is measured, and when a run is given up."""

from __future__ import annotations

from typing import NamedTuple

from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Continuation
from makeway.sim.demand import Demand
from makeway.sim.spans import short_span
from makeway.sim.trace_jobs import SimulationError
from makeway.sim.values import Unreadable, span_s

WARM_UP_SHARE = 0.1  # of the time in which jobs come
HORIZON_FACTOR = 10
HORIZON_S = 365 * 86_400.0  # no run is given up before


class Window(NamedTuple):
    """Jobs submitted in it count, and time within it."""

    since: float
    until: float
    is_whole: bool = True

    @property
    def length_s(self) -> float:
        return self.until - self.since

    def has(self, at: float) -> bool:
        return self.since <= at <= self.until


class Measure(NamedTuple):
    """What the user asks to be measured."""

    since: float | None = None
    until: float | None = None
    is_steady: bool = False  # while jobs come, without the first tenth of that time

    def window(self, last_submit: float, end: float) -> Window:
        """The window in a run that had its last submission and its end then."""
        if self.is_steady and last_submit <= 0:
            problem = "there is no time in which jobs come: all are there from the beginning"
            raise SimulationError(f"--measure steady: {problem}")
        if self.is_steady:
            return Window(WARM_UP_SHARE * last_submit, min(last_submit, end), is_whole=False)
        since = 0.0 if self.since is None else self.since
        until = end if self.until is None else min(self.until, end)
        if since >= until and self != EVERYTHING:
            raise SimulationError(
                f"--measure: nothing is left to measure, the run ended after {short_span(end)}"
            )
        return Window(since, until, is_whole=self == EVERYTHING)


EVERYTHING = Measure()


def parse_measure(text: str) -> Measure:
    """`all`, `steady`, `2d..30d`, `2d..` or `..30d`."""
    if text in ("", "all"):
        return EVERYTHING
    if text == "steady":
        return Measure(is_steady=True)
    since, dots, until = text.partition("..")
    try:
        from_s, to_s = (span_s(part) if part else None for part in (since, until))
    except Unreadable:
        dots = ""
    if not dots:
        raise SimulationError(f"--measure {text}: write steady, all, or a span such as 2d..30d")
    if from_s is not None and to_s is not None and from_s >= to_s:
        raise SimulationError(f"--measure {text}: ends before it begins")
    return Measure(from_s, to_s)


def horizon_s(cluster: SimulatedCluster, demand: Demand | Continuation) -> float:
    """When a run is given up: after ten times what its work needs, and not before a year."""
    quota = sum(cluster.quota_by_root(demand.main_resource).values())
    last_submit = max(run.job.submit_s for run in demand.runs)
    at_once = max(run.job.submit_s + run.job.run_s for run in demand.runs)
    work = sum(run.job.run_s * run.size for run in demand.runs)
    needed = max(at_once, last_submit + (work / quota if quota else 0.0))
    return max(HORIZON_S, HORIZON_FACTOR * needed)
