"""Pushes rows to everybody who looks: each change is read and written once, however many look.

A stream begins with the rows that are known, then come those that change; `synced` says that the
page has all. What comes in a fifth of a second goes out together. A reader that falls far behind
loses its stream, and begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import orjson

from makeway.client import ApiError, Unavailable
from makeway.dashboard.board import Board, Fresh
from makeway.dashboard.sight import Sight
from makeway.logs import Fields

log = logging.getLogger("makeway.dashboard")

COLLECT_S = 0.2  # what changes within that goes out together
AT_ONCE = 50  # rows read before others get their turn
ROWS_MAX = 500  # in one message
BEHIND_MAX = 400  # messages that wait for a reader
BEAT_S = 10.0  # silence that a page takes for a broken connection is longer
SYNCED = b'{"type":"synced"}\n'

News = bytes | Sequence[Fresh]  # a line, or rows that are still to be written
Lines = AsyncIterator[bytes]


class Feed:
    """Rows of one board, which lasts as long as a term of the control plane."""

    def __init__(self, board: Board, clock: Callable[[], float]) -> None:
        self._board, self._clock = board, clock
        self._readers: set[Reading] = set()
        self._has_news = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None

    async def stream(self, hello: Mapping[str, object], sight: Sight | None) -> Lines:
        """Lines for one page, until it leaves or the term ends; `hello` is the first.

        Without `sight`, the reader sees everything. Where the API no longer answers him, it ends.
        """
        reading = Reading(sight)
        known = self._board.rows()
        self._join(reading)  # at once, lest a change in between is missed
        try:
            yield _line({"type": "hello", "now": self._clock(), **hello})
            for line in await reading.lines(known):
                yield line
            while True:
                found = await self._next(reading)
                if found is None or await reading.has_changed():
                    return
                for line in [found] if isinstance(found, bytes) else await reading.lines(found):
                    yield line
        except (ApiError, Unavailable):
            return
        finally:
            self._leave(reading)

    def end(self) -> None:
        """Another board takes over: pages begin anew."""
        for reading in self._readers:
            reading.queue.put_nowait(None)
        if self._publishing is not None:
            self._publishing.cancel()

    async def _next(self, reading: Reading) -> News | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT_S):
                return await reading.queue.get()
        return _line({"type": "beat", "now": self._clock()})

    def _join(self, reading: Reading) -> None:
        self._readers.add(reading)
        if not self._board.backlog:
            reading.queue.put_nowait(SYNCED)
        self._board.on_change = self._has_news.set
        self._has_news.set()
        if self._publishing is None:
            self._publishing = asyncio.get_running_loop().create_task(self._publish())

    def _leave(self, reading: Reading) -> None:
        self._readers.discard(reading)
        if not self._readers and self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None

    async def _publish(self) -> None:
        try:
            while True:
                await self._has_news.wait()
                self._has_news.clear()
                await self._publish_backlog()
                await asyncio.sleep(COLLECT_S)
        except Exception:
            # The outermost line: who looks begins anew, and publishing with him.
            log.exception(Fields(publishing="failed"))
            self._publishing = None
            for reading in self._readers:
                reading.queue.put_nowait(None)

    async def _publish_backlog(self) -> None:
        had_backlog = bool(self._board.backlog)
        fresh: list[Fresh] = []
        while self._board.backlog:
            fresh += self._board.refresh(AT_ONCE)
            if len(fresh) >= ROWS_MAX or not self._board.backlog:
                self._tell(fresh)
                fresh = []
            await asyncio.sleep(0)
        if had_backlog:
            for reading in self._readers:
                reading.put(SYNCED)

    def _tell(self, fresh: list[Fresh]) -> None:
        """Those who see everything share what is written."""
        written = [*_messages(fresh)]
        for reading in self._readers:
            if reading.sight is not None:
                reading.put(fresh)
                continue
            for message in written:
                reading.put(message)


class Reading:
    """One page that looks, and what waits to be sent to it."""

    def __init__(self, sight: Sight | None) -> None:
        self.sight = sight
        self.queue: asyncio.Queue[News | None] = asyncio.Queue()

    def put(self, news: News) -> None:
        if self.queue.qsize() < BEHIND_MAX:
            self.queue.put_nowait(news)
        elif self.queue.qsize() == BEHIND_MAX:
            self.queue.put_nowait(None)

    async def lines(self, rows: Sequence[Fresh]) -> list[bytes]:
        """Rows as this reader may see them."""
        return [*_messages(rows if self.sight is None else await self.sight.shown(rows))]

    async def has_changed(self) -> bool:
        return self.sight is not None and await self.sight.has_changed()


def _messages(rows: Iterable[Fresh]) -> Iterable[bytes]:
    """Lines with rows of one table each, and with the keys of those that are gone."""
    by_table: dict[str, list[Fresh]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row)
    for table, found in by_table.items():
        for start in range(0, len(found), ROWS_MAX):
            some = found[start : start + ROWS_MAX]
            items = b",".join(row.body for row in some if row.body)
            gone = orjson.dumps([row.key for row in some if not row.body])
            head = f'{{"type":"rows","table":"{table}","items":['.encode()
            yield b"".join((head, items, b'],"gone":', gone, b"}\n"))


def _line(message: Mapping[str, object]) -> bytes:
    return orjson.dumps(message) + b"\n"
