"""Requests over the Unix socket of a server on this machine, one after the other, without a loop.

A command that asks one question needs neither an event loop nor TLS nor an HTTP library, which
cost several times what the question does. Nothing here ever waits for anything but the socket, so
a coroutine that talks through it runs through from its beginning to its end: `drive` does that.
"""

import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlencode

from makeway.client.transport import Answer, Call, Unreachable

ANSWER_TIMEOUT_S = 60.0
PIECE_BYTES = 64 * 1024
T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for a loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise AssertionError("it waits for an event loop, and there is none")


async def pause(seconds: float) -> None:
    """In place of the loop's own: nobody else has anything to do meanwhile."""
    time.sleep(seconds)


class LocalTransport:
    def __init__(self, path: str) -> None:
        self._path = path

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            try:
                connection.connect(self._path)
                connection.sendall(_written(call))
                stream = connection.makefile("rb")
                code, headers = _head(stream)
            except (OSError, ValueError) as error:
                raise Unreachable(f"{self._path}: {_in_words(error)}") from error
            yield Answer(code=code, headers=headers, pieces=_pieces(stream, headers))

    async def close(self) -> None:
        """Every request has a connection of its own."""


def _written(call: Call) -> bytes:
    query = f"?{urlencode(call.query)}" if call.query else ""
    headers = {"Host": "localhost", "Connection": "close", **call.headers}
    if call.body:
        headers["Content-Length"] = str(len(call.body))
    lines = [f"{call.method} {quote(call.path)}{query} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + call.body


def _head(stream: BinaryIO) -> tuple[int, dict[str, str]]:
    """The status and the headers; ValueError if this is no HTTP."""
    parts = stream.readline().split()
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1."):
        raise ValueError("what answers there does not speak HTTP")
    headers: dict[str, str] = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        key, text = name.strip().lower(), value.strip()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return int(parts[1]), headers


async def _pieces(stream: BinaryIO, headers: dict[str, str]) -> AsyncIterator[bytes]:
    try:
        for piece in _body(stream, headers):
            yield piece
    except (OSError, ValueError) as error:
        raise Unreachable(f"the answer broke off: {_in_words(error)}") from error


def _body(stream: BinaryIO, headers: dict[str, str]) -> Iterator[bytes]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int(stream.readline().split(b";")[0], 16):
            yield _exactly(stream, size)
            stream.readline()
        return
    length = headers.get("content-length")
    if length is not None:
        yield _exactly(stream, int(length))
        return
    while piece := stream.read(PIECE_BYTES):
        yield piece


def _exactly(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise ValueError(f"{size - len(found)} bytes are missing")
    return found


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    is_numbered = isinstance(error, OSError) and error.errno is not None
    return os.strerror(error.errno).lower() if is_numbered else str(error)  # type: ignore[attr-defined]
