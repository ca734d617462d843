"""A clock that somebody sets: the process goes on by the time that it had."""

from __future__ import annotations

import pytest

from makeway.clocks import SteadyClock

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
def test_a_clock_that_is_set_changes_nothing_and_is_told_once(
    step_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = Clocks()
    begin = clocks.after(1)
    clocks.wall += step_s
    assert clocks.after(10) == pytest.approx(begin + 10)
    assert clocks.after(3600) == pytest.approx(begin + 3610)
    assert caplog.text.count('clock="was set" by_s=') == 1
    clocks.wall -= step_s
    assert clocks.after(10) == pytest.approx(begin + 3620)
    assert "back to where it was" in caplog.text


def test_small_steps_are_followed_and_time_never_goes_back() -> None:
    clocks = Clocks()
    clocks.wall += 20
    assert clocks.after(1) == clocks.wall
    before = clocks.steady()
    clocks.wall -= 20
    assert clocks.after(5) == before
    assert clocks.after(16) == clocks.wall == before + 1
