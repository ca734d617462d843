"""Calls that were sent as jobs, and their outcomes as they come back.

One watch for all jobs of an executor says how they fare. The outcomes are read in a thread of
their own, where callbacks of futures may ask the server in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, TypeVar

from makeway.api.arrays import parse_indexes
from makeway.api.batch import Job as JobView
from makeway.api.kinds import JOBS
from makeway.api.labels import ARRAY_INDEX, CALL, EXECUTOR
from makeway.cli.command import RequestRefused
from makeway.cli.following import EXIT_GONE
from makeway.cli.new_job import job_of, made_up_name
from makeway.cli.output import pods_of
from makeway.cli.views import view_of
from makeway.client import ApiError, NotFound, Reflector, Synced, Unavailable
from makeway.client.client import Document
from makeway.handle.calls import Call, forget_call, read_outcome, write_call
from makeway.handle.client import Client, Job
from makeway.handle.options import Options
from makeway.translate.job_end import JobEnd, end_of
from makeway.translate.job_state import CANCELLED, ENDED, state_of
from makeway.translate.job_targets import JobTarget

T = TypeVar("T")
AGAIN_S = 1.0  # after the server could not be asked


class JobFailed(Exception):
    """A job ended without an outcome of its function: killed, out of time, deleted."""

    def __init__(self, job: Job, end: JobEnd) -> None:
        super().__init__(f"job {job.number or job.name} {end.text}")
        self.job, self.code = job, end.code


class JobFuture(futures.Future[T]):
    """What a function gives that runs as a job."""

    def __init__(self, post: Post, key: str) -> None:
        super().__init__()
        self._post, self.key = post, key
        self._is_running = False
        self._cancelling = threading.RLock()  # whoever is told of it may cancel once more
        self.made: Job | None = None  # None: it is being made

    @property
    def job(self) -> Job:
        assert self.made is not None, "an executor gives a future away when its job is made"
        return self.made

    def running(self) -> bool:
        """Whether the job runs now; one that was preempted doesn't until it is back."""
        return self._is_running and not self.done()

    def note_running(self, is_running: bool) -> None:
        self._is_running = is_running

    def cancel(self) -> bool:
        """End the job, also one that runs; False if it had ended before."""
        if not self.done():
            self._post.stop(self)
            self.note_cancelled()
        return self.cancelled()

    def note_cancelled(self) -> None:
        """Once: whoever cancels and whoever reads that the job was cancelled may come together."""
        with self._cancelling:
            if not self.cancelled() and super().cancel():
                self.set_running_or_notify_cancel()


