"""One world from its beginning to its end, under one seed.

The server, the loop and the parts are the real ones; the clock, the network, the disk and the
machines are ours. While faults happen, requests suffer, the control plane and the server are
killed at random moments and clocks jump. Then it is calm, and everything that can end must end.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from makeway.client.client import ApiError, Client, Conflict, NotFound, Unavailable
from makeway.controller.admission import Admission
from makeway.controller.budgets import BudgetStatuses
from makeway.embedded.control import Plane
from makeway.plane.loop import Loop
from makeway.plane.picture import Picture
from makeway.runner.jobs import JobPods
from makeway.runner.pods import PodRunner
from tests.simulation import clock as virtual
from tests.simulation.all_checkers import all_checkers
from tests.simulation.check_controller import CheckController
from tests.simulation.checkers import STALE_S
from tests.simulation.endings import unfinished
from tests.simulation.faults import FAULTY, LATE_MAX_S, NO_FAULTS, FaultRates, Faults
from tests.simulation.machine import Machines
from tests.simulation.observer import Observer
from tests.simulation.server import Server
from tests.simulation.twins import differences
from tests.simulation.world_maker import new_world
from tests.simulation.worlds import MIDDLE, NAMESPACE, Change, Create, Size, Step, World

log = logging.getLogger("tests.simulation")

LOOK_EVERY_S = 15.0
CALM_MAX_S = 4 * 3600.0  # by then everything must be over
# A new control plane starts when no request of the old one can arrive any more: in a cluster the
# lease sees to that.
RESTART_S = 2 * LATE_MAX_S + 1.0
OVERLAP_MAX_S = 10.0  # that an old control plane lives on beside the new one
STILL_S = 5.0  # without a change: whoever wanted to write has written
COMPARISONS_MAX = 3


# In a cluster Kubernetes does their work.
OF_THE_MACHINES = (JobPods, PodRunner, BudgetStatuses)


class _Process(NamedTuple):
    task: asyncio.Task[None]
    loop: Loop
    admission: Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """How often something big happens meanwhile, on average, in seconds; 0: never."""

    rates: FaultRates = FAULTY
    plane_dies_s: float = 60.0
    server_dies_s: float = 150.0
    clock_jumps_s: float = 200.0
    overlaps_s: float = 100.0  # only where who decides runs apart from the machines
    stale_s: float = STALE_S  # how old what somebody acts upon may be


QUIET = Chaos(
    rates=NO_FAULTS,
    plane_dies_s=0.0,
    server_dies_s=0.0,
    clock_jumps_s=0.0,
    overlaps_s=0.0,
    stale_s=5.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    seed: int
    history: str  # fingerprint of all that was written
    changes: int
    virtual_s: float
    troubles: dict[str, int]
    violations: tuple[str, ...]  # empty: all is well
    last: tuple[str, ...]

    def report(self) -> str:
        """What one needs to know of a failure, and how to see it again."""
        return "\n".join(
            [
                f"seed {self.seed}: after {self.virtual_s:.0f} virtual seconds, {self.troubles}",
                *(f"  WRONG {violation}" for violation in self.violations[:10]),
                "the last changes:",
                *(f"  {line}" for line in self.last),
                f"again: python -m tests.simulation --seed {self.seed}",
            ]
        )


def play(seed: int, *, size: Size = MIDDLE, chaos: Chaos | None = None) -> Played:
    """Play the world of a seed; what went wrong is in the answer."""
    with _folder() as folder, _no_collection():
        world, chaos = new_world(seed, size), chaos or Chaos()
        observer = Observer(all_checkers(world, chaos.stale_s))
        story = _Story(world, chaos, folder, observer)
        try:
            virtual.run(story.play(), seed=seed)
        except (virtual.Stuck, virtual.TooManySteps) as error:
            story.observer.note_violation(repr(error))
        return story.played()


class _Story:
    def __init__(self, world: World, chaos: Chaos, folder: Path, observer: Observer) -> None:
        self._world, self._chaos = world, chaos
        self._chance = Random(f"chaos {world.seed}")
        self._clock = virtual.WallClock()
        self._faults = Faults(Random(f"weather {world.seed}"))
        self.observer = observer
        self._machines = Machines(self._clock, self.observer)
        self._server = Server(
            folder / "makeway.db",
            clock=self._clock,
            chance=Random(f"uids {world.seed}"),
            faults=self._faults,
            observer=self.observer,
        )
        self._deciders: list[_Process] = []  # more than one while an old one lives on
        self._runner: _Process | None = None  # None: it is one with who decides
        self._comparisons = 0

    async def play(self) -> None:
        try:
            await self._play()
        finally:
            await self._kill_plane()
            await self._kill_runner()
            await self._server.crash()

    async def _play(self) -> None:
        await self._server.start()
        user = self._server.client()
        for create in self._world.objects:
            await self._do(user, create)
        self._faults.rates = self._chaos.rates
        self._start_plane()
        check_controller = CheckController(
            user, self.observer.truth, Random(f"office {self._world.seed}")
        )
        answers = asyncio.create_task(check_controller.work())
        users = asyncio.create_task(self._use(user))
        troubles = [asyncio.create_task(trouble) for trouble in self._troubles()]
        await self._watch_over(until=self._world.faults_s)
        for trouble in troubles:
            trouble.cancel()
        await asyncio.gather(*troubles, return_exceptions=True)
        await self._calm_down()
        await users
        await self._watch_over(until=self._world.faults_s + CALM_MAX_S, may_end=True)
        answers.cancel()

    def played(self) -> Played:
        observer = self.observer
        return Played(
            seed=self._world.seed,
            history=observer.history,
            changes=observer.changes,
            virtual_s=observer.truth.now,
            troubles=dict(sorted(self._faults.troubles.items())),
            violations=tuple(observer.violations),
            last=tuple(observer.last()),
        )

    # Users

    async def _use(self, user: Client) -> None:
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
        if self._world.traits.is_split:
            self._start_runner()
            self._deciders.append(self._process(decides=True, runs=False))
        else:
            self._deciders.append(self._process(decides=True, runs=True))

    def _start_runner(self) -> None:
        if self._runner is None:
            self._runner = self._process(decides=False, runs=True)

    def _process(self, *, decides: bool, runs: bool) -> _Process:
        """Exactly the parts that `makeway up` runs, or some of them."""
        client, picture, world = self._server.client(self._faults), Picture(), self._world
        plane = Plane(picture, world.configuration, self._machines, world.nodes)
        parts = [p for p in plane.parts if (runs if isinstance(p, OF_THE_MACHINES) else decides)]
        loop = Loop(client, picture, parts, clock=self._clock)

        def tell(uid: str) -> None:
            plane.pods.noticed(uid)
            loop.wake()

        if runs:
            self._machines.tell = tell
        task = asyncio.create_task(loop.run())
        task.add_done_callback(self._ended)
        return _Process(task, loop, plane.admission)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.observer.note_violation(f"the control plane broke: {error!r}")
            log.error("the control plane broke", exc_info=error)

    async def _kill_plane(self) -> None:
        deciders, self._deciders = self._deciders, []
        if not self._world.traits.is_split:
            self._machines.tell = None
        for process in deciders:
            await _kill(process)

    async def _kill_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            self._machines.tell = None
            await _kill(runner)

    async def _restart_plane(self) -> None:
        self._faults.troubles["plane_dies"] += 1
        await self._kill_plane()
        if self._chance.random() < 0.5:
            await self._kill_runner()
        await asyncio.sleep(RESTART_S + self._chance.uniform(0, 5))
        if not self._deciders:
            self._start_plane()

    async def _overlap(self) -> None:
        """A new one begins, and the old one does not know yet that it no longer leads."""
        if len(self._deciders) != 1 or not self._world.traits.is_split:
            return
        self._faults.troubles["overlaps"] += 1
        old = self._deciders[0]
        self._deciders.append(self._process(decides=True, runs=False))
        truth, loop = self.observer.truth, asyncio.get_running_loop()
        truth.two_decided_at = loop.time()
        await asyncio.sleep(self._chance.uniform(0, OVERLAP_MAX_S))
        truth.two_decided_at = loop.time()
        if old in self._deciders:
            self._deciders.remove(old)
            await _kill(old)

    async def _restart_server(self) -> None:
        self._faults.troubles["server_dies"] += 1
        await self._server.crash()
        await asyncio.sleep(self._chance.uniform(0, 10))
        await self._server.start()

    async def _jump(self) -> None:
        self._faults.troubles["clock_jumps"] += 1
        self._clock.jump(self._chance.choice([-120.0, -5.0, 60.0, 600.0]))

    def _troubles(self) -> Iterator[Coroutine[Any, Any, None]]:
        chaos = self._chaos
        for every_s, strike in (
            (chaos.plane_dies_s, self._restart_plane),
            (chaos.server_dies_s, self._restart_server),
            (chaos.clock_jumps_s, self._jump),
            (chaos.overlaps_s, self._overlap),
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
        self._faults.rates = NO_FAULTS
        await asyncio.sleep(RESTART_S + 30.0)  # whatever struck last is over by then

    # Watching

    async def _watch_over(self, until: float, *, may_end: bool = False) -> None:
        observer, loop = self.observer, asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            observer.look_again(self._clock())
            if may_end:
                self._compare()
            if observer.violations or (may_end and not unfinished(observer.truth)):
                return
        if may_end:
            for name in unfinished(observer.truth):
                observer.note_violation(f"{name} could run, but never comes to an end")

    def _compare(self) -> None:
        """When nothing is on its way, what is remembered must be what the objects say."""
        (process,) = self._deciders
        truth, admission = self.observer.truth, process.admission
        is_still = truth.now - self.observer.changed_at > STILL_S and not process.loop.in_flight
        if is_still and self._comparisons < COMPARISONS_MAX:
            self._comparisons += 1
            for wrong in differences(admission, truth, self._world.configuration):
                self.observer.note_violation(f"a restart would see it differently: {wrong}")


async def _kill(process: _Process) -> None:
    if not process.task.done():
        process.task.cancel()
        await asyncio.wait([process.task])


async def _carry_out(user: Client, step: Step) -> None:
    if isinstance(step, Create):
        await user.create(step.resource, step.document)
        return
    namespace = NAMESPACE if step.resource.is_namespaced else ""
    if isinstance(step, Change):
        await user.patch(
            step.resource, step.name, namespace, patch=step.patch, subresource=step.subresource
        )
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
