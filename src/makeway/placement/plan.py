"""One decision about one preemptor: bind it, make room for it, or let it wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.candidates import Candidates, find_candidates, freed
from makeway.placement.decisions import (
    NOBODY_SPARED,
    Bind,
    Blocked,
    Cause,
    Lack,
    Place,
    Placement,
    Preempt,
    SparedUnits,
    SpareReason,
    Victim,
    Wait,
    WaitReason,
)
from makeway.placement.gangs import Alike, Shares, fitting, kinds_of, place_gang, placed
from makeway.placement.model import Gang, GangKey, NodeName, Pod, Unit
from makeway.placement.nodes import Flags, Ints, NodeTable, Room, refusal
from makeway.placement.preempt import Choice, Score, choose_victims, score
from makeway.placement.single import choose_on_nodes
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


def decide(ask: Ask, cluster: Cluster) -> Bind | Preempt | Wait:
    """Find a place without victims, else keep waiting for a nominated one, else preempt."""
    if len(ask.members) < ask.needed:
        return _wait(ask, WaitReason.MEMBERS_MISSING)
    room = _room_for(ask, cluster)
    placement = _place_now(ask, cluster, room)
    if placement:
        return Bind(preemptor=ask.unit, placement=placement)
    room_later = _without_leaving(room, cluster.units)
    nominated = _nominated_that_fit(ask, cluster.nodes, room_later)
    if nominated and len(nominated) >= ask.needed:
        return _wait(ask, WaitReason.VICTIMS_LEAVING, cluster, room, nominated)
    if ask.needed == 0:
        return _wait(ask, WaitReason.NOT_ENOUGH_ROOM, cluster, room)
    if not ask.may_preempt:
        return _wait(ask, WaitReason.MAY_NOT_PREEMPT, cluster, room)
    plan = _preempt(ask, cluster, room_later)
    return plan if isinstance(plan, Preempt) else _wait(ask, plan, cluster, room)


def is_loose(ask: Ask) -> bool:
    """Is it a pod by itself that waits for no place in particular?"""
    return not ask.unit.is_gang and ask.members[0].nominated is None


def without_gang(unit: Unit) -> Wait:
    """The answer to pods whose gang is not known."""
    reason = WaitReason.GANG_MISSING
    return Wait(preemptor=unit, reason=reason, nominated=(), blocked=(), needed=0, fitting=0)


def _room_for(ask: Ask, cluster: Cluster) -> Room:
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


def _without_leaving(room: Room, units: UnitTable) -> Room:
    """What will be free when those are gone that leave already."""
    slots = np.flatnonzero(~units.stays & (units.row >= 0))
    if not len(slots):
        return room
    rows = 1 + int(max(room.rows.max(initial=0), units.row.max()))
    leaving = np.zeros((rows, units.taken.shape[1]), dtype=np.int64)
    np.add.at(leaving, units.row[slots], units.taken[slots])
    free = room.free + leaving[room.rows]
    return Room(room.rows, free)


def _domains(ask: Ask, nodes: NodeTable, room: Room) -> Iterable[Domain]:
    """The whole cluster, or each value of the topology key; only one where members already run."""
    if ask.topology_key is None:
        yield Domain("", room, kinds_of(ask.members, ask.running, nodes, room.rows))
        return
    values, of_row = nodes.topology(ask.topology_key)
    value_of_line = of_row[room.rows]
    fixed = {
        int(of_row[row])
        for pod in ask.running
        if pod.node is not None and (row := nodes.row_of.get(pod.node)) is not None
    }
    for index, value in enumerate(values):
        if not fixed or index in fixed:
            lines = value_of_line == index
            part = Room(room.rows[lines], room.free[lines])
            yield Domain(value, part, kinds_of(ask.members, ask.running, nodes, part.rows))


def _place_now(ask: Ask, cluster: Cluster, room: Room) -> Placement:
    """Where the preemptor can go without any victim; empty if nowhere."""
    nominated = _nominated_that_fit(ask, cluster.nodes, room)
    if nominated and len(nominated) == len(ask.members):
        return nominated
    best: tuple[tuple[int, int, str], Placement] | None = None
    for domain in _domains(ask, cluster.nodes, room):
        shares = place_gang(domain.kinds, domain.room.free, ask.needed)
        if shares:
            lines = len({share.line for share in shares})
            rank = (-placed(shares), lines, domain.name)
            if best is None or rank < best[0]:
                best = rank, _placement(shares, domain, cluster.nodes)
    return () if best is None else best[1]


def _placement(shares: Shares, domain: Domain, nodes: NodeTable) -> Placement:
    """Give the members of each kind their nodes, in the order of their keys."""
    used = [0] * len(domain.kinds)
    places: list[Place] = []
    for share in shares:
        first = used[share.kind]
        used[share.kind] += share.members
        name = nodes.name(int(domain.room.rows[share.line]))
        pods = domain.kinds[share.kind].pods[first : used[share.kind]]
        places.extend(Place(pod.key, name) for pod in pods)
    return tuple(sorted(places))


def _nominated_that_fit(ask: Ask, nodes: NodeTable, room: Room) -> Placement:
    """Those members that have room on their nominated nodes; empty without nominations."""
    nominated = [pod for pod in ask.members if pod.nominated is not None]
    if not nominated:
        return ()
    line_of = {int(row): line for line, row in enumerate(room.rows)}
    values = None if ask.topology_key is None else nodes.topology(ask.topology_key)[1]
    left: dict[int, Ints] = {}
    seen_values: set[int] = set()
    places: list[Place] = []
    for pod in nominated:
        assert pod.nominated is not None
        row = nodes.row_of.get(pod.nominated)
        if row is None or not nodes.suits(pod.shape.constraints)[row]:
            continue
        if values is not None:
            seen_values.add(int(values[row]))
        need = nodes.columns.amounts(pod.shape)
        free = left.setdefault(row, room.free[line_of[row]].copy())
        if (free[need > 0] >= need[need > 0]).all():
            free -= need
            places.append(Place(pod.key, pod.nominated))
    if len(seen_values) > 1 or -1 in seen_values:
        return ()  # no longer within one value of the topology key
    return tuple(places)


def _preempt(ask: Ask, cluster: Cluster, room: Room) -> Preempt | WaitReason:
    best: tuple[tuple[Score, str], Domain, Choice, Candidates] | None = None
    any_candidates = False
    for domain in _domains(ask, cluster.nodes, room):
        shares = place_gang(domain.kinds, domain.room.free, ask.needed)
        if shares:
            return _wait_for_leaving(ask, cluster, domain, shares)
    for domain in _domains(ask, cluster.nodes, room):
        usable = _usable(domain.kinds)
        candidates = find_candidates(cluster.units, ask.priority, domain.room, usable)
        if not len(candidates):
            continue
        any_candidates = True
        choice, name = _choose(ask, cluster, domain, candidates)
        if choice is None:
            continue
        rank = score(candidates.units[choice.victims], cluster.units, cluster.budgets), name
        if best is None or rank < best[0]:
            best = rank, domain._replace(name=name), choice, candidates
    if best is None:
        return WaitReason.NOT_ENOUGH_ROOM if any_candidates else WaitReason.NO_CANDIDATES
    (_, _), domain, choice, candidates = best
    return _as_decision(ask, cluster, domain, choice, candidates)


def _choose(
    ask: Ask, cluster: Cluster, domain: Domain, candidates: Candidates
) -> tuple[Choice | None, str]:
    """The victims in one domain (for a single pod: on the best of its nodes) and its name."""
    units, budgets = cluster.units, cluster.budgets
    if not ask.unit.is_gang:
        found = choose_on_nodes(domain.kinds[0], domain.room.free, candidates, units, budgets)
        if found is None:
            return None, ""
        line, choice = found
        return choice, cluster.nodes.name(int(domain.room.rows[line]))
    choice_in_domain = choose_victims(
        domain.kinds, ask.needed, domain.room.free, candidates, units, budgets
    )
    return choice_in_domain, domain.name


def _usable(kinds: Sequence[Alike]) -> Flags:
    usable = kinds[0].suits.copy()
    for kind in kinds[1:]:
        usable |= kind.suits
    return usable


def _wait_for_leaving(ask: Ask, cluster: Cluster, domain: Domain, shares: Shares) -> Preempt:
    """Nobody has to go: those that leave already make enough room."""
    return Preempt(
        preemptor=ask.unit,
        placement=_placement(shares, domain, cluster.nodes),
        victims=(),
        level=None,
        violations=0,
        spared=NOBODY_SPARED,
        domain=domain.name,
    )


def _as_decision(
    ask: Ask, cluster: Cluster, domain: Domain, choice: Choice, candidates: Candidates
) -> Preempt:
    units = cluster.units
    slots = candidates.units[choice.victims]
    pods_of = [units.staying(int(slot)) for slot in slots]
    beyond = cluster.budgets.violations(pods_of) if cluster.budgets else [0] * len(slots)
    rows = {int(domain.room.rows[share.line]) for share in choice.shares}
    victims: list[Victim] = []
    for slot, pods, number in zip(slots, pods_of, beyond, strict=True):
        key = units.keys[int(slot)]
        assert key is not None
        inside = tuple(pod.key for pod in pods if int(units.row[units.slot_of[pod.key]]) in rows)
        keys = tuple(pod.key for pod in pods)
        victims.append(Victim(key, keys, inside, int(units.priority[slot]), number))
    return Preempt(
        preemptor=ask.unit,
        placement=_placement(choice.shares, domain, cluster.nodes),
        victims=tuple(victims),
        level=max((victim.priority for victim in victims), default=None),
        violations=sum(beyond),
        spared=_spared(ask, units, candidates, choice),
        domain=domain.name,
    )


def _spared(ask: Ask, units: UnitTable, candidates: Candidates, choice: Choice) -> SparedUnits:
    keys: list[Unit] = []
    reasons: list[SpareReason] = []
    priorities: list[int] = []
    found = zip(candidates.units.tolist(), candidates.priority.tolist(), choice.spared, strict=True)
    for slot, priority, reason in found:
        key = units.keys[slot]
        if reason is not None and key is not None:
            keys.append(key)
            reasons.append(reason)
            priorities.append(priority)
    return SparedUnits(keys, priorities, reasons)


def _wait(
    ask: Ask,
    reason: WaitReason,
    cluster: Cluster | None = None,
    room: Room | None = None,
    nominated: Placement = (),
) -> Wait:
    blocked: tuple[Blocked, ...] = ()
    fits = 0
    if cluster is not None and room is not None:
        blocked, fits = _tally(ask, cluster.nodes, room)
    return Wait(
        preemptor=ask.unit,
        reason=reason,
        nominated=nominated,
        blocked=blocked,
        needed=ask.needed,
        fitting=fits,
    )


def _tally(ask: Ask, nodes: NodeTable, room: Room) -> tuple[tuple[Blocked, ...], int]:
    """Count the nodes by what they lack for the largest kind of members, and how many fit."""
    kinds = kinds_of(ask.members, ask.running, nodes, room.rows)
    kind = kinds[0]
    counts = fitting(kind, room.free, len(ask.members))
    fits = sum(min(len(k.pods), int(fitting(k, room.free, len(k.pods)).sum())) for k in kinds)
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
    ), fits


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


def explain(ask: Ask, cluster: Cluster) -> tuple[Lack, ...]:
    """For every node, by name: what it lacks for the largest kind of members."""
    nodes = cluster.nodes
    room = _room_for(ask, cluster)
    kind = kinds_of(ask.members, ask.running, nodes, room.rows)[0]
    counts = fitting(kind, room.free, len(ask.members))
    later = _without_leaving(room, cluster.units)
    candidates = find_candidates(cluster.units, ask.priority, later, kind.suits)
    gone = np.ones(len(candidates.units), dtype=np.bool_)
    after = fitting(kind, freed(candidates, later.free, gone), len(ask.members))
    names = nodes.columns.names
    return tuple(
        Lack(
            node=nodes.name(int(room.rows[line])),
            cause=cause,
            resource=names[column] if column >= 0 else None,
            missing=int(kind.need[column] - room.free[line, column]) if column >= 0 else 0,
            fitting=int(counts[line]),
            fitting_after_preemption=int(after[line]),
        )
        for line, cause, column in _causes(kind, room, counts, nodes)
    )
