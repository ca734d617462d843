"""The documents in memory, the log of what happened to them, and writes on their way to the file.

Everything here belongs to one thread, that of the owner, except `write`, which only touches the
file and may run in another. A write goes through four steps:

    submit   checks the expected revision, gives the write its own, puts it in line
    begin    takes what stands in line as one batch
    write    makes the batch durable: one transaction, one flush, however many writes (in a thread)
    settle   shows the batch to readers and watchers, and tells the writers

While one batch is being written the next one gathers, so the flush is shared by all writers that
wait. Readers (`get`, `scan`, events) see only what is durable. `latest` also shows writes that are
still on their way: the next write of the same document builds on those, and as writes become
durable in order, no write can outlive the write that it builds on. When a batch fails, so does
everything that stands in line behind it.
"""

import logging
import sqlite3
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from makeway.store.database import Corrupt, Database
from makeway.store.records import Change, Compacted, Conflict, Done, Event, Key, Record, WriteFailed

log = logging.getLogger("makeway.store")

EVENTS_KEPT = 10_000
EVENTS_KEPT_BYTES = 64 * 1024 * 1024
EVENTS_SLACK = 512  # compaction costs a transaction's worth of deletes, so not for every write
BATCH_MAX = 256

Place = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Batch:
    changes: tuple[Change, ...]
    superseded: tuple[int, ...]  # rows out of reach of every reader once `compacted` is the mark
    compacted: int | None  # None: no compaction this time
    events_dropped: int


