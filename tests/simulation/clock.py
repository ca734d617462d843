"""Time that passes only when everybody waits, so that hours take milliseconds and repeat exactly.

An asyncio loop whose clock is a number: when nothing is ready it jumps to the next timer. Nothing
here reads the time of the machine, waits for a thread or listens to a socket; whatever else is left
to chance (the order in which a set of tasks is walked, the module `random`) is made a function of
the seed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine, Mapping
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

STEPS_MAX = 20_000  # within one virtual second
STEP_S = 1e-6  # a step takes time, or whoever asks again at once would ask for ever
START = 1_700_000_000.0  # seconds since the epoch, at the beginning of every history


class Stuck(Exception):
    """Everybody waits for somebody else, and no timer will wake anybody."""


class TooManySteps(Exception):
    """Something goes round in circles; virtual time alone would never end it."""


class _NoWaiting(selectors.BaseSelector):
    """Stands where the loop would wait for sockets, and moves the clock instead."""

    def __init__(self, steps_max: int) -> None:
        self.now, self._steps_max = 0.0, steps_max
        self._second, self._steps = 0, 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck(f"at {self.now:.3f} s everybody waits, and nothing is due")
        self.now += max(timeout, STEP_S)
        if int(self.now) != self._second:
            self._second, self._steps = int(self.now), 0
        self._steps += 1
        if self._steps > self._steps_max:
            self._steps = 0
            raise TooManySteps(f"{self._steps_max} steps within second {self._second}")
        return []

    # The loop registers a pipe for signals and threads, of which there are none.

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class _Task(asyncio.Task[Any]):
    """Sets of tasks are walked in the same order every time: the hash is a number, no address."""

    def __init__(self, coroutine: Any, number: int, **named: Any) -> None:
        self._number = number
        super().__init__(coroutine, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._virtual = _NoWaiting(steps_max)
        super().__init__(self._virtual)
        numbers = count()

        def new_task(loop: Any, coroutine: Any, **named: Any) -> Any:
            return _Task(coroutine, next(numbers), loop=loop, **named)

        self.set_task_factory(new_task)

    def time(self) -> float:
        return self._virtual.now


def run(coroutine: Coroutine[Any, Any, T], *, seed: int, steps_max: int = STEPS_MAX) -> T:
    """Run to the end on virtual time; the same seed gives the same history."""
    loop = VirtualLoop(steps_max)
    before = random.getstate()
    random.seed(seed)  # the client's back-off draws from the module
    try:
        return loop.run_until_complete(coroutine)
    finally:
        _end_tasks(loop)
        loop.close()
        random.setstate(before)


def _end_tasks(loop: VirtualLoop) -> None:
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait_for(_ended(left), 60))
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class WallClock:
    """What the clock on the wall shows: virtual time, and whatever somebody set it to."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def __call__(self) -> float:
        return START + asyncio.get_running_loop().time() + self.off_s

    def jump(self, seconds: float) -> None:
        self.off_s += seconds
