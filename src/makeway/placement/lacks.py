"""Why a pod or gang waits: what every node, and every domain, lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from makeway.placement.asks import Ask, ClusterView, domains_of, room_after_leaving, usable_rows
from makeway.placement.candidates import find_candidates, freed
from makeway.placement.decisions import (
    Blocked,
    Cause,
    DomainLack,
    Placement,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.model import NodeName, Unit
from makeway.placement.nodes import Ints, NodeTable, Room, why_unsuitable
from makeway.placement.packing import SameShapePods, fitting, shapes_of


def wait(
    ask: Ask,
    reason: WaitReason,
    cluster: ClusterView | None = None,
    room: Room | None = None,
    nominated: Placement = (),
) -> WaitForNodes:
    if cluster is None or room is None:
        return WaitForNodes(preemptor=ask.unit, reason=reason, needed=ask.needed)
    blocked, fits = _tally(ask, cluster.nodes, room)
    domains = () if ask.topology_key is None else _domain_lacks(ask, cluster, room)
    return WaitForNodes(
        preemptor=ask.unit,
        reason=reason,
        nominated=nominated,
        blocked=blocked,
        needed=ask.needed,
        fitting=fits if ask.topology_key is None else max((d.fitting for d in domains), default=0),
        domains=domains,
    )


def without_gang(unit: Unit) -> WaitForNodes:
    """The answer to pods whose gang is not known."""
    return WaitForNodes(preemptor=unit, reason=WaitReason.GANG_MISSING, needed=0)


def _tally(ask: Ask, nodes: NodeTable, room: Room) -> tuple[tuple[Blocked, ...], int]:
    """Count the nodes by what they lack for the largest shape of members, and how many fit."""
    shapes = shapes_of(ask.members, ask.running, nodes, room.node_rows)
    shape = shapes[0]
    counts = fitting(shape, room.free, len(ask.members))
    causes: Counter[tuple[Cause, int]] = Counter()
    example: dict[tuple[Cause, int], NodeName] = {}
    for room_row, cause, column in _causes(shape, room, counts, nodes):
        causes[cause, column] += 1
        example.setdefault((cause, column), nodes.name(int(room.node_rows[room_row])))
    ranked = sorted(causes.items(), key=lambda item: (-item[1], item[0][0].value, item[0][1]))
    names = nodes.columns.names
    return tuple(
        Blocked(cause, names[column] if column >= 0 else None, count, example[cause, column])
        for (cause, column), count in ranked
    ), _fitting(shapes, room.free)


def _causes(
    shape: SameShapePods, room: Room, counts: Ints, nodes: NodeTable
) -> Iterable[tuple[int, Cause, int]]:
    """For every node what it lacks, and the column of the scarcest resource (-1: none)."""
    need = shape.need
    asked = np.array(sorted(np.flatnonzero(need), key=nodes.columns.names.__getitem__))
    missing = np.maximum(need[asked] - room.free[:, asked], 0) / need[asked]
    scarcest = asked[np.argmax(missing, axis=1)]
    short = missing.max(axis=1, initial=0.0) > 0
    rows = zip(
        shape.suits.tolist(), counts.tolist(), scarcest.tolist(), short.tolist(), strict=True
    )
    for room_row, (suits, count, column, is_short) in enumerate(rows):
        if not suits:
            node = nodes.facts[int(room.node_rows[room_row])]
            assert node is not None
            yield room_row, why_unsuitable(node, shape.pod_shape.constraints) or Cause.SELECTOR, -1
        elif count > 0:
            yield room_row, Cause.FITS, -1
        elif is_short:
            yield room_row, Cause.RESOURCE, column
        else:
            yield room_row, Cause.APART, -1


def _fitting(shapes: Sequence[SameShapePods], free: Ints) -> int:
    """How many members have room, each shape counted by itself."""
    return sum(min(len(k.pods), int(fitting(k, free, len(k.pods)).sum())) for k in shapes)


def _domain_lacks(ask: Ask, cluster: ClusterView, room: Room) -> tuple[DomainLack, ...]:
    """What each value of the topology key has room for, the best first."""
    nodes = cluster.nodes
    after = _with_candidates_gone(ask, cluster, room)
    room_row_of = np.zeros(1 + int(room.node_rows.max(initial=0)), dtype=np.intp)
    room_row_of[room.node_rows] = np.arange(len(room.node_rows))
    lacks = [
        DomainLack(
            domain.name,
            _fitting(domain.shapes, domain.room.free),
            _fitting(domain.shapes, after[room_row_of[domain.room.node_rows]]),
        )
        for domain in domains_of(ask, nodes, room)
    ]
    return tuple(sorted(lacks, key=lambda lack: (-lack.fitting, -lack[2], lack.domain)))


def _with_candidates_gone(ask: Ask, cluster: ClusterView, room: Room) -> Ints:
    """What would be free at most."""
    later = room_after_leaving(room, cluster.units)
    usable = usable_rows(shapes_of(ask.members, ask.running, cluster.nodes, room.node_rows))
    candidates = find_candidates(cluster.units, ask.priority, later, usable)
    return freed(candidates, later.free, np.ones(len(candidates), dtype=np.bool_))
