"""The figures of a run by name, for sweeps, tables and goals: `p95 wait of queue vision`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from makeway.sim.paired import size_text
from makeway.sim.result import Result
from makeway.sim.spans import short_span
from makeway.sim.statistics import Waits
from makeway.sim.trace_jobs import SimulationError
from makeway.sim.values import Unreadable, span_s

Figures = Mapping[str, float]
SPANS = ("wait", "turnaround", "makespan")  # figures that are told in seconds
NEVER_FIT = "never fit"
# Figures that not every run has, without their groups.
RARE = ("fairness", "cost", "cost per useful hour", "mean turnaround", "p95 turnaround", "slowdown")
_GOAL = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*(.+)")


def figures_of(result: Result) -> dict[str, float]:
    """All of them; those that this run does not have are left out."""
    found: dict[str, float] = {}
    groups: dict[str, Waits] = {"all": result.wait()}
    groups |= {f"queue {name}": waits for name, waits in result.waits_by_queue().items()}
    groups |= {f"priority {n}": waits for n, waits in result.waits_by_priority().items()}
    groups |= {f"size {size_text(g)}": waits for g, waits in result.waits_by_size().items()}
    for group, waits in groups.items():
        if waits.jobs:
            found |= dict(_of_group(group, waits))
    for use in result.uses:
        cell = f"{use.cell.flavor} {use.cell.resource}"
        found[f"held of {cell}"] = 100 * use.share
        if use.used_while_jobs_came is not None:
            share = use.used_while_jobs_came / (use.quota or 1)
            found[f"held while jobs came of {cell}"] = 100 * share
    found |= dict(_totals(result))
    return found


def _of_group(group: str, waits: Waits) -> Iterable[tuple[str, float]]:
    for name in ("mean", "median", "p95", "p99", "longest"):
        yield f"{name} wait of {group}", getattr(waits, name)
    if waits.has_finished:
        yield f"mean turnaround of {group}", waits.turnaround_mean
        yield f"p95 turnaround of {group}", waits.turnaround_p95
        yield f"slowdown of {group}", waits.slowdown_mean
    yield f"never ran of {group}", waits.never_ran


def _totals(result: Result) -> Iterable[tuple[str, float]]:
    yield "makespan", result.makespan.seconds
    yield "finished", result.finished
    yield NEVER_FIT, result.never_fit
    yield "preemptions", result.preemptions
    yield "evictions", len(result.evictions_counted)
    yield "work done", result.in_hours(result.work.useful)
    yield "work lost", result.in_hours(result.work.lost)
    if result.fairness is not None:
        yield "fairness", result.fairness
    if (money := result.money) is not None:
        yield "cost", money.total.paid
        yield "cost of lost work", money.total.lost
        yield "cost of unused quota", money.total.unused
        if money.per_useful_hour is not None:
            yield "cost per useful hour", money.per_useful_hour


def is_span(name: str) -> bool:
    return any(word in SPANS for word in name.split())


def figure_text(name: str, value: float) -> str:
    if is_span(name):
        return short_span(value) if value >= 0 else f"-{short_span(-value)}"
    if name.startswith("held"):
        return f"{value:.1f} %"
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.2f}"


def full_name(text: str, known: Iterable[str]) -> str:
    """The name of a figure as somebody writes it: `p95 wait of vision`, `p95 wait`."""
    words = " ".join(text.split())
    names = [*known]
    head, _, group = words.partition(" of ")
    tries = [words, f"{words} of all", f"mean {words}", f"mean {words} of all"]
    tries += [f"{head} of {kind} {group}" for kind in ("queue", "size", "priority") if group]
    for one in tries:
        if one in names:
            return one
    begin = [name for name in names if group and name.startswith(f"{words} ")]
    if len(begin) == 1:  # a flavor without its resource
        return begin[0]
    raise SimulationError(f"{text}: {_why_missing(words, names)}")


def _why_missing(words: str, names: Sequence[str]) -> str:
    if words.split()[:1] == ["cost"]:
        return "nothing has a price; write simulation.prices"
    if words == "fairness":
        return "there is none: it takes two queues in which somebody waits"
    head = words.partition(" of ")[0]
    if same := [name for name in names if name.startswith(f"{head} of ")]:
        return f"there is no such figure; there are {', '.join(same)}"
    if near := get_close_matches(words, names, n=1, cutoff=0.8):
        return f"there is no such figure; did you mean '{near[0]}'?"
    some = ", ".join(name for name in names if " of " not in name or name.endswith(" of all"))
    return (
        f"there is no such figure; there are {some}, and the same of"
        " queue, priority and size, as in 'p95 wait of queue NAME'"
    )


def may_be_figure(text: str, known: Iterable[str]) -> bool:
    """Could another run have it, if not this one? Its groups may differ, and what it lacks."""
    words = " ".join(text.split())
    heads = {name.partition(" of ")[0] for name in known} | {"wait", "turnaround", *RARE}
    return words.partition(" of ")[0] in heads


class Goal(NamedTuple):
    figure: str  # as written
    operator: str
    limit: float

    def __str__(self) -> str:
        return f"{self.figure} {self.operator} {figure_text(self.figure, self.limit)}"

    @property
    def wants_low(self) -> bool:
        return self.operator.startswith("<")

    def is_met(self, value: float) -> bool:
        match self.operator:
            case "<":
                return value < self.limit
            case "<=":
                return value <= self.limit
            case ">":
                return value > self.limit
            case _:
                return value >= self.limit


def parse_goal(text: str) -> Goal:
    found = _GOAL.fullmatch(text.strip())
    if found is None:
        raise SimulationError(f"--find {text}: write for example 'p95 wait of all < 1h'")
    name, operator, value = found.groups()
    name = " ".join(name.split())
    try:
        limit = span_s(value) if is_span(name) else float(value.rstrip("% "))
    except (Unreadable, ValueError):
        kind = (
            "span of time such as 1h"
            if is_span(name)
            else "number; spans are for wait, turnaround and makespan"
        )
        raise SimulationError(f"--find {text}: {value} is no {kind}") from None
    return Goal(name, operator, limit)
