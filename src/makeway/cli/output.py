"""What the pods of a job print, written to one place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from makeway.api.batch import Job, Pod
from makeway.cli.views import fetch_all
from makeway.client import Client
from makeway.translate.job_state import JOB_NAME, age_key, owners_of

Out = Callable[[bytes], object]  # where output goes


async def pods_of(client: Client, job: Job) -> list[Pod]:
    """The pods of this very Job and not of an earlier Job of its name; oldest first."""
    selector = f"{JOB_NAME}={job.metadata.name}"
    found = await fetch_all(client, Pod, job.metadata.namespace, label_selector=selector)
    return sorted((pod for pod in found if is_pod_of(pod, job)), key=age_key)


def is_pod_of(pod: Pod, job: Job) -> bool:
    owners = owners_of(pod.metadata)
    return not owners or job.metadata.uid in owners


def to_stdout(piece: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


class Printer:
    """Writes the output of several streams to one place, in whole lines if streams are named."""

    def __init__(self, *, names_streams: bool, out: Out = to_stdout) -> None:
        self._names_streams, self._put = names_streams, out
        self._rests: dict[str, bytes] = {}  # the unfinished line of each stream

    def write(self, stream: str, piece: bytes) -> None:
        if not self._names_streams:
            self._out(piece)
            return
        *lines, rest = (self._rests.get(stream, b"") + piece).split(b"\n")
        self._rests[stream] = rest
        self._out(b"".join(b"[%s] %s\n" % (stream.encode(), line) for line in lines))

    def finish(self, stream: str) -> None:
        if self._rests.get(stream):
            self.write(stream, b"\n")

    def _out(self, piece: bytes) -> None:
        if piece:
            self._put(piece)


def streams_of(pod: Pod, container: str = "") -> Iterator[tuple[str, str]]:
    """The containers of a pod, or the named one, each with the name of its output."""
    several = len(pod.spec.containers) > 1
    for name in [container] if container else [found.name for found in pod.spec.containers]:
        yield name, f"{pod.metadata.name}/{name}" if several else pod.metadata.name
