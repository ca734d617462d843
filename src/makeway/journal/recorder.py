"""Writes down what an engine is told and what it decides, while it works.

The engine's driver never waits for the disk: it puts records in line, and a thread makes them
durable, many with one flush. What can't be written is lost, and with it the segment: that is said
once, and a new segment begins when the disk takes something again. A segment begins with everything
that the engine knows, so the engine begins anew with it: from there on it decides as one that has
read the segment.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from typing import NamedTuple

from makeway.engine.decisions import Cycle
from makeway.engine.engine import Engine
from makeway.engine.events import Event
from makeway.engine.model import Changes
from makeway.journal.file import JournalFile
from makeway.journal.records import Decided, Heard, Record, Scribe, new_header
from makeway.logs import Fields

log = logging.getLogger("makeway.journal")

DAY_S = 86_400.0
GATHER_S = 0.02  # so long records gather before they are flushed together
RETRY_S = 30.0  # after a failure
KEEP_EVERY_S = 3600.0
WAITING_MAX = 200_000  # records; with more, the disk does not keep up
TOGETHER_MAX = 2_000  # records in one chunk
BEGINNING_SHARE = 4  # of a segment's bytes, one in so many at most says how it began

Clock = Callable[[], float]


class Limits(NamedTuple):
    kept_days: float = 30.0
    max_bytes: int = 1_000_000_000
    # With more, a new one begins: to look at a moment, its segment is decided again.
    segment_bytes: int = 2_000_000


class Begin(NamedTuple):
    """A segment begins with what was known."""

    at: float
    events: tuple[Event, ...]


class Writer:
    """The journal of a process, across terms. Without `start` nothing is written but by `flush`."""

    def __init__(
        self,
        file: JournalFile,
        limits: Limits | None = None,
        shortage: Callable[[], str] = str,
    ) -> None:
        """`shortage` says why nothing more should be written; empty: there is room."""
        self._file, self._shortage = file, shortage
        self._limits = limits or Limits()
        self._line: deque[Begin | Record] = deque()
        self._segment: int | None = None  # None: what comes is lost until another begins
        self._scribe = Scribe(0.0)
        self._size, self._size_max = 0, 0  # of the segment
        self._kept_at = 0.0
        self._is_full = False  # the segment is, or it is lost and another could begin
        self._asked, self._begun = 0, 0  # segments that were asked for, and of them those begun
        self._takes = False  # something: the last segment is not lost
        self._has_dropped = False  # something, as the line was too long
        self._is_told = False  # that it can't be written
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    # For the driver, whose thread must not wait

    @property
    def is_full(self) -> bool:
        """Whether a new segment should begin."""
        return self._is_full and self._asked == self._begun

    def begin(self, at: float, events: tuple[Event, ...]) -> None:
        """A new segment, with what was known."""
        self._asked += 1
        self._takes, self._has_dropped = True, False
        self._line.append(Begin(at, events))
        self._wake.set()

    def put(self, record: Record) -> None:
        if not self._takes:
            return
        if len(self._line) < WAITING_MAX:
            self._line.append(record)
        else:
            self._has_dropped = True
        self._wake.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what stands in line."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        self._file.close()

    # In the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            is_lost = self._segment is None and self._is_told
            self._wake.wait(RETRY_S if is_lost else None)
            self._stop.wait(GATHER_S)
            self._wake.clear()
            self.flush()
            if self._segment is None and not self._stop.is_set():
                self.try_again()

    def flush(self) -> None:
        """Make durable what stands in line; what fails is lost."""
        try:
            while self._line:
                self._write_some()
        except Exception as error:  # whatever it is, scheduling goes on
            self._lose(error)

    def _write_some(self) -> None:
        if self._has_dropped:
            raise OSError("the disk does not keep up")
        first = self._line.popleft()
        if isinstance(first, Begin):
            self._begin(first)
            return
        some = [first]
        while self._line and len(some) < TOGETHER_MAX and not isinstance(self._line[0], Begin):
            record = self._line.popleft()
            assert not isinstance(record, Begin)
            some.append(record)
        if self._segment is not None:
            self._add(some)

    def _begin(self, begin: Begin) -> None:
        self._segment, self._is_full = None, False
        self._begun += 1
        self._expect_room()
        header = new_header(begin.at, version("makeway"), len(begin.events))
        number = self._file.begin(header)
        self._keep(begin.at)
        self._scribe, self._segment, self._size = Scribe(begin.at), number, 0
        events = (Heard(begin.at, event) for event in begin.events)
        while some := list(islice(events, TOGETHER_MAX)):
            self._add(some)
        # Most of a segment is to be news, however much was known when it began.
        self._size_max = max(self._limits.segment_bytes, BEGINNING_SHARE * self._size)
        self._is_full = False
        if self._is_told:
            log.warning(Fields(journal="is written again", segment=number))
            self._is_told = False

    def _add(self, records: Sequence[Record]) -> None:
        self._expect_room()
        assert self._segment is not None
        body = self._scribe.chunk(records)
        self._file.add(self._segment, records[0].at, records[-1].at, body)
        self._size += len(body)
        self._is_full = self._size >= self._size_max
        if records[-1].at >= self._kept_at + KEEP_EVERY_S:
            self._keep(records[-1].at)

    def _keep(self, now: float) -> None:
        self._kept_at = now
        self._file.keep(now - self._limits.kept_days * DAY_S, self._limits.max_bytes)

    def _expect_room(self) -> None:
        if shortage := self._shortage():
            raise OSError(shortage)

    def _lose(self, error: Exception) -> None:
        self._segment, self._takes = None, False
        self._line.clear()
        self._begun = self._asked
        if not self._is_told:
            self._is_told = True
            log.error(Fields(journal="can't be written", path=self._file.path, error=error))

    def try_again(self) -> None:
        """Find out whether a new segment could begin."""
        try:
            self._expect_room()
            self._file.probe()
        except Exception:
            return  # it was said already
        self._is_full = True


class Recorder:
    """Looks on while an engine works, and writes down what it is told and what it decides."""

    def __init__(self, engine: Engine, writer: Writer, clock: Clock) -> None:
        self._engine, self._writer, self._clock = engine, writer, clock
        now = clock()
        writer.begin(now, engine.beginning(now))

    def heard(self, event: Event, changes: Changes) -> None:
        self._writer.put(Heard(self._clock(), event))

    def begins(self, now: float) -> None:
        if self._writer.is_full:
            self._writer.begin(now, self._engine.begin_anew(now))

    def ended(self, cycle: Cycle, now: float) -> None:
        self._writer.put(Decided(now, cycle.decisions))
