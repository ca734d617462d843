"""Everything that may go wrong between a client and its server, drawn from a seed.

A request may be late, refused before it did anything, lost on its way there, or lost on its way
back: then the write has happened and nobody tells. It goes on though its sender dies meanwhile, as
bytes on a wire do. A watch may lag, end early, break, or be told that its revision is too old.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from makeway.client.transport import Answer, Call, Unreachable

Body = bytes | AsyncIterator[bytes]
Handle = Callable[[Call], Awaitable[tuple[int, Mapping[str, str], Body]]]

LATE_MAX_S = 2.0  # of a request, and of its answer
LAG_MAX_S = 8.0  # of a watch
REFUSALS = {
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """How likely each trouble is, per request or per piece of a watch."""

    late: float = 0.0
    refused: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    watch_lags: float = 0.0
    watch_ends: float = 0.0
    watch_breaks: float = 0.0
    watch_expires: float = 0.0
    flush_slow: float = 0.0
    flush_fails: float = 0.0


NO_FAULTS = FaultRates()
FAULTY = FaultRates(
    late=0.3,
    refused=0.06,
    lost_before=0.03,
    lost_after=0.05,
    watch_lags=0.2,
    watch_ends=0.03,
    watch_breaks=0.03,
    watch_expires=0.02,
    flush_slow=0.05,
    flush_fails=0.01,
)


class Faults:
    """The one who draws; all draws come from one source, so their order is part of the history."""

    def __init__(self, chance: Random, rates: FaultRates = NO_FAULTS) -> None:
        self.chance, self.rates = chance, rates
        self.troubles: Counter[str] = Counter()

    def strikes(self, trouble: str) -> bool:
        likely = getattr(self.rates, trouble)
        if not likely or self.chance.random() >= likely:
            return False
        self.troubles[trouble] += 1
        return True

    async def delay(self, trouble: str, max_s: float) -> None:
        if self.strikes(trouble):
            await asyncio.sleep(self.chance.uniform(0.0, max_s))


class FaultyTransport:
    """A transport on which all this may happen."""

    def __init__(self, handle: Handle, faults: Faults) -> None:
        self._handle, self._faults = handle, faults

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        if call.is_stream:
            code, headers, body = await self._open(call)
        else:
            carried = asyncio.ensure_future(self._carry(call))
            carried.add_done_callback(_look_at)
            code, headers, body = await asyncio.shield(carried)
        pieces = _one(body) if isinstance(body, bytes) else self._watched(body)
        try:
            yield Answer(code=code, headers=headers, pieces=pieces)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Nothing is open."""

    async def _carry(self, call: Call) -> tuple[int, Mapping[str, str], Body]:
        faults = self._faults
        await faults.delay("late", LATE_MAX_S)
        if faults.strikes("refused"):
            return self._refusal(call)
        if faults.strikes("lost_before"):
            raise Unreachable("the request was lost")
        answer = await self._handle(call)
        if faults.strikes("lost_after"):
            raise Unreachable("the answer was lost")
        await faults.delay("late", LATE_MAX_S)
        return answer

    def _refusal(self, call: Call) -> tuple[int, Mapping[str, str], bytes]:
        # To say "conflict" to a create would be to say that the object is there.
        codes = [code for code in REFUSALS if code != 409 or call.method in ("PUT", "PATCH")]
        code = self._faults.chance.choice(codes)
        return code, {}, _status(code, REFUSALS[code])

    async def _open(self, call: Call) -> tuple[int, Mapping[str, str], Body]:
        faults = self._faults
        await faults.delay("late", LATE_MAX_S)
        if faults.strikes("lost_before"):
            raise Unreachable("the request was lost")
        if faults.strikes("watch_expires"):
            return 410, {}, _status(410, "Expired")
        return await self._handle(call)

    async def _watched(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        faults = self._faults
        try:
            async for piece in pieces:
                if not piece:
                    continue
                await faults.delay("watch_lags", LAG_MAX_S)
                if faults.strikes("watch_ends"):
                    return
                if faults.strikes("watch_breaks"):
                    yield piece[: len(piece) // 2]
                    raise Unreachable("the connection broke")
                if faults.strikes("watch_expires"):
                    yield b'{"type":"ERROR","object":' + _status(410, "Expired") + b"}\n"
                    return
                yield piece
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]


def _look_at(carried: asyncio.Future[Any]) -> None:
    """Its sender may be gone; then its failure is nobody's business."""
    if not carried.cancelled():
        carried.exception()


def _status(code: int, reason: str) -> bytes:
    return orjson.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": f"{reason}, says the test"}
    )


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
