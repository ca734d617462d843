"""Why somebody waits: what every node, and every domain, lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from makeway.placement.asks import (
    Ask,
    Cluster,
    domains_of,
    usable_lines,
    without_leaving,
)
from makeway.placement.candidates import find_candidates, freed
from makeway.placement.decisions import (
    Blocked,
    Cause,
    DomainLack,
    Placement,
    Wait,
    WaitReason,
)
from makeway.placement.gangs import Alike, fitting, kinds_of
from makeway.placement.model import NodeName, Unit
from makeway.placement.nodes import Ints, NodeTable, Room, refusal


def wait(
    ask: Ask,
    reason: WaitReason,
    cluster: Cluster | None = None,
    room: Room | None = None,
    nominated: Placement = (),
) -> Wait:
    if cluster is None or room is None:
        return Wait(
            preemptor=ask.unit,
            reason=reason,
            nominated=(),
            blocked=(),
            needed=ask.needed,
            fitting=0,
        )
    blocked, fits = _tally(ask, cluster.nodes, room)
    domains = () if ask.topology_key is None else _domain_lacks(ask, cluster, room)
    return Wait(
        preemptor=ask.unit,
        reason=reason,
        nominated=nominated,
        blocked=blocked,
        needed=ask.needed,
        fitting=fits if ask.topology_key is None else max((d.fitting for d in domains), default=0),
        domains=domains,
    )


def without_gang(unit: Unit) -> Wait:
    """The answer to pods whose gang is not known."""
    reason = WaitReason.GANG_MISSING
    return Wait(preemptor=unit, reason=reason, nominated=(), blocked=(), needed=0, fitting=0)


def _tally(ask: Ask, nodes: NodeTable, room: Room) -> tuple[tuple[Blocked, ...], int]:
    """Count the nodes by what they lack for the largest kind of members, and how many fit."""
    kinds = kinds_of(ask.members, ask.running, nodes, room.rows)
    kind = kinds[0]
    counts = fitting(kind, room.free, len(ask.members))
    causes: Counter[tuple[Cause, int]] = Counter()
    example: dict[tuple[Cause, int], NodeName] = {}
    for line, cause, column in _causes(kind, room, counts, nodes):
        causes[cause, column] += 1
        example.setdefault((cause, column), nodes.name(int(room.rows[line])))
    ranked = sorted(causes.items(), key=lambda item: (-item[1], item[0][0].value, item[0][1]))
    names = nodes.columns.names
    return tuple(
        Blocked(cause, names[column] if column >= 0 else None, count, example[cause, column])
        for (cause, column), count in ranked
    ), _fitting(kinds, room.free)


def _causes(
    kind: Alike, room: Room, counts: Ints, nodes: NodeTable
) -> Iterable[tuple[int, Cause, int]]:
    """For every line what it lacks, and the column of the scarcest resource (-1: none)."""
    need = kind.need
    asked = np.array(sorted(np.flatnonzero(need), key=nodes.columns.names.__getitem__))
    missing = np.maximum(need[asked] - room.free[:, asked], 0) / need[asked]
    scarcest = asked[np.argmax(missing, axis=1)]
    short = missing.max(axis=1, initial=0.0) > 0
    rows = zip(kind.suits.tolist(), counts.tolist(), scarcest.tolist(), short.tolist(), strict=True)
    for line, (suits, count, column, is_short) in enumerate(rows):
        if not suits:
            node = nodes.facts[int(room.rows[line])]
            assert node is not None
            yield line, refusal(node, kind.shape.constraints) or Cause.SELECTOR, -1
        elif count > 0:
            yield line, Cause.FITS, -1
        elif is_short:
            yield line, Cause.RESOURCE, column
        else:
            yield line, Cause.APART, -1


def _fitting(kinds: Sequence[Alike], free: Ints) -> int:
    """How many members have room, each kind counted by itself."""
    return sum(min(len(k.pods), int(fitting(k, free, len(k.pods)).sum())) for k in kinds)


def _domain_lacks(ask: Ask, cluster: Cluster, room: Room) -> tuple[DomainLack, ...]:
    """What each value of the topology key has room for, the best first."""
    nodes = cluster.nodes
    after = _with_candidates_gone(ask, cluster, room)
    line_of = np.zeros(1 + int(room.rows.max(initial=0)), dtype=np.intp)
    line_of[room.rows] = np.arange(len(room.rows))
    lacks = [
        DomainLack(
            domain.name,
            _fitting(domain.kinds, domain.room.free),
            _fitting(domain.kinds, after[line_of[domain.room.rows]]),
        )
        for domain in domains_of(ask, nodes, room)
    ]
    return tuple(sorted(lacks, key=lambda lack: (-lack.fitting, -lack[2], lack.domain)))


def _with_candidates_gone(ask: Ask, cluster: Cluster, room: Room) -> Ints:
    """What would be free at most."""
    later = without_leaving(room, cluster.units)
    usable = usable_lines(kinds_of(ask.members, ask.running, cluster.nodes, room.rows))
    candidates = find_candidates(cluster.units, ask.priority, later, usable)
    return freed(candidates, later.free, np.ones(len(candidates), dtype=np.bool_))
