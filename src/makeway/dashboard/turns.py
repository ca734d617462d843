"""One question of a reader after the other, where answers take long: nobody's many go before
another's one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from makeway.dashboard.signing_in import Reader

WAITING_MAX = 8  # of one reader, with the one under way


class TooMany(Exception):
    """Of one reader's questions; the text is for him."""


class Turns:
    def __init__(self) -> None:
        self._asked: Counter[Reader] = Counter()
        self._locks: dict[Reader, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def turn(self, reader: Reader) -> AsyncIterator[None]:
        """Waits for it; TooMany if as many wait already."""
        if self._asked[reader] >= WAITING_MAX:
            raise TooMany(f"{WAITING_MAX} questions of yours about the past wait already")
        self._asked[reader] += 1
        try:
            async with self._locks.setdefault(reader, asyncio.Lock()):
                yield
        finally:
            self._asked[reader] -= 1
            if not self._asked[reader]:
                del self._asked[reader], self._locks[reader]
