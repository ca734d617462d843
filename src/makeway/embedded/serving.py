"""One process, wired by hand: the store, the API server, the pages, and the scheduling."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from makeway.client import Client
from makeway.client.folder import SOCKET_PATH_MAX, kubeconfig_in, socket_in
from makeway.clocks import Noted, SteadyClock
from makeway.dashboard.past import Past
from makeway.dashboard.serving import key_in, serving
from makeway.dashboard.signing_in import SESSION_S, Reader
from makeway.dashboard.signing_out import Ended
from makeway.dashboard.site import Site
from makeway.disk import Disk
from makeway.embedded.folder import Mark, locked
from makeway.embedded.inside import client_in_process
from makeway.embedded.scheduling import scheduling
from makeway.embedded.settings import HOST, CannotServe, Settings
from makeway.embedded.upkeep import left_alone_when_old, reserved
from makeway.history.archive import Archive
from makeway.journal.file import NAME
from makeway.runner.processes import boot_id
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
from makeway.server.people import People, for_people
from makeway.store import Store, StoreError


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
    with locked(folder), left_alone_when_old():
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
                    reserved(app, disk, [lambda: mark.write(store), lambda: noted.write(clock)]),
                    _shown(app, folder, settings, clock, bound) as site,
                    scheduling(app, folder, settings, clock, mark, archive, site),
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
    ended = Ended(clock, SESSION_S, folder / "pki" / "dashboard.ended")
    past = None if settings.journal is None else Past(folder / NAME, clock)
    people = settings.people

    def client_of(reader: Reader) -> Client:
        # Who has an account brings his rights along; else one account may do everything.
        account = "" if reader.uid is None else reader.name
        return client_in_process(app, uid=reader.uid, account=account)

    shows_names = people is None or people.show_names
    site = Site(key, clock, client_of, past, shows_names=shows_names, ended=ended)
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
