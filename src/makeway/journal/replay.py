"""Is it all true? A fresh engine is told what stands in a segment, and must decide the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from makeway.engine.decisions import Decision
from makeway.engine.engine import Engine
from makeway.journal.records import Heard, Record


class Difference(NamedTuple):
    """A cycle that has decided otherwise."""

    at: float
    written: tuple[Decision, ...]  # of the journal, without what both decide
    replayed: tuple[Decision, ...]


class Replayed(NamedTuple):
    events: int
    cycles: int
    decisions: int
    differences: tuple[Difference, ...]


def step(engine: Engine, record: Record) -> tuple[Decision, ...]:
    """Take in what stands in a journal; the decisions, where a cycle has run."""
    if isinstance(record, Heard):
        engine.apply(record.event)
        return ()
    return engine.run_cycle(record.at).decisions


def replay(records: Iterable[Record]) -> Replayed:
    """The records of one segment, from its beginning."""
    engine = Engine()
    events = cycles = decisions = 0
    differences: list[Difference] = []
    for record in records:
        decided = step(engine, record)
        if isinstance(record, Heard):
            events += 1
            continue
        cycles += 1
        decisions += len(record.decisions)
        if decided != record.decisions:
            differences.append(_difference(record.at, record.decisions, decided))
    return Replayed(events, cycles, decisions, tuple(differences))


def _difference(
    at: float, written: tuple[Decision, ...], replayed: tuple[Decision, ...]
) -> Difference:
    return Difference(at, tuple(_without(written, replayed)), tuple(_without(replayed, written)))


def _without(some: tuple[Decision, ...], others: tuple[Decision, ...]) -> Iterator[Decision]:
    return (decision for decision in some if decision not in others)
