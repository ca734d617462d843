"""Requests by HTTP: the only file of the client that knows the HTTP library.

It costs a third of a second to import, so nothing imports it before there is something to send.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp

from makeway.client.transport import Answer, Call, Unreachable

CONNECTIONS_MAX = 128
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0  # between two pieces of an answer that is no stream


class HttpTransport:
    def __init__(self, address: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, ssl=self._tls if self._tls is not None else True
            )
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._session

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=CONNECT_TIMEOUT_S,
            sock_read=None if call.is_stream else ANSWER_TIMEOUT_S,
        )
        try:
            async with self._opened().request(
                call.method,
                self._address + quote(call.path),
                params=dict(call.query),
                headers=dict(call.headers),
                data=call.body or None,
                timeout=timeout,
            ) as answer:
                headers: dict[str, str] = {}
                for name, value in answer.headers.items():
                    key = name.lower()
                    headers[key] = f"{headers[key]}, {value}" if key in headers else value
                pieces = answer.content.iter_any()
                yield Answer(code=answer.status, headers=headers, pieces=_guarded(pieces))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{self._address}: {error or type(error).__name__}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _guarded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for piece in pieces:
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"the answer broke off: {error or type(error).__name__}") from error
