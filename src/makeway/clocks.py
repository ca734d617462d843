"""The time of day, for whoever compares it with times that stand in objects: it goes on evenly.

Somebody may set the clock of a machine, days forward or back. Deadlines, back-offs and ages would
be wrong by as much: a job that may run for an hour would be ended after a minute, or wait for days.
So a process takes the time of day once, when it begins, and counts from there by the clock that
nobody sets. Small steps are followed, forward at once and back by standing still. Of a large one
the log tells; it is taken over by the next process, unless this one is killed: then that goes on by
the same time (`Noted`), as long as the machine runs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from makeway.logs import Fields

log = logging.getLogger("makeway.clocks")

SMALL_STEP_S = 30.0

Clock = Callable[[], float]


def ticks() -> float:
    """Seconds since the machine was started, the same for all processes; sleep counts too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    def __init__(
        self, wall: Clock = time.time, ticks: Clock = ticks, offset_s: float | None = None
    ) -> None:
        self._wall, self._ticks = wall, ticks
        # From the clock that nobody sets to the time of day.
        self.offset_s = wall() - ticks() if offset_s is None else offset_s
        self._now = 0.0
        self._told_s = 0.0  # of which step the log has told

    def __call__(self) -> float:
        """The time, never less than before."""
        ticks = self._ticks()
        step_s = self._wall() - (ticks + self.offset_s)
        if abs(step_s) <= SMALL_STEP_S:
            self.offset_s += step_s
            step_s = 0.0
        if abs(step_s - self._told_s) > SMALL_STEP_S:
            self._tell(step_s)
        self._now = max(self._now, ticks + self.offset_s)
        return self._now

    def _tell(self, step_s: float) -> None:
        hint = "Makeway goes on by the time that it had; restart it to take over the new one"
        if step_s:
            log.warning(Fields(clock="was set", by_s=round(step_s), hint=hint))
        else:
            log.warning(Fields(clock="was set back to where it was"))
        self._told_s = step_s


class Noted:
    """The time by which a process goes, for the one that comes after it if it is killed."""

    def __init__(self, path: Path, boot: str) -> None:
        """`boot` names the time since the machine was started, which ticks count."""
        self._path, self._boot = path, boot

    def clock(self) -> SteadyClock:
        try:
            noted = json.loads(self._path.read_bytes())
            offset_s = float(noted["offset_s"]) if noted["boot"] == self._boot else None
        except (OSError, ValueError, KeyError, TypeError):
            offset_s = None  # nobody was killed, or its note is of no use
        return SteadyClock(offset_s=offset_s)

    def write(self, clock: SteadyClock) -> None:
        with contextlib.suppress(OSError):  # a full disk
            self._path.write_text(json.dumps({"boot": self._boot, "offset_s": clock.offset_s}))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
