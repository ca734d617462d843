"""One process, wired by hand: the store, the API server, and what lives on them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makeway.api.configuration import Configuration
from makeway.client import Client
from makeway.client.kubeconfig import kubeconfig_in
from makeway.client.loop import Loop
from makeway.client.parts import Part
from makeway.client.picture import Picture
from makeway.client.transport import Call, InProcessTransport
from makeway.controller.admission import Admission
from makeway.controller.queue_status import QueueStatus
from makeway.server.app import App
from makeway.server.identity import identity_in, write_private
from makeway.server.listen import Listener
from makeway.server.logs import FileLogs
from makeway.server.messages import Request
from makeway.store import Store, StoreError

HOST = "127.0.0.1"


class CannotServe(Exception):
    """The folder can't be served: in use, damaged, of another version. The text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    app: App
    address: str
    kubeconfig: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int
    is_insecure: bool = False  # plain http
    configuration: Configuration = field(default_factory=Configuration)


@contextlib.asynccontextmanager
async def serve(folder: Path, settings: Settings) -> AsyncIterator[Running]:
    """Serve the data of a folder while the context lasts; the kubeconfig is there by then."""
    with _locked(folder):
        identity = identity_in(folder / "pki")
        try:
            store = Store(folder / "makeway.db")
        except StoreError as error:
            raise CannotServe(str(error)) from None
        # What was loaded stays; a collector that walked it again and again would stall everybody.
        gc.collect()
        gc.freeze()
        app = App(store, token=identity.token, clock=time.time, logs=FileLogs(folder / "logs", time.time))
        tls = None if settings.is_insecure else identity.tls()
        listener = Listener(app.handle, app.is_known, host=HOST, port=settings.port, tls=tls)
        try:
            await app.start()
            bound = await listener.start()
            address = f"{'http' if settings.is_insecure else 'https'}://{HOST}:{bound}"
            kubeconfig = kubeconfig_in(folder)
            write_private(kubeconfig, identity.kubeconfig(address).encode())
            async with _controlled(app, settings):
                yield Running(app=app, address=address, kubeconfig=kubeconfig)
        finally:
            app.reads.end_watches()
            await listener.stop()
            await app.stop()
            store.close()


@contextlib.asynccontextmanager
async def _controlled(app: App, settings: Settings) -> AsyncIterator[None]:
    """Admit, place and run while the context lasts."""
    client, picture = client_in_process(app, manager="makeway-controller"), Picture()
    admission = Admission(picture, settings.configuration)
    parts: list[Part] = [admission, QueueStatus(picture, admission.engine)]
    loop = Loop(client, picture, parts, clock=time.time)
    working = asyncio.get_running_loop().create_task(loop.run())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


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


def client_in_process(app: App, *, manager: str = "makeway") -> Client:
    """A client that calls the server's handler directly."""

    async def handle(call: Call) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        response = await app.handle(
            Request(
                method=call.method,
                path=call.path,
                query=call.query,
                headers={name.lower(): value for name, value in call.headers.items()},
                body=call.body,
                is_trusted=True,
            )
        )
        headers: dict[str, str] = {"content-type": response.content_type}
        for name, value in response.headers:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return response.code, headers, response.body

    return Client(InProcessTransport(handle), manager=manager)
