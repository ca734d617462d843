"""One decision about one preemptor: bind, preempt, or wait."""

from __future__ import annotations

import numpy as np

from makeway.placement.asks import (
    Ask,
    ClusterView,
    Domain,
    domains_of,
    room_after_leaving,
    room_for,
    usable_rows,
)
from makeway.placement.candidates import Candidates, find_candidates
from makeway.placement.decisions import (
    NOBODY_SPARED,
    BindPods,
    Place,
    Placement,
    PreemptUnits,
    SparedUnits,
    SpareReason,
    VictimUnit,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.lacks import wait
from makeway.placement.nodes import NodeTable, Room, Rows
from makeway.placement.nominations import nominated_that_fit
from makeway.placement.packing import Packing, place_gang, placed, shapes_of
from makeway.placement.preempt import Score, VictimChoice, VictimSearch, score
from makeway.placement.single import choose_on_nodes
from makeway.placement.units import UnitTable


def decide(ask: Ask, cluster: ClusterView) -> BindPods | PreemptUnits | WaitForNodes:
    """Find a place without victims, else keep waiting for a nominated place, else preempt."""
    if len(ask.members) < ask.needed:
        return wait(ask, WaitReason.MEMBERS_MISSING)
    room = room_for(ask, cluster)
    placement = _place_now(ask, cluster, room)
    if placement:
        return BindPods(preemptor=ask.unit, placement=placement)
    room_later = room_after_leaving(room, cluster.units)
    nominated = nominated_that_fit(ask, cluster.nodes, room_later)
    if nominated and len(nominated) >= ask.needed:
        return wait(ask, WaitReason.VICTIMS_LEAVING, cluster, room, nominated)
    if ask.needed == 0:
        return wait(ask, WaitReason.NOT_ENOUGH_ROOM, cluster, room)
    if not ask.may_preempt:
        return wait(ask, WaitReason.MAY_NOT_PREEMPT, cluster, room)
    plan = _preempt(ask, cluster, room_later)
    return plan if isinstance(plan, PreemptUnits) else wait(ask, plan, cluster, room)


def _place_now(ask: Ask, cluster: ClusterView, room: Room) -> Placement:
    """Where the preemptor can go without any victim; empty if nowhere."""
    nominated = nominated_that_fit(ask, cluster.nodes, room)
    if nominated and len(nominated) == len(ask.members):
        return nominated
    best: tuple[tuple[int, int, str], Placement] | None = None
    for domain in domains_of(ask, cluster.nodes, room):
        packing = place_gang(domain.shapes, domain.room.free, ask.needed)
        if packing:
            room_rows = len({part.room_row for part in packing})
            rank = (-placed(packing), room_rows, domain.name)
            if best is None or rank < best[0]:
                best = rank, _placement(packing, domain, cluster.nodes)
    return () if best is None else best[1]


def _placement(packing: Packing, domain: Domain, nodes: NodeTable) -> Placement:
    """Give the members of each shape their nodes, in the order of their keys."""
    used = [0] * len(domain.shapes)
    places: list[Place] = []
    for part in packing:
        first = used[part.shape_index]
        used[part.shape_index] += part.members
        name = nodes.name(int(domain.room.node_rows[part.room_row]))
        pods = domain.shapes[part.shape_index].pods[first : used[part.shape_index]]
        places.extend(Place(pod.key, name) for pod in pods)
    return tuple(sorted(places))


def _preempt(ask: Ask, cluster: ClusterView, room: Room) -> PreemptUnits | WaitReason:
    """The cheapest plan of all domains, in the room that is there when leaving pods are gone."""
    best: tuple[tuple[Score, str], Domain, VictimChoice, Candidates] | None = None
    any_candidates = False
    for domain in domains_of(ask, cluster.nodes, room):
        packing = place_gang(domain.shapes, domain.room.free, ask.needed)
        if packing:
            return _wait_for_leaving(ask, cluster, domain, packing)
    for domain in domains_of(ask, cluster.nodes, room):
        usable = usable_rows(domain.shapes)
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
    _, domain, choice, candidates = best
    return _as_decision(ask, cluster, domain, choice, candidates)


def _choose(
    ask: Ask, cluster: ClusterView, domain: Domain, candidates: Candidates
) -> tuple[VictimChoice | None, str]:
    """The victims in one domain (for a single pod: on the best of its nodes) and its name."""
    units, budgets = cluster.units, cluster.budgets
    if not ask.unit.is_gang:
        found = choose_on_nodes(domain.shapes[0], domain.room.free, candidates, units, budgets)
        if found is None:
            return None, ""
        room_row, choice = found
        return choice, cluster.nodes.name(int(domain.room.node_rows[room_row]))
    search = VictimSearch(domain.shapes, ask.needed, domain.room.free, candidates, units, budgets)
    return search.choose(), domain.name


def _wait_for_leaving(
    ask: Ask, cluster: ClusterView, domain: Domain, packing: Packing
) -> PreemptUnits:
    """No unit has to go: pods that leave already make enough room."""
    placement = _placement(packing, domain, cluster.nodes)
    return PreemptUnits(
        preemptor=ask.unit,
        placement=placement,
        victims=(),
        level=None,
        violations=0,
        spared=NOBODY_SPARED,
        domain=domain.name if ask.unit.is_gang else placement[0].node,
    )


def _as_decision(
    ask: Ask, cluster: ClusterView, domain: Domain, choice: VictimChoice, candidates: Candidates
) -> PreemptUnits:
    units = cluster.units
    slots = candidates.units[choice.victims]
    pods_of = [units.staying(int(slot)) for slot in slots]
    beyond = cluster.budgets.violations(pods_of) if cluster.budgets else [0] * len(slots)
    rows = {int(domain.room.node_rows[part.room_row]) for part in choice.packing}
    victims: list[VictimUnit] = []
    for slot, pods, number in zip(slots, pods_of, beyond, strict=True):
        key = units.keys[int(slot)]
        assert key is not None
        inside = tuple(pod.key for pod in pods if int(units.row[units.slot_of[pod.key]]) in rows)
        keys = tuple(pod.key for pod in pods)
        victims.append(VictimUnit(key, keys, inside, int(units.priority[slot]), number))
    return PreemptUnits(
        preemptor=ask.unit,
        placement=_placement(choice.packing, domain, cluster.nodes),
        victims=tuple(victims),
        level=max((victim.priority for victim in victims), default=None),
        violations=sum(beyond),
        spared=_spared(units, candidates, choice, _elsewhere(ask, cluster, candidates)),
        domain=domain.name,
    )


def _elsewhere(ask: Ask, cluster: ClusterView, candidates: Candidates) -> Rows:
    """Units of lower preemption priority in the domains that were not chosen."""
    if ask.topology_key is None:
        return np.zeros(0, dtype=np.intp)
    room = cluster.nodes.room()
    usable = usable_rows(shapes_of(ask.members, ask.running, cluster.nodes, room.node_rows))
    everywhere = find_candidates(cluster.units, ask.priority, room, usable).units
    return everywhere[~np.isin(everywhere, candidates.units)]


def _spared(
    units: UnitTable, candidates: Candidates, choice: VictimChoice, elsewhere: Rows
) -> SparedUnits:
    stays = np.array([reason is not None for reason in choice.spared], dtype=np.bool_)
    slots = np.r_[candidates.units[stays], elsewhere]
    keys = [key for slot in slots.tolist() if (key := units.keys[slot])]
    reasons = [reason for reason in choice.spared if reason is not None]
    reasons.extend([SpareReason.ELSEWHERE] * len(elsewhere))
    return SparedUnits(keys, units.priority[slots].tolist(), reasons)
