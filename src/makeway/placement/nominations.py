"""Nominations: nodes that are kept for pods whose victims are leaving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from makeway.placement.asks import Ask, values_in_use
from makeway.placement.decisions import Place, Placement
from makeway.placement.model import Pod
from makeway.placement.nodes import Ints, NodeTable, Room
from makeway.placement.packing import keeps_distance
from makeway.placement.units import NOWHERE


def nominated_that_fit(ask: Ask, nodes: NodeTable, room: Room) -> Placement:
    """The members that have room on their nominated nodes; empty without nominations."""
    row_of = nodes.row_of
    by_row = [(row_of[p.nominated], p) for p in ask.members if p.nominated in row_of]
    if not by_row:
        return ()
    best: Placement = ()
    for part in _parts(ask, nodes, room):
        rows = set(part.node_rows.tolist())
        inside = [(row, pod) for row, pod in by_row if row in rows]
        # A large pod may stand in the way of several small pods.
        small_first = sorted(inside, key=lambda item: (item[1].shape.requests, item[1].key))
        for order in (inside, small_first):
            places = _fit_in_turn(ask, nodes, part, order)
            if len(places) > len(best):
                best = places
    return best


def _parts(ask: Ask, nodes: NodeTable, room: Room) -> Iterable[Room]:
    """The rooms of the domains that members are nominated to."""
    if ask.topology_key is None:
        return [room]
    of_row = nodes.topology(ask.topology_key)[1]
    rows = (nodes.row_of.get(pod.nominated) for pod in ask.members if pod.nominated is not None)
    values = {int(of_row[row]) for row in rows if row is not None} - {NOWHERE}
    fixed = values_in_use(ask, nodes, of_row)
    parts = (of_row[room.node_rows] == v for v in sorted(values & fixed if fixed else values))
    return [Room(room.node_rows[room_rows], room.free[room_rows]) for room_rows in parts]


def _fit_in_turn(
    ask: Ask, nodes: NodeTable, room: Room, order: Sequence[tuple[int, Pod]]
) -> Placement:
    room_row_of = {int(row): room_row for room_row, row in enumerate(room.node_rows)}
    left: dict[int, Ints] = {}
    kept: list[tuple[int, Pod]] = []
    for row, pod in order:
        need = nodes.columns.amounts(pod.shape)
        free = left.setdefault(row, room.free[room_row_of[row]].copy())
        if nodes.suits(pod.shape.constraints)[row] and (free >= need)[need > 0].all():
            free -= need
            kept.append((row, pod))
    shapes = {pod.shape for _, pod in kept}
    if any(shape.apart is not None or shape.spread is not None for shape in shapes):
        where = [replace(pod, node=nodes.name(row)) for row, pod in kept]
        if not all(
            keeps_distance(shape, where, ask.running, nodes, room.node_rows) for shape in shapes
        ):
            return ()
    return tuple(sorted(Place(pod.key, nodes.name(row)) for row, pod in kept))
