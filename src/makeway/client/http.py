"""Requests by HTTP: the only file of the client that knows the HTTP library.

It costs a third of a second to import, so nothing imports it before there is something to send.
"""

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp

from makeway.client.credentials import Credential, CredentialError, Source
from makeway.client.transport import Answer, Call, Unreachable

UNIX = "unix:"  # an address that is a socket of this machine, where the kernel says who calls
LOCAL = "http://localhost"  # what such a request calls its host
CONNECTIONS_MAX = 128
CONNECT_TIMEOUT_S = 10.0
MESSAGE_MAX_BYTES = 4 * 1024 * 1024  # of a WebSocket
ANSWER_TIMEOUT_S = 60.0  # between two pieces of an answer that is no stream
# A peer that vanished without a word is noticed within half a minute, also in the midst of a watch.
KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    # Less than a lease outlasts its last renewal: what a cut-off leader sent is given up by then.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How a server shows that it is the right one."""

    ca: str = ""  # PEM; empty: the system's
    is_insecure: bool = False  # any server will do
    server_name: str = ""  # in its certificate; empty: as in the address

    def context(self, credential: Credential) -> ssl.SSLContext:
        tls = ssl.create_default_context(cadata=self.ca or None)
        if self.is_insecure:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if credential.certificate:
            _load(tls, credential)
        return tls


class NotJoined(Exception):
    """A server that was asked for a WebSocket has answered with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server answered with {code}")


class Joined:
    """A WebSocket; whoever doesn't read makes the other side wait."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    @property
    def protocol(self) -> str:
        return self._socket.protocol or ""

    async def receive(self) -> bytes | None:
        """The next message; None: the server has closed it."""
        message = await self._socket.receive()
        if message.type == aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        return str(message.data).encode() if message.type == aiohttp.WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)


def _with_token(call: Call, credential: Credential) -> dict[str, str]:
    headers = dict(call.headers)
    if credential.token:
        headers["Authorization"] = f"Bearer {credential.token}"
    return headers


class HttpTransport:
    def __init__(self, address: str, *, source: Source, trust: Trust) -> None:
        """An address is that of a host, or `unix:PATH` of a socket on this machine."""
        self._address = address.rstrip("/")
        self._socket = address.removeprefix(UNIX) if address.startswith(UNIX) else ""
        self._source, self._trust = source, trust
        self._session: aiohttp.ClientSession | None = None
        self._shown = Credential()  # whose certificate the session's connections have

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        try:
            credential = await self._source.current()
            answer = await self._request(call, credential)
            # A request that isn't let in has changed nothing, so even a write may be sent again.
            if answer.status == 401 and self._source.refuse(credential):
                answer.release()
                answer = await self._request(call, await self._source.current())
        except CredentialError as error:
            raise Unreachable(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        try:
            pieces = _guarded(answer.content.iter_any())
            yield Answer(code=answer.status, headers=_headers(answer), pieces=pieces)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            # What was read to its end goes back to the others; a stream that goes on is cut.
            answer.release()

    @contextlib.asynccontextmanager
    async def join(self, call: Call, protocols: tuple[str, ...]) -> AsyncIterator[Joined]:
        """A WebSocket that speaks one of these; NotJoined: the server has answered otherwise."""
        try:
            credential = await self._source.current()
            session = await self._opened(credential)
            socket = await session.ws_connect(
                self._url(call),
                params=list(call.pairs),
                headers=_with_token(call, credential),
                protocols=protocols,
                server_hostname=self._trust.server_name or None,
                max_msg_size=MESSAGE_MAX_BYTES,
            )
        except CredentialError as error:
            raise Unreachable(str(error)) from error
        except aiohttp.WSServerHandshakeError as error:
            raise NotJoined(error.status) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        async with socket:
            yield Joined(socket)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _request(self, call: Call, credential: Credential) -> aiohttp.ClientResponse:
        session = await self._opened(credential)
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=CONNECT_TIMEOUT_S,
            sock_read=call.silence_max_s if call.is_stream else ANSWER_TIMEOUT_S,
        )
        return await session.request(
            call.method,
            self._url(call),
            params=dict(call.query),
            headers=_with_token(call, credential),
            data=call.body or None,
            timeout=timeout,
            server_hostname=self._trust.server_name or None,
            allow_redirects=False,
        )

    def _url(self, call: Call) -> str:
        return (LOCAL if self._socket else self._address) + quote(call.path)

    async def _opened(self, credential: Credential) -> aiohttp.ClientSession:
        """Connections that show this certificate; those that show an older one are closed."""
        if self._session is not None and self._shown.certificate != credential.certificate:
            await self.close()
        if self._session is None:
            session = aiohttp.ClientSession(connector=self._connector(credential))
            self._session, self._shown = session, credential
        return self._session

    def _connector(self, credential: Credential) -> aiohttp.BaseConnector:
        if self._socket:
            return aiohttp.UnixConnector(self._socket, limit=CONNECTIONS_MAX)
        is_secure = self._address.startswith("https://")
        return aiohttp.TCPConnector(
            limit=CONNECTIONS_MAX,
            ssl=self._trust.context(credential) if is_secure else True,
            socket_factory=_socket,
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self._address}: {_in_words(error)}")


def _in_words(error: Exception) -> str:
    """What broke, as the system calls it: the library's own texts name its options."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, TimeoutError):
        return "it took too long"
    is_of_tls = isinstance(cause, ssl.SSLError)  # whose numbers are its own
    if isinstance(cause, OSError) and not is_of_tls and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return str(cause) or type(cause).__name__


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    for option in KEEP_ALIVE:
        made.setsockopt(*option)
    return made


def _load(tls: ssl.SSLContext, credential: Credential) -> None:
    """The library takes certificates from files only; these live no longer than the call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_text(f"{credential.certificate}\n{credential.key}\n")
        try:
            tls.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise CredentialError(f"the client certificate can't be used: {error}") from None


def _no_password() -> str:
    """Without this, OpenSSL would ask at the terminal."""
    raise ValueError("its key is protected by a password")


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


async def _guarded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for piece in pieces:
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"the answer broke off: {error or type(error).__name__}") from error
