"""The clock of the simulation, by itself."""

import asyncio
import random

import pytest

from tests.simulation.clock import START, Stuck, TooManySteps, WallClock, run


def test_a_day_of_waiting_takes_no_time() -> None:
    async def wait() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(wait(), seed=1) == pytest.approx(86_400, abs=0.01)


def test_whoever_waits_for_nothing_is_found() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run(wait(), seed=1)


def test_whoever_goes_round_in_circles_is_found() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TooManySteps):
        run(spin(), seed=1)


def test_the_same_seed_draws_the_same_lots() -> None:
    async def draw() -> list[float]:
        return [random.random() for _ in range(3)]

    assert run(draw(), seed=7) == run(draw(), seed=7) != run(draw(), seed=8)


def test_the_clock_on_the_wall_can_be_set() -> None:
    async def look() -> float:
        clock = WallClock()
        clock.jump(-60)
        await asyncio.sleep(10)
        return clock()

    assert run(look(), seed=1) == pytest.approx(START - 50, abs=0.01)


def test_tasks_in_a_set_are_walked_in_the_same_order_every_time() -> None:
    async def order() -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0), name=f"task {n}") for n in range(20)}
        return [task.get_name() for task in tasks]

    assert run(order(), seed=1) == run(order(), seed=1)
