"""A server that any thread may ask."""

from __future__ import annotations

import argparse
import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from makeway.cli import connect
from makeway.client import Client

T = TypeVar("T")


class Line:
    """An event loop in a thread of its own does the talking, so a program may have one of its
    own as well, and several threads may ask at once. A server that was started again is found.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        access = connect.find_access(arguments)
        self.namespace = connect.chosen_namespace(arguments, access.namespace)
        self.is_own = connect.is_own(arguments)
        logging.getLogger("makeway").addHandler(logging.NullHandler())
        self.client = Client(connect.StayingTransport(arguments, access))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="makeway", daemon=True)
        self._thread.start()

    def ask(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """The result; TimeoutError when it takes longer. Who stops waiting stops the work."""
        asked = self.begin(work)
        try:
            return asked.result(timeout_s)
        finally:
            asked.cancel()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.ask(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _leave(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.close()
        await self._loop.shutdown_default_executor()
