"""The file: one row per write, of which the last row of each key is the truth.

A superseded row stays until the event that superseded it leaves the log, because watchers with a
selector need the state before a change. So a write is one insert, and the log costs no second copy.
The whole table is read once, at the start, and checked: every body against its checksum, every
page by SQLite itself. What does not add up is reported with a word; nothing is repaired by guess.
"""

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from makeway.store.records import Change, Key, Record

APPLICATION_ID = 0x4D4B5759  # "MKWY"
FORMAT = 1  # raise it with every change of the tables, and migrate or refuse older files
PAGES_BEFORE_CHECKPOINT = 1000
ROWS_AT_ONCE_MAX = 64

_TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE IF NOT EXISTS writes (
    revision INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    is_deletion INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {FORMAT};
"""

_Row = tuple[int, str, str, str, bool, bytes, int]


class StoreError(Exception):
    """The file can't be used; the text says why and is for the user."""


class FileInUse(StoreError):
    pass


class WrongFile(StoreError):
    """Not ours, or of a version of Makeway that we don't read."""


class Corrupt(StoreError):
    pass


class Database:
    """The connection. `insert` may run in another thread, one call at a time."""

    def __init__(self, path: Path, first_revision: int) -> None:
        self.path = path
        is_new = not path.exists() or path.stat().st_size == 0
        if is_new and path.exists():
            self._expect_no_log()
        if is_new:
            # Only the owner of the file may read what users store.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._open(is_new, first_revision)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _expect_no_log(self) -> None:
        """An empty file that was never more has no log; SQLite would delete one without a word."""
        log = Path(f"{self.path}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise Corrupt(
                f"{self.path} is damaged: it is empty, but {log.name} beside it is not; restore "
                "both from a backup, or move both away to begin with nothing"
            )

    def _open(self, is_new: bool, first_revision: int) -> None:
        run = self._connection.execute
        # Held until we close: two processes on one file would both believe their memory.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA busy_timeout = 200")
        run("BEGIN EXCLUSIVE").close()
        run("COMMIT")
        (application,) = run("PRAGMA application_id").fetchone()
        (found,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        # A crash between creating the file and its tables leaves an empty one.
        is_new = is_new or (application == 0 and found == 0 and tables == 0)
        if not is_new and application != APPLICATION_ID:
            raise WrongFile(f"{self.path} is a database, but not one of Makeway")
        if not is_new and found != FORMAT:
            age = "newer" if found > FORMAT else "older"
            raise WrongFile(
                f"{self.path} was written by a {age} Makeway (format {found}, this one reads "
                f"{FORMAT}); use that version, or another data folder"
            )
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {PAGES_BEFORE_CHECKPOINT}")
        if is_new:
            mark = f"INSERT OR IGNORE INTO marks VALUES ('compacted', {first_revision});"
            self._connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}{mark}COMMIT;")

    def compacted(self) -> int:
        """Events up to this revision are no longer kept."""
        try:
            row = self._connection.execute(
                "SELECT revision FROM marks WHERE name = 'compacted'"
            ).fetchone()
        except sqlite3.Error as error:
            raise self._explained(error) from error
        if row is None:
            raise Corrupt(f"{self.path} is damaged: its mark of compaction is missing")
        return int(row[0])

    def rows(self) -> Iterator[tuple[Record, bool]]:
        """Yield everything, oldest first, each with whether it is a deletion."""
        kinds: dict[str, str] = {}
        namespaces: dict[str, str] = {}
        try:
            cursor = self._connection.execute(
                "SELECT revision, kind, namespace, name, is_deletion, body, checksum"
                " FROM writes ORDER BY revision"
            )
            for revision, kind, namespace, name, is_deletion, body, checksum in cursor:
                if not isinstance(body, bytes) or zlib.crc32(body) != checksum:
                    raise Corrupt(
                        f"{self.path} is damaged: revision {revision} ({kind} {namespace}/{name}) "
                        "does not match its checksum; restore the file from a backup"
                    )
                # One text object for each kind and namespace, not one per row.
                kind = kinds.setdefault(kind, kind)
                namespace = namespaces.setdefault(namespace, namespace)
                yield Record(Key(kind, namespace, name), revision, body), bool(is_deletion)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def insert(
        self, changes: Sequence[Change], superseded: Sequence[int], compacted: int | None
    ) -> None:
        """Make all of it durable, or nothing; raises sqlite3.Error in the latter case."""
        try:
            self._insert(changes, superseded, compacted)
        except sqlite3.OperationalError:
            # The log may have grown beyond what was reserved: begin it anew, in the same place.
            self._begin_log_anew()
            self._insert(changes, superseded, compacted)

    def _begin_log_anew(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    def _insert(
        self, changes: Sequence[Change], superseded: Sequence[int], compacted: int | None
    ) -> None:
        run = self._connection.execute
        rows = [
            (
                change.record.revision,
                *change.record.key,
                change.is_deletion,
                change.record.body,
                zlib.crc32(change.record.body),
            )
            for change in changes
        ]
        run("BEGIN IMMEDIATE")
        try:
            for some in _portions(rows):
                run(_insertion(len(some)), list(chain.from_iterable(some)))
            if compacted is not None:
                gone = json.dumps(list(superseded))
                run(
                    "DELETE FROM writes WHERE revision IN (SELECT value FROM json_each(?))", (gone,)
                )
                run("UPDATE marks SET revision = ? WHERE name = 'compacted'", (compacted,))
            run("COMMIT")
        except BaseException:
            # SQLite has rolled back already after some errors.
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            raise

    def backup(self, path: Path) -> None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            copy = sqlite3.connect(path)
            with contextlib.closing(copy):
                self._connection.backup(copy)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path} can't be written: {error}") from error

    def reserve(self, size: int) -> bool:
        """Take room on the disk that writes can have when there is no other.

        Pages that hold nothing, in the file and in its log: SQLite uses them before it asks for
        more. What was taken is given back when the log is shortened, at the end.
        """
        run = self._connection.execute
        try:
            (pages,) = run("PRAGMA freelist_count").fetchone()
            (page_size,) = run("PRAGMA page_size").fetchone()
            log = Path(f"{self.path}-wal")
            if pages * page_size >= size and log.exists() and log.stat().st_size >= size:
                return True
            run("BEGIN IMMEDIATE")
            run("CREATE TABLE reserve (room BLOB)")
            run("INSERT INTO reserve VALUES (zeroblob(?))", (size,))
            run("COMMIT")
            run("DROP TABLE reserve")
            run("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            return False
        return True

    def limit_pages(self, pages: int) -> None:
        """Let the file grow no further than that: a full disk for tests."""
        self._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _explained(self, error: sqlite3.Error) -> StoreError:
        if "locked" in str(error):
            return FileInUse(f"{self.path} is in use by another process")
        if isinstance(error, sqlite3.OperationalError) and "unable to open" in str(error):
            return StoreError(f"{self.path} can't be opened: {error}")
        if isinstance(error, sqlite3.DatabaseError):
            return Corrupt(f"{self.path} is damaged: {error}; restore the file from a backup")
        return StoreError(f"{self.path}: {error}")


def _portions(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    """Cut a batch into few portions of few sizes, each of which is one statement.

    After each statement this thread has to get the interpreter back from the one that serves.
    """
    start = 0
    while left := len(rows) - start:
        size = min(ROWS_AT_ONCE_MAX, 1 << (left.bit_length() - 1))
        yield rows[start : start + size]
        start += size


@cache
def _insertion(size: int) -> str:
    return "INSERT INTO writes VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * size)
