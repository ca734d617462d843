"""Readers of a cluster: whoever shows a token that the cluster's API server knows.

Who that is, and what he may see, is asked of the API server with his own token, so that the
controller needs no right for it, and does nothing for anybody with its own. Answers hold for a
minute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from makeway.api.kinds import Resource
from makeway.client import ApiError, Client
from makeway.client.transport import Answer, Call, Transport
from makeway.dashboard.scheduler import AskedTransport, Scheduler
from makeway.dashboard.sight import ASKED_EVERY_S, ClusterSight
from makeway.dashboard.signing_in import Reader, Session

KNOWN_MAX = 1000  # tokens
MANAGER = "makeway-dashboard"
_SCHEME = "bearer "
_REVIEWS = Resource(
    "authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", is_namespaced=False
)


@dataclass(slots=True)
class Bearer:
    """Somebody with a token, as we have come to know him."""

    name: str
    sight: ClusterSight
    asked_at: float


class Bearers:
    def __init__(
        self, transport: Transport, scheduler: Scheduler, clock: Callable[[], float]
    ) -> None:
        """`transport` shows nobody's credentials."""
        self._transport, self._scheduler, self._clock = transport, scheduler, clock
        self._known: dict[bytes, Bearer] = {}  # by the token's digest, who came last at the end

    async def session(self, headers: Mapping[str, str]) -> Session | None:
        """Who shows the token in these headers; None if the API server doesn't know it."""
        token = token_in(headers)
        if not token:
            return None
        known = self._known.pop(_digest(token), None)
        if known is None or self._clock() - known.asked_at >= ASKED_EVERY_S:
            known = await self._met(token, known)
        if known is None:
            return None
        self._known[_digest(token)] = known
        while len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return Session(Reader(known.name, token=token), math.inf)

    async def _met(self, token: str, known: Bearer | None) -> Bearer | None:
        client = self._plain(token)
        review = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind}
        try:
            found = await client.create(_REVIEWS, review)
        except ApiError as error:
            if error.code == 401:
                return None
            raise
        name = str(found["status"]["userInfo"].get("username", ""))
        sight = ClusterSight(client, self._clock) if known is None else known.sight
        return Bearer(name, sight, self._clock())

    def sight(self, reader: Reader) -> ClusterSight:
        """Of somebody who was met; one for all his pages."""
        known = self._known.get(_digest(reader.token))
        return (
            ClusterSight(self._plain(reader.token), self._clock) if known is None else known.sight
        )

    def client(self, reader: Reader) -> Client:
        """With his own rights, also where it is the controller that answers."""
        transport = WithToken(self._transport, reader.token)
        asked = AskedTransport(transport, self.sight(reader), self._scheduler)
        return Client(asked, manager=MANAGER)

    def _plain(self, token: str) -> Client:
        return Client(WithToken(self._transport, token), manager=MANAGER)


class WithToken:
    """Shows a token over connections that all readers share."""

    def __init__(self, transport: Transport, token: str) -> None:
        self._transport, self._token = transport, token

    def send(self, call: Call) -> AbstractAsyncContextManager[Answer]:
        headers = {**call.headers, "Authorization": f"Bearer {self._token}"}
        return self._transport.send(replace(call, headers=headers))

    async def close(self) -> None:
        """The connections are not ours."""


def token_in(headers: Mapping[str, str]) -> str:
    given = headers.get("authorization", "")
    return given[len(_SCHEME) :].strip() if given.lower().startswith(_SCHEME) else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
