"""HTTP and TLS: with `sockets.py`, the only file of the server that knows the HTTP library."""

import asyncio
import asyncio.sslproto
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from makeway.server import sockets
from makeway.server.door import Connection, Door
from makeway.server.errors import bad_request, header_too_large, too_large
from makeway.server.messages import BODY_MAX_BYTES, Request, Response, problem

log = logging.getLogger("makeway.server.http")

BODY_TIMEOUT_S = 30.0  # for a client to send its body
WRITE_TIMEOUT_S = 30.0  # for a client to read a piece of ours
SHUTDOWN_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 75.0
HEADER_MAX_BYTES = 128 * 1024  # of a line: selectors stand in the URL

# asyncio gives each TLS connection a buffer of 256 KiB for what it reads; a thousand idle watches
# would take as many times that. Bigger requests are read in several pieces.
asyncio.sslproto.SSLProtocol.max_size = 32 * 1024

Handler = Callable[[Request], Awaitable[Response]]


class NotLoopback(Exception):
    """The address is reachable from elsewhere."""


class Listener:
    def __init__(
        self,
        handler: Handler,
        is_authenticated: Callable[[Mapping[str, str], int | None], bool],
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        listening: socket.socket | None = None,
        local: Path | None = None,
        is_for_all: bool = False,
    ) -> None:
        """On a socket that others made for us, or on one of our own.

        `local` is a Unix socket that is served as well, for all accounts or for ours alone.
        """
        if host not in ("127.0.0.1", "::1", "localhost"):
            raise NotLoopback(f"{host} is not a loopback address")
        self._handler, self._is_authenticated = handler, is_authenticated
        self._host, self._port, self._tls = host, port, tls
        self._listening = listening
        self._server: web.Server | None = None
        self._local, self._is_for_all = local, is_for_all
        self._door = Door(self._speak, tls, is_for_all=is_for_all)
        self._local_door = Door(self._speak, None, is_for_all=True)

    async def start(self) -> int:
        """Listen, and return the port."""
        self._server = web.Server(self._serve, handler_cancellation=True)
        if self._local is not None:
            self._local_door.open_unix(self._local, 0o666 if self._is_for_all else 0o600)
        return self._door.open(self._host, self._port, self._listening)

    async def stop(self) -> None:
        self._door.close()
        self._local_door.close()
        if self._server is not None:
            self._server.pre_shutdown()
            await self._server.shutdown(SHUTDOWN_TIMEOUT_S)

    def _speak(self) -> Connection:
        assert self._server is not None
        return _HttpConnection(
            self._server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none is kept
            logger=log,
            keepalive_timeout=KEEP_ALIVE_S,
            auto_decompress=False,
            max_line_size=HEADER_MAX_BYTES,
            max_field_size=HEADER_MAX_BYTES,
        )

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in raw.headers.items()}
        connection = raw.protocol if isinstance(raw.protocol, Connection) else None
        uid = None if connection is None else connection.uid
        is_known = self._is_authenticated(headers, uid)
        if is_known and connection is not None:
            (self._door if uid is None else self._local_door).knows(connection)
        # Without a token a request is refused whatever its body says, which is not even read.
        is_read = raw.body_exists and is_known
        try:
            body = await _read(raw) if is_read else b""
        except _TooLarge:
            return _whole(problem(too_large(BODY_MAX_BYTES)), must_close=True)
        except (TimeoutError, HttpProcessingError, ValueError):
            return _whole(problem(bad_request("the body could not be read")), must_close=True)
        query: dict[str, str] = {}
        for key, value in raw.rel_url.query.items():
            query.setdefault(key, value)
        response = await self._handler(
            Request(
                method=raw.method,
                path=raw.rel_url.raw_path,
                query=query,
                headers=headers,
                body=body,
                uid=uid,
                pairs=tuple(raw.rel_url.query.items()),
            )
        )
        if response.talk is not None:
            return await sockets.converse(raw, response.talk)
        if isinstance(response.body, bytes):
            answer = _whole(response, must_close=raw.body_exists and not is_read)
            return await _sent(raw, answer)
        try:
            if response.has_lines and sockets.is_asked_for(headers):
                return await sockets.send_lines(raw, response.body, WRITE_TIMEOUT_S)
            return await _stream(raw, response)
        finally:
            aclose = getattr(response.body, "aclose", None)
            if aclose is not None:
                await aclose()


class _HttpConnection(web.RequestHandler, Connection):
    """Speaks HTTP, and tells the door when it is over."""

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.on_lost()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP gets an answer like any other mistake of a client."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        why = header_too_large() if isinstance(exc, LineTooLong) else bad_request("not HTTP")
        return _whole(problem(why), must_close=True)


class _TooLarge(Exception):
    pass


async def _read(raw: web.BaseRequest) -> bytes:
    if (raw.content_length or 0) > BODY_MAX_BYTES:
        raise _TooLarge
    pieces, size = [], 0
    async with asyncio.timeout(BODY_TIMEOUT_S):
        async for piece in raw.content.iter_any():
            size += len(piece)
            if size > BODY_MAX_BYTES:
                raise _TooLarge
            pieces.append(piece)
    return b"".join(pieces)


def _whole(response: Response, *, must_close: bool = False) -> web.Response:
    assert isinstance(response.body, bytes)
    answer = web.Response(status=response.code, body=response.body)
    answer.headers["Content-Type"] = response.content_type
    for name, value in response.headers:
        answer.headers.add(name, value)
    if must_close:
        answer.force_close()
    return answer


async def _sent(raw: web.BaseRequest, answer: web.Response) -> web.Response:
    """The answer, on its way: a client that doesn't read it, or is gone, loses its connection."""
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await answer.prepare(raw)
            await answer.write_eof()
    except (TimeoutError, ConnectionError):
        if raw.transport is not None:
            raw.transport.abort()
    return answer


async def _stream(raw: web.BaseRequest, response: Response) -> web.StreamResponse:
    assert not isinstance(response.body, bytes)
    answer = web.StreamResponse(status=response.code)
    answer.headers["Content-Type"] = response.content_type
    answer.headers.update(response.headers)
    answer.enable_chunked_encoding()
    try:
        await answer.prepare(raw)
        async for piece in response.body:
            if piece:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await answer.write(piece)
        await answer.write_eof()
    except (TimeoutError, ConnectionError):
        # Nobody reads; what is buffered goes with the connection.
        if raw.transport is not None:
            raw.transport.abort()
    return answer
