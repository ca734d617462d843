"""A data folder: one server at a time, and how far its database was."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from makeway.embedded.settings import CannotServe
from makeway.server.identity import (
    write_private,
)
from makeway.store import Store


class Mark:
    """How far the database is, noted outside of it.

    SQLite opens a file whose log was lost or cut without a word, and shows what is left.
    """

    def __init__(self, path: Path, revision: int) -> None:
        """With the revision that the database had when it was opened."""
        self._path, self._revision = path, revision
        try:
            self._noted = int(path.read_text())
        except (FileNotFoundError, ValueError):
            self._noted = 0

    def loss(self, seen: int) -> str:
        """What to say if the database knows less than it once did; empty if it doesn't.

        `seen` is the latest revision that a pod's order speaks of.
        """
        known = max(self._noted, seen)
        if self._revision >= known:
            return ""
        return (
            f"the database is at revision {self._revision} and was at {known}: makeway.db-wal was "
            "lost or cut; restore the folder from a backup, or go on with what is left (pods that "
            "it doesn't know are ended)"
        )

    def write(self, store: Store) -> None:
        with contextlib.suppress(OSError):  # a full disk; the mark is behind, which does no harm
            write_private(self._path, f"{store.revision}\n".encode())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            who = f" (process {holder})" if holder else ""
            raise CannotServe(f"another makeway{who} is running on {folder}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
