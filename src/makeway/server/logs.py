"""What the containers of a pod have printed, for `kubectl logs`.

Whoever runs pods writes into `<folder>/<uid of the pod>/`, for each container:

- `<container>.log`: the output as it comes;
- `<container>.times`: since when which bytes are there, as pairs of numbers of 8 bytes, least
  significant first: the place of a byte in the log, and nanoseconds since 1970. A pair is written
  before the bytes are;
- `<container>.gap`: of more than is kept, from where to where it was given back to the disk, as
  such a pair. What stands behind keeps its place;
- `<container>.ended`, empty: nothing more will come.

Where all of it was removed, `removed` says why.

Of the run before a restart, `previous` stands in the names of the others.
"""

import asyncio
import io
import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from makeway.api.times import TimeError, format_time, parse_time
from makeway.server.errors import bad_request
from makeway.server.messages import Request

CHUNK_BYTES = 64 * 1024
FOLLOW_EVERY_S = 0.2
ATTACHED_EVERY_S = 0.02  # who types wants to see it
_NUMBER_BYTES = 8
_PAIR_BYTES = 2 * _NUMBER_BYTES
_FOREVER = 1 << 62


class FileLogs:
    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder, self._clock = folder, clock

    async def read(self, pod: Mapping[str, Any], request: Request) -> bytes | AsyncIterator[bytes]:
        container = container_of(pod, request)
        is_previous = request.flag("previous")
        name = f"{container}.previous.log" if is_previous else f"{container}.log"
        path = self.folder / pod["metadata"]["uid"] / name
        if not path.exists():
            if why := _removed(path.parent / "removed"):
                return f"[makeway: what was printed here was removed: {why}]\n".encode()
            if is_previous:
                raise _no_previous(pod, container)
            raise waiting(pod, container)
        times = _Times(path.with_suffix(".times"))
        since = self._since(request)
        is_timed = request.flag("timestamps")
        if (is_timed or since is not None) and not times.are_kept:
            raise bad_request(f"the times of what container {container} printed were not kept")
        tail, limit = request.number("tailLines"), request.number("limitBytes")
        pieces = _pieces(path, times, since, tail, is_followed=request.flag("follow"))
        if is_timed:
            pieces = _with_times(pieces, times)
        return _texts(pieces) if limit is None else _limited(_texts(pieces), limit)

    def from_now_on(self, pod: Mapping[str, Any], container: str) -> AsyncIterator[bytes]:
        """What a container prints, until it ends; pieces may be empty."""
        path = self.folder / pod["metadata"]["uid"] / f"{container}.log"
        if not path.exists():
            raise waiting(pod, container)
        times = _Times(path.with_suffix(".times"))
        every_s = ATTACHED_EVERY_S
        return _texts(_pieces(path, times, None, 0, is_followed=True, every_s=every_s))

    def _since(self, request: Request) -> float | None:
        seconds, moment = request.number("sinceSeconds"), request.query.get("sinceTime", "")
        if seconds is not None and moment:
            raise bad_request("at most one of sinceTime and sinceSeconds may be given")
        if seconds is not None:
            return self._clock() - seconds
        try:
            return parse_time(moment) if moment else None
        except TimeError:
            raise bad_request(f"sinceTime: {moment[:50]!r} is not a time") from None


def _removed(path: Path) -> str:
    """Why what a pod printed is gone; empty if it isn't."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


Piece = tuple[int, bytes]  # where it stands in the log


class _Times:
    """When which bytes of a log came; grows while the log does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: list[int] = []
        self._moments: list[int] = []  # nanoseconds
        self.are_kept = path.exists()

    def _read_on(self) -> None:
        with self._path.open("rb") as file:
            file.seek(len(self._starts) * _PAIR_BYTES)
            content = file.read()
        for place in range(0, len(content) - _PAIR_BYTES + 1, _PAIR_BYTES):
            middle = place + _NUMBER_BYTES
            self._starts.append(int.from_bytes(content[place:middle], "little"))
            moment = int.from_bytes(content[middle : middle + _NUMBER_BYTES], "little")
            # A clock that was set back mustn't hide what is new.
            self._moments.append(max(moment, self._moments[-1] if self._moments else 0))

    def of(self, place: int) -> float:
        """When the byte at a place came."""
        if not self._starts or self._starts[-1] <= place:
            self._read_on()
        index = bisect_right(self._starts, place) - 1
        return self._moments[max(index, 0)] / 1e9 if self._moments else 0.0

    def first_since(self, moment: float) -> int | None:
        """Where begins what came at that time or later; None if nothing did."""
        self._read_on()
        index = bisect_left(self._moments, moment * 1e9)
        return self._starts[index] if index < len(self._starts) else None


