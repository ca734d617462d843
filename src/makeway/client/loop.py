"""Keeps parts up to date, asks them what to do, and does it: many writes at once, one per object.

Everything that waits is here. The parts see one change after another and never run at the same
time; a write's outcome comes back to them as one more thing that happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from makeway.client.client import ApiError, Client, Document, NotFound, Resource, Unavailable
from makeway.client.events import EventRecorder
from makeway.client.parts import Done, Failed, Outcome, Part
from makeway.client.picture import Picture, revision_of
from makeway.client.reflector import Changed, Reflector, Synced
from makeway.client.writes import Key, ObjectWrite, Say, Write, key_of, send

log = logging.getLogger("makeway.loop")

IN_FLIGHT_MAX = 64
TAKEN_MAX = 500  # changes taken in before the parts are asked
SAYINGS_MAX = 2_000  # events that wait to be written; more are dropped

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
    ) -> None:
        self._client, self._picture, self._parts = client, picture, tuple(parts)
        self._clock, self._now = clock, 0.0
        self._recorder = EventRecorder(client, component, clock)
        self._slots = asyncio.Semaphore(in_flight_max)
        self._hearers: dict[Resource, list[Part]] = {}
        for part in parts:
            for resource in part.resources:
                self._hearers.setdefault(resource, []).append(part)
        self._inbox: deque[tuple[Resource, Synced | Changed]] = deque()
        self._unlisted = set(self._hearers)
        self._lines: dict[tuple[Resource, Key], deque[tuple[Part, ObjectWrite]]] = {}
        self._sayings: deque[Say] = deque(maxlen=SAYINGS_MAX)
        self._wake = asyncio.Event()
        self._says = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._died: asyncio.Future[None] | None = None
        self.listed_at: dict[Resource, float] = {}  # the last time
        self.failures: Counter[int] = Counter()  # of writes, by HTTP status; 0: no answer

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
        async for change in Reflector(self._client, resource).changes():
            self._inbox.append((resource, change))
            self._wake.set()

    def _take_in(self) -> None:
        for _ in range(min(len(self._inbox), TAKEN_MAX)):
            resource, change = self._inbox.popleft()
            if isinstance(change, Synced):
                self._take_all(resource, change)
            elif change.type == "DELETED":
                key = key_of(change.object)
                if self._picture.lose(resource, key, revision_of(change.object)):
                    self._tell(resource, key, None)
            else:
                self._take(resource, change.object)

    def _take_all(self, resource: Resource, listing: Synced) -> None:
        for document in listing.items:
            self._take(resource, document)
        for key in self._picture.missing_from(resource, map(key_of, listing.items)):
            if self._picture.lose(resource, key, listing.revision):
                self._tell(resource, key, None)
        self._unlisted.discard(resource)
        self.listed_at[resource] = self._time()

    def _take(self, resource: Resource, document: Document) -> None:
        if self._picture.take(resource, document):
            self._tell(resource, key_of(document), document)

    def _tell(self, resource: Resource, key: Key, document: Document | None) -> None:
        for part in self._hearers[resource]:
            part.changed(resource, key, document)

    # Acting

    async def _work(self) -> None:
        due: float | None = None
        while True:
            await self._wait(due)
            self._take_in()
            if self._unlisted:
                due = None
                continue
            due = self._ask()
            if self._inbox:
                due = self._now
            # Whoever shares the process gets its turn, however much there is to do.
            await asyncio.sleep(0)

    async def _wait(self, due: float | None) -> None:
        if due is not None:
            delay_s = due - self._time()
            if delay_s <= 0:
                self._wake.clear()
                return
            # Not wait_for: in 3.11 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._wake.wait()
        else:
            await self._wake.wait()
        self._wake.clear()

    def _time(self) -> float:
        """The clock, but for steps back: a deadline that was met stays met."""
        self._now = max(self._now, self._clock())
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
            if self._lines.get(where) is not line:
                return

    async def _send(self, write: ObjectWrite) -> Outcome:
        try:
            document = await send(self._client, write)
        except (ApiError, Unavailable) as error:
            log.debug("write=%s key=%s error=%s", type(write).__name__, write.key, error)
            self.failures[error.code if isinstance(error, ApiError) else 0] += 1
            return Failed(error)
        if document is not None and write.resource in self._hearers:
            self._take(write.resource, document)
        return Done(document)

    async def _speak(self) -> None:
        while True:
            await self._says.wait()
            self._says.clear()
            while self._sayings:
                saying = self._sayings.popleft()
                try:
                    await self._recorder.record(
                        saying.about, saying.type, saying.reason, saying.message
                    )
                except (ApiError, NotFound, Unavailable) as error:
                    log.warning("event=%s error=%s", saying.reason, error)
