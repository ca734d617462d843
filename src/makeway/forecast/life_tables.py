"""Life tables: of those who have run so long, which part ends in the next stretch of time.

Ages are counted in steps, eight of which double an age. Those who still run count at every age that
they have reached, so that a few that have ended don't make all of their kind seem short.

A kind of which little is known leans on the next, coarser one: at each age it counts as if `few`
more of its jobs had come to that age and then ended as often as those of the coarser kind. At ages
that nobody has reached, one runs as long again as often as not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import exp, expm1, inf, log1p, log2
from typing import NamedTuple

STEPS_PER_DOUBLING = 8
STEPS = 32 * STEPS_PER_DOUBLING  # nobody gets as old as that
LEAST_S = 1.0
AS_OFTEN_AS_NOT = 1.0 - 0.5 ** (1 / STEPS_PER_DOUBLING)
_ALMOST = 1.0 - 1e-9  # a logarithm of nothing there is not


class LifeTable(NamedTuple):
    """Of one kind of jobs, step by step of their age."""

    ended: list[int]
    reached: list[float]  # by how many; who is in a step now counts half


def life_table(ended: Iterable[float], running: Iterable[float]) -> LifeTable:
    """How long those ran that have ended, and how long the others have run by now."""
    ends, lasts = [0] * STEPS, [0.0] * (STEPS + 1)
    for run_s in ended:
        step = _step(run_s)
        ends[step] += 1
        lasts[step + 1] += 1.0
    for ran_s in running:
        step = _step(ran_s)
        lasts[step] += 0.5
        lasts[step + 1] += 0.5
    return LifeTable(ends, [*accumulate(reversed(lasts[1:]))][::-1])


class Lives:
    """How long a job runs, as its kinds tell, the finest first."""

    def __init__(self, kinds: Sequence[LifeTable], few: float) -> None:
        ending = [AS_OFTEN_AS_NOT] * STEPS
        for number, kind in enumerate(reversed(kinds)):
            weight = few if number else 0.0  # the coarsest kind has nobody to lean on
            ending = [
                (ended + weight * part) / (reached + weight) if reached else part
                for ended, reached, part in zip(*kind, ending, strict=True)
            ]
        self._ending = [min(part, _ALMOST) for part in ending]
        # The part that runs on, as a logarithm without its sign: it grows with age.
        self._gone = [0.0, *accumulate(-log1p(-part) for part in self._ending)]
        firsts = (step for kind in kinds for step, ended in enumerate(kind.ended) if ended)
        self.shortest_s = min(map(_age_s, firsts), default=inf)  # that anybody ran

    def run_s(self, place: float, ran_s: float, limit_s: float = inf) -> float:
        """Who is at this place, from 0 to 1, among those that ran longer and not beyond a limit."""
        ran = self._at(ran_s)
        within = 1.0 - exp(ran - self._at(limit_s))
        gone = ran - log1p(-min(place * within, _ALMOST))
        step = min(bisect_right(self._gone, gone), STEPS) - 1
        part = -expm1(self._gone[step] - gone) / self._ending[step]
        return min(max(ran_s + LEAST_S, _age_s(step + min(part, 1.0))), limit_s)

    def _at(self, age_s: float) -> float:
        """Within a step, as many end in its first half as in the second."""
        exact = min(_exact_step(age_s), float(STEPS))
        step = min(int(exact), STEPS - 1)
        return self._gone[step] - log1p(-(exact - step) * self._ending[step])


def _exact_step(age_s: float) -> float:
    return STEPS_PER_DOUBLING * log2(max(age_s, LEAST_S))


def _step(age_s: float) -> int:
    return min(int(_exact_step(age_s)), STEPS - 1)


def _age_s(step: float) -> float:
    return float(2.0 ** (step / STEPS_PER_DOUBLING))
