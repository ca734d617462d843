"""Who used how much in each step of a span of time, for charts; and which job, for who asks what
the sums are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from makeway.engine import decisions as dec
from makeway.engine.model import WorkloadKey
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Ledger, Life, Sums


class Line(NamedTuple):
    """Where one waits."""

    user: str  # the namespace
    queue: str


@dataclass
class Waits:
    """Of one line, in one step of time."""

    waited_s: float = 0.0  # by all who waited then
    admitted: int = 0  # times
    waited_before_s: float = 0.0  # by those, until then and since the time asked for

    def add(self, other: Waits) -> None:
        self.waited_s += other.waited_s
        self.admitted += other.admitted
        self.waited_before_s += other.waited_before_s


class Course(Ledger):
    """A ledger with a page for each step of time."""

    def __init__(self, since: float, until: float, steps: int) -> None:
        super().__init__(since, until)
        self.step_s = (until - since) / steps
        self.steps: list[dict[Account, Sums]] = [{} for _ in range(steps)]
        self.waits: list[dict[Line, Waits]] = [{} for _ in range(steps)]
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
        account = self._account(life)
        return self.waits[number].setdefault(Line(account.user, account.queue), Waits())

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


def course_of(journal: Journal, since: float, until: float, steps: int) -> Course:
    """What was booked between two times, step by step. Cost: the segments of that time, once."""
    course = Course(since, until, steps)
    course.read(journal)
    course.forget_lives()
    return course


class Part(NamedTuple):
    """What one workload has to do with a line."""

    user: str
    queue: str
    workload: WorkloadKey
    created: float


class Parts(Ledger):
    """A ledger with an account for each workload in each queue."""

    def __init__(self, since: float, until: float) -> None:
        super().__init__(since, until)
        self.parts: dict[Part, Sums] = {}

    def _count(self, life: Life) -> Sums:
        account, workload = self._account(life), life.workload
        part = Part(account.user, account.queue, workload.key, workload.created_at)
        return self.parts.setdefault(part, Sums())


def parts_of(journal: Journal, since: float, until: float) -> Parts:
    """What was booked between two times, job by job. Cost: the segments of that time, once."""
    parts = Parts(since, until)
    parts.read(journal)
    parts.forget_lives()
    return parts
