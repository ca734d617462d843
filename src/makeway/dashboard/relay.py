"""The dashboard of a cluster on a person's own machine: what a browser asks goes on to the
controller, with the token of whoever runs `makeway dashboard`.

Browsers sign in here as they do at `makeway up`, and know nothing of the token. It is asked for
before each request, so one that runs out is followed by the next.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import unquote

import orjson

from makeway.client.transport import Answer, Call, Transport, Unreachable
from makeway.dashboard.serving import HOST, KEY_BYTES
from makeway.dashboard.signing_in import Codes, Reader, Session, Sessions
from makeway.dashboard.site import (
    CODE,
    HEADERS,
    SESSION,
    Refused,
    expect_known_host,
    expect_own_origin,
)
from makeway.server.listen import Listener
from makeway.server.messages import Request, Response

SILENCE_MAX_S = 30.0  # of a stream that beats every ten seconds
STREAM = "/api/stream"
_STREAMED = (STREAM, "/api/output")
_PASSED_UP = ("content-type", "if-none-match")
_PASSED_DOWN = ("cache-control", "etag")
_READER = Reader("")  # whoever runs it: the controller knows his name


class Relay:
    def __init__(
        self, transport: Transport, why: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        """`why` tells what is wrong with the way to the controller, as far as is known."""
        self._transport, self._why = transport, why
        self._codes = Codes(clock)
        self._sessions = Sessions(secrets.token_bytes(KEY_BYTES), clock)
        self._streams = 0  # that are open

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[int]:
        """Its port, while the context lasts."""
        listener = Listener(self.handle, self._is_known, host=HOST, port=port, tls=None)
        bound = await listener.start()
        try:
            yield bound
        finally:
            await listener.stop()

    def code(self) -> str:
        """For one page, once."""
        return self._codes.issue(_READER)

    def _is_known(self, headers: Mapping[str, str], _: int | None = None) -> bool:
        return self._session(headers) is not None

    def _session(self, headers: Mapping[str, str]) -> Session | None:
        return self._sessions.read(headers.get(SESSION, ""))

    async def handle(self, request: Request) -> Response:
        try:
            return await self._route(request)
        except Refused as refusal:
            return _problem(refusal.code, refusal.why)
        except Unreachable as error:
            return _problem(503, f"the controller can't be reached: {self._why() or error}")

    async def _route(self, request: Request) -> Response:
        expect_known_host(request)
        path, session = _plain(request.path), None
        if path.split("/")[1] == "api":
            expect_own_origin(request)
            if (request.method, path) == ("POST", "/api/session"):
                return self._sign_in(request)
            session = self._session(request.headers)
            if session is None:
                raise Refused(401, "sign in: `makeway dashboard` opens this page with a code")
            if (request.method, path) == ("DELETE", "/api/session"):
                self._sessions.end(session)
                return _answer({})
        return await self._passed_on(request, path, session)

    def _sign_in(self, request: Request) -> Response:
        if self._codes.redeem(request.headers.get(CODE, "")) is None:
            raise Refused(401, "this code was used or is too old; ask for another")
        return _answer({"session": self._sessions.issue(_READER), "reader": ""})

    async def _passed_on(self, request: Request, path: str, session: Session | None) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_UP if name in request.headers}
        call = Call(
            method=request.method,
            path=path,
            query=request.query,
            headers=headers,
            body=request.body,
            is_stream=True,
            silence_max_s=SILENCE_MAX_S if path == STREAM else None,
        )
        stack = contextlib.AsyncExitStack()
        answer = await stack.enter_async_context(self._transport.send(call))
        pieces = _pieces(answer, stack)
        if session is not None and path in _STREAMED and answer.code == 200:
            body: bytes | AsyncIterator[bytes] = self._until_broken(pieces, session)
        else:
            body = b"".join([piece async for piece in pieces])
        if answer.code == 503 and not self._streams:
            # Of a replica that stands by: the next connection finds who leads.
            await self._transport.close()
        kept = [(name, answer.headers[name]) for name in _PASSED_DOWN if name in answer.headers]
        return Response(
            code=answer.code,
            body=body,
            content_type=answer.headers.get("content-type", ""),
            headers=(*HEADERS, *kept),
        )

    async def _until_broken(
        self, pieces: AsyncIterator[bytes], session: Session
    ) -> AsyncIterator[bytes]:
        """A stream may end in the middle: the page sees that, and begins anew, if it may."""
        self._streams += 1
        try:
            with contextlib.suppress(Unreachable):
                async for piece in pieces:
                    if self._sessions.is_over(session):
                        return
                    yield piece
        finally:
            self._streams -= 1


async def _pieces(answer: Answer, stack: contextlib.AsyncExitStack) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in answer.pieces:
            yield piece


def _plain(path: str) -> str:
    """A path in the one form in which it is judged and passed on."""
    parts = [part for part in unquote(path).split("/") if part]
    if {".", ".."}.intersection(parts):
        raise Refused(404, f"there is no {path}")
    return "/" + "/".join(parts)


def _answer(told: Mapping[str, str]) -> Response:
    return Response(body=orjson.dumps(told), headers=(*HEADERS, ("Cache-Control", "no-store")))


def _problem(code: int, why: str) -> Response:
    return Response(code=code, body=orjson.dumps({"message": why}), headers=HEADERS)
