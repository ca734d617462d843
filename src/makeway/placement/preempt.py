"""Who has to go so that a preemptor gets its place.

The algorithm is that of KEP-5710's first draft. In one domain (a node for a pod, the cluster or
one value of a topology key for a gang):

1. With all candidates gone the preemptor must fit, else nothing is touched.
2. Candidates whose loss would break a disruption budget are put back first, as far as it goes.
3. The smallest priority N is searched such that the preemptor fits with the candidates up to N
   gone. Everyone above N is safe.
4. In order of importance, everybody up to N is put back who leaves the preemptor its room. The
   others are the victims.

When all members are alike, "leaves the preemptor its room" is asked of the domain as a whole: the
members may still go elsewhere. How many members every node takes is one array, putting a unit back
lowers a few of its entries, and its sum must stay at what is needed. This costs the same per unit
whatever the size of the gang, it is monotone (so N is the least, and every victim is needed by
every placement), and it spares the most important units that can be spared at all. What it does
not see is that some nodes are cheaper to clear than others. So step 4 is also done from a placement
on the nodes that cost least, and of the two outcomes the better one counts. Members of different
shapes have no such array: they are placed once, and units come back around them.

Between domains, and between those two, the cheapest victims decide (`Score`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.candidates import Candidates, freed
from makeway.placement.decisions import SpareReason
from makeway.placement.gangs import (
    Alike,
    Share,
    Shares,
    find_place,
    fitting,
    place_gang,
    place_more,
)
from makeway.placement.nodes import Flags, Ints, Rows
from makeway.placement.trials import CountingTrial, PlacedTrial, put_back_all
from makeway.placement.units import UnitTable

MOVES_MAX = 64  # victims for whom a gang of different shapes is packed once more
PRIORITY_SHIFT = 2**31  # makes priorities positive, so that a sum of them grows with their number


class Choice(NamedTuple):
    """What preemption in one domain comes to."""

    shares: Shares
    victims: Rows  # indices of candidates, the most important first
    spared: list[SpareReason | None]  # by candidate; None for victims


class Score(NamedTuple):
    """The smaller the better, the first difference decides."""

    violations: int
    highest: int  # preemption priority of a victim
    total: int  # of priorities, by pod
    pods: int
    earliness: float  # how long ago the first of the highest victims started; later is better


def choose_victims(
    kinds: Sequence[Alike],
    needed: int,
    free: Ints,
    candidates: Candidates,
    table: UnitTable,
    budgets: Budgets,
) -> Choice | None:
    """Return the victims that make room for `needed` members; None if all would not do."""
    gone = np.ones(len(candidates), dtype=np.bool_)
    first_trial = _try(kinds, needed, freed(candidates, free, gone), candidates)
    if first_trial is None:
        return None
    spared: list[SpareReason | None] = [SpareReason.FITS] * len(candidates)
    for unit in violating_units(candidates.units, table, budgets):
        if first_trial.put_back(unit):
            gone[unit] = False
            spared[unit] = SpareReason.BUDGET

    level = _least_level(kinds, needed, free, candidates, gone)
    for unit in np.flatnonzero(gone & (candidates.priority > level)).tolist():
        spared[unit] = SpareReason.ABOVE_LEVEL
    gone &= candidates.priority <= level

    if isinstance(first_trial, CountingTrial):
        shares, victims = _settle_alike(kinds, needed, free, candidates, gone, table, budgets)
    else:
        shares, victims = _settle_mixed(kinds, needed, free, candidates, gone, first_trial)
    assert sum(share.members for share in shares) >= needed, (needed, shares)
    for unit in np.flatnonzero(victims).tolist():
        spared[unit] = None
    return Choice(shares, np.flatnonzero(victims), spared)


def _settle_alike(
    kinds: Sequence[Alike],
    needed: int,
    free: Ints,
    candidates: Candidates,
    gone: Flags,
    table: UnitTable,
    budgets: Budgets,
) -> tuple[Shares, Flags]:
    """Put back wherever it goes, and from the cheapest place; the better outcome counts."""
    victims = _spare_anywhere(kinds[0], needed, free, candidates, gone)
    cheaper = _spare_from_cheapest(kinds[0], needed, free, candidates, gone, table)
    by_importance, by_cost = (
        score(candidates.units[left], table, budgets) for left in (victims, cheaper)
    )
    if by_cost < by_importance:
        victims = cheaper
    return place_gang(kinds, freed(candidates, free, victims), needed) or (), victims


def _settle_mixed(
    kinds: Sequence[Alike],
    needed: int,
    free: Ints,
    candidates: Candidates,
    gone: Flags,
    first_trial: PlacedTrial,
) -> tuple[Shares, Flags]:
    """Put back around one placement, then around others as far as that spares somebody."""
    # A second packing may miss what the first one found.
    again = _try(kinds, needed, freed(candidates, free, gone), candidates) or first_trial
    assert isinstance(again, PlacedTrial)
    victims = put_back_all(again, gone)
    shares, victims = _spare_by_moving(kinds, needed, free, candidates, again.shares, victims)
    return shares + place_more(kinds, freed(candidates, free, victims), shares), victims


def _spare_by_moving(
    kinds: Sequence[Alike],
    needed: int,
    free: Ints,
    candidates: Candidates,
    shares: Shares,
    victims: Flags,
) -> tuple[Shares, Flags]:
    """Spare whoever is no longer needed once members go elsewhere; return where, and who is left.

    Costs a packing per victim, so with many victims it is left at their first placement.
    """
    victims = victims.copy()
    if np.count_nonzero(victims) > MOVES_MAX:
        return shares, victims
    for unit in np.flatnonzero(victims).tolist():
        victims[unit] = False
        elsewhere = find_place(kinds, freed(candidates, free, victims), needed)
        if elsewhere is None:
            victims[unit] = True
        else:
            shares = elsewhere
    return shares, victims


def _are_alike(kinds: Sequence[Alike]) -> bool:
    return len(kinds) == 1 and kinds[0].has_free_lines


def _try(
    kinds: Sequence[Alike], needed: int, free: Ints, candidates: Candidates
) -> CountingTrial | PlacedTrial | None:
    if _are_alike(kinds):
        counting = CountingTrial(kinds[0], needed, free, candidates)
        return counting if counting.fits else None
    shares = find_place(kinds, free, needed)
    return None if shares is None else PlacedTrial(kinds, shares, free, candidates)


def _least_level(
    kinds: Sequence[Alike], needed: int, free: Ints, candidates: Candidates, gone: Flags
) -> int:
    """The smallest priority N such that it is enough if units up to N go (of those in `gone`)."""
    levels = np.unique(candidates.priority[gone])
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        below = gone & (candidates.priority <= levels[middle])
        if _fits(kinds, needed, freed(candidates, free, below)):
            high = middle
        else:
            low = middle + 1
    return int(levels[high])


def _fits(kinds: Sequence[Alike], needed: int, free: Ints) -> bool:
    if _are_alike(kinds):
        return int(fitting(kinds[0], free, needed).sum()) >= needed
    return find_place(kinds, free, needed) is not None


def _spare_anywhere(
    kind: Alike, needed: int, free: Ints, candidates: Candidates, gone: Flags
) -> Flags:
    """Put back by importance as long as enough members fit, wherever; return who stays gone."""
    return put_back_all(
        CountingTrial(kind, needed, freed(candidates, free, gone), candidates), gone
    )


def _spare_from_cheapest(
    kind: Alike,
    needed: int,
    free: Ints,
    candidates: Candidates,
    gone: Flags,
    table: UnitTable,
) -> Flags:
    """Place the members where they cost least, then put back; return who stays gone."""
    room_made = freed(candidates, free, gone)
    shares = _cheapest_lines(kind, needed, free, room_made, candidates, gone, table)
    in_place = put_back_all(PlacedTrial([kind], shares, room_made, candidates), gone)
    return _spare_anywhere(kind, needed, free, candidates, in_place)


def _cheapest_lines(
    kind: Alike,
    needed: int,
    free: Ints,
    room_made: Ints,
    candidates: Candidates,
    gone: Flags,
    table: UnitTable,
) -> Shares:
    """Take lines by what the units on them weigh per member, as long as members lack a place.

    A unit weighs with all its pods, and only once: where it has to go anyway, the other lines that
    it stands on become cheaper. Costs the entries of the lines taken, not lines times members.
    """
    for_nothing = fitting(kind, free, needed)
    more = fitting(kind, room_made, needed) - for_nothing
    weight = np.where(gone, weights(candidates.units, table), 0).astype(np.float64)
    cost = np.zeros(len(free))
    np.add.at(cost, candidates.line, weight[candidates.owner])
    by_line = np.argsort(candidates.line, kind="stable")
    starts = np.searchsorted(candidates.line[by_line], np.arange(len(free) + 1))
    heap = [(cost[line] / more[line], line) for line in np.flatnonzero(more > 0).tolist()]
    heapq.heapify(heap)
    members = np.minimum(for_nothing, needed)
    left = needed - int(members.sum())
    is_open = gone.copy()
    while left > 0:
        price, line = heapq.heappop(heap)
        if more[line] == 0 or price != cost[line] / more[line]:
            continue  # taken already, or cheaper by now
        count = min(left, int(more[line]))
        members[line] += count
        left -= count
        more[line] = 0
        here = candidates.owner[by_line[starts[line] : starts[line + 1]]]
        for unit in here[is_open[here]].tolist():
            is_open[unit] = False
            entries = range(candidates.first_list[unit], candidates.first_list[unit + 1])
            for other in (candidates.line_list[entry] for entry in entries):
                if more[other] > 0:
                    cost[other] -= weight[unit]
                    heapq.heappush(heap, (cost[other] / more[other], other))
    return tuple(Share(0, line, int(members[line])) for line in np.flatnonzero(members).tolist())


def weights(units: Rows, table: UnitTable) -> Ints:
    """What units (slots of the unit table) add to the sum of priorities, with all their pods."""
    return (table.priority[units] + PRIORITY_SHIFT) * table.size[units]


def score(units: Rows, table: UnitTable, budgets: Budgets) -> Score:
    """Rate victims (slots of the unit table, the most important first)."""
    if not len(units):
        return Score(0, -PRIORITY_SHIFT, 0, 0, 0.0)
    violations = 0
    if budgets:
        violations = sum(budgets.violations(table.staying(int(unit)) for unit in units))
    priority = table.priority[units]
    highest = int(priority[0])
    earliest = float(table.started[units[priority == highest]].min())
    total = int(weights(units, table).sum())
    return Score(violations, highest, total, int(table.size[units].sum()), -earliest)


def violating_units(units: Rows, table: UnitTable, budgets: Budgets) -> list[int]:
    """Indices of those among `units` whose loss would go beyond a disruption budget."""
    if not budgets:
        return []
    beyond = budgets.violations(table.staying(int(unit)) for unit in units)
    return [index for index, number in enumerate(beyond) if number]
