"""The pods and gangs that wait for a place, and the nodes that come into question for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.model import Gang, GangKey, Pod, Unit
from makeway.placement.nodes import Flags, Ints, NodeTable, Room, Rows
from makeway.placement.packing import SameShapePods, shapes_of
from makeway.placement.units import UnitTable


class Ask(NamedTuple):
    """A pod or gang that waits for a place."""

    unit: Unit
    priority: int  # scheduling priority
    may_preempt: bool
    members: tuple[Pod, ...]  # pods without a node; by key
    needed: int  # so many of `members` have to be placed together; 0: all are extra
    created_at: float
    running: tuple[Pod, ...] = ()  # members on a node that are not leaving
    topology_key: str | None = None


class ClusterView(NamedTuple):
    nodes: NodeTable
    units: UnitTable
    budgets: Budgets
    gangs: Mapping[GangKey, Gang]
    nominated: tuple[Pod, ...]  # pods that wait with a nomination; by key


class Domain(NamedTuple):
    """Nodes of which the preemptor may use all."""

    name: str  # "" for the whole cluster
    room: Room
    shapes: tuple[SameShapePods, ...]


def room_for(ask: Ask, cluster: ClusterView) -> Room:
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
        room_row_of = {int(row): room_row for room_row, row in enumerate(room.node_rows)}
        for row, amounts in taken.items():
            room.free[room_row_of[row]] -= amounts
    return room


def room_after_leaving(room: Room, units: UnitTable) -> Room:
    """What will be free when the pods are gone that leave already."""
    slots = np.flatnonzero(~units.stays & (units.row >= 0))
    if not len(slots):
        return room
    rows = 1 + int(max(room.node_rows.max(initial=0), units.row.max()))
    leaving = np.zeros((rows, units.taken.shape[1]), dtype=np.int64)
    np.add.at(leaving, units.row[slots], units.taken[slots])
    free = room.free + leaving[room.node_rows]
    return Room(room.node_rows, free)


def domains_of(ask: Ask, nodes: NodeTable, room: Room) -> Iterable[Domain]:
    """The whole cluster, or each value of the topology key; one value where members already run."""
    if ask.topology_key is None:
        yield Domain("", room, shapes_of(ask.members, ask.running, nodes, room.node_rows))
        return
    values, of_row = nodes.topology(ask.topology_key)
    value_of_room_row = of_row[room.node_rows]
    fixed = values_in_use(ask, nodes, of_row)
    for index, value in enumerate(values):
        if not fixed or index in fixed:
            room_rows = value_of_room_row == index
            part = Room(room.node_rows[room_rows], room.free[room_rows])
            yield Domain(value, part, shapes_of(ask.members, ask.running, nodes, part.node_rows))


def values_in_use(ask: Ask, nodes: NodeTable, of_row: Rows) -> set[int]:
    """The topology values of running members: the other members have to join them."""
    rows = (nodes.row_of.get(pod.node) for pod in ask.running if pod.node is not None)
    return {int(of_row[row]) for row in rows if row is not None}


def usable_rows(shapes: Sequence[SameShapePods]) -> Flags:
    usable = shapes[0].suits.copy()
    for shape in shapes[1:]:
        usable |= shape.suits
    return usable


def is_unnominated_pod(ask: Ask) -> bool:
    """Does a pod without a gang wait, and has it no nominated node?"""
    return not ask.unit.is_gang and ask.members[0].nominated is None
