"""`makeway.Executor`: functions as jobs, with the interface of `concurrent.futures`."""

from __future__ import annotations

import atexit
import contextlib
import copy
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

from makeway.api.arrays import INDEXES_MAX
from makeway.handle.calls import Call, call_each

if TYPE_CHECKING:  # a job that imports the script which sent it has no use for these
    from makeway.handle.client import Client
    from makeway.handle.options import Options
    from makeway.handle.post import JobFuture

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """Each call is a job of its own: queued, preempted and begun again like any other.

    Calls and outcomes lie in `folder`, which the jobs must see under the same name; without one, in
    a temporary folder. The options are those of all its jobs, `options` makes others.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        folder: str | Path | None = None,
        **options: Unpack[Options],
    ) -> None:
        from makeway.handle.client import Client as Opened
        from makeway.handle.post import Post

        self._options = options
        self._held = contextlib.ExitStack()  # what is ours alone
        asked = self._held.enter_context(Opened()) if client is None else client
        asked.arguments(options)  # a wrong option is told before there is anything to call
        self._post = Post(asked, _folder(folder, self._held))
        self._is_shut = threading.Event()  # shared with those of other options
        atexit.register(self.shutdown)

    def options(self, **options: Unpack[Options]) -> Executor:
        """The same with some options changed: executor.options(gpu=1).submit(train, 3)."""
        other = copy.copy(self)
        other._options = cast("Options", {**self._options, **options})
        return other

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> JobFuture[T]:
        (future,) = self._send([Call(fn, args, kwargs)], fn)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Results in the order of the items; the jobs are an array, made in one request.

        `chunksize` items are done by one job.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        until = None if timeout is None else time.monotonic() + timeout
        items = list(zip(*iterables, strict=False))
        if chunksize == 1:
            return _results(self._send([Call(fn, item, {}) for item in items], fn), until)
        chunks = [items[start : start + chunksize] for start in range(0, len(items), chunksize)]
        sent = self._send([Call(call_each, (fn, chunk), {}) for chunk in chunks], fn)
        return itertools.chain.from_iterable(_results(sent, until))

    def _send(self, calls: Sequence[Call], fn: Callable[..., Any]) -> list[JobFuture[Any]]:
        if self._is_shut.is_set():
            raise RuntimeError("cannot schedule new futures after shutdown")
        name = getattr(fn, "__name__", type(fn).__name__)
        sent: list[JobFuture[Any]] = []
        for start in range(0, len(calls), INDEXES_MAX):
            sent += self._post.send(calls[start : start + INDEXES_MAX], self._options, name)
        return sent

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; with `wait`, until all jobs have ended. A program that ends waits, too."""
        self._is_shut.set()
        for future in self._post.open if cancel_futures else ():
            if not future.running():
                future.cancel()
        if wait:
            futures.wait(self._post.open)
            atexit.unregister(self.shutdown)
            self._post.close()
            self._held.close()


def _folder(named: str | Path | None, held: contextlib.ExitStack) -> Path:
    if named is not None:
        found = Path(named)
        found.mkdir(parents=True, exist_ok=True)
        return found
    made = Path(tempfile.mkdtemp(prefix="makeway-calls-"))
    held.callback(shutil.rmtree, made, ignore_errors=True)
    return made


def _results(sent: Sequence[JobFuture[Any]], until: float | None) -> Iterator[Any]:
    """Who stops asking stops what has not ended."""
    left = list(reversed(sent))
    try:
        while left:
            timeout = None if until is None else max(0.0, until - time.monotonic())
            yield left[-1].result(timeout)
            left.pop()
    finally:
        for future in left:
            future.cancel()