class Store:
    def __init__(
        self,
        path: Path,
        *,
        events_kept: int = EVENTS_KEPT,
        events_kept_bytes: int = EVENTS_KEPT_BYTES,
        first_revision: int | None = None,
    ) -> None:
        if first_revision is None:
            # Clients of a file that was thrown away must not take new revisions for old ones.
            first_revision = time.time_ns() // 1_000_000
        self._events_kept, self._events_kept_bytes = events_kept, events_kept_bytes
        self._database = Database(path, first_revision)
        self._documents: dict[str, dict[Place, Record]] = {}
        self._order: dict[str, list[Place]] = {}  # the keys of each kind, sorted
        self._events: list[Event] = []  # events by revision, without gaps since `_compacted`
        self._events_bytes = 0  # of their bodies
        self._compacted = self._database.compacted()
        self._revision = self._compacted  # the revision of the last durable write
        self._load()
        self._last_given = self._revision  # revisions of failed writes are not given again
        self._line: list[Change] = []
        self._on_the_way: dict[Key, Change] = {}  # the last write of each key
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}

    def _load(self) -> None:
        for record, is_deletion in self._database.rows():
            documents = self._documents.setdefault(record.key.kind, {})
            place = record.key[1:]
            previous = documents.get(place)
            if is_deletion and previous is None:
                raise Corrupt(
                    f"{self._database.path} is damaged: {record.key} was deleted in revision "
                    f"{record.revision}, but is not there; restore the file from a backup"
                )
            if record.revision > self._compacted:
                self._events.append(Event(record, previous, is_deletion))
                self._events_bytes += len(record.body)
            if is_deletion:
                del documents[place]
            else:
                documents[place] = record
            self._revision = max(self._revision, record.revision)
        for kind, documents in self._documents.items():
            self._order[kind] = sorted(documents)

    def close(self) -> None:
        """Close the file; writes in line that were not flushed are lost, as none was confirmed."""
        self._database.close()

    # Reading

    @property
    def revision(self) -> int:
        """The revision of the last durable write."""
        return self._revision

    @property
    def oldest(self) -> int:
        """The oldest revision from which events can be had."""
        return self._compacted

    def get(self, key: Key) -> Record | None:
        return self._documents.get(key.kind, {}).get(key[1:])

    def scan(
        self, kind: str, namespace: str = "", after: Place | None = None, limit: int | None = None
    ) -> list[Record]:
        """Return documents in the order of namespace and name, from behind `after` on.

        The empty namespace stands for all of them.
        """
        start, end = self._span(kind, namespace, after)
        if limit is not None:
            end = min(end, start + limit)
        documents = self._documents.get(kind, {})
        return [documents[place] for place in self._order.get(kind, [])[start:end]]

    def count(self, kind: str, namespace: str = "", after: Place | None = None) -> int:
        """How many `scan` would return, without a look at them."""
        start, end = self._span(kind, namespace, after)
        return max(0, end - start)

    def _span(self, kind: str, namespace: str, after: Place | None) -> tuple[int, int]:
        places = self._order.get(kind, [])
        start = 0 if after is None else bisect_right(places, after)
        end = len(places)
        if namespace:
            start = max(start, bisect_left(places, (namespace, "")))
            end = bisect_left(places, (namespace + "\0", ""))
        return start, end

    def events_since(self, revision: int, kind: str) -> list[Event]:
        """Return what happened to a kind after `revision`; Compacted if that is not kept."""
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
        start = bisect_right(self._events, revision, key=lambda event: event.revision)
        return [event for event in self._events[start:] if event.record.key.kind == kind]

    def listen(self, kind: str, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event of a kind from now on; returns what ends that."""
        listeners = self._listeners.setdefault(kind, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    # Writing

    def latest(self, key: Key) -> Record | None:
        """The document as the writes in line will leave it."""
        change = self._on_the_way.get(key)
        if change is None:
            return self.get(key)
        return None if change.is_deletion else change.record

    def submit(
        self,
        key: Key,
        expected: int,
        encode: Callable[[int], bytes],
        done: Done,
        *,
        is_deletion: bool = False,
        joins: bool = False,
    ) -> Record:
        """Put a write in line; `encode` gets its revision and returns the body.

        `expected` is the revision that the document must have now (as `latest` sees it), 0 if it
        must not exist; else Conflict is raised and nothing is in line. One that `joins` the one
        before it is written with that or not at all.
        """
        current = self.latest(key)
        found = 0 if current is None else current.revision
        if found != expected:
            raise Conflict(key, expected, found)
        assert not (is_deletion and expected == 0), key
        revision = self._last_given + 1
        change = Change(Record(key, revision, encode(revision)), is_deletion, done, joins)
        self._last_given = revision
        self._line.append(change)
        self._on_the_way[key] = change
        return change.record

    def begin(self) -> Batch | None:
        """Take a batch out of the line; None if no write waits."""
        if not self._line:
            return None
        end = BATCH_MAX
        while end < len(self._line) and self._line[end].joins:
            end += 1
        changes = tuple(self._line[:end])
        del self._line[:end]
        excess = self._excess()
        if not excess:
            return Batch(changes, (), None, 0)
        dropped = self._events[:excess]
        return Batch(changes, tuple(_superseded(dropped)), dropped[-1].revision, excess)

    def _excess(self) -> int:
        """How many events there are too many, by number or by size; 0 if it is not worth while."""
        excess = len(self._events) - self._events_kept
        if excess < EVENTS_SLACK:
            excess = 0
        too_large = self._events_bytes - self._events_kept_bytes
        if too_large > self._events_kept_bytes // 4:
            gone = 0
            for count, event in enumerate(self._events):
                if gone >= too_large:
                    return max(excess, count)
                gone += len(event.record.body)
        return excess

    def write(self, batch: Batch) -> WriteFailed | None:
        """Make a batch durable; may run in another thread, one batch at a time."""
        try:
            self._database.insert(batch.changes, batch.superseded, batch.compacted)
        except sqlite3.Error as error:
            return WriteFailed(str(error))
        return None

    def settle(self, batch: Batch, failure: WriteFailed | None) -> None:
        """Show a written batch to readers, or take it back with all writes behind it."""
        if failure is not None:
            failed = (*batch.changes, *self._line)
            self._line.clear()
            self._on_the_way.clear()
            for change in failed:
                change.done(change.record, failure)
            return
        if batch.compacted is not None:
            dropped = self._events[: batch.events_dropped]
            self._events_bytes -= sum(len(event.record.body) for event in dropped)
            del self._events[: batch.events_dropped]
            self._compacted = batch.compacted
        events = [self._show(change) for change in batch.changes]
        for change, event in zip(batch.changes, events, strict=True):
            for listener in tuple(self._listeners.get(change.record.key.kind, ())):
                _tell(listener, event)
            change.done(change.record, None)

    def _show(self, change: Change) -> Event:
        record = change.record
        documents = self._documents.setdefault(record.key.kind, {})
        places = self._order.setdefault(record.key.kind, [])
        place = record.key[1:]
        previous = documents.get(place)
        if change.is_deletion:
            del documents[place]
            del places[bisect_left(places, place)]
        else:
            documents[place] = record
            if previous is None:
                insort(places, place)
        if self._on_the_way.get(record.key) is change:
            del self._on_the_way[record.key]
        self._revision = record.revision
        event = Event(record, previous, change.is_deletion)
        self._events.append(event)
        self._events_bytes += len(record.body)
        return event

    def flush(self) -> None:
        """Write everything in line, in this thread."""
        while (batch := self.begin()) is not None:
            self.settle(batch, self.write(batch))

    def backup(self, path: Path) -> None:
        """Copy the file as it is now to a new one; StoreError if that doesn't work."""
        self._database.backup(path)

    def reserve(self, size: int) -> bool:
        """Have the file hold so many bytes more than it needs; whether it does."""
        return self._database.reserve(size)

    def limit_pages(self, pages: int) -> None:
        """Let the file grow no further than that many pages of 4 KiB."""
        self._database.limit_pages(pages)


def _tell(listener: Callable[[Event], None], event: Event) -> None:
    """A listener that fails is that listener's loss; the writer and the others are told."""
    try:
        listener(event)
    except Exception:
        log.exception("listener failed for %s", event.record.key)


def _superseded(dropped: list[Event]) -> Iterator[int]:
    for event in dropped:
        if event.previous is not None:
            yield event.previous.revision
        if event.is_deletion:
            yield event.revision
