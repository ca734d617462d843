"""`kubectl port-forward`: connections to ports of a pod, as streams of one WebSocket.

kubectl speaks SPDY inside of it: for each connection a stream for errors and one for data. Other
clients speak in numbered channels, two for each port that the query names; in version 5, which is
ours, number 255 with that of a channel says that the client closes it. Both ways one connection's
end or trouble is its own; but one that doesn't take what came for it makes the others of its client
wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from makeway.server.errors import bad_request
from makeway.server.messages import Messages, Request
from makeway.server.spdy import REFUSED_STREAM as REFUSED
from makeway.server.spdy import BadFrame, Data, Opened, Ping, Reader, Reset, Writer

SPDY, V5, V4 = "SPDY/3.1+portforward.k8s.io", "v5.channel.k8s.io", "v4.channel.k8s.io"
CLOSE = 255
CONNECTIONS_MAX = 128  # of one client
OF_ONE_MAX = 128  # of one account that shares the server
ALL_MAX = 512  # of all clients; each is a descriptor of ours
AHEAD_MAX_BYTES = 256 * 1024  # of what came for a connection that doesn't take it
CHUNK_BYTES = 32 * 1024
PORTS_MAX = 100
FRAMES_AT_ONCE = 16  # before others get their turn

Send = Callable[[bytes], Awaitable[None]]
Connect = Callable[[int], Awaitable[socket.socket]]  # OSError: nobody listens there, and why


class Room:
    """How many connections clients have, all or those of one account; OSError: too many."""

    def __init__(self, most: int = ALL_MAX, outer: Room | None = None) -> None:
        """What is taken of an inner room is taken of the outer one, too."""
        self._left, self._outer = most, outer

    def __enter__(self) -> None:
        if not self._left:
            whose = "" if self._outer is None else " of yours"
            raise OSError(f"too many connections{whose} are forwarded already")
        if self._outer is not None:
            self._outer.__enter__()
        self._left -= 1

    def __exit__(self, *_: object) -> None:
        self._left += 1
        if self._outer is not None:
            self._outer.__exit__()


def port_of(text: str) -> int | None:
    """A port, if it is one."""
    is_one = text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) <= 0xFFFF
    return int(text) if is_one else None


def ports_of(request: Request) -> list[int]:
    """What the query of a client that speaks in channels names."""
    found = list[int]()
    for text in (text for value in request.all("ports") for text in value.split(",")):
        port = port_of(text)
        if port is None:
            raise bad_request(f"ports: {text[:20]!r} is no port; write 1 to 65535")
        found.append(port)
    if not 0 < len(found) <= PORTS_MAX:
        raise bad_request(f"ports: name 1 to {PORTS_MAX}")
    return found


# In numbered channels


async def in_channels(connect: Connect, room: Room, ports: list[int], messages: Messages) -> None:
    """Channel 2n has the data of the nth port, 2n+1 its errors; each begins with the port."""
    lines = [_Channel(place, port, messages) for place, port in enumerate(ports)]
    for line in lines:
        await line.begin()
    working = [asyncio.ensure_future(line.run(connect, room)) for line in lines]
    hearing = asyncio.ensure_future(_hear(lines, messages))
    try:
        all_over = asyncio.gather(*working, return_exceptions=True)
        await asyncio.wait((all_over, hearing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _ended(*working, hearing)


class _Channel:
    def __init__(self, place: int, port: int, messages: Messages) -> None:
        self._data, self._error = bytes([2 * place]), bytes([2 * place + 1])
        self._port, self._messages = port, messages
        self.link = Link()

    async def begin(self) -> None:
        port = self._port.to_bytes(2, "little")
        await self._messages.send(self._data + port)
        await self._messages.send(self._error + port)

    async def run(self, connect: Connect, room: Room) -> None:
        async def send(piece: bytes) -> None:
            if piece:
                await self._messages.send(self._data + piece)

        try:
            with room:
                await self.link.run(await connect(self._port), send)
        except OSError as error:
            await self._messages.send(self._error + str(error).encode())
        finally:
            self.link.close()


async def _hear(lines: list[_Channel], messages: Messages) -> None:
    while (message := await messages.receive()) is not None:
        is_close = message[:1] == bytes([CLOSE])
        number = message[is_close : is_close + 1]
        place, is_error = divmod(number[0], 2) if number else (len(lines), 0)
        if place >= len(lines) or is_error:
            continue
        if is_close:
            lines[place].link.finish()
        else:
            await lines[place].link.add(message[1:])


# In SPDY


async def in_spdy(connect: Connect, room: Room, messages: Messages) -> None:
    client = _Client(connect, room, messages)
    try:
        await client.hear()
    except BadFrame:
        return  # whoever speaks like that is hung up on
    finally:
        await _ended(*client.working)


class _Client:
    """The streams of one client; a connection is two of them, by the number of its request."""

    def __init__(self, connect: Connect, room: Room, messages: Messages) -> None:
        self._connect, self._room, self._messages = connect, room, messages
        self._writer = Writer()
        self._errors: dict[str, int] = {}  # streams for errors whose data stream isn't there yet
        self._links: dict[int, Link] = {}  # by the stream of their data
        self.working: set[asyncio.Future[None]] = set()

    async def hear(self) -> None:
        reader = Reader()
        while (message := await self._messages.receive()) is not None:
            for number, frame in enumerate(reader.feed(message), start=1):
                if number % FRAMES_AT_ONCE == 0:
                    await asyncio.sleep(0)
                match frame:
                    case Opened():
                        await self._open(frame)
                    case Data():
                        await self._take(frame)
                    case Reset(stream) if stream in self._links:
                        self._links[stream].cut()
                    case Ping(number) if number % 2:  # an even one is an answer
                        await self._messages.send(self._writer.ping(number))

    async def _open(self, opened: Opened) -> None:
        stream, headers = opened.stream, opened.headers
        request, port = headers.get("requestid", ""), port_of(headers.get("port", ""))
        kind = headers.get("streamtype", "")
        is_new = stream % 2 == 1 and stream not in self._links
        has_room = len(self._links) + len(self._errors) < CONNECTIONS_MAX
        if kind == "error" and is_new and has_room:
            self._errors[request] = stream
        elif kind == "data" and is_new and port is not None and request in self._errors:
            self._begin(stream, self._errors.pop(request), port, opened.is_last)
        else:
            await self._messages.send(self._writer.reset(stream, REFUSED))
            return
        await self._messages.send(self._writer.reply(stream))

    def _begin(self, stream: int, errors: int, port: int, is_last: bool) -> None:
        link = self._links[stream] = Link()
        if is_last:
            link.finish()
        task = asyncio.ensure_future(self._run(stream, errors, port, link))
        self.working.add(task)
        task.add_done_callback(self.working.discard)

    async def _run(self, stream: int, errors: int, port: int, link: Link) -> None:
        async def send(piece: bytes) -> None:
            await self._messages.send(self._writer.data(stream, piece, is_last=not piece))

        trouble = b""
        try:
            with self._room:
                await link.run(await self._connect(port), send)
        except OSError as error:
            trouble = f"port {port}: {error}".encode()
            await send(b"")
        finally:
            link.close()
            del self._links[stream]
        await self._messages.send(self._writer.data(errors, trouble, is_last=True))

    async def _take(self, data: Data) -> None:
        link = self._links.get(data.stream)
        if link is None:
            return  # of one that is over, or an error stream that is closed
        await link.add(data.content)
        if data.is_last:
            link.finish()
        if data.content:
            await self._messages.send(self._writer.taken(data.stream, len(data.content)))
            await self._messages.send(self._writer.taken(0, len(data.content)))


# One connection


class Link:
    """A connection to a port: what is for it waits here, and no more than a little."""

    def __init__(self) -> None:
        self._ahead = bytearray()
        self._news, self._room, self._is_cut = (asyncio.Event() for _ in range(3))
        self._is_finished = self._is_over = False

    async def add(self, piece: bytes) -> None:
        """Have it sent; who is far ahead waits. After the end nothing is."""
        if not (self._is_over or self._is_finished):
            self._ahead += piece
            self._news.set()
            if len(self._ahead) > AHEAD_MAX_BYTES:
                self._room.clear()
                await self._room.wait()

    def finish(self) -> None:
        """Nothing more will be sent."""
        self._is_finished = True
        self._news.set()

    def cut(self) -> None:
        """Nobody wants the connection any more."""
        self._is_cut.set()

    def close(self) -> None:
        """It is over; who waits to send waits no longer."""
        self._is_over = True
        self._room.set()

    async def run(self, connection: socket.socket, send: Send) -> None:
        """Until the other side is through; the last that is sent is empty."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=CHUNK_BYTES)
        giving = asyncio.ensure_future(self._give(writer))
        taking = asyncio.ensure_future(_take(reader, send))
        cutting = asyncio.ensure_future(self._is_cut.wait())
        try:
            await asyncio.wait((taking, cutting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _ended(giving, taking, cutting)
            writer.transport.abort()

    async def _give(self, writer: asyncio.StreamWriter) -> None:
        while self._ahead or not self._is_finished:
            await self._news.wait()
            self._news.clear()
            writer.write(bytes(self._ahead))
            self._ahead.clear()
            await writer.drain()
            self._room.set()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _take(reader: asyncio.StreamReader, send: Send) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(CHUNK_BYTES):
            await send(piece)
    await send(b"")


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
