"""What the containers of a pod have printed, for `kubectl logs`.

Whoever runs pods writes one file per container: `<folder>/<uid of the pod>/<container>.log`, the
output as it comes; that of the run before a restart in `<container>.previous.log`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from makeway.server.errors import bad_request
from makeway.server.messages import Request

CHUNK_BYTES = 64 * 1024
FOLLOW_EVERY_S = 0.2
_NOT_KEPT = ("sinceSeconds", "sinceTime", "timestamps")


class Logs(Protocol):
    async def read(
        self, pod: Mapping[str, Any], request: Request
    ) -> bytes | AsyncIterator[bytes]: ...


class NoLogs:
    """Nobody here runs pods."""

    async def read(self, pod: Mapping[str, Any], request: Request) -> bytes | AsyncIterator[bytes]:
        raise _waiting(pod, container_of(pod, request))


class FileLogs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def read(self, pod: Mapping[str, Any], request: Request) -> bytes | AsyncIterator[bytes]:
        for name in _NOT_KEPT:
            if request.query.get(name, "") not in ("", "false"):
                raise bad_request(f"{name}: the times of lines are not kept")
        container = container_of(pod, request)
        suffix = ".previous.log" if request.flag("previous") else ".log"
        path = self.folder / pod["metadata"]["uid"] / f"{container}{suffix}"
        if not path.exists():
            raise _waiting(pod, container)
        tail = request.number("tailLines")
        limit = request.number("limitBytes")
        return self._stream(path, tail, limit, pod if request.flag("follow") else None)

    async def _stream(
        self, path: Path, tail: int | None, limit: int | None, followed: Mapping[str, Any] | None
    ) -> AsyncIterator[bytes]:
        left = limit if limit is not None else None
        with path.open("rb") as file:
            if tail is not None:
                file.seek(_tail_start(file, tail))
            while True:
                chunk = file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
                if chunk:
                    if left is not None:
                        left -= len(chunk)
                    yield chunk
                elif left == 0 or followed is None or _has_ended(path):
                    return
                else:
                    yield b""
                    await asyncio.sleep(FOLLOW_EVERY_S)


def _has_ended(path: Path) -> bool:
    """Whoever writes a log marks its end with an empty file beside it."""
    return path.with_suffix(".ended").exists()


def _tail_start(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin."""
    starts: deque[int] = deque(maxlen=max(lines, 1))
    position = 0
    file.seek(0)
    for line in file:
        starts.append(position)
        position += len(line)
    return position if lines == 0 or not starts else starts[0]


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


def _waiting(pod: Mapping[str, Any], container: str) -> Exception:
    return bad_request(
        f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: '
        "nothing was printed yet"
    )
