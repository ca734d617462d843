"""One pod as preemptor: every node is a domain of its own.

On a single node the search for N adds nothing to putting back by importance: units above N all
come back. So N of every node comes from one running sum over its candidates, and only the nodes of
the least N are looked at more closely. Budgets count before priorities, hence every node with a
candidate under a budget is looked at as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.candidates import Candidates
from makeway.placement.decisions import SpareReason
from makeway.placement.gangs import Alike, Share
from makeway.placement.model import Pod
from makeway.placement.nodes import Ints
from makeway.placement.preempt import PRIORITY_SHIFT, Choice, Score
from makeway.placement.units import UnitTable


class NodeOption(NamedTuple):
    """A line where the pod fits with all candidates gone."""

    line: int
    level: int  # N of this node
    units: list[int]  # indices of candidates that stand there, the most important first
    taken: list[list[int]]  # by unit: what it takes of the columns asked for
    slack: list[int]  # what is left of them beside the pod, with all candidates gone


class _Rates:
    """What the candidates weigh, as lists: they are asked for once per node and unit."""

    def __init__(self, candidates: Candidates, table: UnitTable, budgets: Budgets) -> None:
        units = candidates.units
        self._budgets = budgets
        self.priority: list[int] = candidates.priority.tolist()
        self._size: list[int] = table.size[units].tolist()
        self._started: list[float] = table.started[units].tolist()
        self._guarded: dict[int, list[Pod]] = {}  # candidates with a pod under a budget
        for index, unit in enumerate(units.tolist() if budgets else ()):
            pods = table.staying(unit)
            if any(budgets.of(pod) for pod in pods):
                self._guarded[index] = pods

    def is_guarded(self, option: NodeOption) -> bool:
        return bool(self._guarded) and any(unit in self._guarded for unit in option.units)

    def violating(self, units: Sequence[int]) -> list[int]:
        """Those of `units` whose loss would go beyond a budget."""
        beyond = self._budgets.violations(self._guarded.get(unit, ()) for unit in units)
        return [unit for unit, number in zip(units, beyond, strict=True) if number]

    def score(self, victims: Sequence[int]) -> Score:
        """The same as `preempt.score`."""
        violations = 0
        if self._guarded:
            beyond = self._budgets.violations(self._guarded.get(unit, ()) for unit in victims)
            violations = sum(beyond)
        highest = self.priority[victims[0]]
        return Score(
            violations,
            highest,
            sum((self.priority[u] + PRIORITY_SHIFT) * self._size[u] for u in victims),
            sum(self._size[u] for u in victims),
            -min(self._started[u] for u in victims if self.priority[u] == highest),
        )


def choose_on_nodes(
    kind: Alike, free: Ints, candidates: Candidates, table: UnitTable, budgets: Budgets
) -> tuple[int, Choice] | None:
    """Return the line where one pod costs least, and who has to go from there."""
    options = list(_options(kind, free, candidates))
    if not options:
        return None
    rates = _Rates(candidates, table, budgets)
    clean = [option for option in options if not rates.is_guarded(option)]
    least = min((option.level for option in clean), default=None)
    closer = [option for option in options if option.level == least or rates.is_guarded(option)]
    best: tuple[Score, int] | None = None
    for option in closer:
        violating = rates.violating(option.units) if rates.is_guarded(option) else []
        victims = _put_back(option, violating)
        rank = rates.score(victims), option.line
        if best is None or rank < best:
            best, chosen, gone, beyond = rank, option, victims, violating
    spared = _why_spared(chosen, gone, beyond, candidates)
    share = Share(0, chosen.line, 1)
    return chosen.line, Choice((share,), np.array(gone, dtype=np.intp), spared)


def _options(kind: Alike, free: Ints, candidates: Candidates) -> Iterable[NodeOption]:
    if not len(candidates):
        return
    order = np.lexsort((-candidates.owner, candidates.line))  # the least important first
    line = candidates.line[order]
    starts = np.flatnonzero(np.r_[True, line[1:] != line[:-1]])
    ends = np.r_[starts[1:], len(line)]
    asked = np.flatnonzero(kind.need)
    taken = candidates.taken[order][:, asked]
    upto = np.cumsum(taken, axis=0)
    before = np.repeat(upto[starts] - taken[starts], ends - starts, axis=0)
    slack = free[line][:, asked] + upto - before - kind.need[asked]  # with those so far gone
    enough = np.logical_and.reduce(slack >= 0, axis=1) & kind.suits[line]
    position = np.where(enough, np.arange(len(line)), len(line))
    owners, takens = candidates.owner[order].tolist(), taken.tolist()
    priorities: list[int] = candidates.priority[candidates.owner[order]].tolist()
    for start, end, first_enough, here, slack_here in zip(
        starts.tolist(),
        ends.tolist(),
        np.minimum.reduceat(position, starts).tolist(),
        line[starts].tolist(),
        slack[ends - 1].tolist(),
        strict=True,
    ):
        if first_enough < len(priorities):
            yield NodeOption(
                line=here,
                level=priorities[first_enough],
                units=owners[start:end][::-1],
                taken=takens[start:end][::-1],
                slack=slack_here,
            )


def _put_back(option: NodeOption, violating: Sequence[int]) -> list[int]:
    """Return who can't come back, the most important first; those beyond a budget come first."""
    slack = list(option.slack)
    back: set[int] = set()
    taken = dict(zip(option.units, option.taken, strict=True))
    for unit in (*violating, *option.units):
        amounts = taken[unit]
        if unit not in back and all(a <= b for a, b in zip(amounts, slack, strict=True)):
            slack = [b - a for a, b in zip(amounts, slack, strict=True)]
            back.add(unit)
    return [unit for unit in option.units if unit not in back]


def _why_spared(
    option: NodeOption, victims: Sequence[int], violating: Sequence[int], candidates: Candidates
) -> list[SpareReason | None]:
    spared: list[SpareReason | None] = [SpareReason.ELSEWHERE] * len(candidates)
    top = int(candidates.priority[victims[0]])
    for unit in option.units:
        if unit in violating:
            spared[unit] = SpareReason.BUDGET
        elif candidates.priority[unit] > top:
            spared[unit] = SpareReason.ABOVE_LEVEL
        else:
            spared[unit] = SpareReason.FITS
    for unit in victims:
        spared[unit] = None
    return spared
