"""Answers about the past beside a server, each in a process of its own.

Who shares a server with others can't read its journal, in which is everybody's; the server reads it
for him. That may take a while and all of a core, so another process does it, with a low priority,
one question after the other, and of each account one at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from makeway.beside import Beside
from makeway.journal.coding import Unreadable
from makeway.journal.file import Journal, JournalError
from makeway.journal.past import Name, NothingKnown
from makeway.retelling import Document, usage, why
from makeway.server import errors
from makeway.server.errors import ApiError

NICE = 10
TIME_MAX_S, MEMORY_MAX_BYTES = 50.0, 4 << 30
WAITING_MAX = 100  # who may wait for an answer


# --- the server's side ---


class Historian:
    def __init__(self, path: Path, spare: Callable[[int], None] | None = None) -> None:
        """`spare` is told of each process that is started, so that nobody ends it as a stray."""
        self._path = path
        self._beside = Beside(
            "makeway.embedded.historian", nice=NICE, time_max_s=TIME_MAX_S, spare=spare
        )
        self._asking: set[str] = set()
        self._turn = asyncio.Lock()

    def stop(self) -> None:
        """Who waits for an answer gets none."""
        self._beside.stop()

    async def why(self, who: str, namespace: str, name: str, at: float, since: float) -> Document:
        asked = {"kind": "why", "namespace": namespace, "name": name, "at": at, "since": since}
        return await self._answer(who, asked)

    async def usage(self, who: str, since: float, until: float) -> Document:
        return await self._answer(who, {"kind": "usage", "since": since, "until": until})

    async def _answer(self, who: str, question: Document) -> Document:
        if who in self._asking or len(self._asking) >= WAITING_MAX:
            raise errors.too_many_requests("one question about the past at a time; try again later")
        self._asking.add(who)
        # Who hangs up keeps his turn until the other process is done with his question.
        working = asyncio.ensure_future(self._take_turn({**question, "journal": str(self._path)}))
        working.add_done_callback(lambda done: self._is_done(who, done))
        try:
            found = await asyncio.shield(working)
        except subprocess.TimeoutExpired:
            why = f"the journal is long: there was no answer within {TIME_MAX_S:g} s"
            raise errors.internal(why) from None
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise errors.internal(f"nobody can tell of the past: {error}") from None
        if "nothing" in found:
            raise ApiError(404, "NotFound", found["nothing"])
        return found

    async def _take_turn(self, asked: Document) -> Document:
        async with self._turn:
            return await asyncio.to_thread(self._ask, asked)

    def _is_done(self, who: str, working: asyncio.Future[Document]) -> None:
        self._asking.discard(who)
        if not working.cancelled():
            working.exception()  # has been told to whoever still listens

    def _ask(self, question: Document) -> Document:
        zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
        return self._beside.ask(json.dumps(question).encode(), zone)


# --- the other process ---


def answer(question: Mapping[str, Any]) -> Document:
    journal = Journal(Path(question["journal"]))
    try:
        if question["kind"] == "usage":
            return usage(journal, question["since"], question["until"])
        name = Name(question["namespace"], question["name"])
        return why(journal, name, question["at"], question["since"])
    except NothingKnown as error:
        return {"nothing": str(error)}
    finally:
        journal.close()


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    try:
        told = answer(json.loads(sys.stdin.buffer.read()))
    except (JournalError, Unreadable, sqlite3.DatabaseError) as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(told))
