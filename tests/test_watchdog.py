"""Who is late is known, and named; what should never end begins anew."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from makeway import watchdog
from makeway.watchdog import Pulse, Watchdog, keep_up


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_turn_that_does_not_end_is_late_after_a_while() -> None:
    clock = Clock()
    pulse = Pulse("looking", patience_s=10, clock=clock)
    pulse.turn()
    clock.now += 10
    assert not pulse.is_late
    clock.now += 0.5
    assert pulse.is_late
    assert str(pulse) == "looking: last seen 10.5 s ago"

    pulse.rest(1)
    clock.now += 11
    assert not pulse.is_late  # due a second after the last turn, and given ten
    clock.now += 0.5
    assert pulse.is_late


def test_who_waits_for_something_to_happen_is_never_late() -> None:
    clock = Clock()
    pulse = Pulse("writing", clock=clock)
    pulse.rest()
    clock.now += 86_400

    assert not pulse.is_late


def test_work_that_fails_begins_anew_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "AGAIN_S", 0.001)
    pulse, begun = Pulse("work"), list[bool]()

    async def work() -> None:
        begun.append(pulse.is_down)
        if len(begun) < 4:
            raise OSError("no")
        await asyncio.sleep(3600)

    async def story() -> None:
        task = asyncio.create_task(keep_up(work, pulse))
        while len(begun) < 4:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(story())
    assert begun == [False] * 4
    assert pulse.fail(ran_s=0.0) == pytest.approx(0.008)  # the fourth in a row
    assert pulse.is_down
    assert pulse.fail(ran_s=3600.0) == pytest.approx(0.001)  # it went well for long


def test_work_that_ends_without_an_error_has_failed_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At once it would begin again and again, and nobody else would get a turn."""
    monkeypatch.setattr(watchdog, "AGAIN_S", 0.001)
    pulse, begun = Pulse("work"), list[float]()

    async def work() -> None:
        begun.append(time.monotonic())

    async def story() -> None:
        task = asyncio.create_task(keep_up(work, pulse))
        while len(begun) < 5:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(story())
    assert begun[4] - begun[0] >= 0.001 + 0.002 + 0.004 + 0.008
    assert pulse.is_down
    assert 'task=work ended="though it never should" again_s=0.001' in caplog.text


def test_an_event_loop_that_stands_still_is_named_with_the_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    dog = Watchdog()
    dog.event_loop._patience_s = 0.05

    def endless() -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until and not caplog.records:
            time.sleep(0.001)

    async def story() -> None:
        with dog.watching():
            await asyncio.sleep(0.03)
            endless()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    text = caplog.records[0].getMessage()
    assert 'late="event loop"' in text
    assert " endless" in text


def test_a_look_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    looks = list[int]()

    def tell(served_by: int) -> None:
        looks.append(served_by)
        if len(looks) == 1:
            raise OSError("no")

    async def story() -> None:
        dog = Watchdog()
        monkeypatch.setattr(dog, "_tell", tell)
        with dog.watching():
            await asyncio.sleep(0.2)

    asyncio.run(story())
    assert len(looks) > 1
