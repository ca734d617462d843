"""Forwarded connections: each has its own end and its own trouble, and none gets far ahead."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from makeway.server.port_forward import AHEAD_MAX_BYTES, Room, in_channels, in_spdy
from makeway.server.spdy import DICTIONARY, Data, Frame, Idle, Reader, Reset, Writer

CHUNK = 32 * 1024
PATIENCE_S = 20.0


class Talk:
    """A client's end of a WebSocket, and the pod's ends of what it is connected to."""

    def __init__(self) -> None:
        self._coming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._going: asyncio.Queue[bytes] = asyncio.Queue()
        self.taken = 0  # messages of the client's
        self.pods: dict[int, socket.socket] = {}
        self._packing = zlib.compressobj(zdict=DICTIONARY)
        self._reader = Reader()
        self._frames: list[Frame] = []

    async def connect(self, port: int) -> socket.socket:
        if port == 1:
            raise ConnectionError("nobody is there")
        ours, self.pods[port] = socket.socketpair()
        self.pods[port].setblocking(False)
        return ours

    async def receive(self) -> bytes | None:
        message = await self._coming.get()
        self.taken += 1
        return message

    async def send(self, message: bytes) -> None:
        self._going.put_nowait(message)

    def say(self, message: bytes | None) -> None:
        self._coming.put_nowait(message)

    async def heard(self) -> bytes:
        return await self._going.get()

    def open(self, stream: int, **headers: str) -> None:
        words = [word.encode() for pair in headers.items() for word in pair]
        block = struct.pack(">I", len(headers))
        block += b"".join(struct.pack(">I", len(word)) + word for word in words)
        packed = self._packing.compress(block) + self._packing.flush(zlib.Z_SYNC_FLUSH)
        content = struct.pack(">IIH", stream, 0, 0) + packed
        self.say(struct.pack(">HHI", 0x8003, 1, len(content)) + content)

    def open_both(self, stream: int, port: int) -> None:
        """The streams of one connection; that of its data is the second."""
        asked = {"requestid": str(stream), "port": str(port)}
        self.open(stream, streamtype="error", **asked)
        self.open(stream + 2, streamtype="data", **asked)

    async def frame(self) -> Frame:
        """The next that says something; replies and windows don't."""
        while not self._frames:
            frames = self._reader.feed(await self.heard())
            self._frames += [frame for frame in frames if not isinstance(frame, Idle)]
        return self._frames.pop(0)

    async def read(self, port: int, size: int) -> bytes:
        """What comes out at the pod's end."""
        found = bytearray()
        while port not in self.pods:
            await asyncio.sleep(0)
        while len(found) < size:
            found += await asyncio.get_running_loop().sock_recv(self.pods[port], CHUNK)
        return bytes(found)


def play(
    story: Callable[[Talk], Coroutine[Any, Any, None]], room: Room, ports: list[int] | None = None
) -> None:
    async def run() -> None:
        talk = Talk()
        work = in_channels(talk.connect, room, ports, talk) if ports else None
        forwarding = asyncio.ensure_future(work or in_spdy(talk.connect, room, talk))
        async with asyncio.timeout(PATIENCE_S):
            await story(talk)
            talk.say(None)
            await forwarding
        for end in talk.pods.values():
            end.close()

    asyncio.run(run())


def test_one_is_refused_and_the_other_goes_on() -> None:
    async def story(talk: Talk) -> None:
        talk.open_both(1, port=80)
        talk.say(Writer.data(3, b"question"))
        talk.open_both(5, port=1)

        assert await talk.frame() == Data(7, b"", is_last=True)
        assert await talk.frame() == Data(5, b"port 1: nobody is there", is_last=True)
        assert await talk.read(80, 8) == b"question"
        talk.pods[80].send(b"answer")
        assert await talk.frame() == Data(3, b"answer", is_last=False)
        talk.pods[80].close()
        assert await talk.frame() == Data(3, b"", is_last=True)
        assert await talk.frame() == Data(1, b"", is_last=True)

    play(story, Room())


