"""Which units have to go so that a preemptor gets its place.

The algorithm is that of KEP-5710's first draft. In one domain (a node for a pod, the cluster or
one value of a topology key for a gang):

1. With all candidates gone the preemptor must fit, else nothing is touched.
2. Candidates whose loss would break a disruption budget are put back first, as far as it goes.
3. The smallest priority N is searched such that the preemptor fits with the candidates up to N
   gone. Every unit above N is safe.
4. In order of importance, every unit up to N is put back that leaves the preemptor its room. The
   others are the victims.

When all members have one shape, "leaves the preemptor its room" is asked of the domain as a whole:
the members may still go elsewhere. How many members every node takes is one array, putting a unit
back lowers a few of its entries, and its sum must stay at what is needed. This costs the same per
unit whatever the size of the gang, it is monotone (so N is the least, and every victim is needed by
every placement), and it spares the most important units that can be spared at all. What it does not
see is that some nodes are cheaper to clear than others. So step 4 is also done from a placement on
the nodes that cost least, and of the two outcomes the better one counts. Members of different
shapes have no such array: they are packed once, and units come back around them.

Between domains, and between those two, the cheapest victims decide (`Score`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from makeway.placement.budgets import Budgets
from makeway.placement.candidates import Candidates, freed
from makeway.placement.decisions import SpareReason
from makeway.placement.nodes import Flags, Ints, Rows
from makeway.placement.packing import (
    Packing,
    PodsOnNode,
    SameShapePods,
    find_place,
    fitting,
    place_gang,
    place_more,
)
from makeway.placement.trials import CountingTrial, PlacedTrial, put_back_all
from makeway.placement.units import UnitTable

MOVES_MAX = 64  # with more victims, a gang of several shapes is not packed again for each
PRIORITY_SHIFT = 2**31  # makes priorities positive, so that a sum of them grows with their number


class VictimChoice(NamedTuple):
    """What preemption in one domain comes to."""

    packing: Packing
    victims: Rows  # indices of candidates, the most important first
    spared: list[SpareReason | None]  # by candidate; None for victims


class Score(NamedTuple):
    """The smaller the better, the first difference decides."""

    violations: int
    highest: int  # the highest preemption priority of a victim
    total: int  # the sum of priorities over pods
    pods: int
    earliness: float  # how long ago the first of the highest victims started; later is better


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """The question in one domain: which candidates go, so that `needed` members find room."""

    shapes: Sequence[SameShapePods]
    needed: int
    free: Ints  # what is free with every candidate in place
    candidates: Candidates
    table: UnitTable
    budgets: Budgets

    def choose(self) -> VictimChoice | None:
        """Return the victims that make room for the members; None if all would not do."""
        candidates = self.candidates
        gone = np.ones(len(candidates), dtype=np.bool_)
        first_trial = self._try(gone)
        if first_trial is None:
            return None
        spared: list[SpareReason | None] = [SpareReason.FITS] * len(candidates)
        for unit in violating_units(candidates.units, self.table, self.budgets):
            if first_trial.put_back(unit):
                gone[unit] = False
                spared[unit] = SpareReason.BUDGET

        level = self._least_level(gone)
        for unit in np.flatnonzero(gone & (candidates.priority > level)).tolist():
            spared[unit] = SpareReason.ABOVE_LEVEL
        gone &= candidates.priority <= level

        if isinstance(first_trial, CountingTrial):
            packing, victims = self._settle_counted(gone)
        else:
            packing, victims = self._settle_packed(gone, first_trial)
        assert sum(part.members for part in packing) >= self.needed, (self.needed, packing)
        for unit in np.flatnonzero(victims).tolist():
            spared[unit] = None
        return VictimChoice(packing, np.flatnonzero(victims), spared)

    def _settle_counted(self, gone: Flags) -> tuple[Packing, Flags]:
        """Put units back anywhere, and from the cheapest place; the better outcome counts."""
        victims = self._spare_anywhere(gone)
        cheaper = self._spare_from_cheapest(gone)
        by_importance, by_cost = (
            score(self.candidates.units[left], self.table, self.budgets)
            for left in (victims, cheaper)
        )
        if by_cost < by_importance:
            victims = cheaper
        return place_gang(self.shapes, self._freed(victims), self.needed) or (), victims

    def _settle_packed(self, gone: Flags, first_trial: PlacedTrial) -> tuple[Packing, Flags]:
        """Put units back around one packing, then around others as far as that spares a unit."""
        # A second packing may miss what the first one found.
        again = self._try(gone) or first_trial
        assert isinstance(again, PlacedTrial)
        packing, victims = self._spare_by_moving(again.packing, put_back_all(again, gone))
        return packing + place_more(self.shapes, self._freed(victims), packing), victims

    def _spare_by_moving(self, packing: Packing, victims: Flags) -> tuple[Packing, Flags]:
        """Spare units that need not go once members go elsewhere; return where, and the victims.

        Costs a packing per victim, so with many victims the first packing stands.
        """
        victims = victims.copy()
        if np.count_nonzero(victims) > MOVES_MAX:
            return packing, victims
        for unit in np.flatnonzero(victims).tolist():
            victims[unit] = False
            elsewhere = find_place(self.shapes, self._freed(victims), self.needed)
            if elsewhere is None:
                victims[unit] = True
            else:
                packing = elsewhere
        return packing, victims

    def _freed(self, gone: Flags) -> Ints:
        return freed(self.candidates, self.free, gone)

    @property
    def _can_be_counted(self) -> bool:
        return len(self.shapes) == 1 and self.shapes[0].has_independent_nodes

    def _try(self, gone: Flags) -> CountingTrial | PlacedTrial | None:
        free = self._freed(gone)
        if self._can_be_counted:
            counting = CountingTrial(self.shapes[0], self.needed, free, self.candidates)
            return counting if counting.fits else None
        packing = find_place(self.shapes, free, self.needed)
        return None if packing is None else PlacedTrial(self.shapes, packing, free, self.candidates)

    def _least_level(self, gone: Flags) -> int:
        """The smallest priority N such that it suffices if the units of `gone` up to N go."""
        levels = np.unique(self.candidates.priority[gone])
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self._fits(gone & (self.candidates.priority <= levels[middle])):
                high = middle
            else:
                low = middle + 1
        return int(levels[high])

    def _fits(self, gone: Flags) -> bool:
        free = self._freed(gone)
        if self._can_be_counted:
            return int(fitting(self.shapes[0], free, self.needed).sum()) >= self.needed
        return find_place(self.shapes, free, self.needed) is not None

    def _spare_anywhere(self, gone: Flags) -> Flags:
        """Put units back by importance while enough members fit; return the units left gone."""
        free = self._freed(gone)
        trial = CountingTrial(self.shapes[0], self.needed, free, self.candidates)
        return put_back_all(trial, gone)

    def _spare_from_cheapest(self, gone: Flags) -> Flags:
        """Place the members where they cost least, then put back; return the units left gone."""
        free = self._freed(gone)
        packing = self._cheapest_nodes(free, gone)
        trial = PlacedTrial(self.shapes, packing, free, self.candidates)
        return self._spare_anywhere(put_back_all(trial, gone))

    def _cheapest_nodes(self, room_made: Ints, gone: Flags) -> Packing:
        """Take nodes by what the units on them weigh per member, as long as members lack a place.

        A unit weighs with all its pods, and only once: where it has to go anyway, the other nodes
        that it stands on become cheaper. Costs the entries of the nodes taken, not nodes times
        members.
        """
        candidates = self.candidates
        fits_without_preemption = fitting(self.shapes[0], self.free, self.needed)
        more = fitting(self.shapes[0], room_made, self.needed) - fits_without_preemption
        weight = np.where(gone, weights(candidates.units, self.table), 0).astype(np.float64)
        cost = np.zeros(len(room_made))
        np.add.at(cost, candidates.room_row, weight[candidates.owner])
        by_row = np.argsort(candidates.room_row, kind="stable")
        starts = np.searchsorted(candidates.room_row[by_row], np.arange(len(room_made) + 1))
        heap = [(cost[row] / more[row], row) for row in np.flatnonzero(more > 0).tolist()]
        heapq.heapify(heap)
        members = np.minimum(fits_without_preemption, self.needed)
        left = self.needed - int(members.sum())
        is_open = gone.copy()
        while left > 0:
            price, row = heapq.heappop(heap)
            if more[row] == 0 or price != cost[row] / more[row]:
                continue  # the node is taken already, or cheaper by now
            count = min(left, int(more[row]))
            members[row] += count
            left -= count
            more[row] = 0
            here = candidates.owner[by_row[starts[row] : starts[row + 1]]]
            for unit in here[is_open[here]].tolist():
                is_open[unit] = False
                entries = range(candidates.first_list[unit], candidates.first_list[unit + 1])
                for other in (candidates.room_row_list[entry] for entry in entries):
                    if more[other] > 0:
                        cost[other] -= weight[unit]
                        heapq.heappush(heap, (cost[other] / more[other], other))
        return tuple(
            PodsOnNode(0, row, int(members[row])) for row in np.flatnonzero(members).tolist()
        )


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
    """Indices of the `units` whose loss would go beyond a disruption budget."""
    if not budgets:
        return []
    beyond = budgets.violations(table.staying(int(unit)) for unit in units)
    return [index for index, number in enumerate(beyond) if number]
