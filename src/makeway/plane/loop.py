"""Keeps parts up to date, asks them what to do, and does it: many writes at once, one per object.

Everything that waits is here. The parts see one change after another and never run at the same
time; a write's outcome comes back to them as one more thing that happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from makeway.api.kinds import Resource
from makeway.client.client import ApiError, Client, Document, Unavailable
from makeway.client.reflector import Changed, Listed, Reflector, Synced
from makeway.logs import Fields
from makeway.plane.events import EventRecorder
from makeway.plane.parts import Done, Failed, Outcome, Part
from makeway.plane.picture import Change, Picture, revision_of
from makeway.plane.writes import Key, ObjectWrite, Say, Write, key_of, send
from makeway.watchdog import Pulse

log = logging.getLogger("makeway.loop")

IN_FLIGHT_MAX = 64
TAKEN_MAX = 100  # changes taken in before others get their turn and the parts are asked
SAYINGS_MAX = 2_000  # events that wait to be written; more are dropped
SAID_AT_ONCE_MAX = 32
SAYING_PAUSE_S = 0.2  # between two such lots, while there are writes that matter

Clock = Callable[[], float]


class Loop:
    def __init__(
        self,
        client: Client,
        picture: Picture,
        parts: Sequence[Part],
        *,
        clock: Clock,
        component: str = "makeway",
        in_flight_max: int = IN_FLIGHT_MAX,
        absent: Collection[Resource] = (),
        pulse: Pulse | None = None,
    ) -> None:
        """`absent` are kinds that the server doesn't have, or doesn't let us list."""
        self._client, self._picture, self._parts = client, picture, tuple(parts)
        self._clock, self._now = clock, 0.0
        self._ticks = 0.0  # of the event loop, when the clock was read last
        self._recorder = EventRecorder(client, component, clock)
        self._slots = asyncio.Semaphore(in_flight_max)
        self._hearers: dict[Resource, list[Part]] = {}
        for part in parts:
            for resource in part.resources:
                if resource not in absent:
                    self._hearers.setdefault(resource, []).append(part)
        self._inbox: deque[tuple[Resource, Listed | Synced | Changed]] = deque()
        self._has_room = asyncio.Event()  # in the inbox, for more of a list
        self._listed: dict[Resource, set[Key]] = {}  # by a list that is under way
        self._unlisted = set(self._hearers)
        self._lines: dict[tuple[Resource, Key], deque[tuple[Part, ObjectWrite]]] = {}
        self._sayings: deque[Say] = deque(maxlen=SAYINGS_MAX)
        self._are_said = True  # those that were taken out of it
        self._wake = asyncio.Event()
        self._says = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._died: asyncio.Future[None] | None = None
        self._is_finishing = False
        self._is_quiet = asyncio.Event()  # nothing is on its way, nor will be; when finishing
        self.listed_at: dict[Resource, float] = {}  # the last time
        self.failures: Counter[int] = Counter()  # of writes, by HTTP status; 0: no answer
        self._pulse = pulse or Pulse("scheduling")

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed once, so that the parts know the whole."""
        return not self._unlisted

    @property
    def in_flight(self) -> int:
        """Objects to which a write is on its way or waits for its turn."""
        return len(self._lines)

    def wake(self) -> None:
        """Something that no watch tells of has happened: ask the parts."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. What is on its way then is left to its fate."""
        loop = asyncio.get_running_loop()
        self._died = loop.create_future()
        for resource in self._hearers:
            self._start(self._keep_up(resource))
        self._start(self._speak())
        self._start(self._work())
        try:
            await self._died
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self, within_s: float) -> None:
        """Decide nothing any more, and wait until what was decided is written and told."""
        self._is_finishing = True
        self._note_quiet()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._is_quiet.wait()

    def _note_quiet(self) -> None:
        if self._is_finishing and not self._lines and not self._sayings and self._are_said:
            self._is_quiet.set()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None or self._died is None:
            return
        if not self._died.done():  # a bug of ours: whoever runs us hears of it
            self._died.set_exception(task.exception() or RuntimeError())

    # Hearing

    async def _keep_up(self, resource: Resource) -> None:
        async for change in Reflector(self._client, resource).pieces():
            if isinstance(change, Listed):
                await self._put_list(resource, change)
            else:
                self._inbox.append((resource, change))
                self._wake.set()

    async def _put_list(self, resource: Resource, listed: Listed) -> None:
        """Decoded documents take much memory, so nobody asks for more before these are taken in."""
        for start in range(0, max(1, len(listed.items)), TAKEN_MAX):
            some = Listed(listed.items[start : start + TAKEN_MAX], listed.is_first and not start)
            self._inbox.append((resource, some))
        self._wake.set()
        self._has_room.clear()
        await self._has_room.wait()

    def _take_in(self) -> None:
        left = TAKEN_MAX
        while self._inbox and left > 0:
            resource, change = self._inbox.popleft()
            left -= len(change.items) if isinstance(change, Listed) else 1
            if isinstance(change, Listed):
                self._take_listed(resource, change)
            elif isinstance(change, Synced):
                self._end_list(resource, change)
            elif change.type == "DELETED":
                self._lose(resource, key_of(change.object), revision_of(change.object))
            else:
                self._take(resource, change.object)
        if not self._inbox:
            self._has_room.set()

    def _take_listed(self, resource: Resource, listed: Listed) -> None:
        if listed.is_first:
            self._listed[resource] = set()
        for document in listed.items:
            self._listed[resource].add(key_of(document))
            self._take(resource, document)

    def _end_list(self, resource: Resource, synced: Synced) -> None:
        for key in self._picture.missing_from(resource, self._listed.pop(resource, ())):
            self._lose(resource, key, synced.revision)
        self._unlisted.discard(resource)
        self.listed_at[resource] = self._time()

    def _lose(self, resource: Resource, key: Key, revision: int) -> None:
        self._tell(self._picture.lose(resource, key, revision))

    def _take(self, resource: Resource, document: Document) -> None:
        self._tell(self._picture.take(resource, document))

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            for part in self._hearers[change.resource]:
                part.changed(change)

    # Acting

    async def _work(self) -> None:
        due: float | None = None
        while True:
            await self._wait(due)
            self._take_in()
            await asyncio.sleep(0)
            due = None if self._unlisted or self._is_finishing else self._ask()
            if self._inbox:
                due = self._now
            # Whoever shares the process gets its turn, however much there is to do.
            await asyncio.sleep(0)

    async def _wait(self, due: float | None) -> None:
        delay_s = None if due is None else due - self._time()
        self._pulse.rest(delay_s)
        if delay_s is None or delay_s > 0:
            # Not wait_for: in 3.11 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._wake.wait()
        self._wake.clear()
        self._pulse.turn()

    def _time(self) -> float:
        """The clock, but for steps back: time goes on from where it was, so that deadlines come."""
        wall, ticks = self._clock(), asyncio.get_running_loop().time()
        self._now = wall if wall >= self._now else self._now + ticks - self._ticks
        self._ticks = ticks
        return self._now

    def _ask(self) -> float | None:
        now = self._time()
        due: list[float] = []
        for part in self._parts:
            plan = part.act(now)
            for write in plan.writes:
                self._line_up(part, write)
            if plan.next_at is not None:
                due.append(plan.next_at)
        return min(due, default=None)

    def _line_up(self, part: Part, write: Write) -> None:
        if isinstance(write, Say):
            self._sayings.append(write)
            self._says.set()
            return
        where = (write.resource, write.key)
        line = self._lines.get(where)
        if line is None:
            self._lines[where] = deque(((part, write),))
            self._start(self._send_line(where))
        else:
            line.append((part, write))

    async def _send_line(self, where: tuple[Resource, Key]) -> None:
        """Send what stands in line for one object, in order."""
        line = self._lines[where]
        while line:
            part, write = line[0]
            async with self._slots:
                outcome = await self._send(write)
            line.popleft()
            if not line:
                del self._lines[where]
            for saying in part.settled(write, outcome, self._time()):
                self._line_up(part, saying)
            self._wake.set()
            self._note_quiet()
            if self._lines.get(where) is not line:
                return

    async def _send(self, write: ObjectWrite) -> Outcome:
        try:
            document = await send(self._client, write)
        except (ApiError, Unavailable) as error:
            log.debug(Fields(write=type(write).__name__, key=write.key, error=error))
            self.failures[error.code if isinstance(error, ApiError) else 0] += 1
            return Failed(error)
        if document is not None and write.resource in self._hearers:
            self._take(write.resource, document)
        return Done(document)

    async def _speak(self) -> None:
        """Events come after the writes that matter, and several share a flush of the server."""
        while True:
            await self._says.wait()
            self._says.clear()
            while self._sayings:
                self._are_said = False
                await asyncio.gather(*map(self._say, self._next_sayings()))
                self._are_said = True
                self._note_quiet()
                if self._lines:
                    await asyncio.sleep(SAYING_PAUSE_S)

    def _next_sayings(self) -> list[Say]:
        """Some of those that wait; what is said twice is counted, so one after the other."""
        some: dict[tuple[str, str, str], Say] = {}
        while self._sayings and len(some) < SAID_AT_ONCE_MAX:
            saying = self._sayings[0]
            what = (saying.about["metadata"]["uid"], saying.reason, saying.message)
            if what in some:
                break
            some[what] = self._sayings.popleft()
        return list(some.values())

    async def _say(self, saying: Say) -> None:
        try:
            await self._recorder.record(saying.about, saying.type, saying.reason, saying.message)
        except (ApiError, Unavailable) as error:
            log.warning(Fields(event=saying.reason, error=error))
