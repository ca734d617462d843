"""How requests get to a server: by a call in the same process here, by HTTP in `http`."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Unreachable(Exception):
    """No answer came, or it broke off; what became of the request is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    pairs: tuple[tuple[str, str], ...] = ()  # of a WebSocket, in place of the query
    is_stream: bool = False  # the answer may go on for a long time
    silence_max_s: float | None = None  # after which a stream counts as broken; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    code: int
    headers: Mapping[str, str]  # names in lower case; a name that stands twice is joined by commas
    pieces: AsyncIterator[bytes]

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces])


class Transport(Protocol):
    def send(self, call: Call) -> contextlib.AbstractAsyncContextManager[Answer]:
        """The answer, until the context ends."""

    async def close(self) -> None: ...


Handle = Callable[[Call], Awaitable[tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]]]


class InProcessTransport:
    """Calls a server's handler directly; same bytes, no socket."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        code, headers, body = await self._handle(call)
        pieces = _one(body) if isinstance(body, bytes) else body
        try:
            yield Answer(code=code, headers=headers, pieces=pieces)
        finally:
            aclose = getattr(pieces, "aclose", None)
            if aclose is not None:
                await aclose()

    async def close(self) -> None:
        """Nothing is open."""


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
