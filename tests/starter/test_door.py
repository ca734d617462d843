"""Orders are taken from the server's account and from root, whoever else gets to the socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from makeway.clocks import SteadyClock
from makeway.runner.local import LocalHost
from makeway.starter.door import Door
from makeway.starter.homes import AccountHomes
from makeway.starter.table import Rules, Table
from tests import prerequisites
from tests.harness.accounts import open_folder

NOBODY = 65534
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _root() -> None:
    prerequisites.root()


def with_door(work: Callable[[Path], Awaitable[T]], welcome: tuple[int, ...] = (0,)) -> T:
    async def opened(folder: Path) -> T:
        clock, homes = SteadyClock(), AccountHomes(folder / "homes")
        host = LocalHost(folder, homes=homes, clock=clock)
        door = Door(host, homes, Table(folder / "table", Rules()), clock, welcome)
        listening = await door.open(folder / "sock", NOBODY)
        try:
            return await work(folder / "sock")
        finally:
            listening.close()
            host.close()

    with open_folder() as folder:
        return asyncio.run(opened(folder))


async def said(path: Path, *lines: bytes) -> list[Any]:
    """The answers to lines, each waited for; fewer if it hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    answers = []
    for line in lines:
        writer.write(line + b"\n")
        if not (answer := await reader.readline()):
            break
        answers.append(json.loads(answer))
    writer.close()
    return answers


def test_what_is_no_order_is_refused_and_the_next_one_is_heard() -> None:
    lines = [
        *(b"{", b"[]", b'{"do": "reboot"}', b'{"do": "stop", "uid": "../x", "grace_s": 1}'),
        *(b'{"do": "start", "pod": {"uid": "x"}}', b"[" * 100_000),
        *(b'{"do": "keep"}', b'{"do": "keep", "namespaces": ["../x"]}'),
        b'{"do": "stop", "uid": "unknown", "grace_s": 1}',
        b'{"do": "look"}',
    ]
    answers = with_door(lambda path: said(path, *lines))

    assert [answer.get("unwelcome") for answer in answers[:8]] == ["BadOrder"] * 8
    assert answers[8] == {"done": True}  # to end what is not there is nothing
    assert answers[9]["count"] == 0


def test_nobody_but_the_welcome_is_heard() -> None:
    async def tried(path: Path) -> bytes:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.connect(str(path))
                connection.sendall(b'{"do": "look"}\n')
                os.write(writing, connection.recv(1000) or b"hung up")
            except OSError as error:
                os.write(writing, type(error).__name__.encode())
            finally:
                os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            return answer.read()

    # nobody's group may open the socket: the kernel says who it is
    assert with_door(tried) in (b"hung up", b"ConnectionResetError", b"BrokenPipeError")
    assert b'"count": 0' in with_door(tried, (0, NOBODY))
