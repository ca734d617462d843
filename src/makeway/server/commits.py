"""Writes of many requests to the one file: each waits for its own, a batch shares a flush."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from makeway.logs import Fields
from makeway.store import Batch, Conflict, Key, Record, Store, WriteFailed
from makeway.watchdog import Pulse, keep_up

log = logging.getLogger("makeway.server.commits")

Encode = Callable[[int], bytes]  # the body of a document that gets this revision
Flush = Callable[[Batch], Awaitable[WriteFailed | None]]  # makes a batch durable


class Committer:
    """Drives the store's batches; nothing else does.

    The disk is waited for in a thread, unless another flush is given: where time is virtual, a
    thread would come back at a moment that nobody can repeat.
    """

    def __init__(self, store: Store, flush: Flush | None = None) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, "store")  # starts with its first use
        self._flush = flush or self._flush_in_thread
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.pulse = Pulse("writing to the database")

    def start(self) -> None:
        work = keep_up(self._run, self.pulse)
        self._task = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """Finish what stands in line."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
        self.store.flush()

    async def write(
        self, key: Key, expected: int, encode: Callable[[int], bytes], *, is_deletion: bool = False
    ) -> Record:
        """Return when the write is durable; Conflict and WriteFailed as the store raises them.

        A caller that is cancelled while it waits does not take the write back.
        """
        return await self._put_in_line(key, expected, encode, is_deletion=is_deletion)

    async def write_new(self, writes: Sequence[tuple[Key, Encode]]) -> list[Record]:
        """Write documents that must not be there yet: all of them, or none."""
        for key, _ in writes:
            if (there := self.store.latest(key)) is not None:
                raise Conflict(key, 0, there.revision)
        futures = [
            self._put_in_line(key, 0, encode, joins=number > 0)
            for number, (key, encode) in enumerate(writes)
        ]
        return list(await asyncio.gather(*futures))

    def _put_in_line(
        self, key: Key, expected: int, encode: Encode, **how: bool
    ) -> asyncio.Future[Record]:
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()

        def done(record: Record, failure: WriteFailed | None) -> None:
            if future.done():
                return
            if failure is None:
                future.set_result(record)
            else:
                future.set_exception(failure)

        self.store.submit(key, expected, encode, done, **how)
        self._wake.set()
        return future

    async def backup(self, path: Path) -> None:
        """Copy the file, between two batches."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self.store.backup, path)

    async def reserve(self, size: int) -> bool:
        """Hold back room on the disk for writes that find no other; whether it is held."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.store.reserve, size)

    async def _run(self) -> None:
        while True:
            self.pulse.rest()
            await self._wake.wait()
            self._wake.clear()
            while (batch := self.store.begin()) is not None:
                self.pulse.turn()
                written = asyncio.ensure_future(self._try_to_flush(batch))
                try:
                    failure = await asyncio.shield(written)
                except asyncio.CancelledError:
                    self.store.settle(batch, await written)
                    raise
                self.store.settle(batch, failure)

    async def _try_to_flush(self, batch: Batch) -> WriteFailed | None:
        """Whatever goes wrong, whoever waits for the batch is told, and the next one is tried."""
        try:
            return await self._flush(batch)
        except Exception as error:
            log.exception(Fields(flush="failed"))
            return WriteFailed(f"{type(error).__name__}: {error}")

    def _flush_in_thread(self, batch: Batch) -> Awaitable[WriteFailed | None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, self.store.write, batch)