class Post:
    def __init__(self, client: Client, folder: Path) -> None:
        """`folder` is where jobs find their calls; it must be there."""
        self._client, self._folder = client, folder.resolve()
        self._id = uuid.uuid4().hex
        self._open: dict[str, JobFuture[Any]] = {}  # those that have not ended, by key
        self._ended: queue.SimpleQueue[tuple[JobFuture[Any], JobEnd | None] | None] = (
            queue.SimpleQueue()
        )
        self._watching: futures.Future[None] | None = None  # None: nothing was sent yet
        self._reading = threading.Thread(target=self._read, name="makeway-outcomes", daemon=True)

    @property
    def open(self) -> list[JobFuture[Any]]:
        return list(self._open.values())

    def close(self) -> None:
        """Outcomes that come from now on are not read."""
        if self._watching is not None:
            self._watching.cancel()
            self._ended.put(None)
            self._reading.join()

    # --- sending ---

    def send(
        self, calls: Sequence[Call], options: Options, name: str, at_once: int | None = None
    ) -> list[JobFuture[Any]]:
        """A job for each; several are an array, made in one request, all or none."""
        self._watch()
        stem = uuid.uuid4().hex
        several = len(calls) > 1
        keys = [f"{stem}-{index}" for index in range(len(calls))] if several else [stem]
        sent: list[JobFuture[Any]] = [JobFuture(self, key) for key in keys]
        try:
            for call, future in zip(calls, sent, strict=True):
                write_call(self._folder / future.key, call)
            self._open |= {future.key: future for future in sent}
            made = self._make(stem, len(calls), options, name, at_once)
        except BaseException:
            for future in sent:
                self._forget(future)
            raise
        for future, job in zip(sent, made, strict=True):
            future.made = job
        return sent

    def _make(
        self, stem: str, count: int, options: Options, name: str, at_once: int | None
    ) -> list[Job]:
        arguments = self._client.arguments(options)
        command = [sys.executable, "-m", "makeway.handle.task", str(self._folder / stem)]
        job = job_of(arguments, command)
        metadata = job["metadata"]
        if not arguments.name:
            metadata["name"] = made_up_name([name])
        metadata["labels"][EXECUTOR] = self._id
        metadata["annotations"][CALL] = stem
        if count == 1:
            return self._client.create(job, arguments)
        text = f"0-{count - 1}" + ("" if at_once is None else f"%{at_once}")
        return self._client.create(job, arguments, (text, parse_indexes(text)))

    def stop(self, future: JobFuture[Any]) -> None:
        with contextlib.suppress(RequestRefused):  # it is gone already
            self._client.cancel(future.job)
        self._forget(future)

    def _forget(self, future: JobFuture[Any]) -> None:
        self._open.pop(future.key, None)
        forget_call(self._folder / future.key)

    # --- how they fare ---

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = self._client.line.begin(self._keep_up())
            self._watching.add_done_callback(self._despair)
            self._reading.start()

    def _despair(self, watching: futures.Future[None]) -> None:
        """Nobody watches any more: the client was closed, or by a mistake of ours.

        Whoever waits must hear of it.
        """
        closed = RuntimeError("the client was closed before its jobs had ended")
        error = closed if watching.cancelled() else watching.exception()
        for future in self.open if error is not None else ():
            self._open.pop(future.key, None)
            with contextlib.suppress(futures.InvalidStateError):
                future.set_exception(error)

    async def _keep_up(self) -> None:
        while True:  # a new list tells what was missed
            try:
                await self._follow()
            except (ApiError, Unavailable):
                await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        line, selector = self._client.line, f"{EXECUTOR}={self._id}"
        reflector = Reflector(line.client, JOBS, line.namespace, label_selector=selector)
        async for change in reflector.changes():
            if isinstance(change, Synced):
                for document in change.items:
                    await self._see(document)
                await self._look_for_missing({_key(document) for document in change.items})
            elif change.type == "DELETED":
                self._lose(self._known(change.object))
            else:
                await self._see(change.object)

    def _known(self, document: Document) -> JobFuture[Any] | None:
        """Whose Job it is; a job may be over before the answer to its making is read."""
        future = self._open.get(_key(document))
        if future is not None and future.made is None:
            future.made = self._client.job_from(view_of(JobView, document))
        return future

    async def _see(self, document: Document) -> None:
        future = self._known(document)
        if future is None:
            return
        job = view_of(JobView, document)
        word = state_of(JobTarget(job, None), time.time()).status
        future.note_running(job.status.active > 0)
        if word == CANCELLED:
            self._settle(future, None)
        elif word in ENDED:
            self._settle(future, end_of(job, await pods_of(self._client.line.client, job)))

    async def _look_for_missing(self, seen: set[str]) -> None:
        """Of those that a list lacks, some were deleted, and some are newer than the list."""
        for future in self.open:
            if future.key not in seen and future.made is not None:
                where = future.job.name, future.job.namespace
                try:
                    await self._client.line.client.get(JOBS, *where)
                except NotFound:
                    self._lose(future)

    def _lose(self, future: JobFuture[Any] | None) -> None:
        if future is not None:
            self._settle(future, JobEnd(EXIT_GONE, "was deleted"))

    # --- what came of them ---

    def _settle(self, future: JobFuture[Any], end: JobEnd | None) -> None:
        """None: the job was cancelled."""
        if self._open.pop(future.key, None) is not None:
            self._ended.put((future, end))

    def _read(self) -> None:
        while (ended := self._ended.get()) is not None:
            future, end = ended
            with contextlib.suppress(futures.InvalidStateError):  # it was cancelled meanwhile
                self._resolve(future, end)
            with contextlib.suppress(OSError):  # what lies there is read by nobody
                forget_call(self._folder / future.key)

    def _resolve(self, future: JobFuture[Any], end: JobEnd | None) -> None:
        try:
            outcome = read_outcome(self._folder / future.key)
        except FileNotFoundError:
            if end is None:
                future.note_cancelled()
            else:
                future.set_exception(JobFailed(future.job, end))
            return
        except Exception as error:  # what was written can't be read here
            future.set_exception(error)
            return
        if outcome.error is None:
            future.set_result(outcome.result)
        else:
            future.set_exception(outcome.error)


def _key(document: Document) -> str:
    metadata = document["metadata"]
    stem = (metadata.get("annotations") or {}).get(CALL, "")
    index = (metadata.get("labels") or {}).get(ARRAY_INDEX)
    return stem if index is None else f"{stem}-{index}"
