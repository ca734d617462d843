"""Work that may take long, away from the event loop: nobody else waits for a large request.

A thread has the interpreter for some milliseconds at a time, and then the event loop has its turn;
so everybody is served a little later, instead of not at all. One thread works off what is large,
and within the limits of what is accepted each piece comes to its end; who waited too long for that
gets an answer that says so, and nothing of the request is written.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from makeway.server import errors

AT_ONCE_BYTES = 8 * 1024  # of a document; what is larger takes more than a few milliseconds
BUDGET_S = 30.0

T = TypeVar("T")


class Worker:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "requests")  # starts with its first use
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_here = threading.local()

    async def do(self, size: int, work: Callable[[], T]) -> T:
        """What `work` returns or raises; for a large document it is done in the thread."""
        if size <= AT_ONCE_BYTES:
            return work()
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(BUDGET_S):
                return await self._loop.run_in_executor(self._thread, self._work, work)
        except TimeoutError:
            raise errors.took_too_long(BUDGET_S) from None

    def _work(self, work: Callable[[], T]) -> T:
        self._is_here.value = True
        return work()

    def ask(self, question: Callable[[], T]) -> T:
        """What only the event loop may look at, also asked from within such work."""
        if not getattr(self._is_here, "value", False):
            return question()
        assert self._loop is not None
        answer: Future[T] = Future()
        self._loop.call_soon_threadsafe(_answer, question, answer)
        return answer.result(BUDGET_S)

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _answer(question: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        answer.set_result(question())
    except Exception as error:
        answer.set_exception(error)
