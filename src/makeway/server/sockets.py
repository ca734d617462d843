"""WebSockets: a connection that a client asks to upgrade, and messages instead of a body.

Besides `listen.py`, the only file of the server that knows the HTTP library. Who asks for a
WebSocket gets one where the answer comes piece by piece; any other answer, a refusal above all, is
sent as to everybody else, and the client reads in it why it got none.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

CLOSE_TIMEOUT_S = 2.0  # for a client to agree that it is over
PING_EVERY_S = 30.0  # a client that is gone without a word is noticed by its silence
MESSAGE_MAX_BYTES = 64 * 1024  # of a client's


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
    socket = await _opened(raw)
    sending = asyncio.create_task(_send(raw, socket, lines, timeout_s))
    try:
        async for _ in socket:
            pass  # nothing is asked of a client but to read
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return socket


async def _opened(raw: web.BaseRequest) -> web.WebSocketResponse:
    asked = raw.headers.get("Sec-WebSocket-Protocol", "")
    protocols = [name.strip() for name in asked.split(",") if name.strip()][:1]
    socket = web.WebSocketResponse(
        protocols=protocols,
        timeout=CLOSE_TIMEOUT_S,
        heartbeat=PING_EVERY_S,
        max_msg_size=MESSAGE_MAX_BYTES,
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
