"""Units that may have to go from a room, and where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from makeway.placement.nodes import Flags, Ints, Room, Rows
from makeway.placement.units import UnitTable


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The most important unit first. An entry is a unit on a node of the room."""

    units: Rows  # slots in the unit table
    priority: Ints  # by unit, falling
    first: Rows  # by unit: the first entry of the unit; at last the number of entries
    owner: Rows  # by entry: the index of the unit
    room_row: Rows  # by entry; a unit has one entry per node
    taken: Ints  # by entry and column

    # Loops over entries are several times faster on lists than on arrays.

    @cached_property
    def first_list(self) -> list[int]:
        return list(self.first.tolist())

    @cached_property
    def room_row_list(self) -> list[int]:
        return list(self.room_row.tolist())

    @cached_property
    def taken_lists(self) -> list[list[int]]:
        """By column, then by entry."""
        return [self.taken[:, column].tolist() for column in range(self.taken.shape[1])]

    def __len__(self) -> int:
        return len(self.units)

    def on(self, room_rows: Flags) -> Flags:
        """By unit: does the unit stand on one of these nodes?"""
        found = np.zeros(len(self), dtype=np.bool_)
        found[self.owner[room_rows[self.room_row]]] = True
        return found


def find_candidates(table: UnitTable, below: int, room: Room, usable: Flags) -> Candidates:
    """Collect the units of lower preemption priority that stand on usable nodes of a room."""
    rows = 1 + int(max(room.node_rows.max(initial=0), table.row.max(initial=0)))
    # The last entry is for pods on unknown nodes.
    room_row_of = np.full(rows + 1, -1, dtype=np.intp)
    room_row_of[room.node_rows[usable]] = np.flatnonzero(usable)
    slots = np.flatnonzero(
        table.stays & (table.priority[table.unit] < below) & (room_row_of[table.row] >= 0)
    )
    present = np.zeros(len(table.priority), dtype=np.bool_)
    present[table.unit[slots]] = True
    units = table.importance(np.flatnonzero(present))
    place_of = np.zeros(len(table.priority), dtype=np.intp)
    place_of[units] = np.arange(len(units))
    owner, room_row = place_of[table.unit[slots]], room_row_of[table.row[slots]]
    order = np.lexsort((room_row, owner))
    owner, room_row, taken = owner[order], room_row[order], table.taken[slots[order]]
    starts = np.flatnonzero(
        np.r_[True, (owner[1:] != owner[:-1]) | (room_row[1:] != room_row[:-1])][: len(owner)]
    )
    if len(starts) < len(owner):  # several pods of a unit on one node are one entry
        taken = np.add.reduceat(taken, starts, axis=0)
        owner, room_row = owner[starts], room_row[starts]
    first = np.searchsorted(owner, np.arange(len(units) + 1))
    return Candidates(
        units=units,
        priority=table.priority[units],
        first=first,
        owner=owner,
        room_row=room_row,
        taken=taken,
    )


def freed(candidates: Candidates, free: Ints, gone: Flags) -> Ints:
    """What is free with these units gone."""
    entries = gone[candidates.owner]
    more = free.copy()
    np.add.at(more, candidates.room_row[entries], candidates.taken[entries])
    return more
