"""Staying with a job: until it ends, and with what it prints meanwhile.

A job may be evicted and come back as other pods, and the server may restart; neither ends the
following. Only the end of the Job does.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from makeway.cli.job_state import ENDED, JOB_NAME, is_of, job_text, state_of
from makeway.cli.reading import (
    Document,
    at,
    condition,
    count_at,
    is_so,
    items_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
)
from makeway.client import ApiError, Client, NotFound, Reflector, Synced, Unavailable
from makeway.client.resources import JOBS, PODS, WORKLOADS
from makeway.client.transport import Unreachable

EXIT_GONE = 1  # deleted before its end
EXIT_UNKNOWN = 1  # failed, and no container says with what
EXIT_TIMED_OUT = 124  # as `timeout` has it
_AGAIN_S = 0.3
_LAST_WORDS_S = 5.0  # how long the output of an ended job may still come


class JobEnd(NamedTuple):
    code: int
    text: str  # `succeeded`, `failed with exit code 3 (…)`, `was deleted`


class ContainerFailure(NamedTuple):
    """How a container failed; the earliest sorts first."""

    finished_at: str
    code: int
    message: str  # why it could not be started, say; most often empty

    @property
    def text(self) -> str:
        message = " ".join(self.message.split())
        return f"exit code {self.code}" + (f": {message}" if message else "")


# --- the end of a job ---


async def wait_for_end(client: Client, job: Document) -> JobEnd:
    """Return when the Job has succeeded, failed or gone; an eviction is not the end."""
    selector = f"metadata.name={name_of(job)}"
    reflector = Reflector(client, JOBS, namespace_of(job), field_selector=selector)
    async for change in reflector.changes():
        if isinstance(change, Synced):
            current = change.items[0] if change.items else None
        else:
            current = None if change.type == "DELETED" else change.object
        if current is None or uid_of(current) != uid_of(job):
            return JobEnd(EXIT_GONE, "was deleted")
        if is_so(current, "Complete") or is_so(current, "Failed"):
            return end_of(current, await pods_of(client, current))
    raise AssertionError("a reflector never ends")


def end_of(job: Document, pods: Iterable[Document]) -> JobEnd:
    """What became of a job that has ended."""
    if is_so(job, "Complete"):
        return JobEnd(0, "succeeded")
    failed = condition(job, "Failed")
    why = text_at(failed, "message") or text_at(failed, "reason")
    if text_at(failed, "reason") == "DeadlineExceeded":
        return JobEnd(EXIT_TIMED_OUT, f"ran out of time ({why})")
    failure = first_failure(pods)
    if failure is None:
        return JobEnd(EXIT_UNKNOWN, f"failed ({why})")
    return JobEnd(failure.code, f"failed with {failure.text} ({why})")


def first_failure(pods: Iterable[Document]) -> ContainerFailure | None:
    """That of the container that failed first; None if none did."""
    failures: list[ContainerFailure] = []
    for pod in pods:
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in items_at(pod, "status", part):
                for state in ("state", "lastState"):
                    ended = at(status, state, "terminated")
                    if count_at(ended, "exitCode"):
                        when, code = text_at(ended, "finishedAt"), ended["exitCode"]
                        failures.append(ContainerFailure(when, code, text_at(ended, "message")))
    return min(failures) if failures else None


async def pods_of(client: Client, job: Document) -> list[Document]:
    """Those that are of this very Job and not of an earlier one of its name; oldest first."""
    selector = f"{JOB_NAME}={name_of(job)}"
    found = (await client.list(PODS, namespace_of(job), label_selector=selector)).items
    own = [pod for pod in found if is_pod_of(pod, job)]
    return sorted(own, key=lambda p: (text_at(p, "metadata", "creationTimestamp"), name_of(p)))


def is_pod_of(pod: Document, job: Document) -> bool:
    owners = [text_at(owner, "uid") for owner in items_at(pod, "metadata", "ownerReferences")]
    return not owners or uid_of(job) in owners


# --- what it prints ---


class Printer:
    """Writes the output of several streams to one place, whole lines where they are named."""

    def __init__(self, *, names_streams: bool) -> None:
        self._names_streams = names_streams
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
            sys.stdout.flush()
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def containers_of(pod: Document) -> list[str]:
    return [text_at(container, "name") for container in items_at(pod, "spec", "containers")]


def is_over(pod: Document | None) -> bool:
    return pod is None or text_at(pod, "status", "phase") in ("Succeeded", "Failed")


class Follower:
    """Prints what the pods of a job print, as it comes, until the job has ended."""

    def __init__(self, client: Client, job: Document, query: Mapping[str, str]) -> None:
        self._client, self._job = client, job
        self._query = dict(query)  # of the log: container, tailLines …
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by uid of the pod and container
        self._pod = ""  # only this one; empty: all
        pods = max(count_at(job, "spec", "parallelism"), count_at(job, "spec", "completions"))
        containers = items_at(job, "spec", "template", "spec", "containers")
        self._printer = Printer(names_streams=pods > 1 or len(containers) > 1)

    async def run(self, *, pod: str = "", tells_state: bool = False) -> JobEnd:
        self._pod = pod
        watching = [asyncio.create_task(self._watch_pods())]
        if tells_state:
            watching.append(asyncio.create_task(tell_state(self._client, self._job)))
        try:
            ended = await wait_for_end(self._client, self._job)
            for found in await pods_of(self._client, self._job):
                self._see(found)
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=_LAST_WORDS_S)
        finally:
            for task in (*watching, *self._tasks.values()):
                task.cancel()
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return ended

    async def _watch_pods(self) -> None:
        selector = f"{JOB_NAME}={name_of(self._job)}"
        where = namespace_of(self._job)
        async for change in Reflector(self._client, PODS, where, label_selector=selector).changes():
            if isinstance(change, Synced):
                for pod in change.items:
                    self._see(pod)
            elif change.type != "DELETED":
                self._see(change.object)

    def _see(self, pod: Document) -> None:
        if not is_pod_of(pod, self._job) or (self._pod and name_of(pod) != self._pod):
            return
        wanted = self._query.get("container")
        for container in [wanted] if wanted else containers_of(pod):
            stream = f"{uid_of(pod)}/{container}"
            if stream not in self._tasks:
                self._tasks[stream] = asyncio.create_task(self._print_all(pod, container))

    async def _print_all(self, pod: Document, container: str) -> None:
        """Print a container's output from its beginning, over restarts of it and of the server."""
        several = len(containers_of(pod)) > 1
        stream = f"{name_of(pod)}/{container}" if several else name_of(pod)
        printed, restarts = 0, 0
        query = {**self._query, "container": container, "follow": "true"}
        while True:
            current = await self._current(pod)
            if (started := _restarts(current, container)) > restarts:
                printed, restarts = 0, started
            was_over = is_over(current)
            skipped = 0 if "tailLines" in query else printed
            with contextlib.suppress(ApiError, Unreachable):  # not begun, gone, or a restart
                async for piece in self._client.logs(name_of(pod), namespace_of(pod), query):
                    fresh = piece[skipped:]
                    skipped = max(0, skipped - len(piece))
                    printed += len(fresh)
                    self._printer.write(stream, fresh)
                    if fresh and "tailLines" in query:
                        # Where we are in the file is not known: go on from its end.
                        query["tailLines"] = "0"
            if was_over:
                self._printer.finish(stream)
                return
            await asyncio.sleep(_AGAIN_S)

    async def _current(self, pod: Document) -> Document | None:
        try:
            found = await self._client.get(PODS, name_of(pod), namespace_of(pod))
        except NotFound:
            return None
        except (ApiError, Unavailable):
            return pod
        return found if uid_of(found) == uid_of(pod) else None


def _restarts(pod: Document | None, container: str) -> int:
    for status in items_at(pod, "status", "containerStatuses"):
        if status.get("name") == container:
            return count_at(status, "restartCount")
    return 0


async def tell_state(client: Client, job: Document) -> None:
    """Say on standard error whenever the job stands differently: it waits, runs, is evicted."""
    told = ""
    async for change in Reflector(client, WORKLOADS, namespace_of(job)).changes():
        found = change.items if isinstance(change, Synced) else [change.object]
        for workload in found:
            if not is_of(workload, job):
                continue
            try:
                current = await client.get(JOBS, name_of(job), namespace_of(job))
            except (ApiError, Unavailable):
                continue
            state = state_of(current, workload, time.time())
            why = f": {state.reason}" if state.reason else ""
            text = f"{job_text(job)} is {state.status}{why}"
            if text != told and state.status not in ENDED:
                told = text
                print(f"makeway: {text}", file=sys.stderr, flush=True)
