"""Results of the same trace, side by side: the first is what the others are compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

from makeway.sim.paired import PairedComparison, change_text, pair_data, reason_of, size_text
from makeway.sim.report import as_data
from makeway.sim.report_tables import Table
from makeway.sim.result import Result
from makeway.sim.spans import short_span
from makeway.sim.statistics import Waits

SCHEMA = "makeway.dev/simulation-comparison/v2"
# What sides are called: A to Z, AA to ZZ.
LETTERS = (*ascii_uppercase, *(a + b for a in ascii_uppercase for b in ascii_uppercase))
_whole, _one_digit, _two_digits = "{:.0f}".format, "{:.1f}".format, "{:.2f}".format
CALLED_OUT = 0.05  # a smaller change is none worth a word
NO_FIGURE = "-"


class Figure(NamedTuple):
    """One figure of all runs."""

    what: str
    values: tuple[float | None, ...]  # None: this run has no such figure
    text_of: Callable[[float], str]
    is_better_low: bool | None = True  # None: neither is better

    def text(self, which: int) -> str:
        value = self.values[which]
        return NO_FIGURE if value is None else self.text_of(value)

    def change(self, which: int) -> str:
        first, other = self.values[0], self.values[which]
        return "" if first is None or other is None else change_text(first, other)

    def verdict(self, which: int) -> str:
        first, other = self.values[0], self.values[which]
        if first is None or other is None or first == other or self.is_better_low is None:
            return ""
        if first and abs(other - first) / abs(first) < CALLED_OUT:
            return ""
        return "better" if (other < first) == self.is_better_low else "WORSE"


def figures(results: Sequence[Result]) -> tuple[Figure, ...]:
    """What a reader wants to compare, the whole before the parts."""
    return (*_totals(results), *_by_group(results), *_by_flavor(results))


def _totals(results: Sequence[Result]) -> Iterable[Figure]:
    everybody = [result.wait() for result in results]
    yield from _waits("all", everybody)
    yield _figure("p99 wait, all", _of_each(everybody, "p99"))
    # Both are of jobs that have finished: where fewer do, less is not better.
    is_better_low = None if any(r.finished < results[0].finished for r in results) else True
    turnarounds = tuple(_of_each(everybody, "turnaround_mean"))
    yield Figure("turnaround, all", turnarounds, short_span, is_better_low)
    slowdowns = tuple(_of_each(everybody, "slowdown_mean"))
    yield Figure("slowdown, all", slowdowns, _one_digit, is_better_low)
    yield _figure("makespan", [result.makespan.seconds for result in results])
    yield _figure("preemptions", [result.preemptions for result in results], _whole)
    yield _figure("evictions", [len(result.evictions_counted) for result in results], _whole)
    circles = [sum(circle.times for circle in result.record.circles) for result in results]
    if any(circles):
        yield _figure("circles of displacement", circles, _whole)
    resource = results[0].main_resource
    lost = [result.in_hours(result.work.lost) for result in results]
    yield _figure(f"work lost ({resource}-hours)", lost, _one_digit)
    if all(result.money is not None for result in results):
        money = [result.money for result in results if result.money is not None]
        yield _figure("cost", [one.total.paid for one in money], _two_digits)
        yield _figure("cost of lost work", [one.total.lost for one in money], _two_digits)
        yield _figure("cost of unused quota", [one.total.unused for one in money], _two_digits)
        yield _figure("cost per useful hour", [one.per_useful_hour for one in money], _two_digits)
    finished = tuple(float(result.finished) for result in results)
    yield Figure("finished jobs", finished, _whole, is_better_low=False)
    never_fit = [result.never_fit for result in results]
    if any(never_fit):
        yield _figure("jobs that never fit", never_fit, _whole)
    shares = tuple(result.fairness for result in results)
    if any(share is not None for share in shares):
        yield Figure("fairness (Jain)", shares, _two_digits, is_better_low=False)


def _waits(whose: str, waits: Sequence[Waits | None]) -> Iterable[Figure]:
    for name in ("mean", "p95", "longest"):
        yield _figure(f"{name} wait, {whose}", _of_each(waits, name))


def _of_each(waits: Sequence[Waits | None], name: str) -> list[float | None]:
    """One figure of each; None where there are no jobs to have it."""
    return [None if one is None else one.figures()[name] for one in waits]


def _figure(
    what: str, values: Sequence[float | None], text_of: Callable[[float], str] = short_span
) -> Figure:
    return Figure(what, tuple(values), text_of)


def _by_group(results: Sequence[Result]) -> Iterable[Figure]:
    """Waits by queue, priority and size, each where there is more than one."""
    ways: tuple[tuple[str, list[dict[str, Waits]]], ...] = (
        ("", [result.waits_by_queue() for result in results]),
        ("priority ", [_named(result.waits_by_priority(), str) for result in results]),
        ("size ", [_named(result.waits_by_size(), size_text) for result in results]),
    )
    for word, found in ways:
        names = [name for name, waits in found[0].items() if waits.jobs]
        for name in names if len(names) > 1 else ():
            yield from _waits(f"{word}{name}", [groups.get(name) for groups in found])


def _named(groups: dict[Any, Waits], name_of: Callable[[Any], str]) -> dict[str, Waits]:
    return {name_of(key): waits for key, waits in groups.items()}


def _by_flavor(results: Sequence[Result]) -> Iterable[Figure]:
    found = [{use.cell: use for use in result.uses} for result in results]
    for cell in found[0]:
        what = f"use of {cell.flavor} {cell.resource} (%)"
        uses = [uses.get(cell) for uses in found]
        values = tuple(None if use is None else 100 * use.share for use in uses)
        yield Figure(what, values, _one_digit, is_better_low=None)


def paired(results: Sequence[Result]) -> list[PairedComparison]:
    """Every run but the first, job by job against the first."""
    return [PairedComparison(results[0], other) for other in results[1:]]


def verdict(results: Sequence[Result]) -> list[str]:
    """What a reader has to know before any table."""
    return [
        sentence
        for letter, compared in zip(LETTERS[1:], paired(results), strict=False)
        for sentence in compared.sentences(("A", letter))
    ]


def figure_data(results: Sequence[Result]) -> list[dict[str, object]]:
    """The differences for programs: numbers, and for people in words."""
    others = range(1, len(results))
    return [
        {
            "what": figure.what,
            "values": [None if v is None else round(v, 6) for v in figure.values],
            "texts": [figure.text(i) for i in range(len(results))],
            "changes": [figure.change(i) for i in others],
            "verdicts": [figure.verdict(i) for i in others],
        }
        for figure in figures(results)
    ]


def comparison_json(results: Sequence[Result]) -> str:
    data = {
        "schema": SCHEMA,
        "runs": [as_data(result) for result in results],
        "differences": figure_data(results),
        "paired": [pair_data(compared) for compared in paired(results)],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def comparison_tables(results: Sequence[Result]) -> tuple[Table, ...]:
    letters = LETTERS[: len(results)]
    names = zip(letters, results, strict=True)
    title = "   ".join(f"{letter}: {result.label}" for letter, result in names)
    others = range(1, len(results))
    rows = tuple(
        (
            figure.what,
            figure.text(0),
            *(
                cell
                for i in others
                for cell in (figure.text(i), figure.change(i), figure.verdict(i))
            ),
        )
        for figure in figures(results)
    )
    columns = ("", "A", *(cell for i in others for cell in (letters[i], "change", "")))
    tables = [Table(title, columns, rows, beside=2, together=3)]
    for letter, compared in zip(letters[1:], paired(results), strict=True):
        tables += _pair_tables(letter, compared)
    return tuple(tables)


def _pair_tables(letter: str, compared: PairedComparison) -> Iterable[Table]:
    rows = tuple(
        (
            group.group,
            *map(str, (group.jobs, group.shorter, group.longer)),
            *map(short_span, (group.before_s, group.after_s)),
            change_text(group.before_s, group.after_s),
        )
        for group in (compared.whole, *compared.groups)
    )
    columns = ("jobs of", "jobs", "wait less", "longer", "mean in A", f"in {letter}", "change")
    yield Table(f"job by job: {letter} against A", columns, rows)
    losers = tuple(
        (
            f"{pair.second.key} in {pair.second.queue}",
            *pair.texts,
        )
        for pair in compared.losers()
    )
    if losers:
        yield Table(f"who lost most in {letter}", ("job", "A", letter, "change"), losers)


def why_lines(compared: PairedComparison) -> list[str]:
    """Why those wait that lost most: each reason once."""
    reasons = dict.fromkeys(reason_of(pair.second) for pair in compared.losers())
    return [reason for reason in reasons if reason]
