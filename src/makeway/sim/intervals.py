"""Means over seeds, and how far they can be trusted: Student's interval, 95 %."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

# Two-sided 95 % points of Student's distribution, by degrees of freedom from 1 on.
T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
T_95_MANY = 1.984  # from 100 degrees on; in between the last above counts, a little too wide


class Interval(NamedTuple):
    mean: float
    half: float | None  # None: one value says nothing about the others

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0.0)


def interval_of(values: Sequence[float]) -> Interval:
    if len(values) < 2:
        return Interval(values[0], None)
    freedom = len(values) - 1
    t = T_95[freedom - 1] if freedom <= len(T_95) else T_95[-1] if freedom < 100 else T_95_MANY
    return Interval(fmean(values), t * stdev(values) / sqrt(len(values)))
