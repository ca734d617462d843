"""The time of day, for whoever counts durations by it: steps of the clock are not believed at once.

Deadlines are compared with times that stand in objects, so they need the time of day; but somebody
may set that clock, days forward or back, and back again. Small steps are followed. A large one has
to last a minute: till then time goes on as the clock that nobody sets says. Then it is believed,
and whoever has worked with the old time has to begin anew (`ClockSet`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

SMALL_STEP_S = 30.0
BELIEVED_AFTER_S = 60.0

Clock = Callable[[], float]


class ClockSet(Exception):
    """The clock was set; what was worked out by the old time means nothing any more."""


class SteadyClock:
    def __init__(self, wall: Clock = time.time, ticks: Clock = time.monotonic) -> None:
        self._wall, self._ticks = wall, ticks
        self._offset = wall() - ticks()  # from the clock that nobody sets to the time of day
        self._doubted_since: float | None = None

    def __call__(self) -> float:
        """The time; raises ClockSet once when a step is believed."""
        wall, ticks = self._wall(), self._ticks()
        step_s = wall - (ticks + self._offset)
        if abs(step_s) <= SMALL_STEP_S:
            self._offset, self._doubted_since = wall - ticks, None
            return wall
        if self._doubted_since is None:
            self._doubted_since = ticks
        if ticks - self._doubted_since < BELIEVED_AFTER_S:
            return ticks + self._offset
        self._offset, self._doubted_since = wall - ticks, None
        raise ClockSet(f"the clock was set by {step_s:+.0f} s")