async def _pieces(
    path: Path,
    times: _Times,
    since: float | None,
    tail: int | None,
    *,
    is_followed: bool,
    every_s: float = FOLLOW_EVERY_S,
) -> AsyncIterator[Piece]:
    with path.open("rb") as file:
        gap = _Gap(path.with_suffix(".gap"))
        place = _since_start(file, times, since)
        if tail is not None:
            place = max(place, _tail_start(file, tail))
        file.seek(place)
        while True:
            # Asked before reading: what came before the end is read after it.
            has_ended = not is_followed or _has_ended(path, file)
            while True:
                if (piece := gap.passed(place, os.fstat(file.fileno()).st_size)) is not None:
                    yield place, piece[1]
                    place = file.seek(piece[0])
                if not (chunk := file.read(CHUNK_BYTES)):
                    break
                # The hole may have grown since; what is left out now is passed next time.
                kept = gap.before(place, chunk)
                if kept:
                    yield place, kept
                place = file.seek(place + len(kept))
            if has_ended:
                return
            yield place, b""
            await asyncio.sleep(every_s)


class _Gap:
    """Where the middle of a long log was given back to the disk; it may still grow."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _span(self) -> tuple[int, int]:
        try:
            pair = self._path.read_bytes()
        except FileNotFoundError:
            return 0, 0
        numbers = pair[:_NUMBER_BYTES], pair[_NUMBER_BYTES:_PAIR_BYTES]
        start, end = (int.from_bytes(number, "little") for number in numbers)
        return start, end

    def passed(self, place: int, size: int) -> Piece | None:
        """If a place lies in the gap: where to read on, and what to say of it. None: it doesn't."""
        start, end = self._span()
        if not start <= place < end:
            return None
        if end >= _FOREVER:
            return size, f"\n[makeway: what came after {start} bytes was not kept]\n".encode()
        return end, f"\n[makeway: {end - start} bytes were printed here and not kept]\n".encode()

    def before(self, place: int, chunk: bytes) -> bytes:
        """What of a chunk, which was just read, lies before the gap; all of it if it is behind."""
        start, end = self._span()
        return chunk if place >= end else chunk[: max(0, start - place)]


def _has_ended(path: Path, file: BinaryIO) -> bool:
    """Whether nothing more comes: the run is over, or even a new one has begun."""
    if path.with_suffix(".ended").exists() or path.stem.endswith(".previous"):
        return True
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return True


async def _texts(pieces: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
    async for _, text in pieces:
        yield text


async def _limited(texts: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    left = limit
    async for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


async def _with_times(pieces: AsyncIterator[Piece], times: _Times) -> AsyncIterator[Piece]:
    """Put before each line when it began."""
    is_at_start = True
    async for place, text in pieces:
        lines = []
        for line in io.BytesIO(text):  # only newlines end lines
            if is_at_start:
                lines.append(f"{_precise(times.of(place))} ".encode())
            lines.append(line)
            place += len(line)
            is_at_start = line.endswith(b"\n")
        yield place, b"".join(lines)


def _precise(moment: float) -> str:
    text = format_time(moment)
    return text if "." in text else text.replace("Z", ".000000Z")


def _since_start(file: BinaryIO, times: _Times, since: float | None) -> int:
    """Where the first line begins of which nothing came before that time."""
    if since is None:
        return 0
    place = times.first_since(since)
    if place is None:
        # Nothing yet; what comes later is new.
        return file.seek(0, os.SEEK_END)
    if place == 0:
        return 0
    file.seek(place - 1)
    return place - 1 + len(file.readline())


def _tail_start(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin, looked for from the end: a log may be long."""
    end = position = file.seek(0, os.SEEK_END)
    if lines == 0:
        return end
    left = lines
    while position > 0:
        size = min(CHUNK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        # The newline at the very end closes the last line and begins none.
        until = size - 1 if position + size == end else size
        while (found := block.rfind(b"\n", 0, until)) >= 0:
            left -= 1
            if left == 0:
                return position + found + 1
            until = found
    return 0


def container_of(pod: Mapping[str, Any], request: Request) -> str:
    """The container that is asked for; of several, one must be named."""
    spec = pod.get("spec") or {}
    names = [
        container["name"]
        for part in ("initContainers", "containers")
        for container in spec.get(part) or ()
    ]
    asked = request.query.get("container", "")
    pod_name = pod["metadata"]["name"]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {pod_name}")
        return asked
    running = [container["name"] for container in spec.get("containers") or ()]
    if len(running) != 1:
        raise bad_request(
            f"a container name must be specified for pod {pod_name}, choose one of: "
            f"[{' '.join(running)}]"
        )
    return str(running[0])


def waiting(pod: Mapping[str, Any], container: str) -> Exception:
    where = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return bad_request(f"{where} is waiting to start: nothing was printed yet")
    why = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    return bad_request(f"{where} has printed nothing, the pod failed: {why or 'no reason given'}")


def _no_previous(pod: Mapping[str, Any], container: str) -> Exception:
    return bad_request(
        f'previous terminated container "{container}" in pod "{pod["metadata"]["name"]}" not found'
    )
