"""Units that may have to go from a room, and where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from makeway.placement.nodes import Flags, Ints, Room, Rows
from makeway.placement.units import UnitTable


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The most important unit first. An entry is a unit on a line of the room."""

    units: Rows  # slots in the unit table
    priority: Ints  # by unit, falling
    first: Rows  # by unit: its first entry; and at last the number of entries
    owner: Rows  # by entry: index of its unit
    line: Rows  # by entry; a unit has one entry per line
    taken: Ints  # by entry and column

    # Loops over entries are several times faster on lists than on arrays.

    @cached_property
    def first_list(self) -> list[int]:
        return list(self.first.tolist())

    @cached_property
    def line_list(self) -> list[int]:
        return list(self.line.tolist())

    @cached_property
    def taken_lists(self) -> list[list[int]]:
        """By column, then by entry."""
        return [self.taken[:, column].tolist() for column in range(self.taken.shape[1])]

    def __len__(self) -> int:
        return len(self.units)

    def on(self, lines: Flags) -> Flags:
        """By unit: does it stand on one of these lines?"""
        found = np.zeros(len(self), dtype=np.bool_)
        found[self.owner[lines[self.line]]] = True
        return found


def find_candidates(table: UnitTable, below: int, room: Room, usable: Flags) -> Candidates:
    """Collect the units of lower preemption priority that stand on usable lines of a room."""
    rows = 1 + int(max(room.rows.max(initial=0), table.row.max(initial=0)))
    line_of = np.full(rows + 1, -1, dtype=np.intp)  # the last one is for pods on unknown nodes
    line_of[room.rows[usable]] = np.flatnonzero(usable)
    slots = np.flatnonzero(
        table.stays & (table.priority[table.unit] < below) & (line_of[table.row] >= 0)
    )
    present = np.zeros(len(table.priority), dtype=np.bool_)
    present[table.unit[slots]] = True
    units = table.importance(np.flatnonzero(present))
    place_of = np.zeros(len(table.priority), dtype=np.intp)
    place_of[units] = np.arange(len(units))
    owner, line = place_of[table.unit[slots]], line_of[table.row[slots]]
    order = np.lexsort((line, owner))
    owner, line, taken = owner[order], line[order], table.taken[slots[order]]
    starts = np.flatnonzero(
        np.r_[True, (owner[1:] != owner[:-1]) | (line[1:] != line[:-1])][: len(owner)]
    )
    if len(starts) < len(owner):  # several pods of a unit on one node count as one
        taken = np.add.reduceat(taken, starts, axis=0)
        owner, line = owner[starts], line[starts]
    first = np.searchsorted(owner, np.arange(len(units) + 1))
    return Candidates(
        units=units,
        priority=table.priority[units],
        first=first,
        owner=owner,
        line=line,
        taken=taken,
    )


def freed(candidates: Candidates, free: Ints, gone: Flags) -> Ints:
    """What is free with these units gone."""
    entries = gone[candidates.owner]
    more = free.copy()
    np.add.at(more, candidates.line[entries], candidates.taken[entries])
    return more
