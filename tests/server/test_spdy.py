"""SPDY as kubectl sends it for a forwarded port, and as nobody should."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.server.spdy import (
    DICTIONARY,
    FRAME_MAX_BYTES,
    BadFrame,
    Data,
    Frame,
    Idle,
    Opened,
    Ping,
    Reader,
    Reset,
    Writer,
)

# One connection of `kubectl port-forward web 18999:18431` (1.32) with `curl` at its other end,
# message by message as the WebSocket brought them.
RECORDED = """
8003 0001 0000003f 00000001 00000000 00 00
78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc6a6861620c4aa09c459078cc04a56f460300000000ffff
00000001 01000000
8003 0001 00000018 00000003 00000000 00 00 c2aa1b54102512a119000000ffff
00000003 0000004f
474554202f20485454502f312e310d0a486f73743a203132372e302e302e313a31383939390d0a557365722d4167656e743a206375726c2f372e38382e310d0a4163636570743a202a2f2a0d0a0d0a
00000003 01000000
"""
PIECES = [bytes.fromhex(word) for word in RECORDED.split()]
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:18999\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"
)
ASKED = {"port": "18431", "requestid": "0"}
FRAMES: list[Frame] = [
    Opened(1, {**ASKED, "streamtype": "error"}, is_last=False),
    Data(1, b"", is_last=True),
    Opened(3, {**ASKED, "streamtype": "data"}, is_last=False),
    Data(3, REQUEST, is_last=False),
    Data(3, b"", is_last=True),
]


def frames(*pieces: bytes) -> list[Frame]:
    reader = Reader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


def control(kind: int, content: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, len(content)) + content


def opening(block: bytes) -> bytes:
    packing = zlib.compressobj(zdict=DICTIONARY)
    packed = packing.compress(block) + packing.flush(zlib.Z_SYNC_FLUSH)
    return control(1, struct.pack(">IIH", 1, 0, 0) + packed)


def test_kubectl_opens_two_streams_for_a_connection_and_sends_on_the_second() -> None:
    assert frames(*PIECES) == FRAMES


@given(st.integers(1, 40))
def test_it_is_the_same_however_it_is_cut(size: int) -> None:
    whole = b"".join(PIECES)

    assert frames(*(whole[at : at + size] for at in range(0, len(whole), size))) == FRAMES


def test_what_we_send_is_read_as_it_was_meant() -> None:
    writer = Writer()
    replies = [writer.reply(1), writer.reply(3)]  # packed as one, so each needs those before

    sent = [writer.data(3, b"hello"), writer.data(3, b"", is_last=True), writer.ping(7)]
    found = frames(*replies, writer.taken(3, 5), *sent, writer.reset(5, 3))

    assert [type(frame) for frame in found[:3]] == [Idle, Idle, Idle]
    assert found[3:] == [Data(3, b"hello", False), Data(3, b"", True), Ping(7), Reset(5)]


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (struct.pack(">II", 1, FRAME_MAX_BYTES + 1), "at most 1048576 are taken"),
        (control(6, bytes(4), version=2), "SPDY version 2"),
        (control(5, b""), "of type 5"),
        (control(3, b"\0"), "too short"),
        (control(1, bytes(10) + b"no zlib"), "headers: "),
        (opening(struct.pack(">I", 1) + bytes(20_000)), "headers of more than 1024 bytes"),
        (opening(struct.pack(">I", 17)), "17 headers"),
        (opening(struct.pack(">III", 1, 0, 9) + b"short"), "a header that is cut off"),
        (opening(struct.pack(">II", 1, 0)), "too short"),
    ],
)
def test_what_makes_no_sense_or_is_too_much_is_refused(piece: bytes, why: str) -> None:
    with pytest.raises(BadFrame, match=why):
        frames(piece)


@given(st.binary(max_size=200))
def test_whatever_comes_it_is_frames_or_refused(noise: bytes) -> None:
    with contextlib.suppress(BadFrame):
        frames(*PIECES, noise)
