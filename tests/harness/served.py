"""The embedded API server on a thread of its own, without the controllers that live on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from makeway.client import Client
from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import Access, read_kubeconfig
from makeway.embedded.inside import client_in_process
from makeway.server.app import App
from makeway.server.identity import identity_in
from makeway.server.listen import Listener
from makeway.server.logs import FileLogs
from makeway.server.messages import Request, Response
from makeway.store import Store

T = TypeVar("T")
HOST = "127.0.0.1"
FIRST_REVISION = 1000  # so that there is a past which is no longer kept


class Served:
    def __init__(self, folder: Path, *, has_tls: bool = True) -> None:
        self.folder, self._has_tls = folder, has_tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._in_loop(self._start())

    async def _start(self) -> None:
        self._identity = identity_in(self.folder / "pki")
        self._store = Store(self.folder / "makeway.db", first_revision=FIRST_REVISION)
        logs = FileLogs(self.folder / "logs")
        self._app = App(self._store, token=self._identity.token, clock=time.time, logs=logs)
        await self._app.start()
        await self._listen()
        self.client: Client = client_in_process(self._app)

    async def _listen(self) -> None:
        tls = self._identity.tls() if self._has_tls else None
        self._listener = Listener(
            self.answer, self._app.is_authenticated, host=HOST, port=0, tls=tls
        )
        port = await self._listener.start()
        address = f"http{'s' * self._has_tls}://{HOST}:{port}"
        self.kubeconfig.write_text(self._identity.kubeconfig(address))

    async def answer(self, request: Request) -> Response:
        """For stories with a server that answers otherwise."""
        return await self._app.handle(request)

    async def _hang_up(self) -> None:
        self._app.reads.end_watches()
        await self._listener.stop()

    async def _stop(self) -> None:
        await self._hang_up()
        await self._app.stop()
        self._store.close()

    def close(self) -> None:
        self._in_loop(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    @property
    def kubeconfig(self) -> Path:
        return kubeconfig_in(self.folder)

    @property
    def access(self) -> Access:
        return read_kubeconfig(self.kubeconfig)


@contextmanager
def embedded_server(folder: Path) -> Iterator[Served]:
    server = Served(folder)
    try:
        yield server
    finally:
        server.close()
