"""Connections without a token: few, short, and at nobody else's expense. Real sockets, real TLS."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from makeway.api.kinds import NAMESPACES
from makeway.client import Client
from makeway.client.kubeconfig import read_kubeconfig
from makeway.embedded.serving import Running, serve
from makeway.embedded.settings import Settings
from makeway.server import door, listen

HALF = b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nX-Half: "
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def play(folder: Path, story: Callable[[Running], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serve(folder / "data", Settings(port=0)) as running:
            await asyncio.wait_for(story(running), 60)

    asyncio.run(run())


async def connect(running: Running) -> Streams:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    port = int(running.address.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=tls)


async def half(running: Running) -> Streams:
    """A connection with half a request, which never goes on."""
    reader, writer = await connect(running)
    writer.write(HALF)
    return reader, writer


async def ask(running: Running, text: bytes) -> bytes:
    reader, writer = await connect(running)
    writer.write(text)
    answer = await reader.read()
    writer.close()
    return answer


async def is_closed(streams: Streams) -> bool:
    try:
        return await streams[0].read() == b""
    except ConnectionError:
        return True


async def names(running: Running) -> int:
    """What somebody with the token sees."""
    async with asyncio.timeout(60):
        transport = read_kubeconfig(running.kubeconfig).transport()
        client = Client(transport)
        found = len((await client.list(NAMESPACES)).items)
        await client.close()
        return found


def test_half_a_request_is_given_a_while_and_then_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "STRANGER_S", 0.3)

    async def story(running: Running) -> None:
        silent = await connect(running)
        begun = await half(running)
        async with asyncio.timeout(60):
            assert await is_closed(silent)
            assert await is_closed(begun)

    play(tmp_path, story)


def test_who_has_shown_the_token_may_stay_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "STRANGER_S", 2.0)

    async def story(running: Running) -> None:
        token = (running.kubeconfig.parent / "pki" / "token").read_bytes().strip()
        reader, writer = await connect(running)
        request = (
            b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
        )
        for silence_s in (2.2, 0.0):
            writer.write(request)
            assert b" 200 " in await reader.readuntil(b"\r\n")
            await reader.readuntil(b"}")
            await asyncio.sleep(silence_s)
        writer.close()

    play(tmp_path, story)


def test_more_half_requests_than_there_may_be_keep_nobody_with_a_token_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "STRANGERS_MAX", 8)

    async def story(running: Running) -> None:
        flood = [await half(running) for _ in range(24)]
        assert await names(running) >= 3
        closed = [await is_closed(streams) for streams in flood[:16]]
        assert closed == [True] * 16  # the oldest; the youngest eight still have their time
        for _, writer in flood:
            writer.close()

    play(tmp_path, story)


def test_another_user_of_the_machine_closes_only_his_own_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = iter([1234, *[4321] * 10])
    monkeypatch.setattr(door, "uid_of_peer", lambda _: next(users))
    monkeypatch.setattr(door, "OTHERS_MAX", 3)

    async def story(running: Running) -> None:
        first = await half(running)
        flood = [await half(running) for _ in range(8)]
        assert [await is_closed(streams) for streams in flood[:5]] == [True] * 5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(is_closed(first), 0.2)
        for _, writer in (first, *flood):
            writer.close()

    play(tmp_path, story)


def test_without_descriptors_nobody_gets_in_and_with_some_everybody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door, "ACCEPT_AGAIN_S", 0.1)

    async def story(running: Running) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        port = int(running.address.rpartition(":")[2])
        callers = [socket.socket() for _ in range(5)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        for caller in callers:
            caller.connect(("127.0.0.1", port))  # Linux takes the call, we can't
        await asyncio.sleep(0.5)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for caller in callers:
            caller.close()
        assert await names(running) >= 3

    with caplog.at_level(logging.WARNING):
        play(tmp_path, story)
    lines = [one for one in caplog.records if "accept=failed" in one.getMessage()]
    assert 1 <= len(lines) <= 10  # a line each time that it was tried, not a busy loop


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b" 431 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", b" 431 "),
        (b"hello\r\n\r\n", b" 400 "),
        (b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\n", b" 400 "),
    ],
    ids=["long URL", "long header", "no HTTP", "bad length"],
)
def test_what_is_no_request_is_answered_and_writes_nothing_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes, code: bytes
) -> None:
    async def story(running: Running) -> None:
        answer = await ask(running, text)
        assert code in answer.splitlines()[0]
        assert b'"kind":"Status"' in answer

    with caplog.at_level(logging.INFO):
        play(tmp_path, story)
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_client_that_never_reads_its_answer_loses_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "WRITE_TIMEOUT_S", 0.3)
    is_lost, true = asyncio.Event(), door.Door._lost

    def lost(self: door.Door, connection: door.Connection) -> None:
        true(self, connection)
        is_lost.set()

    monkeypatch.setattr(door.Door, "_lost", lost)

    async def story(running: Running) -> None:
        token = (running.kubeconfig.parent / "pki" / "token").read_bytes().strip()
        _, writer = await connect(running)
        request = b"GET /openapi/v3/apis/batch/v1 HTTP/1.1\r\nHost: x\r\n"
        request += b"Authorization: Bearer " + token + b"\r\n\r\n"
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request * 400)
        await is_lost.wait()
        writer.transport.abort()

    play(tmp_path, story)
