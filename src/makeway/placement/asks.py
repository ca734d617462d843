"""Who waits for a place, and the nodes that come into question for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.gangs import Alike, kinds_of
from makeway.placement.model import Gang, GangKey, Pod, Unit
from makeway.placement.nodes import Flags, Ints, NodeTable, Room, Rows
from makeway.placement.units import UnitTable


class Ask(NamedTuple):
    """A pod or gang that waits for a place."""

    unit: Unit
    priority: int  # scheduling priority
    may_preempt: bool
    members: tuple[Pod, ...]  # that have no node; by key
    running: tuple[Pod, ...]  # members that have one and are not leaving
    needed: int  # how many of `members` have to be placed together; 0: they are extra
    topology_key: str | None
    created_at: float


class Cluster(NamedTuple):
    nodes: NodeTable
    units: UnitTable
    budgets: Budgets
    gangs: Mapping[GangKey, Gang]
    nominated: tuple[Pod, ...]  # pods that wait with a nomination; by key


class Domain(NamedTuple):
    """Nodes of which the preemptor may use all."""

    name: str  # "" for the whole cluster
    room: Room
    kinds: tuple[Alike, ...]


def room_for(ask: Ask, cluster: Cluster) -> Room:
    """What is free now, less what is nominated to others of equal or higher priority."""
    room = cluster.nodes.room()
    own = {member.key for member in ask.members}
    taken: dict[int, Ints] = {}
    for pod in cluster.nominated:
        gang = None if pod.gang is None else cluster.gangs.get(pod.gang)
        priority = pod.priority if gang is None else gang.priority
        assert pod.nominated is not None, pod
        row = cluster.nodes.row_of.get(pod.nominated)
        if row is not None and pod.key not in own and priority >= ask.priority:
            taken[row] = taken.get(row, 0) + cluster.nodes.columns.amounts(pod.shape)
    if taken:
        line_of = {int(row): line for line, row in enumerate(room.rows)}
        for row, amounts in taken.items():
            room.free[line_of[row]] -= amounts
    return room


def without_leaving(room: Room, units: UnitTable) -> Room:
    """What will be free when those are gone that leave already."""
    slots = np.flatnonzero(~units.stays & (units.row >= 0))
    if not len(slots):
        return room
    rows = 1 + int(max(room.rows.max(initial=0), units.row.max()))
    leaving = np.zeros((rows, units.taken.shape[1]), dtype=np.int64)
    np.add.at(leaving, units.row[slots], units.taken[slots])
    free = room.free + leaving[room.rows]
    return Room(room.rows, free)


def domains_of(ask: Ask, nodes: NodeTable, room: Room) -> Iterable[Domain]:
    """The whole cluster, or each value of the topology key; only one where members already run."""
    if ask.topology_key is None:
        yield Domain("", room, kinds_of(ask.members, ask.running, nodes, room.rows))
        return
    values, of_row = nodes.topology(ask.topology_key)
    value_of_line = of_row[room.rows]
    fixed = values_in_use(ask, nodes, of_row)
    for index, value in enumerate(values):
        if not fixed or index in fixed:
            lines = value_of_line == index
            part = Room(room.rows[lines], room.free[lines])
            yield Domain(value, part, kinds_of(ask.members, ask.running, nodes, part.rows))


def values_in_use(ask: Ask, nodes: NodeTable, of_row: Rows) -> set[int]:
    """Where running members stand: the others have to join them."""
    rows = (nodes.row_of.get(pod.node) for pod in ask.running if pod.node is not None)
    return {int(of_row[row]) for row in rows if row is not None}


def usable_lines(kinds: Sequence[Alike]) -> Flags:
    usable = kinds[0].suits.copy()
    for kind in kinds[1:]:
        usable |= kind.suits
    return usable


def is_loose(ask: Ask) -> bool:
    """Is it a pod by itself that waits for no place in particular?"""
    return not ask.unit.is_gang and ask.members[0].nominated is None