def test_who_has_said_all_still_hears_the_answer() -> None:
    async def story(talk: Talk) -> None:
        talk.open_both(1, port=80)
        talk.say(Writer.data(3, b"all", is_last=True))

        assert await talk.read(80, 3) == b"all"
        assert await asyncio.get_running_loop().sock_recv(talk.pods[80], 1) == b""
        talk.pods[80].send(b"heard")
        assert await talk.frame() == Data(3, b"heard", is_last=False)
        talk.say(Writer.reset(3, 5))
        while await talk.frame() != Data(1, b"", is_last=True):
            pass

    play(story, Room())


def test_streams_that_make_no_sense_are_given_back() -> None:
    async def story(talk: Talk) -> None:
        talk.open(1, streamtype="data", requestid="0", port="80")  # it has none for its errors
        talk.open(2, streamtype="error", requestid="0", port="80")  # even ones are the server's
        talk.open(3, streamtype="other")
        talk.open(5, streamtype="error", requestid="1", port="no port")
        talk.open(7, streamtype="data", requestid="1", port="no port")

        assert [await talk.frame() for _ in range(4)] == [Reset(1), Reset(2), Reset(3), Reset(7)]

    play(story, Room())


async def second_is_refused(talk: Talk, why: bytes) -> None:
    """The first connection, to port 80, is used; that to port 81 is not made."""
    talk.open_both(1, port=80)
    talk.say(Writer.data(3, b"first"))
    assert await talk.read(80, 5) == b"first"
    talk.open_both(5, port=81)

    assert await talk.frame() == Data(7, b"", is_last=True)
    assert await talk.frame() == Data(5, b"port 81: " + why, is_last=True)


def test_of_all_clients_only_so_many_are_connected() -> None:
    async def story(talk: Talk) -> None:
        await second_is_refused(talk, b"too many connections are forwarded already")

    play(story, Room(1))


def test_who_forwards_much_leaves_room_for_others() -> None:
    async def story(talk: Talk) -> None:
        await second_is_refused(talk, b"too many connections of yours are forwarded already")
        of_others, of_third = Room(1, all_of_them), Room(1, all_of_them)
        with of_others, pytest.raises(OSError, match="too many connections are"):
            of_third.__enter__()

    all_of_them = Room(2)
    play(story, Room(1, all_of_them))


def test_a_client_waits_for_a_pod_that_does_not_read() -> None:
    count = 200  # pieces, far more than may wait here and in the connection's own buffers

    async def story(talk: Talk) -> None:
        talk.open_both(1, port=80)
        for _ in range(count):
            talk.say(Writer.data(3, bytes(CHUNK)))
        before = -1
        while talk.taken != before:  # until nothing more is taken
            before = talk.taken
            await asyncio.sleep(0.05)
        assert AHEAD_MAX_BYTES // CHUNK < talk.taken < count / 2

        assert len(await talk.read(80, count * CHUNK)) == count * CHUNK

    play(story, Room())


def test_in_channels_both_begin_with_the_port() -> None:
    async def story(talk: Talk) -> None:
        begun = [await talk.heard() for _ in range(4)]
        assert begun == [b"\0\x50\0", b"\1\x50\0", b"\2\1\0", b"\3\1\0"]
        assert await talk.heard() == b"\3nobody is there"

        talk.say(b"\0question")
        assert await talk.read(80, 8) == b"question"
        talk.pods[80].send(b"answer")
        assert await talk.heard() == b"\0answer"

    play(story, Room(), ports=[80, 1])


def test_in_channels_who_has_said_all_still_hears_the_answer() -> None:
    async def story(talk: Talk) -> None:
        assert [await talk.heard() for _ in range(2)] == [b"\0\x50\0", b"\1\x50\0"]
        for message in (b"\0all", b"\xff\1", b"\xff", b"\xff\xff", b"\xff\0"):
            talk.say(message)  # only the last closes something that a client could close

        assert await talk.read(80, 3) == b"all"
        assert await asyncio.get_running_loop().sock_recv(talk.pods[80], 1) == b""
        talk.pods[80].send(b"heard")
        assert await talk.heard() == b"\0heard"

    play(story, Room(), ports=[80])
