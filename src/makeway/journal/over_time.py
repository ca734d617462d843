"""Who used how much in each step of a span of time, and who preempted whom: for charts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from makeway.engine import decisions as dec
from makeway.engine.model import WorkloadKey
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Ledger, Life, Sums


class Pair(NamedTuple):
    """Queues of a preemptor and its victim."""

    preemptor: str
    victim: str


@dataclass
class Waits:
    """Of one queue, in one step of time."""

    waited_s: float = 0.0  # by all who waited then
    admitted: int = 0  # times
    waited_before_s: float = 0.0  # by those, until then and since the time asked for


class Course(Ledger):
    """A ledger with a page for each step of time."""

    def __init__(self, since: float, until: float, steps: int) -> None:
        super().__init__(since, until)
        self.step_s = (until - since) / steps
        self.steps: list[dict[Account, Sums]] = [{} for _ in range(steps)]
        self.waits: list[dict[str, Waits]] = [{} for _ in range(steps)]  # by queue
        self.preemptions: Counter[Pair] = Counter()
        self._waited_s: dict[WorkloadKey, float] = {}  # until it was last admitted

    def _book(self, life: Life, until: float) -> None:
        first, last = self._step(life.at), self._step(until)
        for number in range(first, last):
            self._book_in(number, life, self._since + (number + 1) * self.step_s)
        self._book_in(max(first, last), life, until)

    def _book_in(self, number: int, life: Life, until: float) -> None:
        self.sums, before_s = self.steps[number], life.total.waited_s
        super()._book(life, until)
        if life.total.waited_s > before_s:
            self._waits_of(number, life).waited_s += life.total.waited_s - before_s

    def _waits_of(self, number: int, life: Life) -> Waits:
        return self.waits[number].setdefault(self._account(life).queue, Waits())

    def _admit(self, life: Life, decision: dec.Admit | dec.Reserve, at: float) -> None:
        super()._admit(life, decision, at)
        if isinstance(decision, dec.Admit) and self._is_asked_for(at):
            key, waited_s = life.workload.key, life.total.waited_s
            waits = self._waits_of(self._step(at), life)
            waits.admitted += 1
            waits.waited_before_s += waited_s - self._waited_s.get(key, 0.0)
            self._waited_s[key] = waited_s

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
