"""Stands between a controller and the API server, and can lose what passes.

It takes plain HTTP and speaks TLS to the server, so it can tell a read from a write. The kernel
goes on answering for a connection that is dark: neither keep-alive nor reset tells that nobody is
there any more.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from makeway.api.kinds import Resource
from makeway.client.kubeconfig import Access
from tests.kube.plane import kubeconfig_for

PIECE = 1 << 16


class Fate(Enum):
    PASS = "pass"
    LOSE_REQUEST = "lose request"  # it never gets to the server
    LOSE_ANSWER = "lose answer"  # it has its effect, and nobody hears of it
    HOLD = "hold"  # it gets there when it is released, whoever sent it may be dead by then
    GONE = "gone"  # answered by us: what was asked for is too old


@dataclass
class Request:
    method: str
    target: str  # path and query
    at: float
    fate: Fate = Fate.PASS
    code: int = 0  # of the answer; 0: none came

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and "watch=true" in self.target

    @property
    def is_write(self) -> bool:
        """Whether it changes more than who leads, or what is told of it."""
        is_aside = "/leases" in self.path or "/events" in self.path
        return self.method != "GET" and not is_aside


Rule = Callable[[Request], Fate]


@dataclass(eq=False)
class _Connection:
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    is_dark: bool = False
    is_deaf: bool = False  # answers are lost
    last: Request | None = None
    answers: asyncio.Event = field(default_factory=asyncio.Event)  # the first one has come


class Proxy:
    def __init__(self, server: Access) -> None:
        host, _, port = server.address.removeprefix("https://").partition(":")
        self._server = (host, int(port))
        self._connections: set[_Connection] = set()
        self._trusting = ssl.create_default_context()
        self._trusting.check_hostname, self._trusting.verify_mode = False, ssl.CERT_NONE
        self._released = asyncio.Event()
        self.requests: list[Request] = []
        self.rule: Rule = lambda request: Fate.PASS
        self.port = 0

    def sever(self) -> None:
        """Reset every connection."""
        for connection in list(self._connections):
            connection.near.transport.abort()
            connection.far.transport.abort()

    def darken(self, *, watches_only: bool = False) -> None:
        """From now on not a byte passes on the connections there are; new ones work."""
        for connection in self._connections:
            last = connection.last
            if not watches_only or (last is not None and last.is_watch):
                connection.is_dark = True

    def release(self) -> None:
        """Deliver what was held."""
        self._released.set()

    def with_fate(self, fate: Fate) -> list[Request]:
        return [request for request in self.requests if request.fate is fate]

    def writes_since(self, at: float) -> list[Request]:
        return [request for request in self.requests if request.at >= at and request.is_write]

    def lists_of(self, resource: Resource) -> list[Request]:
        """First pages that were asked for."""
        return [
            request
            for request in self.requests
            if request.method == "GET" and request.path == resource.path()
            if not request.is_watch and "continue=" not in request.target
        ]

    def renewals(self) -> list[Request]:
        """Of the Lease, those that the server took; the first is how it was acquired."""
        writes = [r for r in self.requests if r.method != "GET" and "/leases" in r.path]
        return [request for request in writes if request.code in (200, 201)]

    def kubeconfig_in(self, folder: Path) -> Path:
        path = folder / f"kubeconfig-{self.port}"
        path.write_text(kubeconfig_for(f"http://127.0.0.1:{self.port}"))
        return path

    async def serve(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        try:
            answers, far = await asyncio.open_connection(*self._server, ssl=self._trusting)
        except OSError:
            near.transport.abort()
            return
        connection = _Connection(near, far)
        self._connections.add(connection)
        back = asyncio.create_task(self._pass_answers(connection, answers))
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    await self._pass_request(connection, reader)
        finally:
            self._connections.discard(connection)
            back.cancel()
            far.transport.abort()
            near.transport.abort()

    async def _pass_request(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if connection.is_dark:
            return
        method, target, _ = first.split(" ")
        request = Request(method, target, time.monotonic())
        request.fate = self.rule(request)
        self.requests.append(request)
        connection.last = request
        if request.fate is Fate.GONE:
            connection.near.write(_GONE)
            return
        if request.fate is Fate.LOSE_REQUEST:
            return
        if request.fate is Fate.HOLD:
            await self._released.wait()
        connection.is_deaf |= request.fate is Fate.LOSE_ANSWER
        connection.answers.clear()
        connection.far.write(head + body)
        await connection.far.drain()
        if request.fate is Fate.HOLD:
            await connection.answers.wait()

    async def _pass_answers(self, connection: _Connection, answers: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while piece := await answers.read(PIECE):
                request = connection.last
                if request is not None and not request.code and piece.startswith(b"HTTP/1.1 "):
                    request.code = int(piece[9:12])
                    connection.answers.set()
                if not connection.is_dark and not connection.is_deaf:
                    connection.near.write(piece)
                    await connection.near.drain()
        if not connection.is_dark:
            connection.near.transport.abort()


_GONE_BODY = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired",'
    b'"message":"too old resource version"}'
)
_GONE = b"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_GONE_BODY),
    _GONE_BODY,
)


@contextlib.asynccontextmanager
async def proxy_to(server: Access) -> AsyncIterator[Proxy]:
    made = Proxy(server)
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = int(listener.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        listener.close()
        made.sever()
