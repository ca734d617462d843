"""A controller for a cluster, wired by hand: the client, the parts that decide, and who leads.

The same parts as in `embedded.py`, but for those whose work Kubernetes does itself: its Job
controller makes pods, its kubelets run them, its disruption controller counts budgets. Of several
replicas one leads and the others stand by; who leads holds a Lease, and loses its right to write
before another one can get it. A term of leading begins with nothing but the server's objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from makeway.api.configuration import Configuration
from makeway.api.kinds import BUDGETS, FLAVORS, LIMIT_RANGES, QUEUES, RUNTIME_CLASSES, Resource
from makeway.client.client import ApiError, Client, Document, NotFound, Unavailable
from makeway.client.transport import Answer, Call, Transport, Unreachable
from makeway.controller.admission import Admission
from makeway.controller.class_values import ClassValues
from makeway.controller.gangs import GangStatuses
from makeway.controller.in_use import InUse
from makeway.controller.jobs import Jobs
from makeway.controller.metrics import Metrics
from makeway.controller.placing import GANG_KINDS, Placing
from makeway.controller.pods import Pods
from makeway.controller.previews import Previews
from makeway.controller.queue_status import QueueStatus
from makeway.controller.retention import Retention
from makeway.controller.series import Family
from makeway.controller.visibility import Visibility
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.site import Site
from makeway.journal.file import JournalError, JournalFile
from makeway.journal.recorder import Limits as JournalLimits
from makeway.journal.recorder import Recorder, Writer
from makeway.logs import Fields
from makeway.plane.election import Election
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.together import until_one_ends

log = logging.getLogger("makeway.cluster")

MANAGER = "makeway-controller"
SCHEDULER = "makeway"  # the schedulerName of pods that we place
# A real server is busy with far fewer writes than ours; more at once only make watches lag.
IN_FLIGHT_MAX = 24
FINISH_MAX_S = 5.0  # for writes that are on their way when we are told to stop
# Kinds that a server may lack, or keep from us.
OPTIONAL = (*GANG_KINDS, BUDGETS, LIMIT_RANGES, RUNTIME_CLASSES)
LEADER = Family("makeway_leader", "1 if this replica leads, 0 if it stands by.")

Clock = Callable[[], float]


class CannotControl(Exception):
    """The server lacks what we need, or doesn't let us; the text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    configuration: Configuration = field(default_factory=Configuration)
    scheduler: str = SCHEDULER  # whose pods are placed; empty: nobody's
    lease: Key | None = None  # None: there is no other replica
    identity: str = ""  # of this replica, in the Lease
    journal: Path | None = None  # a file; None: nothing is written down
    journal_limits: JournalLimits = field(default_factory=JournalLimits)


class Controller:
    """Leads when it may, and stands by when it may not."""

    def __init__(
        self, connect: Callable[[], Transport], settings: Settings, clock: Clock = time.time
    ) -> None:
        self._settings, self._clock = settings, clock
        self._election: Election | None = None
        if settings.lease is not None:
            # Connections of its own: a renewal must not wait behind other requests.
            self._voter = Client(connect(), manager=MANAGER, attempts=1)
            self._election = Election(self._voter, settings.lease, settings.identity, clock=clock)
        self._client = Client(Fenced(connect(), self._may_write), manager=MANAGER)
        self._absent: frozenset[Resource] = frozenset()
        self._writer: Writer | None = None  # None: nothing is written down
        self._term: Term | None = None  # None: we stand by
        self._terms = 0
        self.site: Site | None = None  # pages that show what a term of ours knows

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; CannotControl if the server won't do for it."""
        try:
            self._absent = await absent_kinds(self._client, self._settings)
            self._writer = _journal(self._settings)
            while not stop.is_set():
                if await self._wait_to_lead(stop):
                    await self._lead(stop)
        finally:
            if self._election is not None:
                await self._election.release()
                await self._voter.close()
            await self._client.close()
            if self._writer is not None:
                self._writer.close()

    async def _wait_to_lead(self, stop: asyncio.Event) -> bool:
        if self._election is None:
            return True
        await until_one_ends(self._election.acquire(), stop.wait())
        return self._election.is_leader and not stop.is_set()

    async def _lead(self, stop: asyncio.Event) -> None:
        """One term: until told to stop, or until we may no longer."""
        self._terms += 1
        self._term = term = Term(
            self._client, self._settings, self._absent, self._clock, self._writer
        )
        log.info(
            Fields(term="begins", absent=",".join(sorted(k.plural for k in self._absent)) or "-")
        )
        if self.site is not None:
            self.site.follow(term.feed)
        try:
            keep = stop.wait() if self._election is None else self._election.keep()
            await until_one_ends(self._work(term, stop), keep)
        finally:
            self._term = None
            if self.site is not None:
                self.site.follow(None)
        log.info(Fields(term="ends"))

    async def _work(self, term: Term, stop: asyncio.Event) -> None:
        await until_one_ends(term.loop.run(), self._finish(term, stop))

    async def _finish(self, term: Term, stop: asyncio.Event) -> None:
        await stop.wait()
        await term.loop.finish(FINISH_MAX_S)

    def _may_write(self) -> bool:
        return self._election is None or self._election.is_leader

    # What it tells of itself

    @property
    def unready(self) -> str:
        """Why it can't do its work yet; empty if it can, or stands by to do it."""
        is_behind = self._term is not None and not self._term.loop.is_synced
        return "not everything has been listed yet" if is_behind else ""

    @property
    def visibility(self) -> Visibility | None:
        """None while another replica leads."""
        return None if self._term is None else self._term.visibility

    @property
    def previews(self) -> Previews | None:
        """None while another replica leads."""
        return None if self._term is None else self._term.previews

    @property
    def state(self) -> tuple[int, int]:
        """A sign that is another whenever who waits or holds quota may be another."""
        revision = 0 if self._term is None else self._term.engine.view.revision
        return self._terms, revision

    def documents(self, kinds: Iterable[Resource]) -> list[Document]:
        """All objects of these kinds, as we know them; none while another replica leads."""
        picture = Picture() if self._term is None else self._term.picture
        return [document for kind in kinds for document in picture.all(kind)]

    def metrics(self) -> str:
        term = self._term
        leader = LEADER.header() + LEADER.line(()) % int(term is not None)
        return leader if term is None else leader + term.metrics.text()


