"""What was begun in a pod through a call: its streams, its end, and how it is hung up on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Awaitable, Callable
from typing import Any

from makeway.runner.calls import ANSWER_S, NotNow
from makeway.runner.host import AttachWish, ConnectWish, ExecWish, Wish

CHUNK_BYTES = 32 * 1024
STREAMS_MAX = 3
TOLD_MAX = 4096
_SIZE = struct.Struct("4H")  # rows, columns, and both in pixels

Call = Callable[[str, Wish], Awaitable[socket.socket]]


class Visits:
    """Programs and connections in the pods of a host."""

    def __init__(self, call: Call) -> None:
        """`call` gets a line to the supervisor of the pod with a uid."""
        self._call = call

    async def execute(
        self,
        uid: str,
        container: str,
        argv: list[str],
        *,
        is_terminal: bool,
        has_input: bool,
    ) -> Visit:
        wish = ExecWish(
            container=container,
            argv=tuple(argv),
            is_terminal=is_terminal,
            has_input=has_input,
        )
        return await self._begun(uid, wish)

    async def attach(self, uid: str, container: str) -> Visit:
        """The input of a container; what it prints is in its log."""
        visit = await self._begun(uid, AttachWish(container=container))
        visit.is_input_alone = True
        return visit

    async def connect(self, uid: str, port: int) -> socket.socket:
        """A connection to a port at which a process of the pod listens; NotNow: there is none."""
        visit = await self._begun(uid, ConnectWish(port=port))
        return visit.connection()

    async def _begun(self, uid: str, wish: Wish) -> Visit:
        line = await self._call(uid, wish)
        try:
            async with asyncio.timeout(ANSWER_S):
                return Visit(line, await _streams(line))
        except TimeoutError:
            line.close()
            raise NotNow("the pod does not answer") from None
        except BaseException:
            line.close()
            raise


async def _streams(line: socket.socket) -> dict[str, int]:
    """What the other end hands over, by name."""
    await _ready(line.fileno(), is_reading=True)
    content, descriptors, _, _ = socket.recv_fds(line, TOLD_MAX, STREAMS_MAX)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)
    told = json.loads(content) if content else {}
    names = told.get("streams", [])
    if not names or len(names) != len(descriptors):
        for descriptor in descriptors:
            os.close(descriptor)
        lost = "the server has no file descriptors left" if names else "the pod is over"
        raise NotNow(str(told.get("refused") or lost))
    return dict(zip(names, descriptors, strict=True))


class Visit:
    """A program that runs in a pod. Nobody waits for anybody: who reads slowly makes it wait."""

    def __init__(self, line: socket.socket, streams: dict[str, int]) -> None:
        self._line, self._streams = line, streams
        self.is_input_alone = False  # there is nothing else: with it all is over

    def connection(self) -> socket.socket:
        """The connection that was asked for; the line is over with that."""
        self._line.close()
        return socket.socket(fileno=self._streams.pop("connection"))

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(name for name in self._streams if name != "input")

    async def read(self, name: str) -> bytes:
        """The next piece of an output; empty when nobody can print there any more."""
        descriptor = self._streams[name]
        while True:
            try:
                return os.read(descriptor, CHUNK_BYTES)
            except BlockingIOError:
                await _ready(descriptor, is_reading=True)
            except OSError as error:
                if error.errno != errno.EIO:  # a terminal that nobody has open any more
                    raise
                return b""

    async def write(self, piece: bytes) -> None:
        """Into its input, as soon as there is room; what nobody reads any more is dropped."""
        descriptor = self._streams.get("terminal", self._streams.get("input", -1))
        view = memoryview(piece)
        while view and descriptor >= 0:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                await _ready(descriptor, is_reading=False)
            except OSError:
                return

    def close_input(self) -> None:
        """Of a program on a terminal nothing happens: that has no end of its input."""
        if self.is_input_alone:
            self.close()
        descriptor = self._streams.pop("input", -1)
        if descriptor >= 0:
            os.close(descriptor)

    def resize(self, rows: int, columns: int) -> None:
        if "terminal" in self._streams:
            size = _SIZE.pack(rows, columns, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._streams["terminal"], termios.TIOCSWINSZ, size)

    async def code(self) -> int | None:
        """Its exit code when it has ended; None: the pod went away under it."""
        await _ready(self._line.fileno(), is_reading=True)
        try:
            told: dict[str, Any] = json.loads(self._line.recv(TOLD_MAX) or b"{}")
        except OSError:
            return None
        code: int | None = told.get("code")
        return code

    def close(self) -> None:
        """If it runs yet, it is hung up on."""
        self._line.close()
        for descriptor in self._streams.values():
            os.close(descriptor)
        self._streams = {}


async def _ready(descriptor: int, *, is_reading: bool) -> None:
    loop = asyncio.get_running_loop()
    is_ready = loop.create_future()
    if is_reading:
        add, remove = loop.add_reader, loop.remove_reader
    else:
        add, remove = loop.add_writer, loop.remove_writer

    def tell() -> None:
        if not is_ready.done():
            is_ready.set_result(None)

    add(descriptor, tell)
    try:
        await is_ready
    finally:
        remove(descriptor)
