"""History for pages: read from the journal in a thread, one question after the other, and kept for
a moment, so that ten readers who ask the same cost one reading."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from makeway.dashboard.lives import life_in
from makeway.journal.coding import Unreadable
from makeway.journal.file import Journal, JournalError
from makeway.journal.ledger import Account, Sums, grouped
from makeway.journal.over_time import Course, Waits, course_of
from makeway.journal.past import Name

STEPS = 96
KEPT_S = 20.0
LIFE_KEPT_S = 2.0
SPANS_S = (3600.0, 24 * 3600.0, 7 * 24 * 3600.0, 30 * 24 * 3600.0)


Tell = Callable[[Journal, float], dict[str, Any]]  # of a journal, and now


class NoJournal(Exception):
    """Nothing is written down, or what is can't be read; the text is for the reader."""


class Past:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._thread = ThreadPoolExecutor(1, "history")  # starts with its first use
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}  # by question: when, what

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def tell(self, span_s: float) -> dict[str, Any]:
        """What happened from so long ago until now."""

        def told(journal: Journal, now: float) -> dict[str, Any]:
            return _document(course_of(journal, now - span_s, now, STEPS), now - span_s, now)

        return await self._read(f"{span_s:g}", told)

    async def life(self, namespace: str, name: str) -> dict[str, Any]:
        """What happened to the last job, or Workload, of a name; also when it is deleted."""

        def told(journal: Journal, now: float) -> dict[str, Any]:
            return life_in(journal, Name(namespace, name), now)

        return await self._read(f"{namespace}/{name}", told, LIFE_KEPT_S)

    async def _read(self, question: str, tell: Tell, kept_s: float = KEPT_S) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._told, question, tell, kept_s)

    def _told(self, question: str, tell: Tell, kept_s: float) -> dict[str, Any]:
        now = self._clock()
        at, known = self._known.get(question, (0.0, {}))
        if now - at < kept_s:
            return known
        try:
            journal = Journal(self._path)
        except JournalError as error:
            raise NoJournal(str(error)) from None
        try:
            told = tell(journal, now)
        except (Unreadable, sqlite3.DatabaseError) as error:
            raise NoJournal(f"the journal can't be read: {error}") from None
        finally:
            journal.close()
        self._known = {q: kept for q, kept in self._known.items() if now - kept[0] < KEPT_S}
        self._known[question] = now, told
        return told


def _document(course: Course, since: float, until: float) -> dict[str, Any]:
    total: dict[Account, Sums] = {}
    for step in course.steps:
        for account, sums in step.items():
            total.setdefault(account, Sums()).add(sums)
    by_queue = [grouped(step, ("queue",)) for step in course.steps]
    queues = sorted(
        {name for step in by_queue for (name,) in step} | {n for step in course.waits for n in step}
    )
    resources = sorted({resource for sums in total.values() for resource in sums.used})
    return {
        "since": since,
        "until": until,
        "resources": resources,
        "use": {
            resource: {
                queue: [_mean(step.get((queue,)), resource, course.step_s) for step in by_queue]
                for queue in queues
            }
            for resource in resources
        },
        "waiting": {
            queue: [round(_waits(step, queue).waited_s / course.step_s, 3) for step in course.waits]
            for queue in queues
        },
        "waits": {
            queue: [_mean_wait(_waits(step, queue)) for step in course.waits] for queue in queues
        },
        "accounts": [
            {"user": user, "queue": queue, **_figures(sums)}
            for (user, queue), sums in grouped(total, ("user", "queue")).items()
        ],
        "preemptions": [
            {"preemptor": pair.preemptor, "victim": pair.victim, "jobs": jobs}
            for pair, jobs in sorted(course.preemptions.items())
        ],
    }


def _waits(step: Mapping[str, Waits], queue: str) -> Waits:
    return step.get(queue, Waits())


def _mean_wait(waits: Waits) -> float | None:
    """Of those who got their place then; None: nobody did."""
    return round(waits.waited_before_s / waits.admitted, 1) if waits.admitted else None


def _mean(sums: Sums | None, resource: str, step_s: float) -> float:
    """How much of a resource was held on average."""
    used = {} if sums is None else {str(name): amount for name, amount in sums.used.items()}
    return round(used.get(resource, 0.0) / step_s, 3)


def _figures(sums: Sums) -> dict[str, Any]:
    return {
        "arrived": sums.arrived,
        "admitted": sums.admitted,
        "finished": sums.finished,
        "preempted": sums.preempted,
        "evicted": sums.evicted,
        "waited": round(sums.waited_s, 1),
        "lost": round(sums.lost_s, 1),
        "used": {str(resource): round(amount, 1) for resource, amount in sums.used.items()},
    }
