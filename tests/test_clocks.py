"""A clock that somebody sets: not believed at once, and then for good."""

from __future__ import annotations

import pytest

from makeway.clocks import ClockSet, SteadyClock

DAYS_S = 3 * 86_400.0


class Clocks:
    """A time of day that is set, and ticks that nobody sets."""

    def __init__(self) -> None:
        self.wall, self.ticks = 1_800_000_000.0, 50.0
        self.steady = SteadyClock(lambda: self.wall, lambda: self.ticks)

    def after(self, seconds: float) -> float:
        self.wall += seconds
        self.ticks += seconds
        return self.steady()


@pytest.mark.parametrize("step_s", [DAYS_S, -DAYS_S])
def test_a_clock_that_is_set_and_set_back_is_never_believed(step_s: float) -> None:
    clocks = Clocks()
    begin = clocks.after(1)
    clocks.wall += step_s
    assert clocks.after(10) == pytest.approx(begin + 10)
    assert clocks.after(45) == pytest.approx(begin + 55)
    clocks.wall -= step_s
    assert clocks.after(10) == pytest.approx(begin + 65)


@pytest.mark.parametrize("step_s", [DAYS_S, -DAYS_S])
def test_a_clock_that_stays_set_is_believed_after_a_minute(step_s: float) -> None:
    clocks = Clocks()
    clocks.after(1)
    clocks.wall += step_s
    clocks.after(1)
    clocks.after(59)
    with pytest.raises(ClockSet, match="259200 s"):
        clocks.after(1)
    assert clocks.after(1) == clocks.wall


def test_small_steps_are_followed() -> None:
    clocks = Clocks()
    clocks.wall += 20
    assert clocks.after(1) == clocks.wall
    clocks.wall -= 20
    assert clocks.after(1) == clocks.wall
