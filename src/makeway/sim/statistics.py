"""Figures out of a record: waiting, use, work lost, fairness.

Cost: linear in what happened, with one sort per group of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from math import ceil
from typing import NamedTuple

from makeway.sim.record import JobOutcome, JobRun, Steps

SLOWDOWN_BOUND_S = 10.0  # shorter jobs count as this long, or seconds of waiting weigh too much


class Waits(NamedTuple):
    """How long jobs waited from submission until their pods first ran, in seconds.

    A job that never ran counts with the time it had waited when it left or the simulation ended:
    a starving job must not improve the figures. Slowdown is the time from submission to the end
    over the run time, both bounded from below by ten seconds. Turnaround is the time from
    submission to the end. Both count finished jobs only.
    """

    jobs: int = 0
    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    slowdown_mean: float = 0.0
    slowdown_p95: float = 0.0
    turnaround_mean: float = 0.0
    turnaround_p95: float = 0.0
    never_ran: int = 0

    @property
    def has_finished(self) -> bool:
        """Has anybody? Else there is no turnaround, and no slowdown, which is 1 at least."""
        return self.slowdown_mean > 0

    def figures(self) -> dict[str, float | None]:
        """By name; None is a figure of jobs where there are no such jobs."""
        found: dict[str, float | None] = self._asdict()
        if not self.jobs:
            found |= dict.fromkeys(("mean", "median", "p95", "p99", "longest"))
        if not self.has_finished:
            found |= {name: None for name in found if name.startswith(("slowdown", "turnaround"))}
        return found


def wait_of(run: JobRun, end: float) -> float:
    until = run.first_run_at
    if until is None:
        until = end if run.ended_at is None else run.ended_at
    return until - run.submitted_at


def slowdown_of(run: JobRun) -> float:
    return max(1.0, turnaround_of(run) / max(run.job.run_s, SLOWDOWN_BOUND_S))


def turnaround_of(run: JobRun) -> float:
    assert run.ended_at is not None
    return run.ended_at - run.submitted_at


def waits_of(runs: Iterable[JobRun], end: float) -> Waits:
    """Jobs that can never fit are no part of this: they would wait for ever anywhere."""
    counted = [run for run in runs if run.outcome is not JobOutcome.NEVER_FITS]
    if not counted:
        return Waits()
    waits = sorted(wait_of(run, end) for run in counted)
    finished = [run for run in counted if run.outcome is JobOutcome.FINISHED]
    slowdowns = sorted(slowdown_of(run) for run in finished)
    turnarounds = sorted(turnaround_of(run) for run in finished)
    return Waits(
        jobs=len(waits),
        mean=sum(waits) / len(waits),
        median=quantile(waits, 0.5),
        p95=quantile(waits, 0.95),
        p99=quantile(waits, 0.99),
        longest=waits[-1],
        slowdown_mean=sum(slowdowns) / len(slowdowns) if slowdowns else 0.0,
        slowdown_p95=quantile(slowdowns, 0.95) if slowdowns else 0.0,
        turnaround_mean=sum(turnarounds) / len(turnarounds) if turnarounds else 0.0,
        turnaround_p95=quantile(turnarounds, 0.95) if turnarounds else 0.0,
        never_ran=sum(run.first_run_at is None for run in counted),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that this share of all values does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def size_group(size: int) -> tuple[int, int]:
    """From and to of the group that a size belongs to: 1, 2, 3-4, 5-8, 9-16 and so on."""
    top = 1
    while top < size:
        top *= 2
    return (top // 2 + 1 if top > 1 else size, top)


def bin_means(
    steps: Steps,
    end: float,
    bins: int,
    value_of: Callable[[int], int] = lambda value: value,
    since: float = 0.0,
) -> list[float]:
    """The mean over each of so many equal parts of the time from `since` to `end`."""
    sums = [0.0] * bins
    if end <= since:
        return sums
    width = (end - since) / bins
    for from_, to, value in steps.pieces(end, since):
        amount = value_of(value)
        if not amount:
            continue
        start, stop = from_ - since, to - since
        first, last = int(start / width), min(bins - 1, int(stop / width))
        if first >= last:
            sums[min(first, last)] += amount * (stop - start)
            continue
        sums[first] += amount * ((first + 1) * width - start)
        for i in range(first + 1, last):
            sums[i] += amount * width
        sums[last] += amount * (stop - last * width)
    return [total / width for total in sums]


def together(series: Sequence[Steps], end: float) -> Iterator[tuple[float, float, list[int]]]:
    """Pieces of time in which none of several values changes; the list is reused."""
    changes = merge(*(_changes(i, steps) for i, steps in enumerate(series)))
    values = [0] * len(series)
    since = 0.0
    for at, i, value in changes:
        if at >= end:
            break
        if at > since:
            yield since, at, values
            since = at
        values[i] = value
    if end > since:
        yield since, end, values


def _changes(which: int, steps: Steps) -> Iterator[tuple[float, int, int]]:
    return ((at, which, value) for at, value in zip(steps.times, steps.values, strict=True))


def jain_index(shares: Sequence[float]) -> float | None:
    """1 when all have the same, 1/n when one has it all; None where there is nothing to compare."""
    if len(shares) < 2:
        return None
    total, squares = sum(shares), sum(share * share for share in shares)
    return total * total / (len(shares) * squares) if squares else None
