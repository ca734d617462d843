"""Who used how much in each step of a span of time, and who preempted whom: for charts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from makeway.engine import decisions as dec
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Ledger, Life, Sums


class Pair(NamedTuple):
    """Queues of a preemptor and its victim."""

    preemptor: str
    victim: str


class Course(Ledger):
    """A ledger with a page for each step of time."""

    def __init__(self, since: float, until: float, steps: int) -> None:
        super().__init__(since, until)
        self.step_s = (until - since) / steps
        self.steps: list[dict[Account, Sums]] = [{} for _ in range(steps)]
        self.preemptions: Counter[Pair] = Counter()

    def _book(self, life: Life, until: float) -> None:
        first, last = self._step(life.at), self._step(until)
        for number in range(first, last):
            self.sums = self.steps[number]
            super()._book(life, self._since + (number + 1) * self.step_s)
        self.sums = self.steps[max(first, last)]
        super()._book(life, until)

    def _step(self, at: float) -> int:
        return min(max(0, int((at - self._since) / self.step_s)), len(self.steps) - 1)

    def _decide(self, decision: dec.Decision, at: float) -> None:
        if isinstance(decision, dec.Preempt) and self._is_asked_for(at):
            preemptor = self._queue_of(decision)
            for victim in decision.victims:
                life = self._lives.get(victim.workload)
                if victim.is_new and life is not None:
                    self.preemptions[Pair(preemptor, self._account(life).queue)] += 1
        super()._decide(decision, at)

    def _queue_of(self, decision: dec.Preempt) -> str:
        life = self._lives.get(decision.preemptor)
        return "-" if life is None else self._account(life).queue


def course_of(journal: Journal, since: float, until: float, steps: int) -> Course:
    """What was booked between two times, step by step. Cost: the segments of that time, once."""
    course = Course(since, until, steps)
    course.read(journal)
    return course
