"""Notices circles: jobs that displace each other until the same ones run as before, and again.

Between two changes from outside (a job comes, ends, fails or gives up, a check answers, a deadline
passes) the engine ought to come to rest. Policies may have it otherwise, where one displaces the
other and the other the one; and in a world where pods stop at once a circle takes no time, so that
the clock would stand still for ever.

Watched are decisions alone, not how the engine came by them. The *picture* of a cohort tree is who
holds quota in it, of which flavors, and who is on its way out. When a job issues victims at a
picture as before, with no change from outside since, then all that was displaced meanwhile was
displaced for nothing: it was a round. The engine remembers more than the picture shows and may find
its way out by itself, so one round is none too many; whoever begins a third time goes in a circle.
There are finitely many pictures, so every circle is found. Lest that takes long where many are
entangled, a job that has issued victims `MOST_TIMES` in a row is taken to go in one, too.

Cost: a few machine words and one hash per job that takes or gives back quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from makeway.engine.decisions import Decision, Preempt
from makeway.engine.model import FlavorName, QueueName, WorkloadKey
from makeway.sim.circles import Displacement, Round
from makeway.sim.record import JobRun

ROUNDS = 2  # that make a circle
MOST_TIMES = 8


class _Issue(NamedTuple):
    """Somebody made others give way."""

    at: float
    preemptor: WorkloadKey
    displacements: tuple[Displacement, ...]


class _Place(NamedTuple):
    """Where in the list of issues something happened first, and last."""

    first: int
    last: int
    times: int


class _QuietTime:
    """What was decided in one tree since the last change from outside."""

    def __init__(self) -> None:
        self._issues: list[_Issue] = []
        self._places: dict[object, _Place] = {}  # by preemptor, and by picture and preemptor

    def add(self, picture: int, issue: _Issue) -> tuple[float, list[_Issue]] | None:
        """Since when a job goes in a circle, and the round that it would begin once more."""
        here, anywhere = (picture, issue.preemptor), issue.preemptor
        found = self._repeated(here, ROUNDS) or self._repeated(anywhere, MOST_TIMES)
        number = len(self._issues)
        for key in (here, anywhere):
            first, _, times = self._places.get(key, (number, number, 0))
            self._places[key] = _Place(first, number, times + 1)
        self._issues.append(issue)
        return found

    def _repeated(self, key: object, times: int) -> tuple[float, list[_Issue]] | None:
        place = self._places.get(key)
        if place is None or place.times < times:
            return None
        return self._issues[place.first].at, self._issues[place.last :]


class CircleWatch:
    def __init__(self, root_of: Mapping[QueueName, str]) -> None:
        self._root_of = root_of  # the tree of each queue
        self._pictures = dict.fromkeys(root_of.values(), 0)
        self._parts: dict[int, int] = {}  # what each job adds to the picture, by index
        self._quiet_times: dict[str, _QuietTime] = {}  # of trees in which there were victims
        self._flavors: dict[tuple[FlavorName, ...], int] = {}  # a number for each combination

    def place(self, run: JobRun, *, is_leaving: bool = False) -> None:
        """The job has taken quota, is on its way out, or holds none any more."""
        part = 0
        if run.usage is not None:
            flavors = self._flavors.setdefault(run.flavors, len(self._flavors))
            part = hash((run.index, run.pods_admitted, flavors, is_leaving))
        before = self._parts.pop(run.index, 0)
        if part:
            self._parts[run.index] = part
        self._pictures[self._root_of[run.queue]] ^= before ^ part

    def note(self, now: float, decisions: Iterable[Decision]) -> list[Round]:
        """What a cycle has decided, before any of it is carried out; returns what is a circle."""
        found = []
        for decision in decisions:
            if isinstance(decision, Preempt) and (displaced := tuple(_displacements(decision))):
                tree = self._root_of[decision.queue]
                issue = _Issue(now, decision.preemptor, displaced)
                quiet_time = self._quiet_times.setdefault(tree, _QuietTime())
                if (circle := quiet_time.add(self._pictures[tree], issue)) is not None:
                    found.append(_round_of(tree, *circle))
                    del self._quiet_times[tree]  # as it is broken, another way begins here
        return found

    def change_from_outside(self, queue: QueueName) -> None:
        self._quiet_times.pop(self._root_of[queue], None)


class Unwatched(CircleWatch):
    """Where nobody is told of circles, and the engine lets longer and longer pauses lie between."""

    def place(self, run: JobRun, *, is_leaving: bool = False) -> None:
        pass

    def note(self, now: float, decisions: Iterable[Decision]) -> list[Round]:
        return []

    def change_from_outside(self, queue: QueueName) -> None:
        pass


def _round_of(tree: str, since: float, issues: list[_Issue]) -> Round:
    displacements = dict.fromkeys(d for issue in issues for d in issue.displacements)
    return Round(tree, issues[0].preemptor, since, tuple(displacements))


def _displacements(decision: Preempt) -> Iterator[Displacement]:
    for victim in decision.victims:
        if victim.is_new:
            yield Displacement(
                decision.preemptor, decision.queue, victim.workload, victim.queue, victim.rule
            )
