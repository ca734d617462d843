"""SPDY/3.1 as far as kubectl's port-forward speaks it in a WebSocket: bytes to frames, and back.

Whoever sends is a stranger: the size of a frame and of its headers is limited before either is kept
or unpacked, and what makes no sense ends the conversation.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

FRAME_MAX_BYTES = 1024 * 1024
HEADERS_MAX_BYTES = 1024  # of one frame, unpacked; kubectl's three take a tenth of it
HEADERS_MAX = 16
VERSION = 3
_CONTROL = 0x8000
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 1, 2, 3, 4, 6, 7
_HEADERS, _WINDOW_UPDATE = 8, 9
_FIN = 1
_STREAM_MASK = 0x7FFFFFFF
REFUSED_STREAM = 3  # why a stream is reset


def _dictionary() -> bytes:
    """What both sides begin to compress headers with: words, each with its length, then phrases."""
    words = [
        *("options", "head", "post", "put", "delete", "trace", "accept", "accept-charset"),
        *("accept-encoding", "accept-language", "accept-ranges", "age", "allow", "authorization"),
        *("cache-control", "connection", "content-base", "content-encoding", "content-language"),
        *("content-length", "content-location", "content-md5", "content-range", "content-type"),
        *("date", "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since"),
        *("if-none-match", "if-range", "if-unmodified-since", "last-modified", "location"),
        *("max-forwards", "pragma", "proxy-authenticate", "proxy-authorization", "range"),
        *("referer", "retry-after", "server", "te", "trailer", "transfer-encoding", "upgrade"),
        *("user-agent", "vary", "via", "warning", "www-authenticate", "method", "get", "status"),
        *("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"),
    ]
    phrases = (
        "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
        "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
        "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
        "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
        "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
        "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
    )
    listed = b"".join(struct.pack(">I", len(word)) + word.encode() for word in words)
    return listed + phrases.encode()


DICTIONARY = _dictionary()


class BadFrame(Exception):
    """What came is no SPDY, or more of it than we take."""


class Opened(NamedTuple):
    """A stream that the other side opens."""

    stream: int
    headers: dict[str, str]
    is_last: bool  # nothing comes on it


class Data(NamedTuple):
    stream: int
    content: bytes
    is_last: bool


class Reset(NamedTuple):
    """A stream that the other side gives up."""

    stream: int


class Ping(NamedTuple):
    number: int


class Idle(NamedTuple):
    """Of which nothing follows; but to read it took its time."""

    kind: int


Frame = Opened | Data | Reset | Ping | Idle


class Reader:
    """Frames of what comes, however it is cut into pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._unpacking = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, piece: bytes) -> Iterator[Frame]:
        self._rest += piece
        while len(self._rest) >= 8:
            first, second = struct.unpack_from(">II", self._rest)
            size = second & 0xFFFFFF
            if size > FRAME_MAX_BYTES:
                raise BadFrame(f"a frame of {size} bytes; at most {FRAME_MAX_BYTES} are taken")
            if len(self._rest) < 8 + size:
                return
            content = bytes(self._rest[8 : 8 + size])
            del self._rest[: 8 + size]
            if first >> 31:
                yield from self._control(first, second >> 24, content)
            else:
                yield Data(first, content, bool(second >> 24 & _FIN))

    def _control(self, first: int, flags: int, content: bytes) -> Iterator[Frame]:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != VERSION:
            raise BadFrame(f"a frame of SPDY version {version}")
        match kind:
            case _ if kind == _SYN_STREAM:
                stream, _, _ = _unpacked(">IIH", content)
                headers = self._headers(content[10:])
                yield Opened(stream & _STREAM_MASK, headers, bool(flags & _FIN))
            case _ if kind in (_HEADERS, _SYN_REPLY):
                self._headers(content[4:])  # all headers are packed as one, so none is left out
                yield Idle(kind)
            case _ if kind == _RST_STREAM:
                yield Reset(_unpacked(">I", content)[0] & _STREAM_MASK)
            case _ if kind == _PING:
                yield Ping(_unpacked(">I", content)[0])
            case _ if kind in (_SETTINGS, _GOAWAY, _WINDOW_UPDATE):
                yield Idle(kind)
            case _:
                raise BadFrame(f"a frame of type {kind}")

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpacking.decompress(packed, HEADERS_MAX_BYTES)
        except zlib.error as error:
            raise BadFrame(f"headers: {error}") from None
        if self._unpacking.unconsumed_tail:
            raise BadFrame(f"headers of more than {HEADERS_MAX_BYTES} bytes")
        words = _words(block)
        return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}


def _unpacked(form: str, content: bytes) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, content)
    except struct.error:
        raise BadFrame("a frame that is too short") from None


def _words(block: bytes) -> list[str]:
    """Names and values in turn, as many as the block says."""
    count, place = _unpacked(">I", block)[0], 4
    if count > HEADERS_MAX:
        raise BadFrame(f"{count} headers")
    words = []
    for _ in range(2 * count):
        (size,) = _unpacked(">I", block[place:])
        if place + 4 + size > len(block):
            raise BadFrame("a header that is cut off")
        words.append(block[place + 4 : place + 4 + size].decode("utf-8", "replace"))
        place += 4 + size
    return words


class Writer:
    """Frames as bytes; of all headers that are sent one packed stream is made."""

    def __init__(self) -> None:
        self._packing = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """A stream of the other side is taken, without headers of ours."""
        packed = self._packing.compress(bytes(4)) + self._packing.flush(zlib.Z_SYNC_FLUSH)
        return _framed(_SYN_REPLY, struct.pack(">I", stream) + packed)

    @staticmethod
    def data(stream: int, content: bytes, *, is_last: bool = False) -> bytes:
        return struct.pack(">II", stream, _FIN * is_last << 24 | len(content)) + content

    @staticmethod
    def reset(stream: int, status: int) -> bytes:
        return _framed(_RST_STREAM, struct.pack(">II", stream, status))

    @staticmethod
    def ping(number: int) -> bytes:
        return _framed(_PING, struct.pack(">I", number))

    @staticmethod
    def taken(stream: int, size: int) -> bytes:
        """So many bytes were passed on: as many more may come."""
        return _framed(_WINDOW_UPDATE, struct.pack(">II", stream, size))


def _framed(kind: int, content: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | VERSION, kind, len(content)) + content
