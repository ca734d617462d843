"""One process, wired by hand: the store, the API server, the controller and the runner."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from makeway.api.batch import Node
from makeway.api.codec import decode_as
from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, NAMESPACES, NODES, PODS, QUEUES
from makeway.client import Client, Conflict, NotFound
from makeway.client.client import Document
from makeway.client.folder import SOCKET_PATH_MAX, kubeconfig_in, socket_in
from makeway.client.transport import Call, InProcessTransport
from makeway.clocks import Clock, Noted, SteadyClock
from makeway.controller import automatic
from makeway.controller.admission import Admission
from makeway.controller.budgets import BudgetStatuses
from makeway.controller.class_values import ClassValues
from makeway.controller.dependencies import LastOutcome, Outcome, nobody_knows, outcome_of
from makeway.controller.gangs import GangStatuses
from makeway.controller.in_use import InUse
from makeway.controller.job_list import JobList, asked_in
from makeway.controller.jobs import Jobs
from makeway.controller.metrics import Metrics
from makeway.controller.notifications import Notifications
from makeway.controller.placing import GANG_KINDS, Placing
from makeway.controller.pods import Pods
from makeway.controller.previews import NotPreviewed, Previews
from makeway.controller.prospects import prospects
from makeway.controller.queue_status import QueueStatus
from makeway.controller.reboots import Reboots
from makeway.controller.retention import Retention
from makeway.controller.visibility import Visibility
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.past import Past
from makeway.dashboard.serving import key_in, serving
from makeway.dashboard.signing_in import Reader
from makeway.dashboard.site import Site
from makeway.disk import Disk
from makeway.forecaster import Forecaster
from makeway.historian import Historian
from makeway.history.archive import Archive
from makeway.history.chronicler import Chronicler
from makeway.journal.file import NAME, JournalError, JournalFile
from makeway.journal.recorder import Limits as JournalLimits
from makeway.journal.recorder import Recorder, Writer
from makeway.logs import Fields
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.runner.cgroups import Cgroups
from makeway.runner.cron_jobs import CronJobs
from makeway.runner.gpu_reading import GpuWatch, Nvml
from makeway.runner.host import Host
from makeway.runner.jobs import JobPods
from makeway.runner.leavings import DAY_S, Leavings, Limits
from makeway.runner.local import LocalHost, pods_in
from makeway.runner.machine import NotANode, has_driver, host_name, machine, nodes_from
from makeway.runner.node_gpus import GpuOffers, NodeGpus
from makeway.runner.pods import PodRunner
from makeway.runner.processes import boot_id
from makeway.runner.remote import RemoteHost
from makeway.runner.services import ServiceEndpoints
from makeway.runner.usage import Meter
from makeway.runner.visits import Visits
from makeway.server.app import App
from makeway.server.door import NotSafe
from makeway.server.identity import (
    DamagedIdentity,
    Identity,
    identity_in,
    write_private,
    write_public,
)
from makeway.server.listen import Listener
from makeway.server.logs import FileLogs
from makeway.server.messages import Request
from makeway.server.people import People, for_people
from makeway.store import Event, Store, StoreError
from makeway.watchdog import Pulse, keep_up

log = logging.getLogger("makeway.embedded")

HOST = "127.0.0.1"
RESERVE_EVERY_S = 30.0
TIDY_EVERY_S = 60.0
TIDY_PATIENCE_S = 3600.0  # to remove a million files takes its time
SCHEDULING_PATIENCE_S = 30.0  # a turn with very many objects takes its time
OURS = "makeway.dev/declared-by"  # label of nodes that `makeway up` has declared


class CannotServe(Exception):
    """The folder can't be served: in use, damaged, of another version. The text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a server for every account has of root's."""

    starter: Path  # the socket of whoever runs pods as their accounts
    logs: Path  # what pods print


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int
    is_insecure: bool = False  # plain http
    configuration: Configuration = field(default_factory=Configuration)
    nodes: Sequence[Document] = ()  # to run on; empty: this machine
    has_gpus: bool = True  # those of the machine are handed out; False: another server does
    is_reaper: bool = False  # this process has no children but those that run pods
    kept_days: float = 30.0  # what ended pods leave behind
    kept_bytes: int | None = None  # of what all pods leave; None: by the size of the disk
    has_dashboard: bool = True
    dashboard_port: int | None = None  # None: the one after ours, or a free one if that is taken
    journal: JournalLimits | None = field(default_factory=JournalLimits)  # None: there is none
    has_limits: bool = True  # of memory, CPU and processes; False: they are ignored
    listening: socket.socket | None = None  # where to take connections instead of at the port
    dashboard_listening: socket.socket | None = None  # idem, for the dashboard
    system: System | None = None  # None: pods run as we do
    people: People | None = None  # None: for one account, with one token

    def limits_on(self, disk: Disk) -> Limits:
        max_bytes = disk.leavings_bytes if self.kept_bytes is None else self.kept_bytes
        return Limits(max_bytes, self.kept_days * DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    app: App
    address: str
    kubeconfig: Path

    @property
    def unlimited(self) -> str:
        """What of a job's limits can't be held here, and why; empty: all are."""
        return self.app.verbs.around.unlimited


def _socket_of(folder: Path, settings: Settings) -> Path | None:
    """Where this machine asks without TLS: everybody, or who started us; None: nowhere."""
    if settings.people is not None:
        return settings.people.socket
    path = socket_in(folder.absolute())
    is_ours = not folder.stat().st_mode & 0o022  # else others could put one of theirs there
    return path if is_ours and len(os.fsencode(path)) <= SOCKET_PATH_MAX else None


@contextlib.asynccontextmanager
async def serve(folder: Path, settings: Settings) -> AsyncIterator[Running]:
    """Serve the data of a folder while the context lasts; the kubeconfig is there by then."""
    if settings.people is not None:
        settings = replace(settings, configuration=for_people(settings.configuration))
    with _locked(folder), _left_alone_when_old():
        try:
            identity = identity_in(folder / "pki")
            tls = None if settings.is_insecure else identity.tls()
            store = Store(folder / "makeway.db")
        except (StoreError, DamagedIdentity) as error:
            raise CannotServe(str(error)) from None
        mark = Mark(folder / "revision", store.revision)
        gc.collect()
        noted = Noted(folder / "clock", boot_id())
        clock = noted.clock()  # one for all: what one stamps, another compares
        archive = Archive(folder)
        logs = FileLogs(settings.system.logs if settings.system else folder / "logs", clock)
        disk = Disk(folder)
        app = App(
            store,
            token=identity.token,
            clock=clock,
            logs=logs,
            disk=disk,
            configuration=settings.configuration,
            archive=archive,
            people=settings.people,
        )
        listener = Listener(
            *(app.handle, app.is_authenticated),
            host=HOST,
            port=settings.port,
            tls=tls,
            listening=settings.listening,
            local=_socket_of(folder, settings),
            is_for_all=settings.people is not None,
        )
        try:
            await app.start()
            try:
                bound = await listener.start()
            except NotSafe as error:
                raise CannotServe(str(error)) from None
            address = f"{'http' if settings.is_insecure else 'https'}://{HOST}:{bound}"
            kubeconfig = kubeconfig_in(folder)
            _hand_out(identity, address, folder, settings.people)
            with app.watchdog.watching():
                async with (
                    _reserved(app, disk, [lambda: mark.write(store), lambda: noted.write(clock)]),
                    _shown(app, folder, settings, clock, bound) as site,
                    _controlled(app, folder, settings, clock, mark, archive, site),
                ):
                    yield Running(app=app, address=address, kubeconfig=kubeconfig)
        finally:
            app.reads.end_watches()
            app.streams.end()
            await listener.stop()
            await app.stop()
            mark.write(store)
            store.close()
            archive.close()
            noted.remove()


def _hand_out(identity: Identity, address: str, folder: Path, people: People | None) -> None:
    """Write by what clients know us: a kubeconfig for one account, a certificate for all."""
    if people is not None:
        write_public(people.ca, identity.ca_file.read_bytes())
        return
    write_private(kubeconfig_in(folder), identity.kubeconfig(address).encode())


@contextlib.asynccontextmanager
async def _shown(
    app: App, folder: Path, settings: Settings, clock: SteadyClock, api_port: int
) -> AsyncIterator[Site | None]:
    """Serve pages while the context lasts, unless they are not wanted."""
    if not settings.has_dashboard:
        yield None
        return
    key = key_in(folder / "pki" / "dashboard.key")
    past = None if settings.journal is None else Past(folder / NAME, clock)
    people = settings.people

    def client_of(reader: Reader) -> Client:
        # Who has an account brings his rights along; else one account may do everything.
        account = "" if reader.uid is None else reader.name
        return client_in_process(app, uid=reader.uid, account=account)

    site = Site(key, clock, client_of, past, shows_names=people is None or people.show_names)
    wanted = settings.dashboard_port
    default = api_port + 1 if settings.port else 0
    async with serving(
        site,
        default if wanted is None else wanted,
        is_fixed=wanted is not None,
        listening=settings.dashboard_listening,
    ):
        app.dashboard = site
        try:
            yield site
        finally:
            if past is not None:
                past.close()


@contextlib.asynccontextmanager
async def _controlled(
    app: App,
    folder: Path,
    settings: Settings,
    clock: SteadyClock,
    mark: Mark,
    archive: Archive,
    site: Site | None,
) -> AsyncIterator[None]:
    """Admit, place and run while the context lasts; what runs then goes on by itself."""
    client = client_in_process(app, manager="makeway-controller")
    watch = None if settings.nodes or not settings.has_gpus else await _gpu_watch()
    own = () if watch is None else watch.devices
    try:
        here = machine(clock(), own, has_gpus=settings.has_gpus)
        nodes = nodes_from(settings.nodes or (here,), clock())
    except NotANode as error:
        raise CannotServe(str(error)) from None
    await declare(client, nodes)
    await provide_queue(client, is_shared=app.is_shared)
    host, work = _host_and_work(folder, settings, clock, archive)
    app.verbs.around.unlimited = host.unlimited
    app.streams.pods = Visits(host.call)
    app.usage.meter = _meter(clock, host, settings, watch)
    if isinstance(host, RemoteHost):
        _tell_of_namespaces(app.store, host)
    if loss := mark.loss(host.revision):
        log.error(Fields(database="has lost writes", why=loss))
    writer = journal_in(folder, settings.journal)
    configuration = settings.configuration
    control = Control(app, client, host, configuration, nodes, clock, archive, writer, site, watch)
    if watch is not None:
        watch.on_change = control.gpus_changed
        if isinstance(host, LocalHost):
            watch.nvml.on_child = host.spare
        work.append(watch)
    app.watchdog.add(host.pulse, control.pulse, *(one.pulse for one in work))
    spare = host.spare if isinstance(host, LocalHost) else None
    past = None if writer is None else folder / NAME
    forecaster = Forecaster(app.store, clock, settings.configuration, control.state, spare, past)
    app.forecasts = forecaster
    historian = Historian(folder / NAME, spare)
    app.history = None if writer is None else historian
    control.begin()
    host.watch(control.noticed)
    try:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(_kept_up(control.run, control.pulse))
            for one in work:
                await stack.enter_async_context(_kept_up(one.run, one.pulse))
            yield
    finally:
        await forecaster.stop()
        historian.stop()
        if writer is not None:
            writer.close()
        host.close()


def _meter(
    clock: SteadyClock, host: LocalHost | RemoteHost, settings: Settings, watch: GpuWatch | None
) -> Meter:
    own_node = "" if settings.nodes else host_name()
    if watch is None:
        return Meter(clock, host, own_node)
    return Meter(clock, host, own_node, lambda: watch.nvml.uses)


def _tell_of_namespaces(store: Store, host: RemoteHost) -> None:
    """Whoever starts pods keeps whose a namespace is as long as there is such a namespace."""
    loop = asyncio.get_running_loop()

    def heard(event: Event) -> None:
        if event.is_deletion:
            loop.call_soon_threadsafe(host.namespaces_changed)

    store.listen(NAMESPACES.full_name, heard)
    host.follow(lambda: [record.key.name for record in store.scan(NAMESPACES.full_name)])


async def _gpu_watch() -> GpuWatch | None:
    """Who looks at the GPUs of this machine; None: it has none."""
    if not has_driver():
        return None
    nvml = Nvml()
    first = await asyncio.to_thread(nvml.ask)
    return GpuWatch(nvml, first or ())


def _host_and_work(
    folder: Path, settings: Settings, clock: SteadyClock, archive: Archive
) -> tuple[LocalHost | RemoteHost, list[Tidying | Forgetting | GpuWatch]]:
    """Who runs pods, and what has to be done besides as long as they run."""
    if settings.system is not None:
        forgetting = Forgetting(archive, settings.system.logs, settings.kept_days * DAY_S, clock)
        return RemoteHost(settings.system.starter, clock), [forgetting]
    limits = settings.limits_on(Disk(folder))
    cgroups = Cgroups.detect()
    if not settings.has_limits:
        cgroups = cgroups.without_limits()
    host = LocalHost(
        folder,
        cgroups,
        limits=limits,
        clock=clock,
        is_reaper=settings.is_reaper,
        keeps_output=archive.has_run,
        mounts=True,
    )
    return host, [Tidying(host, Leavings(folder, limits, clock), archive, limits, clock)]


def journal_in(folder: Path, limits: JournalLimits | None) -> Writer | None:
    """The journal of a folder; None: there is to be none, or its file can't be used."""
    if limits is None:
        return None
    try:
        file = JournalFile(folder / NAME)
    except (JournalError, OSError) as error:
        log.error(Fields(journal="is not written", error=error))
        return None
    writer = Writer(file, limits, Disk(folder).shortage)
    writer.start()
    return writer


