"""Two results of the same trace, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from makeway.sim.report import Table, as_data, fairness, short_span
from makeway.sim.result import Result
from makeway.sim.statistics import Waits

SCHEMA = "makeway.dev/simulation-comparison/v1"
_whole, _one_digit, _two_digits = "{:.0f}".format, "{:.1f}".format, "{:.2f}".format
CALLED_OUT = 0.05  # a smaller change is none worth a word


class Figure(NamedTuple):
    """One figure of both runs."""

    what: str
    first: float
    second: float
    text: Callable[[float], str]
    is_better_low: bool | None = True  # None: neither is better

    @property
    def change(self) -> float | None:
        """Relative to the first; None where that is zero."""
        return (self.second - self.first) / self.first if self.first else None

    @property
    def verdict(self) -> str:
        if self.first == self.second or self.is_better_low is None:
            return ""
        change = self.change
        if change is not None and abs(change) < CALLED_OUT:
            return ""
        return "better" if (self.second < self.first) == self.is_better_low else "WORSE"

    @property
    def change_text(self) -> str:
        if self.first == self.second:
            return "same"
        change = self.change
        return "new" if change is None else f"{100 * change:+.1f} %"


def figures(first: Result, second: Result) -> tuple[Figure, ...]:
    """What a reader wants to compare, the whole before the parts."""
    return (*_totals(first, second), *_by_queue(first, second), *_by_flavor(first, second))


def _totals(first: Result, second: Result) -> Iterable[Figure]:
    yield from _waits("all", first.wait(), second.wait())
    yield Figure("makespan", first.makespan.seconds, second.makespan.seconds, short_span)
    yield Figure("preemptions", first.preemptions, second.preemptions, _whole)
    evictions = [len(result.record.evictions) for result in (first, second)]
    yield Figure("evictions", evictions[0], evictions[1], _whole)
    circles = [sum(c.times for c in result.record.circles) for result in (first, second)]
    if any(circles):
        yield Figure("circles of displacement", circles[0], circles[1], _whole)
    hours = 3600 * (1000 if first.main_resource == "cpu" else 1)
    yield Figure(
        f"work lost ({first.main_resource}-hours)",
        first.work.lost / hours,
        second.work.lost / hours,
        _one_digit,
    )
    yield Figure("finished jobs", first.finished, second.finished, _whole, is_better_low=False)
    shares = [fairness(result) or 0.0 for result in (first, second)]
    yield Figure("fairness (Jain)", shares[0], shares[1], _two_digits, is_better_low=False)


def _waits(whose: str, first: Waits, second: Waits) -> Iterable[Figure]:
    yield Figure(f"mean wait, {whose}", first.mean, second.mean, short_span)
    yield Figure(f"p95 wait, {whose}", first.p95, second.p95, short_span)
    yield Figure(f"slowdown, {whose}", first.slowdown_mean, second.slowdown_mean, _one_digit)


def _by_queue(first: Result, second: Result) -> Iterable[Figure]:
    others = second.waits_by_queue()
    for name, waits in first.waits_by_queue().items():
        if waits.jobs and name in others:
            yield Figure(f"mean wait, {name}", waits.mean, others[name].mean, short_span)
            yield Figure(f"p95 wait, {name}", waits.p95, others[name].p95, short_span)


def _by_flavor(first: Result, second: Result) -> Iterable[Figure]:
    others = {use.cell: use for use in second.uses}
    for use in first.uses:
        if use.cell in others:
            what = f"use of {use.cell.flavor} {use.cell.resource} (%)"
            other = others[use.cell]
            yield Figure(what, 100 * use.share, 100 * other.share, _one_digit, is_better_low=None)


def figure_data(first: Result, second: Result) -> list[dict[str, object]]:
    """The differences for programs: numbers, and for people in words."""
    return [
        {
            "what": figure.what,
            "first": round(figure.first, 6),
            "second": round(figure.second, 6),
            "firstText": figure.text(figure.first),
            "secondText": figure.text(figure.second),
            "change": figure.change_text,
            "verdict": figure.verdict,
        }
        for figure in figures(first, second)
    ]


def comparison_json(first: Result, second: Result) -> str:
    data = {
        "schema": SCHEMA,
        "first": as_data(first),
        "second": as_data(second),
        "differences": figure_data(first, second),
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def comparison_tables(first: Result, second: Result) -> tuple[Table, ...]:
    rows = tuple(
        (f.what, f.text(f.first), f.text(f.second), f.change_text, f.verdict)
        for f in figures(first, second)
    )
    title = f"A: {first.label}   B: {second.label}"
    return (Table(title, ("", "A", "B", "change", ""), rows),)
