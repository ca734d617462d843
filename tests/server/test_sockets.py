"""Watches over a WebSocket, as Java's clients ask for them: who leaves, who doesn't read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import orjson
import pytest

from makeway.server import listen, reads, sockets
from makeway.server.listen import Listener
from makeway.server.messages import Messages, Request, Response, Talk
from tests.server.harness import TOKEN, Server, play

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PATIENCE_S = 10.0
Story = Callable[[Server, str, aiohttp.ClientSession], Awaitable[None]]


def play_on_sockets(folder: Path, story: Story) -> None:
    """The server of a story, reached by HTTP."""

    async def run(server: Server) -> None:
        app = server.app
        listener = Listener(app.handle, app.is_authenticated, host="127.0.0.1", port=0, tls=None)
        address = f"http://127.0.0.1:{await listener.start()}"
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE_S):
                await story(server, address, session)
        finally:
            server.app.reads.end_watches()
            await listener.stop()

    play(folder, run)


def watched(
    session: aiohttp.ClientSession, address: str, token: str = TOKEN
) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
    headers = {"Authorization": f"Bearer {token}"}
    return session.ws_connect(f"{address}{LEASES}?watch=true", headers=headers)


@contextlib.asynccontextmanager
async def soon(
    session: aiohttp.ClientSession, address: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A watch as soon as there is room for one."""
    while True:
        try:
            async with watched(session, address) as watch:
                yield watch
                return
        except aiohttp.WSServerHandshakeError:
            pass  # too many watches
        await asyncio.sleep(0.01)


async def make(server: Server, name: str, size: int = 0) -> None:
    metadata = {"name": name, "annotations": {"text": "x" * size}}
    await server.json("POST", LEASES, {"metadata": metadata, "spec": {}})


async def next_name(watch: aiohttp.ClientWebSocketResponse) -> str:
    event = orjson.loads(await watch.receive_str())
    return str(event["object"]["metadata"]["name"])


def test_events_come_one_by_one_also_when_many_came_at_once(tmp_path: Path) -> None:
    async def story(server: Server, address: str, session: aiohttp.ClientSession) -> None:
        names = [f"lease-{number:03}" for number in range(120)]
        for name in names:
            await make(server, name)
        async with watched(session, address) as watch:
            assert [await next_name(watch) for _ in names] == names
            await make(server, "later")
            assert await next_name(watch) == "later"

    play_on_sockets(tmp_path, story)


def test_a_client_that_leaves_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "WATCHES_MAX", 1)

    async def story(server: Server, address: str, session: aiohttp.ClientSession) -> None:
        await make(server, "lease")
        async with watched(session, address) as first:
            assert await next_name(first) == "lease"
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with watched(session, address):
                    pass
            assert refused.value.status == 429
        async with soon(session, address) as second:
            assert await next_name(second) == "lease"

    play_on_sockets(tmp_path, story)


def test_a_client_that_leaves_while_what_it_sent_waits_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Megabytes wait for a program that takes nothing, so nobody reads the connection."""
    monkeypatch.setattr(sockets, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(sockets, "TAKEN_WITHIN_S", 0.05)

    async def run() -> None:
        has_begun, is_over = asyncio.Event(), asyncio.Event()

        async def take_nothing(messages: Messages) -> None:
            try:
                await messages.receive()
                has_begun.set()
                await asyncio.get_running_loop().create_future()
            finally:
                is_over.set()

        async def handle(request: Request) -> Response:
            return Response(code=101, talk=Talk("v5.channel.k8s.io", take_nothing))

        listener = Listener(handle, lambda *_: True, host="127.0.0.1", port=0, tls=None)
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            message = b"\x82\xff" + (500_000).to_bytes(8, "big") + bytes(4 + 500_000)
            writer.write(20 * message)
            await has_begun.wait()
            await asyncio.sleep(0.1)
            assert not is_over.is_set()  # who only waits is not cut off
            writer.transport.abort()
            await is_over.wait()
        await listener.stop()

    asyncio.run(run())


def test_a_client_that_does_not_read_loses_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "WATCHES_MAX", 1)
    monkeypatch.setattr(listen, "WRITE_TIMEOUT_S", 0.2)

    async def story(server: Server, address: str, session: aiohttp.ClientSession) -> None:
        for number in range(60):
            await make(server, f"lease-{number:02}", size=200_000)
        port = int(address.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        asked = f"GET {LEASES}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(asked.encode() + UPGRADE)
        await asyncio.sleep(0.05)
        async with soon(session, address) as next_one:
            assert await next_name(next_one) == "lease-00"
        writer.close()

    play_on_sockets(tmp_path, story)


def test_a_server_that_goes_says_so(tmp_path: Path) -> None:
    async def story(server: Server, address: str, session: aiohttp.ClientSession) -> None:
        async with watched(session, address) as watch:
            server.app.reads.end_watches()
            assert (await watch.receive()).type is aiohttp.WSMsgType.CLOSE

    play_on_sockets(tmp_path, story)


def test_without_a_token_there_is_no_socket(tmp_path: Path) -> None:
    async def story(_: Server, address: str, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with watched(session, address, token="guessed"):
                pass
        assert refused.value.status == 401

    play_on_sockets(tmp_path, story)


def test_an_answer_that_is_no_watch_is_sent_as_ever(tmp_path: Path) -> None:
    async def story(_: Server, address: str, session: aiohttp.ClientSession) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Upgrade": "websocket"}
        headers["Connection"] = "Upgrade"
        async with session.get(address + LEASES, headers=headers) as answer:
            assert (answer.status, (await answer.json())["items"]) == (200, [])

    play_on_sockets(tmp_path, story)
