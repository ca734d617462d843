"""One pod as preemptor: every node is a domain of its own.

On a single node the search for N adds nothing to putting back by importance: units above N all
come back. So candidates are put back on all nodes at once, the most important of every node first:
a step per rank, not one per unit. Only budgets are looked at node by node, where there are any.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.candidates import Candidates
from makeway.placement.decisions import SpareReason
from makeway.placement.model import Pod
from makeway.placement.nodes import Flags, Ints, Rows
from makeway.placement.packing import PodsOnNode, SameShapePods
from makeway.placement.preempt import VictimChoice, weights
from makeway.placement.units import UnitTable


class NodeOptions(NamedTuple):
    """The nodes where the pod fits with all candidates gone, and the units there."""

    room_rows: Rows
    first: Rows  # by option: the first entry; at last the number of entries
    unit: Rows  # by entry: index of a candidate; of each option the most important first
    taken: Ints  # by entry: what the unit takes there of the columns asked for
    slack: Ints  # by option: what is left of those beside the pod with all candidates gone

    @property
    def of_entry(self) -> Rows:
        return np.repeat(np.arange(len(self.room_rows)), np.diff(self.first))


def choose_on_nodes(
    shape: SameShapePods, free: Ints, candidates: Candidates, table: UnitTable, budgets: Budgets
) -> tuple[int, VictimChoice] | None:
    """Return the room row where one pod costs least, and the units that have to go from there."""
    options = _options(shape, free, candidates)
    if not len(options.room_rows):
        return None
    guarded = _guarded(candidates, table, budgets)
    violating = _violating(options, guarded, budgets)
    is_victim = _put_back(options, violating)
    option = _cheapest(options, is_victim, candidates, table, guarded, budgets)
    here = slice(options.first[option], options.first[option + 1])
    spared = _why_spared(options.unit[here], is_victim[here], violating[here], candidates)
    room_row = int(options.room_rows[option])
    victims = options.unit[here][is_victim[here]]
    return room_row, VictimChoice((PodsOnNode(0, room_row, 1),), victims, spared)


def _options(shape: SameShapePods, free: Ints, candidates: Candidates) -> NodeOptions:
    asked = np.flatnonzero(shape.need)
    order = np.argsort(candidates.room_row, kind="stable")  # candidates come by importance
    room_row, taken = candidates.room_row[order], candidates.taken[order][:, asked]
    starts = np.flatnonzero(np.r_[True, room_row[1:] != room_row[:-1]])
    slack = free[room_row[starts]][:, asked] + np.add.reduceat(taken, starts) - shape.need[asked]
    enough = (slack >= 0).all(axis=1) & shape.suits[room_row[starts]]
    lengths = np.diff(np.r_[starts, len(room_row)])
    inside = np.repeat(enough, lengths)
    return NodeOptions(
        room_rows=room_row[starts[enough]],
        first=np.r_[0, np.cumsum(lengths[enough])],
        unit=candidates.owner[order][inside],
        taken=taken[inside],
        slack=slack[enough],
    )


def _guarded(candidates: Candidates, table: UnitTable, budgets: Budgets) -> dict[int, list[Pod]]:
    """Candidates with a pod under a budget."""
    found: dict[int, list[Pod]] = {}
    for index, unit in enumerate(candidates.units.tolist() if budgets else ()):
        pods = table.staying(unit)
        if any(budgets.of(pod) for pod in pods):
            found[index] = pods
    return found


def _violating(options: NodeOptions, guarded: dict[int, list[Pod]], budgets: Budgets) -> Flags:
    """By entry: would the loss go beyond a budget, if all candidates of that node went?"""
    violating = np.zeros(len(options.unit), dtype=np.bool_)
    for first, units in _entries_under_budget(options, guarded):
        beyond = budgets.violations(guarded.get(unit, ()) for unit in units)
        violating[first : first + len(units)] = np.array(beyond) > 0
    return violating


def _entries_under_budget(
    options: NodeOptions, guarded: dict[int, list[Pod]]
) -> list[tuple[int, list[int]]]:
    """Of the options where a budget matters: the first entry, and the units."""
    if not guarded:
        return []
    units, first = options.unit.tolist(), options.first.tolist()
    parts = [(start, units[start:end]) for start, end in pairwise(first)]
    return [part for part in parts if any(unit in guarded for unit in part[1])]


def _put_back(options: NodeOptions, violating: Flags) -> Flags:
    """By entry: must the unit go? Units beyond a budget come back first, then by importance."""
    slack = options.slack.copy()
    is_victim = np.ones(len(options.unit), dtype=np.bool_)
    lengths = np.diff(options.first)
    for turn in (violating, ~violating) if violating.any() else (~violating,):
        for rank in range(int(lengths.max())):
            option = np.flatnonzero(lengths > rank)
            entry = options.first[option] + rank
            comes = turn[entry] & (options.taken[entry] <= slack[option]).all(axis=1)
            slack[option[comes]] -= options.taken[entry[comes]]
            is_victim[entry[comes]] = False
    return is_victim


def _cheapest(
    options: NodeOptions,
    is_victim: Flags,
    candidates: Candidates,
    table: UnitTable,
    guarded: dict[int, list[Pod]],
    budgets: Budgets,
) -> int:
    """The option of the best score; the columns are those of `preempt.Score`."""
    option, unit = options.of_entry[is_victim], options.unit[is_victim]
    starts = np.flatnonzero(np.r_[True, option[1:] != option[:-1]])
    assert len(starts) == len(options.room_rows), "it fits somewhere without victims"
    slots, priority = candidates.units[unit], candidates.priority[unit]
    highest = priority[starts]
    started = np.where(priority == highest[option], table.started[slots], np.inf)
    violations = np.zeros(len(starts), dtype=np.int64)
    if guarded:
        ends = np.r_[starts[1:], len(unit)]
        for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            pods = (guarded.get(u, ()) for u in unit[start:end].tolist())
            violations[index] = sum(budgets.violations(pods))
    by_score = (
        violations,
        highest,
        np.add.reduceat(weights(slots, table), starts),
        np.add.reduceat(table.size[slots], starts),
        -np.minimum.reduceat(started, starts),
        options.room_rows,
    )
    return int(np.lexsort(by_score[::-1])[0])


def _why_spared(
    units: Rows, is_victim: Flags, violating: Flags, candidates: Candidates
) -> list[SpareReason | None]:
    spared: list[SpareReason | None] = [SpareReason.ELSEWHERE] * len(candidates)
    top = int(candidates.priority[units[is_victim]].max())
    for unit, goes, is_beyond in zip(
        units.tolist(), is_victim.tolist(), violating.tolist(), strict=True
    ):
        if goes:
            spared[unit] = None
        elif is_beyond:
            spared[unit] = SpareReason.BUDGET
        elif candidates.priority[unit] > top:
            spared[unit] = SpareReason.ABOVE_LEVEL
        else:
            spared[unit] = SpareReason.FITS
    return spared
