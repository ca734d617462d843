"""A file beside the database: which pods ran for which attempt of a job, and jobs that are gone.

Nothing is decided by it. So it is written without waiting for the disk, a damaged one is put aside,
and a write that fails costs a line in the log, never a job.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from makeway.logs import Fields

log = logging.getLogger("makeway.history")

FILE_NAME = "history.db"
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    pod_uid TEXT PRIMARY KEY, job_uid TEXT, namespace TEXT, job TEXT, number INTEGER,
    attempt INTEGER, pod TEXT, containers TEXT, started_at REAL, ended_at REAL,
    exit_code INTEGER, reason TEXT, is_gone INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_by_job ON runs (job_uid);
CREATE TABLE IF NOT EXISTS jobs (
    uid TEXT PRIMARY KEY, namespace TEXT, name TEXT, number INTEGER, gone_at REAL, body BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten (job_uid TEXT PRIMARY KEY, at REAL) WITHOUT ROWID;
PRAGMA user_version = 1;
"""


class Run(NamedTuple):
    """A pod of a job, and how it ended."""

    pod_uid: str
    job_uid: str
    namespace: str
    job: str
    number: int | None  # of the job; None: it was not submitted by us
    attempt: int
    pod: str
    containers: str  # their names, with blanks between
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    is_gone: bool = False  # the server has the pod no more


class GoneJob(NamedTuple):
    """A job that was deleted, as it last was."""

    uid: str
    namespace: str
    name: str
    number: int | None
    gone_at: float
    body: bytes  # the document, without what nobody asks for afterwards


class Archive:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            aside = self._path.with_suffix(".damaged")
            log.error(Fields(history="damaged", put_aside=aside, error=error))
            for ending in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self._path}{ending}", f"{aside}{ending}")
            self._connection = self._open()
        # Jobs of which nothing is to be kept, though their objects may still be going.
        self._forgotten = {uid for (uid,) in self._rows("SELECT job_uid FROM forgotten")}

    def _rows(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        opened = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("PRAGMA synchronous = OFF")
        opened.executescript(_TABLES)
        return opened

    def close(self) -> None:
        self._connection.close()

    # Writing

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            log.warning(Fields(history="not written", error=error))

    def note_run(self, run: Run) -> None:
        if run.job_uid not in self._forgotten:
            places = ", ".join("?" * len(run))
            self._write(f"INSERT OR REPLACE INTO runs VALUES ({places})", [run])

    def note_gone(self, job: GoneJob) -> None:
        if job.uid not in self._forgotten:
            self._write("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)", [job])

    def forget_runs(self, pod_uids: Iterable[str]) -> None:
        self._write("DELETE FROM runs WHERE pod_uid = ?", [(uid,) for uid in pod_uids])

    def forget_job(self, uid: str, now: float) -> None:
        """Tell nothing of it any more, whatever is still heard of it."""
        self._forgotten.add(uid)
        self._write("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", [(uid, now)])
        self._write("DELETE FROM runs WHERE job_uid = ?", [(uid,)])
        self._write("DELETE FROM jobs WHERE uid = ?", [(uid,)])

    def forget_before(self, moment: float) -> None:
        """Of jobs that went earlier, nothing is told any more."""
        self._write("DELETE FROM jobs WHERE gone_at < ?", [(moment,)])
        self._write("DELETE FROM forgotten WHERE at < ?", [(moment,)])

    # Reading

    def runs_of(self, job_uid: str) -> list[Run]:
        """The first attempt first."""
        found = self._rows("SELECT * FROM runs WHERE job_uid = ?", job_uid)
        runs = (Run(*row)._replace(is_gone=bool(row[-1])) for row in found)
        return sorted(runs, key=lambda run: (run.attempt, run.started_at or 0.0, run.pod))

    def has_run(self, pod_uid: str) -> bool:
        return self._rows("SELECT 1 FROM runs WHERE pod_uid = ?", pod_uid).fetchone() is not None

    def ends_of_gone(self) -> dict[str, float]:
        """When each pod ended that the server has no more."""
        found = self._rows("SELECT pod_uid, ended_at FROM runs WHERE is_gone")
        return {uid: ended_at or 0.0 for uid, ended_at in found}

    def gone_jobs(self, namespace: str = "") -> list[GoneJob]:
        """All, or those of a namespace; who went last comes last."""
        found = self._rows(
            "SELECT * FROM jobs WHERE ? IN ('', namespace) ORDER BY gone_at", namespace
        )
        return [GoneJob(*row) for row in found]

    def gone_job(self, namespace: str, name: str) -> GoneJob | None:
        """Of several of that name, who went last."""
        found = self._rows(
            "SELECT * FROM jobs WHERE namespace = ? AND name = ? ORDER BY gone_at DESC LIMIT 1",
            namespace,
            name,
        ).fetchone()
        return None if found is None else GoneJob(*found)