@contextlib.asynccontextmanager
async def _kept_up(work: Callable[[], Awaitable[None]], pulse: Pulse) -> AsyncIterator[None]:
    """While the context lasts, work is done that never ends."""
    working = asyncio.get_running_loop().create_task(keep_up(work, pulse))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


class Tidying:
    """Removes what pods left behind, as a task that never ends."""

    def __init__(
        self,
        host: LocalHost,
        leavings: Leavings,
        archive: Archive,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self._host, self._leavings, self._archive = host, leavings, archive
        self._limits, self._clock = limits, clock
        self.pulse = Pulse("tidying up", TIDY_PATIENCE_S)

    async def run(self) -> None:
        while True:
            self.pulse.turn()
            gone, ended = self._archive.ends_of_gone(), self._host.ended()
            running = self._host.states().keys() - ended.keys()
            await asyncio.to_thread(self._leavings.tidy, {**gone, **ended}, running)
            self._archive.forget_runs(await asyncio.to_thread(self._leavings.sweep, gone))
            self._archive.forget_before(self._clock() - self._limits.max_age_s)
            self.pulse.rest(TIDY_EVERY_S)
            await asyncio.sleep(TIDY_EVERY_S)


class Forgetting:
    """Keeps the history as short as what a starter keeps of pods, as a task that never ends."""

    def __init__(self, archive: Archive, logs: Path, kept_s: float, clock: Clock) -> None:
        self._archive, self._logs, self._kept_s, self._clock = archive, logs, kept_s, clock
        self.pulse = Pulse("keeping the history short", TIDY_PATIENCE_S)

    async def run(self) -> None:
        while True:
            self.pulse.turn()
            gone = self._archive.ends_of_gone()
            self._archive.forget_runs([uid for uid in gone if not (self._logs / uid).exists()])
            self._archive.forget_before(self._clock() - self._kept_s)
            self.pulse.rest(TIDY_EVERY_S)
            await asyncio.sleep(TIDY_EVERY_S)


class Mark:
    """How far the database is, noted outside of it.

    SQLite opens a file whose log was lost or cut without a word, and shows what is left.
    """

    def __init__(self, path: Path, revision: int) -> None:
        """With the revision that the database had when it was opened."""
        self._path, self._revision = path, revision
        try:
            self._noted = int(path.read_text())
        except (FileNotFoundError, ValueError):
            self._noted = 0

    def loss(self, seen: int) -> str:
        """What to say if the database knows less than it once did; empty if it doesn't.

        `seen` is the latest revision that a pod's order speaks of.
        """
        known = max(self._noted, seen)
        if self._revision >= known:
            return ""
        return (
            f"the database is at revision {self._revision} and was at {known}: makeway.db-wal was "
            "lost or cut; restore the folder from a backup, or go on with what is left (pods that "
            "it doesn't know are ended)"
        )

    def write(self, store: Store) -> None:
        with contextlib.suppress(OSError):  # a full disk; the mark is behind, which does no harm
            write_private(self._path, f"{store.revision}\n".encode())


@contextlib.asynccontextmanager
async def _reserved(
    app: App, disk: Disk, notes: Sequence[Callable[[], None]]
) -> AsyncIterator[None]:
    """While the context lasts the database holds room back, and takes it anew after it was used.

    As often, notes are written for whoever comes after us.
    """
    pulse = Pulse("keeping a reserve", RESERVE_EVERY_S)
    app.watchdog.add(pulse)

    async def keep() -> None:
        while True:
            pulse.turn()
            if not disk.shortage():
                await app.committer.reserve(disk.reserve_bytes)
            for write in notes:
                write()
            pulse.rest(RESERVE_EVERY_S)
            await asyncio.sleep(RESERVE_EVERY_S)

    async with _kept_up(keep, pulse):
        yield


# Copies


def copy_identity(folder: Path, to: Path) -> None:
    """Who the server is, and how it was told to decide; what jobs leave behind is not copied."""
    shutil.copytree(folder / "pki", to / "pki")
    if (folder / "config.yaml").exists():
        shutil.copy2(folder / "config.yaml", to / "config.yaml")


def copy_data(folder: Path, to: Path) -> None:
    """The database of a folder that nobody serves."""
    with _locked(folder):
        try:
            store = Store(folder / "makeway.db")
            store.backup(to / "makeway.db")
        except StoreError as error:
            raise CannotServe(str(error)) from None
        store.close()


def examine(folder: Path) -> list[str]:
    """What is wrong with a data folder, as sentences; CannotServe if it is in use."""
    if not (folder / "makeway.db").exists():
        return [f"{folder / 'makeway.db'} is missing; {folder} is no data folder of makeway"]
    found: list[str] = []
    with _locked(folder):
        try:
            if (folder / "pki").exists():
                identity_in(folder / "pki").tls()
        except DamagedIdentity as error:
            found.append(str(error))
        try:
            store = Store(folder / "makeway.db")
        except StoreError as error:
            return [*found, str(error)]
        known = len({record.key for record in store.scan(PODS.full_name)})
        pods = pods_in(folder)
        found += filter(None, [Mark(folder / "revision", store.revision).loss(pods.revision)])
        store.close()
        if pods.count > known:
            found.append(f"{pods.count} pods have folders, and the database knows {known}")
        return [*found, *pods.damages]


class Control:
    """The control plane of the machine, term by term.

    A term begins with nothing but the server's objects and the host's pods, as after a restart of
    the process; so one that has failed is followed by another.
    """

    def __init__(
        self,
        app: App,
        client: Client,
        host: Host,
        configuration: Configuration,
        nodes: Sequence[Document],
        clock: Clock,
        archive: Archive,
        writer: Writer | None = None,
        site: Site | None = None,
        watch: GpuWatch | None = None,
    ) -> None:
        self._app, self._client, self._host, self._site = app, client, host, site
        self._configuration, self._nodes, self._clock = configuration, nodes, clock
        self._archive = archive
        self._writer, self._watch = writer, watch
        self.pulse = Pulse("scheduling", SCHEDULING_PATIENCE_S)
        self._term: tuple[Plane, Loop] | None = None
        self._terms = 0

    def state(self) -> tuple[int, int]:
        """A sign that is another whenever who waits or holds quota may be another."""
        revision = 0 if self._term is None else self._term[0].admission.engine.view.revision
        return self._terms, revision

    def begin(self) -> None:
        """Make ready for a term; what was known of the one before is forgotten."""
        picture = Picture()
        plane = Plane(
            *(picture, self._configuration, self._host, self._nodes, self._watch),
            last_outcome=self._last_outcome,
            is_shared=self._app.is_shared,
        )
        plane.parts.append(Chronicler(picture, self._archive, self._clock))
        if self._site is not None:
            board = Board(picture, self._clock)
            plane.parts.append(board)
            self._site.follow(Feed(board, self._clock))
        loop = Loop(self._client, picture, plane.parts, clock=self._clock, pulse=self.pulse)
        metrics = Metrics(plane.admission.engine, picture, self._clock, role="standalone")
        engine = plane.admission.engine
        if self._writer is not None:
            plane.admission.observers.append(Recorder(engine, self._writer, self._clock))
        plane.admission.observers.append(metrics)
        plane.placing.observer = metrics.placement
        metrics.loops["controller"] = loop
        self._term = plane, loop
        self._terms += 1
        self._app.insight = Insight(plane, picture, loop, metrics, self._clock)

    def _last_outcome(self, key: Key) -> Outcome:
        """Of a Job that was deleted; if it had not ended, it has failed for who waits for it."""
        gone = self._archive.gone_job(key.namespace, key.name)
        if gone is None:
            return Outcome.UNKNOWN
        found = outcome_of(json.loads(gone.body))
        return Outcome.FAILED if found is Outcome.OPEN else found

    async def run(self) -> None:
        """One term, until it fails."""
        if self._term is None:
            self.begin()
        assert self._term is not None
        try:
            await self._term[1].run()
        finally:
            self._term = None

    def noticed(self, uid: str) -> None:
        """The host has news; between two terms nobody has to hear them, all pods are looked at."""
        if self._term is not None:
            plane, loop = self._term
            plane.pods.noticed(uid)
            plane.gpu_offers.look_again()
            loop.wake()

    def gpus_changed(self) -> None:
        """Somebody else began or ceased to use a GPU."""
        if self._term is not None:
            plane, loop = self._term
            plane.pods.try_waiting()
            plane.gpu_offers.look_again()
            loop.wake()


class Plane:
    """The parts that make a machine run what its queues admit."""

    def __init__(
        self,
        picture: Picture,
        configuration: Configuration,
        host: Host,
        nodes: Sequence[Document],
        watch: GpuWatch | None = None,
        *,
        last_outcome: LastOutcome = nobody_knows,
        is_shared: bool = False,
    ) -> None:
        """`watch` sees the GPUs of this machine; None: they are only declared."""
        self.is_shared = is_shared  # by several people
        self.admission = Admission(picture, configuration)
        distance_max = configuration.preemption_priority.max_distance
        self.placing = Placing(picture, distance_max=distance_max, is_shared=is_shared)
        gpus = (
            NodeGpus(host) if watch is None else NodeGpus(host, host_name(), lambda: watch.devices)
        )
        self.pods = PodRunner(picture, host, nodes, gpus)
        self.gpu_offers = GpuOffers(picture, gpus)
        self.parts: list[Part] = [
            self.admission,
            Jobs(picture, configuration, last_outcome),
            Pods(picture, configuration),
            ClassValues(picture),
            JobPods(picture),
            CronJobs(picture),
            ServiceEndpoints(picture),
            Reboots(picture),
            self.placing,
            self.pods,
            self.gpu_offers,
            *(GangStatuses(picture, kind, distance_max=distance_max) for kind in GANG_KINDS),
            BudgetStatuses(picture),
            QueueStatus(picture, self.admission.engine),
            InUse(picture, self.admission.engine, FLAVORS),
            InUse(picture, self.admission.engine, QUEUES),
            automatic.AutomaticQueue(picture, is_shared=is_shared),
            Notifications(picture),
        ]
        if configuration.retention is not None:
            self.parts.append(Retention(picture, configuration.retention))


class Insight(Visibility):
    """What the server asks of the controller beside it."""

    def __init__(
        self, plane: Plane, picture: Picture, loop: Loop, metrics: Metrics, clock: Clock
    ) -> None:
        super().__init__(plane.admission.engine, picture, clock, is_shared=plane.is_shared)
        self._loop, self._metrics = loop, metrics
        self._jobs = JobList(plane.admission.engine, picture, clock)
        self._previews = Previews(plane.admission, picture, clock)

    def preview(self, document: Mapping[str, Any]) -> Document | str:
        try:
            return self._previews.preview(document)
        except NotPreviewed as error:
            return str(error)

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Document | str:
        try:
            return self._previews.difference(documents)
        except NotPreviewed as error:
            return str(error)

    @property
    def is_ready(self) -> bool:
        return self._loop.is_synced

    def jobs(self, namespace: str, query: Mapping[str, str]) -> Document:
        return self._jobs.answer(asked_in(namespace, query))

    def prospects(self, namespace: str, job: Any) -> Document:
        return prospects(self._engine, self._picture, namespace, job)

    def metrics(self) -> str:
        return self._metrics.text()


async def declare(client: Client, nodes: Sequence[Document]) -> None:
    """Have exactly these nodes of ours; those of others are left alone."""
    names = {node["metadata"]["name"] for node in nodes}
    before: dict[str, Document] = {}
    for old in (await client.list(NODES, label_selector=f"{OURS}=up")).items:
        before[old["metadata"]["name"]] = old.get("status") or {}
        if old["metadata"]["name"] not in names:
            await client.delete(NODES, old["metadata"]["name"])
    for node in nodes:
        name = node["metadata"]["name"]
        labels = {**node["metadata"]["labels"], OURS: "up"}
        metadata = {**node["metadata"], "labels": labels}
        said = {part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)}
        try:
            await client.patch(NODES, name, patch={"metadata": said})
            if spec := node.get("spec"):
                await client.patch(NODES, name, patch={"spec": spec})
        except NotFound:
            await client.create(NODES, {**node, "metadata": metadata})
        status = {**node["status"]}
        for part in ("capacity", "allocatable"):  # what it had and has no more
            gone = (before.get(name, {}).get(part) or {}).keys() - status[part].keys()
            status[part] = {**status[part], **dict.fromkeys(gone)}
        await client.patch(NODES, name, patch={"status": status}, subresource="status")


