"""WebSockets: a connection that a client asks to upgrade, and messages instead of a body.

Either the answer comes line by line, and each is a message; or it is a conversation.

Besides `listen.py`, the only file of the server that knows the HTTP library. Who asks for a
WebSocket gets one where the answer comes piece by piece; any other answer, a refusal above all, is
sent as to everybody else, and the client reads in it why it got none.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from aiohttp import WSMsgType, web

from makeway.peers import has_hung_up
from makeway.server.messages import Talk
from makeway.together import until_one_ends

CLOSE_TIMEOUT_S = 2.0  # for a client to agree that it is over
PING_EVERY_S = 30.0  # a client that is gone without a word is noticed by its silence
MESSAGE_MAX_BYTES = 64 * 1024  # of a client's
TALK_MAX_BYTES = 1024 * 1024  # of a client's in a conversation
LOOK_EVERY_S = 1.0  # whether the client of a conversation is still there
TAKEN_WITHIN_S = 10.0  # what a client has sent that is gone


def is_asked_for(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers (names in lower case) wants a WebSocket."""
    connection = headers.get("connection", "").lower()
    return "upgrade" in connection and headers.get("upgrade", "").lower() == "websocket"


async def send_lines(
    raw: web.BaseRequest, lines: AsyncIterator[bytes], timeout_s: float
) -> web.WebSocketResponse:
    """Each line is a message. Over when they are, or when the client says so.

    `lines` come in pieces of one or more whole lines. A client that doesn't read a message for
    `timeout_s` loses its connection.
    """
    asked = raw.headers.get("Sec-WebSocket-Protocol", "")
    protocols = [name.strip() for name in asked.split(",") if name.strip()][:1]
    socket = await _opened(raw, protocols, MESSAGE_MAX_BYTES, PING_EVERY_S)
    sending = asyncio.create_task(_send(raw, socket, lines, timeout_s))
    try:
        async for _ in socket:
            pass  # nothing is asked of a client but to read
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return socket


async def converse(raw: web.BaseRequest, talk: Talk) -> web.WebSocketResponse:
    """Over when both have said all, or when the client is gone.

    Whoever doesn't read makes the other wait, and nobody is cut off for that: while what a client
    sent waits for a program, its answers to pings would wait too.
    """
    socket = await _opened(raw, [talk.protocol], TALK_MAX_BYTES, None)
    with contextlib.suppress(ConnectionError):
        await until_one_ends(talk.run(_Messages(socket)), _gone(raw))
        await socket.close()
    return socket


async def _gone(raw: web.BaseRequest) -> None:
    """Until the client has been gone for a while.

    While what it sent waits for a program, nobody reads its connection, so the kernel is asked. On
    loopback it knows at once, also when a client was killed.
    """
    connection = None if raw.transport is None else raw.transport.get_extra_info("socket")
    while connection is not None and not has_hung_up(connection):
        await asyncio.sleep(LOOK_EVERY_S)
    await asyncio.sleep(TAKEN_WITHIN_S)
    if raw.transport is not None:
        raw.transport.abort()


class _Messages:
    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type == WSMsgType.BINARY:
            return bytes(message.data)
        return str(message.data).encode() if message.type == WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)


async def _opened(
    raw: web.BaseRequest, protocols: list[str], message_max: int, ping_every_s: float | None
) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(
        protocols=protocols,
        timeout=CLOSE_TIMEOUT_S,
        heartbeat=ping_every_s,
        max_msg_size=message_max,
        compress=False,
    )
    await socket.prepare(raw)
    return socket


async def _send(
    raw: web.BaseRequest,
    socket: web.WebSocketResponse,
    pieces: AsyncIterator[bytes],
    timeout_s: float,
) -> None:
    try:
        async for piece in pieces:
            for line in piece.splitlines():
                async with asyncio.timeout(timeout_s):
                    await socket.send_str(line.decode())
        await socket.close()
    except (TimeoutError, ConnectionError):
        # Nobody reads; what is buffered goes with the connection.
        if raw.transport is not None:
            raw.transport.abort()
