"""Sessions that were ended before their time, known for as long as they would have lasted.

A session is a signed line that nobody keeps a copy of, so those that are over are what is kept: in
a file, lest a restart brings them back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import orjson

from makeway.server.identity import write_private

OF_ONE_MAX = 100  # of one reader; who ends more ends all of his
_ALL = "all"  # in place of a session: every one that had begun


class Ended:
    def __init__(
        self, clock: Callable[[], float], lasts_s: float, path: Path | None = None
    ) -> None:
        """Without `path` they are forgotten with the process."""
        self._clock, self._lasts_s, self._path = clock, lasts_s, path
        self._at: dict[str, dict[str, float]] = {}  # by reader: when each of his sessions ended
        if path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._at = orjson.loads(path.read_bytes())

    def note(self, reader: str, session: str) -> None:
        self._forget_old()
        ended = self._at.setdefault(reader, {})
        if len(ended) >= OF_ONE_MAX:
            session = _ALL
        if session == _ALL:
            ended.clear()
        ended[session] = self._clock()
        if self._path is not None:
            write_private(self._path, orjson.dumps(self._at))

    def note_all(self, reader: str) -> None:
        self.note(reader, _ALL)

    def has(self, reader: str, session: str, begun_at: float) -> bool:
        ended = self._at.get(reader, {})
        return session in ended or begun_at <= ended.get(_ALL, -math.inf)

    def _forget_old(self) -> None:
        since = self._clock() - self._lasts_s
        kept = {
            reader: {session: at for session, at in ended.items() if at > since}
            for reader, ended in self._at.items()
        }
        self._at = {reader: ended for reader, ended in kept.items() if ended}
