"""Who is late, of those that have to take their turn again and again.

Each of them has a `Pulse`: it says when a turn begins, when it ends, and when the next one is due.
A `Watchdog` knows all of them, so that readiness can be asked, and looks at them from a thread of
its own: if the event loop itself stands still, nobody on it can tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence

from makeway.backoff import backoff_s
from makeway.logs import Fields

log = logging.getLogger("makeway.watchdog")

PATIENCE_S = 10.0
LOOK_EVERY_S = 1.0
STACK_LINES = 12  # of the thread that holds up everybody
AGAIN_S, AGAIN_MAX_S = 0.5, 30.0


class Pulse:
    def __init__(
        self,
        name: str,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self._patience_s, self._clock = name, patience_s, clock
        self._last_at = clock()
        self._due_at: float | None = None  # None: the next turn begins when something happens
        self._failures = 0  # in a row
        self.is_down = False  # has failed, and waits to be begun anew

    def turn(self) -> None:
        """A turn begins, and should end soon."""
        self._last_at = self._due_at = self._clock()
        self.is_down = False

    def fail(self, ran_s: float) -> float:
        """It has ended that should never end, after so long; in how many seconds to begin anew."""
        self._failures = 1 if ran_s > AGAIN_MAX_S else self._failures + 1
        again_s = backoff_s(self._failures, AGAIN_S, AGAIN_MAX_S)
        self.rest(again_s)
        self.is_down = True
        return again_s

    def rest(self, seconds: float | None = None) -> None:
        """The turn is over; the next is due in so many seconds, or when something happens."""
        self._last_at = self._clock()
        self._due_at = None if seconds is None else self._last_at + seconds

    @property
    def age_s(self) -> float:
        """Since it was last seen."""
        return self._clock() - self._last_at

    @property
    def is_late(self) -> bool:
        return self._due_at is not None and self._clock() > self._due_at + self._patience_s

    def __str__(self) -> str:
        trouble = f", failed {self._failures} times in a row" if self.is_down else ""
        return f"{self.name}: last seen {self.age_s:.1f} s ago{trouble}"


async def keep_up(work: Callable[[], Awaitable[None]], pulse: Pulse) -> None:
    """Have work done that never ends: if it does, that is told, and later it begins anew."""
    while True:
        pulse.turn()
        began_at = time.monotonic()
        failure: Exception | None = None
        try:
            await work()
        except Exception as error:
            failure = error
        again_s = pulse.fail(time.monotonic() - began_at)
        ended = "though it never should" if failure is None else "by an error"
        log.error(Fields(task=pulse.name, ended=ended, again_s=again_s), exc_info=failure)
        await asyncio.sleep(again_s)


class Watchdog:
    """Knows the pulses of a process."""

    def __init__(self, *pulses: Pulse) -> None:
        self.event_loop = Pulse("event loop")
        self._pulses = [self.event_loop, *pulses]
        self._told: set[str] = set()  # late, and already told of
        self._end = threading.Event()

    @property
    def pulses(self) -> Sequence[Pulse]:
        return self._pulses

    def add(self, *pulses: Pulse) -> None:
        self._pulses.extend(pulses)

    def late(self) -> list[Pulse]:
        return [pulse for pulse in self._pulses if pulse.is_late or pulse.is_down]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look at the pulses while the context lasts; begun on the event loop that is watched."""
        served_by = threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(served_by,), daemon=True)
        beating = asyncio.get_running_loop().create_task(self._beat())
        thread.start()
        try:
            yield
        finally:
            beating.cancel()
            self._end.set()
            thread.join()

    async def _beat(self) -> None:
        while True:
            self.event_loop.rest(LOOK_EVERY_S)
            await asyncio.sleep(LOOK_EVERY_S)

    def _watch(self, served_by: int) -> None:
        looked_at = time.monotonic()
        while not self._end.wait(LOOK_EVERY_S):
            now = time.monotonic()
            # Who was stopped as a whole, and goes on, gives everybody the time to take a turn.
            if now - looked_at < LOOK_EVERY_S + PATIENCE_S / 2:
                try:
                    self._tell(served_by)
                except Exception:
                    log.exception(Fields(task="watchdog"))
            looked_at = now

    def _tell(self, served_by: int) -> None:
        late = {pulse.name: pulse for pulse in self._pulses if pulse.is_late}
        for name in late.keys() - self._told:
            where = _stack_of(served_by) if name == self.event_loop.name else ""
            log.error(Fields(late=name, age_s=round(late[name].age_s, 1), where=where))
        for name in self._told - late.keys():
            log.warning(Fields(late=name, recovered="true"))
        self._told = set(late)


def _stack_of(thread: int) -> str:
    """Where a thread is right now, outermost first."""
    frame = sys._current_frames().get(thread)
    found = traceback.extract_stack(frame)[-STACK_LINES:] if frame is not None else []
    return " > ".join(f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in found)