async def provide_queue(client: Client, *, is_shared: bool = False) -> None:
    """Who submits as soon as we are ready finds the automatic queue; from then on it looks after
    itself.
    """
    if (await client.list(QUEUES)).items:
        return
    nodes = [decode_as(Node, node).object for node in (await client.list(NODES)).items]
    quota = automatic.quota_of(node for node in nodes if node is not None)
    namespaces = [found["metadata"]["name"] for found in (await client.list(NAMESPACES)).items]
    for resource, document in automatic.documents(quota, namespaces, is_shared=is_shared):
        with contextlib.suppress(Conflict):  # it is there already
            await client.create(resource, document)


@contextlib.contextmanager
def _left_alone_when_old() -> Iterator[None]:
    """Let the collector walk each object once: to walk millions again and again stalls everybody.

    What has outlived a full collection stays for long, and goes by its reference count: nothing
    that we keep for long has references in a circle when it goes.
    """

    def freeze(phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    gc.callbacks.append(freeze)
    try:
        yield
    finally:
        gc.callbacks.remove(freeze)
        gc.unfreeze()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            who = f" (process {holder})" if holder else ""
            raise CannotServe(f"another makeway{who} is running on {folder}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def client_in_process(
    app: App, *, manager: str = "makeway", uid: int | None = None, account: str = ""
) -> Client:
    """A client that calls the server's handler directly, with the rights of an account if one is
    named, else with all."""

    async def handle(call: Call) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        response = await app.handle(
            Request(
                method=call.method,
                path=call.path,
                query=call.query,
                headers={name.lower(): value for name, value in call.headers.items()},
                body=call.body,
                is_trusted=uid is None,
                uid=uid,
                account=account,
            )
        )
        headers: dict[str, str] = {"content-type": response.content_type}
        for name, value in response.headers:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return response.code, headers, response.body

    return Client(InProcessTransport(handle), manager=manager)
