"""What stands in a journal: segments, and in each what was told and decided, in order."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.engine.decisions import Decision
from makeway.engine.events import Event
from makeway.journal.coding import Decoder, Encoder, Raw, Unreadable, schema

_HEARD, _DECIDED = 0, 1
_LEVEL = 3  # of compression: four fifths of what the best has, for a quarter of the work


class Heard(NamedTuple):
    """The engine was told."""

    at: float
    event: Event


class Decided(NamedTuple):
    """A cycle has run."""

    at: float  # the time that the cycle was told, exactly
    decisions: tuple[Decision, ...]


Record = Heard | Decided


class Header(NamedTuple):
    """How a segment begins."""

    began_at: float
    version: str  # of Makeway
    schema: Mapping[str, Sequence[str]]
    beginning: int = 0  # so many of its first events say what was known before it began

    def encoded(self) -> bytes:
        return zlib.compress(json.dumps(self).encode(), _LEVEL)


def read_header(body: bytes) -> Header:
    try:
        return Header(*json.loads(zlib.decompress(body)))
    except (ValueError, TypeError, zlib.error) as error:
        raise Unreadable(f"a segment's beginning is damaged: {error}") from None


class WrittenSegment(NamedTuple):
    """A segment as it stands in the file, to be read by somebody else."""

    header: bytes
    chunks: Sequence[bytes]

    def records(self) -> Iterator[Record]:
        reader = Reader(read_header(self.header))
        for chunk in self.chunks:
            yield from reader.records(chunk)


def new_header(began_at: float, version: str, beginning: int) -> Header:
    return Header(began_at, version, schema(), beginning)


class Scribe:
    """Writes the records of one segment."""

    def __init__(self, began_at: float, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or Encoder()
        self._at_ms = _ms(began_at)

    def chunk(self, records: Iterable[Record]) -> bytes:
        """Many records as bytes; read back in the same order, by one `Reader`."""
        lines = [self._line(record) for record in records]
        return zlib.compress(json.dumps(lines, separators=(",", ":")).encode(), _LEVEL)

    def _line(self, record: Record) -> list[Raw]:
        now_ms = _ms(record.at)
        passed, self._at_ms = now_ms - self._at_ms, now_ms
        line: list[Raw]
        if isinstance(record, Heard):
            line = [passed, _HEARD, self._encoder.event(record.event)]
        else:
            written = self._encoder.decisions(record.decisions)
            line = [passed, _DECIDED, [record.at, *written]]
        texts, shared = self._encoder.take_new()
        if texts or shared:
            line += [texts, shared] if shared else [texts]
        return line


class Reader:
    """Reads the chunks of one segment, first to last."""

    def __init__(self, header: Header) -> None:
        self._decoder = Decoder(header.schema)
        self._at_ms = _ms(header.began_at)

    def records(self, chunk: bytes) -> Iterator[Record]:
        try:
            lines = json.loads(zlib.decompress(chunk))
        except (ValueError, zlib.error) as error:
            raise Unreadable(f"a part of the journal is damaged: {error}") from None
        for line in lines:
            yield self._record(line)

    def _record(self, line: Sequence[Any]) -> Record:
        passed, kind, written, *new = line
        if new:
            self._decoder.learn(new[0], new[1] if len(new) > 1 else ())
        self._at_ms += passed
        if kind == _HEARD:
            return Heard(self._at_ms / 1000, self._decoder.event(written))
        return Decided(written[0], self._decoder.decisions(written[1:]))


def _ms(at: float) -> int:
    return round(at * 1000)
