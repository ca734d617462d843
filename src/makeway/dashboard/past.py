"""History for pages: read from the journal in a thread, one question after the other, and kept for
a moment, so that ten readers who ask the same cost one reading."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import floor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

from makeway.dashboard.figures import Seen, course_document
from makeway.dashboard.lives import life_in
from makeway.journal.coding import Unreadable
from makeway.journal.file import Journal, JournalError
from makeway.journal.over_time import Course, Parts, course_of, parts_of
from makeway.journal.past import Name

STEPS = 96
KEPT_S = 20.0
LIFE_KEPT_S = 2.0
PARTS_KEPT_MAX = 20_000  # jobs; more of them are read again for the next question
SPANS_S = (3600.0, 24 * 3600.0, 7 * 24 * 3600.0, 30 * 24 * 3600.0)

T = TypeVar("T")
Tell = Callable[[Journal, float], T]  # of a journal, and now


class Told(NamedTuple):
    """What happened between two times."""

    since: float
    until: float
    course: Course
    documents: dict[frozenset[str] | None, bytes]  # by the namespaces that they tell of


class NoJournal(Exception):
    """Nothing is written down, or what is can't be read; the text is for the reader."""


class Past:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._thread = ThreadPoolExecutor(1, "history")  # starts with its first use
        self._known: dict[str, tuple[float, Any]] = {}  # by question: when, what

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def course(self, span_s: float) -> Told:
        """What happened from so long ago until now."""

        def told(journal: Journal, now: float) -> Told:
            until = floor(now)  # the jobs behind it are asked for by whole seconds
            since = until - span_s
            return Told(since, until, course_of(journal, since, until, STEPS), {})

        return await self._read(f"{span_s:g}", told)

    async def document(self, told: Told, seen: Seen) -> bytes:
        """Written once for all who see the same of it."""

        def written() -> bytes:
            if seen.namespaces not in told.documents:
                document = course_document(told.course, told.since, told.until, seen)
                told.documents[seen.namespaces] = orjson.dumps(document)
            return told.documents[seen.namespaces]

        return await self.work(written)

    async def parts(self, since: float, until: float) -> Parts:
        """What the sums between two times are made of."""

        def told(journal: Journal, _: float) -> Parts:
            return parts_of(journal, since, until)

        return await self._read(f"{since} {until}", told, keeps=_is_small)

    async def work(self, make: Callable[[], T]) -> T:
        """Something about the past that takes a while."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    async def life(self, namespace: str, name: str) -> dict[str, Any]:
        """What happened to the last job, or Workload, of a name; also when it is deleted."""

        def told(journal: Journal, now: float) -> dict[str, Any]:
            return life_in(journal, Name(namespace, name), now)

        return await self._read(f"{namespace}/{name}", told, LIFE_KEPT_S)

    async def _read(
        self,
        question: str,
        tell: Tell[T],
        kept_s: float = KEPT_S,
        keeps: Callable[[T], bool] = lambda _: True,
    ) -> T:
        return await self.work(lambda: self._told(question, tell, kept_s, keeps))

    def _told(self, question: str, tell: Tell[T], kept_s: float, keeps: Callable[[T], bool]) -> T:
        now = self._clock()
        at, known = self._known.get(question, (0.0, None))
        if known is not None and now - at < kept_s:
            found: T = known
            return found
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
        if keeps(told):
            self._known[question] = now, told
        return told


def _is_small(parts: Parts) -> bool:
    return len(parts.parts) <= PARTS_KEPT_MAX
