"""Tasks beside the scheduling that never end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from makeway.clocks import Clock
from makeway.disk import Disk
from makeway.history.archive import Archive
from makeway.runner.leavings import Leavings, Limits
from makeway.runner.local import LocalHost
from makeway.server.app import App
from makeway.watchdog import Pulse, keep_up

RESERVE_EVERY_S = 30.0
TIDY_EVERY_S = 60.0
TIDY_PATIENCE_S = 3600.0  # to remove a million files takes its time


@contextlib.asynccontextmanager
async def kept_up(work: Callable[[], Awaitable[None]], pulse: Pulse) -> AsyncIterator[None]:
    """While the context lasts, work is done that never ends."""
    working = asyncio.get_running_loop().create_task(keep_up(work, pulse))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


class Tidying:
    """Removes what pods left behind, as a task that never ends."""

    def __init__(
        self,
        host: LocalHost,
        leavings: Leavings,
        archive: Archive,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self._host, self._leavings, self._archive = host, leavings, archive
        self._limits, self._clock = limits, clock
        self.pulse = Pulse("tidying up", TIDY_PATIENCE_S)

    async def run(self) -> None:
        while True:
            self.pulse.turn()
            gone, ended = self._archive.ends_of_gone(), self._host.ended()
            running = self._host.states().keys() - ended.keys()
            await asyncio.to_thread(self._leavings.tidy, {**gone, **ended}, running)
            self._archive.forget_runs(await asyncio.to_thread(self._leavings.sweep, gone))
            self._archive.forget_before(self._clock() - self._limits.max_age_s)
            self.pulse.rest(TIDY_EVERY_S)
            await asyncio.sleep(TIDY_EVERY_S)


class Forgetting:
    """Keeps the history as short as what a starter keeps of pods, as a task that never ends."""

    def __init__(self, archive: Archive, logs: Path, kept_s: float, clock: Clock) -> None:
        self._archive, self._logs, self._kept_s, self._clock = archive, logs, kept_s, clock
        self.pulse = Pulse("keeping the history short", TIDY_PATIENCE_S)

    async def run(self) -> None:
        while True:
            self.pulse.turn()
            gone = self._archive.ends_of_gone()
            self._archive.forget_runs([uid for uid in gone if not (self._logs / uid).exists()])
            self._archive.forget_before(self._clock() - self._kept_s)
            self.pulse.rest(TIDY_EVERY_S)
            await asyncio.sleep(TIDY_EVERY_S)


@contextlib.asynccontextmanager
async def reserved(
    app: App, disk: Disk, notes: Sequence[Callable[[], None]]
) -> AsyncIterator[None]:
    """While the context lasts the database holds room back, and takes it anew after it was used.

    As often, notes are written for whoever comes after us.
    """
    pulse = Pulse("keeping a reserve", RESERVE_EVERY_S)
    app.watchdog.add(pulse)

    async def keep() -> None:
        while True:
            pulse.turn()
            if not disk.shortage():
                await app.committer.reserve(disk.reserve_bytes)
            for write in notes:
                write()
            pulse.rest(RESERVE_EVERY_S)
            await asyncio.sleep(RESERVE_EVERY_S)

    async with kept_up(keep, pulse):
        yield


@contextlib.contextmanager
def left_alone_when_old() -> Iterator[None]:
    """Let the collector walk each object once: to walk millions again and again stalls everybody.

    What has outlived a full collection stays for long, and goes by its reference count: nothing
    that we keep for long has references in a circle when it goes. Afterwards all of it is looked
    at again, but where somebody else had frozen something before: that is not ours to thaw.
    """
    is_ours = not gc.get_freeze_count()

    def freeze(phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    gc.callbacks.append(freeze)
    try:
        yield
    finally:
        gc.callbacks.remove(freeze)
        if is_ours:
            gc.unfreeze()
