"""The file of a journal: a row per segment, and rows of what was written in it.

It lies beside the store and is as durable: a chunk is there after a crash, or nothing of it. Unlike
the store it is read while it is written, by commands that ask about the past; they open it on their
own and only look.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from makeway.journal.records import Header, Reader, Record, WrittenSegment, read_header

NAME = "journal.db"  # in a data folder
APPLICATION_ID = 0x4D4B574A  # "MKWJ"
FORMAT = 1
PROBE_BYTES = 1_000_000
BUSY_MS = 2000  # readers never block a writer for long, nor one another

_TABLES = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    began_at REAL NOT NULL,
    header BLOB NOT NULL
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    segment INTEGER NOT NULL,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    size INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX chunks_of_segment ON chunks (segment, last_at, size);
PRAGMA user_version = {FORMAT};
COMMIT;
"""


HINT = " (`makeway up` writes it, but for --no-journal)"


class JournalError(Exception):
    """The file can't be used; the text says why and is for the user."""


class Segment(NamedTuple):
    number: int
    header: Header
    last_at: float  # of the last that was written in it
    size: int  # bytes


class JournalFile:
    """For the one who writes. It may be used in another thread than it was made in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            self._connection = _connect(path, "mode=rw", is_writer=True)
        except sqlite3.Error as error:
            raise _explained(path, error) from error

    def begin(self, header: Header) -> int:
        """A new segment; its number."""
        row = "INSERT INTO segments (began_at, header) VALUES (?, ?)"
        number = self._connection.execute(row, (header.began_at, header.encoded())).lastrowid
        assert number is not None
        return number

    def add(self, segment: int, first_at: float, last_at: float, body: bytes) -> None:
        """Make it durable, or nothing of it; sqlite3.Error in the latter case."""
        self._connection.execute(
            "INSERT INTO chunks (segment, first_at, last_at, size, body) VALUES (?, ?, ?, ?, ?)",
            (segment, first_at, last_at, len(body), body),
        )

    def probe(self) -> None:
        """Would it take something? sqlite3.Error if not."""
        self._connection.executescript(
            "BEGIN IMMEDIATE; CREATE TABLE probe (room BLOB);"
            f"INSERT INTO probe VALUES (zeroblob({PROBE_BYTES})); COMMIT; DROP TABLE probe;"
        )

    def keep(self, since: float, max_bytes: int) -> None:
        """Drop whole segments, the oldest first and never the last: what is old, or too much."""
        segments = list(_segments(self._connection))
        total = sum(segment.size for segment in segments)
        for segment in segments[:-1]:
            if segment.last_at >= since and total <= max_bytes:
                break
            total -= segment.size
            self._drop(segment.number)

    def _drop(self, number: int) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            run("DELETE FROM chunks WHERE segment = ?", (number,))
            run("DELETE FROM segments WHERE id = ?", (number,))
            run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            raise
        self._connection.executescript("PRAGMA incremental_vacuum")  # a page with each step of it

    def limit_pages(self, pages: int) -> None:
        """Let the file grow no further than that: a full disk for tests."""
        self._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class Journal:
    """For whoever reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise JournalError(f"{path} is not there: nothing was written down yet{HINT}")
        # Beside a writer its log has to be read, too; what nobody may write is read as it is.
        how = "mode=rw" if os.access(path, os.W_OK) else "mode=ro&immutable=1"
        try:
            self._connection = _connect(path, how)
        except sqlite3.Error as error:
            raise _explained(path, error) from error

    def segments(self) -> list[Segment]:
        """First to last."""
        return list(_segments(self._connection))

    def records(self, segment: Segment, until: float | None = None) -> Iterator[Record]:
        """All of a segment, or those up to a time."""
        reader = Reader(segment.header)
        chunks = "SELECT first_at, body FROM chunks WHERE segment = ? ORDER BY id"
        for first_at, body in self._connection.execute(chunks, (segment.number,)):
            if until is not None and first_at > until:
                return
            for record in reader.records(body):
                if until is not None and record.at > until:
                    return
                yield record

    def newest(self, max_bytes: int) -> list[WrittenSegment]:
        """The last segments as they are written, the oldest of them first: the last in any case,
        and of those before it as many as make up that much."""
        found: list[WrittenSegment] = []
        total = 0
        for segment in reversed(self.segments()):
            if total >= max_bytes:
                break
            if found:
                total += segment.size
            chunks = "SELECT body FROM chunks WHERE segment = ? ORDER BY id"
            bodies = [body for (body,) in self._connection.execute(chunks, (segment.number,))]
            found.append(WrittenSegment(segment.header.encoded(), bodies))
        return found[::-1]

    def close(self) -> None:
        self._connection.close()


def _connect(path: Path, how: str, *, is_writer: bool = False) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    run = connection.execute
    run(f"PRAGMA busy_timeout = {BUSY_MS}")
    (application,) = run("PRAGMA application_id").fetchone()
    (found,) = run("PRAGMA user_version").fetchone()
    is_new = not application and not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if is_new and is_writer:
        connection.executescript(_TABLES)
    elif application != APPLICATION_ID:
        raise JournalError(f"{path} is a database, but no journal of Makeway")
    elif found != FORMAT:
        age = "newer" if found > FORMAT else "older"
        raise JournalError(
            f"{path} was written by a {age} Makeway (format {found}, this one reads {FORMAT}); "
            "move it away to begin a new one"
        )
    run("PRAGMA synchronous = FULL")
    return connection


def _segments(connection: sqlite3.Connection) -> Iterator[Segment]:
    rows = connection.execute(
        "SELECT id, began_at, header, "
        "(SELECT max(last_at) FROM chunks WHERE segment = segments.id), "
        "(SELECT total(size) FROM chunks WHERE segment = segments.id) "
        "FROM segments ORDER BY id"
    )
    for number, began_at, header, last_at, size in rows.fetchall():
        yield Segment(number, read_header(header), last_at or began_at, int(size))


def _explained(path: Path, error: sqlite3.Error) -> JournalError:
    if isinstance(error, sqlite3.OperationalError):
        return JournalError(f"{path} can't be opened: {error}")
    return JournalError(f"{path} is damaged: {error}; move it away to begin a new one")
