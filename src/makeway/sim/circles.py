"""Circles: jobs that displace each other until the same ones run as before, and all over again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.engine.model import QueueName, WorkloadKey


class Displacement(NamedTuple):
    preemptor: WorkloadKey
    queue: QueueName
    victim: WorkloadKey
    victim_queue: QueueName
    rule: VictimRule


class Round(NamedTuple):
    """Once around: who displaced whom until the same jobs ran as before."""

    tree: str
    preemptor: WorkloadKey  # who began it, and would begin it again
    since: float  # when it was first begun
    displacements: tuple[Displacement, ...]  # each once, in the order of the round


@dataclass(slots=True)
class Circle:
    """A round that was seen, perhaps several times."""

    tree: str
    displacements: tuple[Displacement, ...]
    since: float
    last_at: float
    times: int = 0
    kept: dict[WorkloadKey, None] = field(default_factory=dict)  # from preempting by the simulator


class Circles:
    """Those of a simulation, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._known: dict[frozenset[Displacement], Circle] = {}

    def __iter__(self) -> Iterator[Circle]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def add(self, found: Round, now: float, *, is_kept: bool) -> Circle:
        """The circle of this round, which is new if it was seen once."""
        what = frozenset(found.displacements)
        if what not in self._known:
            self._known[what] = Circle(found.tree, found.displacements, found.since, now)
        circle = self._known[what]
        circle.times += 1
        circle.last_at = now
        if is_kept:
            circle.kept[found.preemptor] = None
        return circle


def circle_lines(circle: Circle) -> list[str]:
    """Who displaces whom, and under which rule, on a line for each preemptor."""
    lines = []
    groups = groupby(circle.displacements, lambda d: (d.preemptor, d.queue, d.rule))
    for (preemptor, queue, rule), displaced in groups:
        victims = ", ".join(f"{d.victim} ({d.victim_queue})" for d in displaced)
        lines.append(f"{preemptor} ({queue}) displaces {victims}: {rule.value}")
    return lines


def circle_remedy(circle: Circle) -> str:
    if not circle.kept:
        return "they pause longer and longer before they preempt again (PreemptionBackoff)"
    verb = "is" if len(circle.kept) == 1 else "are"
    return (
        f"{', '.join(circle.kept)} {verb} kept from preempting until something else happens in"
        f" {circle.tree}"
    )
