"""Staying with a job: until it ends, and with what it prints meanwhile.

A job may be evicted and come back as other pods, and the server may restart; neither ends the
following. Only the end of the Job does.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Mapping

from makeway.api.batch import ENDED_PHASES, Job, Pod
from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.api.labels import JOB_NAME
from makeway.api.queueing import Workload
from makeway.cli.output import is_pod_of, pods_of, streams_of
from makeway.cli.runs import Printer
from makeway.cli.views import fetch, readable, view_of
from makeway.client import ApiError, Client, NotFound, Reflector, Synced, Unavailable
from makeway.client.client import Document
from makeway.client.transport import Unreachable
from makeway.translate.job_end import JobEnd, container_statuses, end_of
from makeway.translate.job_names import job_text
from makeway.translate.job_state import ENDED, is_true, state_of
from makeway.translate.job_targets import JobTarget, is_of

EXIT_GONE = 1  # the job was deleted before its end
_AGAIN_S = 0.3
_LAST_WORDS_S = 5.0  # how long the output of an ended job may still come


# --- the end of a job ---


async def wait_for_end(client: Client, job: Job) -> JobEnd:
    """Return when the Job has succeeded, failed or gone; an eviction is not the end."""
    async for current in versions_of(client, JOBS, job.metadata.name, job.metadata.namespace):
        if current is None or current["metadata"]["uid"] != job.metadata.uid:
            return JobEnd(EXIT_GONE, "was deleted")
        job = view_of(Job, current)
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return end_of(job, await pods_of(client, job))
    raise AssertionError("a reflector never ends")


async def versions_of(
    client: Client, resource: Resource, name: str, namespace: str
) -> AsyncIterator[Document | None]:
    """An object as it is and whenever it changes, for ever; None: there is no such object."""
    selector = f"metadata.name={name}"
    async for change in Reflector(client, resource, namespace, field_selector=selector).changes():
        if isinstance(change, Synced):
            yield change.items[0] if change.items else None
        else:
            yield None if change.type == "DELETED" else change.object


# --- what a job prints ---


class Follower:
    """Prints what the pods of a job print, as it comes, until the job has ended."""

    def __init__(self, client: Client, job: Job, query: Mapping[str, str]) -> None:
        self._client, self._job = client, job
        self._query = dict(query)  # what is asked of the log: container, tailLines …
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by uid of the pod and container
        self._pod = ""  # the only pod to follow; empty: all
        pods = max(job.spec.parallelism, job.spec.completions or 0)
        containers = len(job.spec.template.spec.containers)
        self._printer = Printer(names_streams=pods > 1 or containers > 1)

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
        selector = f"{JOB_NAME}={self._job.metadata.name}"
        where = self._job.metadata.namespace
        async for change in Reflector(self._client, PODS, where, label_selector=selector).changes():
            if isinstance(change, Synced):
                found = change.items
            else:
                found = [] if change.type == "DELETED" else [change.object]
            for pod in readable(Pod, found):
                self._see(pod)

    def _see(self, pod: Pod) -> None:
        if not is_pod_of(pod, self._job) or self._pod not in ("", pod.metadata.name):
            return
        for container, stream in streams_of(pod, self._query.get("container", "")):
            key = f"{pod.metadata.uid}/{container}"
            if key not in self._tasks:
                printing = self._print_all(pod, container, stream)
                self._tasks[key] = asyncio.create_task(printing)

    async def _print_all(self, pod: Pod, container: str, stream: str) -> None:
        """Print a container's output from its beginning, over restarts of it and of the server."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        printed, restarts = 0, 0
        query = {**self._query, "container": container, "follow": "true"}
        while True:
            current = await self._current(pod)
            if (started := _restarts(current, container)) > restarts:
                printed, restarts = 0, started
            was_over = current is None or current.status.phase in ENDED_PHASES
            skipped = 0 if "tailLines" in query else printed
            with contextlib.suppress(ApiError, Unreachable):  # not begun, gone, or a restart
                async for piece in self._client.logs(name, namespace, query):
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

    async def _current(self, pod: Pod) -> Pod | None:
        try:
            found = await fetch(self._client, Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return None
        except (ApiError, Unavailable):
            return pod
        return found if found.metadata.uid == pod.metadata.uid else None


def _restarts(pod: Pod | None, container: str) -> int:
    for status in () if pod is None else container_statuses(pod):
        if status.get("name") == container:
            return int(status.get("restartCount") or 0)
    return 0


async def tell_state(client: Client, job: Job) -> None:
    """Say on standard error whenever the job's state changes: it waits, runs, is evicted."""
    told, name, namespace = "", job.metadata.name, job.metadata.namespace
    async for change in Reflector(client, WORKLOADS, namespace).changes():
        found = change.items if isinstance(change, Synced) else [change.object]
        for workload in readable(Workload, found):
            if not is_of(workload, job):
                continue
            try:
                current = await fetch(client, Job, name, namespace)
            except (ApiError, Unavailable):
                continue
            state = state_of(JobTarget(current, workload), time.time())
            why = f": {state.reason}" if state.reason else ""
            text = f"{job_text(job.metadata)} is {state.status}{why}"
            if text != told and state.status not in ENDED:
                told = text
                print(f"makeway: {text}", file=sys.stderr, flush=True)
