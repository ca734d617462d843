"""One world from its beginning to its end, under one seed.

The server, the loop and the parts are the real ones; the clock, the network, the disk and the
machines are ours. While the storm lasts, requests suffer, the control plane and the server are
killed at random moments and clocks jump. Then it is calm, and everything that can end must end.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from makeway.client.client import ApiError, Client, Conflict, Document, NotFound, Unavailable
from makeway.client.loop import Loop
from makeway.client.parts import Part
from makeway.client.picture import Picture
from makeway.runner.host import Host
from tests.simulation import clock as virtual
from tests.simulation.checkers import all_checkers
from tests.simulation.endings import unfinished
from tests.simulation.machine import Machines
from tests.simulation.server import Server
from tests.simulation.weather import CALM, LATE_MAX_S, STORM, Climate, Weather
from tests.simulation.witness import Witness
from tests.simulation.worlds import MIDDLE, NAMESPACE, Change, Create, Size, Step, World, new_world

log = logging.getLogger("tests.simulation")

LOOK_EVERY_S = 15.0
CALM_MAX_S = 4 * 3600.0  # by then everything must be over
# A new control plane starts when no request of the old one can arrive any more: in a cluster the
# lease sees to that.
RESTART_S = 2 * LATE_MAX_S + 1.0


class Assembled(NamedTuple):
    """A control plane, ready to run in one loop."""

    parts: Sequence[Part]
    noticed: Callable[[str], None]  # to be told when a machine has news of a pod


Plane = Callable[[Picture, Host, Sequence[Document]], Assembled]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """How often something big happens during the storm, on average, in seconds; 0: never."""

    climate: Climate = STORM
    plane_dies_s: float = 60.0
    server_dies_s: float = 150.0
    clock_jumps_s: float = 200.0


QUIET = Chaos(climate=CALM, plane_dies_s=0.0, server_dies_s=0.0, clock_jumps_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    seed: int
    history: str  # fingerprint of all that was written
    changes: int
    virtual_s: float
    troubles: dict[str, int]
    accusations: tuple[str, ...]  # empty: all is well
    last: tuple[str, ...]

    def report(self) -> str:
        """What one needs to know of a failure, and how to see it again."""
        return "\n".join(
            [
                f"seed {self.seed}: after {self.virtual_s:.0f} virtual seconds, {self.troubles}",
                *(f"  WRONG {accusation}" for accusation in self.accusations[:10]),
                "the last changes:",
                *(f"  {line}" for line in self.last),
                f"again: python -m tests.simulation --seed {self.seed}",
            ]
        )


def play(seed: int, plane: Plane, *, size: Size = MIDDLE, chaos: Chaos | None = None) -> Played:
    """Play the world of a seed; what went wrong is in the answer."""
    with _folder() as folder, _no_collection():
        story = _Story(new_world(seed, size), plane, chaos or Chaos(), folder)
        try:
            virtual.run(story.play(), seed=seed)
        except (virtual.Stuck, virtual.TooManySteps) as error:
            story.witness.accuse(repr(error))
        return story.played()


class _Story:
    def __init__(self, world: World, plane: Plane, chaos: Chaos, folder: Path) -> None:
        self._world, self._plane, self._chaos = world, plane, chaos
        self._chance = Random(f"chaos {world.seed}")
        self._clock = virtual.WallClock()
        self._weather = Weather(Random(f"weather {world.seed}"))
        self.witness = Witness(all_checkers())
        self._machines = Machines(self._clock, self.witness)
        self._server = Server(
            folder / "makeway.db",
            clock=self._clock,
            chance=Random(f"uids {world.seed}"),
            weather=self._weather,
            witness=self.witness,
        )
        self._control: asyncio.Task[None] | None = None

    async def play(self) -> None:
        try:
            await self._play()
        finally:
            await self._kill_plane()
            await self._server.crash()

    async def _play(self) -> None:
        await self._server.start()
        user = self._server.client()
        for create in self._world.objects:
            await self._do(user, create)
        self._weather.climate = self._chaos.climate
        self._start_plane()
        people = asyncio.create_task(self._people(user))
        troubles = [asyncio.create_task(trouble) for trouble in self._troubles()]
        await self._watch_over(until=self._world.storm_s)
        for trouble in troubles:
            trouble.cancel()
        await asyncio.gather(*troubles, return_exceptions=True)
        await self._calm_down()
        await people
        await self._watch_over(until=self._world.storm_s + CALM_MAX_S, may_end=True)

    def played(self) -> Played:
        witness = self.witness
        return Played(
            seed=self._world.seed,
            history=witness.history,
            changes=witness.changes,
            virtual_s=witness.truth.now,
            troubles=dict(sorted(self._weather.troubles.items())),
            accusations=tuple(witness.accusations),
            last=tuple(witness.last()),
        )

    # People

    async def _people(self, user: Client) -> None:
        for at, step in self._world.steps:
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            await self._do(user, step)

    async def _do(self, user: Client, step: Step) -> None:
        """People try until it is done, and take no for an answer."""
        while True:
            try:
                await _carry_out(user, step)
            except (Unavailable, ApiError) as error:
                if isinstance(error, Unavailable) or error.code >= 500:
                    await asyncio.sleep(1.0)
                    continue
                if not isinstance(error, Conflict | NotFound):
                    raise
            return

    # Troubles

    def _start_plane(self) -> None:
        client, picture = self._server.client(self._weather), Picture()
        plane = self._plane(picture, self._machines, self._world.nodes)
        loop = Loop(client, picture, plane.parts, clock=self._clock)

        def tell(uid: str) -> None:
            plane.noticed(uid)
            loop.wake()

        self._machines.tell = tell
        self._control = asyncio.create_task(loop.run())
        self._control.add_done_callback(self._plane_ended)

    def _plane_ended(self, control: asyncio.Task[None]) -> None:
        if not control.cancelled() and (error := control.exception()) is not None:
            self.witness.accuse(f"the control plane broke: {error!r}")
            log.error("the control plane broke", exc_info=error)

    async def _kill_plane(self) -> None:
        control = self._control
        if control is not None and not control.done():
            self._control = None
            self._machines.tell = None
            control.cancel()
            await asyncio.wait([control])

    async def _restart_plane(self) -> None:
        self._weather.troubles["plane_dies"] += 1
        await self._kill_plane()
        await asyncio.sleep(RESTART_S + self._chance.uniform(0, 5))
        if self._control is None:
            self._start_plane()

    async def _restart_server(self) -> None:
        self._weather.troubles["server_dies"] += 1
        await self._server.crash()
        await asyncio.sleep(self._chance.uniform(0, 10))
        await self._server.start()

    async def _jump(self) -> None:
        self._weather.troubles["clock_jumps"] += 1
        self._clock.jump(self._chance.choice([-120.0, -5.0, 60.0, 600.0]))

    def _troubles(self) -> Iterator[Coroutine[Any, Any, None]]:
        chaos = self._chaos
        for every_s, strike in (
            (chaos.plane_dies_s, self._restart_plane),
            (chaos.server_dies_s, self._restart_server),
            (chaos.clock_jumps_s, self._jump),
        ):
            if every_s:
                yield self._again_and_again(every_s, strike)

    async def _again_and_again(
        self, every_s: float, strike: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / every_s))
            # Once begun it is finished: nobody leaves a server half started.
            await asyncio.shield(asyncio.ensure_future(strike()))

    async def _calm_down(self) -> None:
        self._weather.climate = CALM
        await asyncio.sleep(RESTART_S + 30.0)  # whatever struck last is over by then

    # Watching

    async def _watch_over(self, until: float, *, may_end: bool = False) -> None:
        witness, loop = self.witness, asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            witness.look_again()
            if witness.accusations or (may_end and not unfinished(witness.truth)):
                return
        if may_end:
            for name in unfinished(witness.truth):
                witness.accuse(f"{name} could run, but never comes to an end")


async def _carry_out(user: Client, step: Step) -> None:
    if isinstance(step, Create):
        await user.create(step.resource, step.document)
        return
    namespace = NAMESPACE if step.resource.is_namespaced else ""
    if isinstance(step, Change):
        await user.patch(step.resource, step.name, namespace, patch=step.patch)
    else:
        await user.delete(step.resource, step.name, namespace)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """In memory where the system offers that: the file is real, the disk need not be."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """The garbage collector comes at moments that nobody can repeat; so it comes at the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
