"""The real API server on a real file, which can be killed between any two steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random

from makeway.client import Client
from makeway.client.transport import Call, Unreachable
from makeway.server.app import App
from makeway.server.messages import Request
from makeway.store import Batch, Store, WriteFailed
from tests.simulation.clock import WallClock
from tests.simulation.faults import Body, Faults, FaultyTransport
from tests.simulation.observer import Observer

FIRST_REVISION = 1000
FLUSH_MAX_S = 3.0


class Server:
    """Answers while it is up; while it is down nobody gets an answer."""

    def __init__(
        self, file: Path, *, clock: WallClock, chance: Random, faults: Faults, observer: Observer
    ) -> None:
        self._file, self._clock, self._chance = file, clock, chance
        self._faults, self._observer = faults, observer
        self._app: App | None = None
        self.restarts = 0

    async def start(self) -> None:
        store = Store(self._file, first_revision=FIRST_REVISION)
        self._observer.attach(store)

        async def flush(batch: Batch) -> WriteFailed | None:
            await self._faults.delay("flush_slow", FLUSH_MAX_S)
            if self._faults.strikes("flush_fails"):
                return WriteFailed("the disk is full, says the test")
            return store.write(batch)

        app = App(store, token="", clock=self._clock, chance=self._chance, flush=flush)
        await app.start()
        self._app = app

    async def crash(self) -> None:
        """Die: what is not in the file yet is lost, and nobody is told."""
        app, self._app = self._app, None
        if app is None:
            return
        self.restarts += 1
        app.store.close()
        app.reads.end_watches()
        await app.stop()

    def client(self, faults: Faults | None = None) -> Client:
        """A client of whichever server is up; without faults nothing happens to its requests."""
        return Client(FaultyTransport(self._handle, faults or Faults(Random(0))))

    async def _handle(self, call: Call) -> tuple[int, Mapping[str, str], Body]:
        app = self._up()
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
        self._check_up(app)
        if response.code == 500 and b"see the log of the server" in bytes(
            response.body if isinstance(response.body, bytes) else b""
        ):
            self._observer.note_violation(f"the server broke down on {call.method} {call.path}")
        body = response.body
        return response.code, {}, body if isinstance(body, bytes) else self._stream(app, body)

    async def _stream(self, app: App, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for piece in pieces:
                yield piece
            self._check_up(app)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]

    def _up(self) -> App:
        if self._app is None:
            raise Unreachable("the server is down")
        return self._app

    def _check_up(self, app: App) -> None:
        """An answer of a server that died meanwhile never arrives."""
        if self._app is not app:
            raise Unreachable("the server went down")