class Term:
    """What works while we lead; the next time it is made anew."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        absent: frozenset[Resource],
        clock: Clock,
        writer: Writer | None = None,
    ) -> None:
        picture = Picture()
        admission, parts = parts_for(picture, settings, absent)
        board = Board(picture, clock, has_nodes=bool(settings.scheduler))
        self.feed = Feed(board, clock)
        parts.append(board)
        self.loop = Loop(
            client,
            picture,
            parts,
            clock=clock,
            component=MANAGER,
            in_flight_max=IN_FLIGHT_MAX,
            absent=absent,
        )
        role = "standalone" if settings.lease is None else "leader"
        self.metrics = Metrics(admission.engine, picture, clock, role=role)
        self.metrics.loops["controller"] = self.loop
        if writer is not None:
            admission.observers.append(Recorder(admission.engine, writer, clock))
        admission.observers.append(self.metrics)
        for part in parts:
            if isinstance(part, Placing):
                part.observer = self.metrics.placement
        self.picture, self.engine = picture, admission.engine
        self.visibility = Visibility(admission.engine, picture, clock)
        self.previews = Previews(admission, picture, clock)


def _journal(settings: Settings) -> Writer | None:
    if settings.journal is None:
        return None
    try:
        file = JournalFile(settings.journal)
    except (JournalError, OSError) as error:
        raise CannotControl(f"the journal can't be written: {error}") from None
    writer = Writer(file, settings.journal_limits)
    writer.start()
    return writer


def parts_for(
    picture: Picture, settings: Settings, absent: Collection[Resource]
) -> tuple[Admission, list[Part]]:
    configuration = settings.configuration
    if settings.lease is not None:
        configuration = configuration.outside_of(settings.lease.namespace)
    admission = Admission(picture, configuration)
    parts: list[Part] = [
        admission,
        Jobs(picture, configuration),
        Pods(picture, configuration),
        ClassValues(picture),
        *(_placing(picture, settings, absent) if settings.scheduler else ()),
        QueueStatus(picture, admission.engine),
        InUse(picture, admission.engine, FLAVORS),
        InUse(picture, admission.engine, QUEUES),
    ]
    if configuration.retention is not None:
        parts.append(Retention(picture, configuration.retention))
    return admission, parts


def _placing(picture: Picture, settings: Settings, absent: Collection[Resource]) -> list[Part]:
    kinds = tuple(kind for kind in GANG_KINDS if kind not in absent)
    schedulers = frozenset((settings.scheduler,))
    most = settings.configuration.preemption_priority.max_distance
    return [
        Placing(picture, schedulers=schedulers, gang_kinds=kinds, distance_max=most),
        *(GangStatuses(picture, kind, schedulers=schedulers, distance_max=most) for kind in kinds),
    ]


async def absent_kinds(client: Client, settings: Settings) -> frozenset[Resource]:
    """The kinds to do without, as the server is now; it is not asked again.

    CannotControl if it lacks one that there is no doing without.
    """
    _, parts = parts_for(Picture(), settings, ())
    absent: set[Resource] = set()
    for resource in sorted({r for part in parts for r in part.resources}, key=Resource.path):
        try:
            await client.peek(resource)
        except Unavailable as error:
            raise CannotControl(f"no answer: {error}") from None
        except ApiError as error:
            if resource not in OPTIONAL or not error.may_lack_path:
                raise CannotControl(_lack(resource, error)) from None
            log.info(Fields(kind=resource.path(), absent=error))
            absent.add(resource)
    return frozenset(absent)


def _lack(resource: Resource, error: ApiError) -> str:
    if isinstance(error, NotFound):
        hint = "; are the CRDs of makeway install there?" if "kueue" in resource.group else ""
        return f"the server has no {resource.kind} of {resource.api_version}{hint}"
    return f"{resource.plural} can't be listed: {error}"


class Fenced:
    """Sends writes only while we lead: who was held up must not write when another leads."""

    def __init__(self, transport: Transport, may_write: Callable[[], bool]) -> None:
        self._transport, self._may_write = transport, may_write

    def send(self, call: Call) -> AbstractAsyncContextManager[Answer]:
        if call.method != "GET" and not self._may_write():
            raise Unreachable("not sent: this replica no longer leads")
        return self._transport.send(call)

    async def close(self) -> None:
        await self._transport.close()
