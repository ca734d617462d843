"""Outages of machines: stockouts and failing nodes, by schedule or at random with a seed.

Outages go on for ever, with or without jobs, so the world does not wait for their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from makeway.sim.clock import Agenda
from makeway.sim.seeded_random import SeededRandom
from makeway.sim.settings import Failure, SimulationSpec, Stockout


class StockoutBegan(NamedTuple):
    """From now on no machine of a flavor comes."""

    stockout: Stockout
    until: float


class StockoutEnded(NamedTuple):
    """A stockout is over; another one of the same flavor may not be."""


class NodeFailed(NamedTuple):
    failure: Failure
    draws: Random  # draws the jobs that the failure hits


OutageEvent = StockoutBegan | StockoutEnded | NodeFailed
Stream = Iterator[tuple[float, OutageEvent]]  # outage events in order of time


class Outages:
    def __init__(self, settings: SimulationSpec, random: SeededRandom) -> None:
        self._random = random
        self._agenda: Agenda[tuple[OutageEvent, Stream]] = Agenda()
        for number, stockout in enumerate(settings.stockouts):
            self._follow(self._stockouts(number, stockout))
        for number, failure in enumerate(settings.failures):
            self._follow(self._failures(number, failure))

    @property
    def next_at(self) -> float | None:
        return self._agenda.next_at

    def take(self, now: float) -> OutageEvent | None:
        """The next change that is due; None when there is none."""
        found = self._agenda.take(now)
        if found is None:
            return None
        change, stream = found
        if isinstance(change, StockoutBegan):
            self._agenda.plan(change.until, (StockoutEnded(), iter(())))
        self._follow(stream)
        return change

    def _follow(self, stream: Stream) -> None:
        for at, change in stream:
            self._agenda.plan(at, (change, stream))
            return

    def _stockouts(self, number: int, stockout: Stockout) -> Stream:
        if stockout.start is not None:
            yield stockout.start, StockoutBegan(stockout, stockout.start + stockout.lasts)
        if stockout.every is not None:
            lasts = self._random.named("stockout lasts", number)
            for at in self._random.moments(stockout.every, "stockout", number):
                yield at, StockoutBegan(stockout, at + lasts.expovariate(1.0 / stockout.lasts))

    def _failures(self, number: int, failure: Failure) -> Stream:
        draws = self._random.named("failure hits", number)
        if failure.at is not None:
            yield failure.at, NodeFailed(failure, draws)
        if failure.every is not None:
            for at in self._random.moments(failure.every, "failure", number):
                yield at, NodeFailed(failure, draws)
