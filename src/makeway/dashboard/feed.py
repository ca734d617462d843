"""Pushes rows to everybody who looks: each change is read once, and written once for all who see
the same of it.

A stream begins with the rows that are known, then comes what changes of them; `synced` says that
the page has all. What comes in a fifth of a second goes out together, in one piece; where a hundred
look, in three quarters. A reader that falls far behind loses its stream, and begins anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import orjson

from makeway.client import ApiError, Unavailable
from makeway.dashboard.board import Board, Fresh
from makeway.dashboard.sight import Sight
from makeway.logs import Fields

log = logging.getLogger("makeway.dashboard")

COLLECT_S = 0.2  # what changes within that goes out together
COLLECT_MAX_S = 0.75  # where a hundred look: a page has to be told of a preemption within a second
COLLECT_FOR_EACH_S = 0.0055
AT_ONCE = 50  # rows read before others get their turn
ROWS_MAX = 500  # in one piece
BEHIND_MAX = 400  # pieces that wait for a reader
BEAT_S = 10.0  # silence that a page takes for a broken connection is longer
SYNCED = b'{"type":"synced"}\n'

Lines = AsyncIterator[bytes]


class Batch:
    """Rows that go out together, and how they are written for whom."""

    def __init__(self, rows: Sequence[Fresh]) -> None:
        self._rows = rows
        self._scopes: tuple[str, ...] | None = None
        self._written: dict[Hashable, list[bytes]] = {}

    async def pieces(self, sight: Sight | None) -> list[bytes]:
        """As a reader may see them; without `sight`, all of them."""
        if sight is None:
            return self._pieces(None, self._rows)
        if self._scopes is None:
            self._scopes = tuple({s: None for row in self._rows for s in sight.scopes(row)})
        await sight.learn(self._scopes)
        seen = (found for row in self._rows if (found := sight.seen(row)) is not None)
        return self._pieces(tuple(map(sight.sees, ("", *self._scopes))), seen)

    def _pieces(self, view: Hashable, rows: Iterable[Fresh]) -> list[bytes]:
        if view not in self._written:
            self._written[view] = [*_pieces([*rows])]
        return self._written[view]


class Feed:
    """Rows of one board, which lasts as long as a term of the control plane."""

    def __init__(self, board: Board, clock: Callable[[], float]) -> None:
        self._board, self._clock = board, clock
        self._readers: set[Reading] = set()
        self._known: Batch | None = None  # all rows, for whoever comes before the next change
        self._has_news = asyncio.Event()
        self._working: tuple[asyncio.Task[None], ...] = ()  # while somebody looks
        self._is_over = False  # the term has ended

    async def stream(self, hello: Mapping[str, object], sight: Sight | None) -> Lines:
        """Lines for one page, until it leaves or the term ends; `hello` is the first.

        Without `sight`, the reader sees everything. Where the API no longer answers him, it ends.
        """
        if self._is_over:
            return
        reading = Reading(sight)
        self._join(reading)  # at once, lest a change in between is missed
        try:
            yield _line({"type": "hello", "now": self._clock(), **hello})
            while True:
                found = await reading.queue.get()
                if found is None or await reading.has_changed():
                    return
                for piece in [found] if isinstance(found, bytes) else await found.pieces(sight):
                    yield piece
        except (ApiError, Unavailable):
            return
        finally:
            self._leave(reading)

    def end(self) -> None:
        """Another board takes over: pages begin anew."""
        self._is_over = True
        for reading in self._readers:
            reading.queue.put_nowait(None)
        self._stop()

    def _stop(self) -> None:
        for task in self._working:
            task.cancel()
        self._working = ()

    def _join(self, reading: Reading) -> None:
        if self._known is None:
            self._known = Batch(self._board.rows())
        reading.put(self._known)
        if not self._board.backlog:
            reading.put_synced()
        self._readers.add(reading)
        self._board.watch(self._has_news.set)
        self._has_news.set()
        if not self._working:
            loop = asyncio.get_running_loop()
            self._working = loop.create_task(self._publish()), loop.create_task(self._beat())

    def _leave(self, reading: Reading) -> None:
        self._readers.discard(reading)
        if not self._readers:
            self._stop()
            self._known = None
            self._board.unwatch()

    async def _beat(self) -> None:
        """One clock for all: a timer for each piece of each reader would cost more."""
        while True:
            await asyncio.sleep(BEAT_S)
            beat = _line({"type": "beat", "now": self._clock()})
            for reading in self._readers:
                reading.put(beat)

    async def _publish(self) -> None:
        try:
            while True:
                await self._has_news.wait()
                self._has_news.clear()
                await self._publish_backlog()
                await asyncio.sleep(self._collect_s)
        except Exception:
            # The outermost line: who looks begins anew, and publishing with him.
            log.exception(Fields(publishing="failed"))
            self._stop()
            for reading in self._readers:
                reading.queue.put_nowait(None)

    @property
    def _collect_s(self) -> float:
        """Each piece costs for each reader; more readers get fewer, which hold more."""
        return min(COLLECT_MAX_S, COLLECT_S + COLLECT_FOR_EACH_S * len(self._readers))

    async def _publish_backlog(self) -> None:
        fresh: list[Fresh] = []
        while self._board.backlog:
            fresh += self._board.refresh(AT_ONCE)
            self._known = None
            if fresh and (len(fresh) >= ROWS_MAX or not self._board.backlog):
                batch = Batch(fresh)
                for reading in self._readers:
                    reading.put(batch)
                fresh = []
            await asyncio.sleep(0)
        for reading in self._readers:
            reading.put_synced()


class Reading:
    """One page that looks, and what waits to be sent to it."""

    def __init__(self, sight: Sight | None) -> None:
        self._sight = sight
        self._version = 0 if sight is None else sight.version
        self._is_synced = False
        self.queue: asyncio.Queue[Batch | bytes | None] = asyncio.Queue()

    def put(self, news: Batch | bytes) -> None:
        if self.queue.qsize() < BEHIND_MAX:
            self.queue.put_nowait(news)
        elif self.queue.qsize() == BEHIND_MAX:
            self.queue.put_nowait(None)

    def put_synced(self) -> None:
        """All that is known was told; a page wants to hear that once."""
        if not self._is_synced:
            self._is_synced = True
            self.put(SYNCED)

    async def has_changed(self) -> bool:
        """Whether the reader may see more or less than when the stream began."""
        if self._sight is None:
            return False
        await self._sight.renew()
        return self._sight.version != self._version


def _pieces(rows: Sequence[Fresh]) -> Iterator[bytes]:
    for start in range(0, len(rows), ROWS_MAX):
        yield b"".join(_messages(rows[start : start + ROWS_MAX]))


def _messages(rows: Sequence[Fresh]) -> Iterator[bytes]:
    """Lines with rows of one table each, and with the keys of those that are gone."""
    by_table: dict[str, dict[str, list[Fresh]]] = {}
    for row in rows:
        told = by_table.setdefault(row.table, {}).setdefault(row.key, [])
        if not row.change:
            told.clear()  # it is told whole, or gone: whatever was before
        told.append(row)
    for table, by_key in by_table.items():
        found = [row for told in by_key.values() for row in told]
        items = b",".join(row.change or row.body for row in found if row.body)
        gone = orjson.dumps([row.key for row in found if not row.body])
        head = f'{{"type":"rows","table":"{table}","items":['.encode()
        yield b"".join((head, items, b'],"gone":', gone, b"}\n"))


def _line(message: Mapping[str, object]) -> bytes:
    return orjson.dumps(message) + b"\n"
