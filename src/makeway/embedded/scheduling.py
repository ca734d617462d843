"""Admits, places and runs beside a server: control plane, host, journal and forecasts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from makeway.api.kinds import NAMESPACES
from makeway.clocks import SteadyClock
from makeway.dashboard.site import Site
from makeway.disk import Disk
from makeway.embedded.control import Control
from makeway.embedded.declared import declare, provide_queue
from makeway.embedded.folder import Mark
from makeway.embedded.historian import Historian
from makeway.embedded.inside import client_in_process
from makeway.embedded.settings import CannotServe, Settings
from makeway.embedded.upkeep import Forgetting, Tidying, kept_up
from makeway.forecast.forecaster import Forecaster
from makeway.forecast.live import READ
from makeway.history.archive import Archive
from makeway.journal.file import NAME, JournalError, JournalFile
from makeway.journal.recorder import Limits as JournalLimits
from makeway.journal.recorder import Writer
from makeway.logs import Fields
from makeway.runner.cgroups import Cgroups
from makeway.runner.gpu_reading import GpuWatch, Nvml
from makeway.runner.leavings import DAY_S, Leavings
from makeway.runner.local import LocalHost
from makeway.runner.machine import NotANode, has_driver, host_name, machine, nodes_from
from makeway.runner.remote import RemoteHost
from makeway.runner.usage import Meter
from makeway.runner.visits import Visits
from makeway.server.app import App
from makeway.store import Event, Store

log = logging.getLogger("makeway.embedded")


@contextlib.asynccontextmanager
async def scheduling(
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
    objects = partial(_forecast_objects, app.store)
    forecaster = Forecaster(
        *(objects, clock, settings.configuration, control.state, spare, past),
        waits_for=control.waits_for,
    )
    app.forecasts = forecaster
    historian = Historian(folder / NAME, spare)
    app.history = None if writer is None else historian
    control.begin()
    host.watch(control.noticed)
    try:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(kept_up(control.run, control.pulse))
            for one in work:
                await stack.enter_async_context(kept_up(one.run, one.pulse))
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


def _forecast_objects(store: Store) -> list[bytes]:
    """What a forecast reads, as it is stored."""
    return [record.body for kind in READ for record in store.scan(kind.full_name)]


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
