"""What only the controller of a cluster knows: why a workload waits, until when perhaps, and what
would be, if.

The API server of a cluster has no such questions. A reader's client asks them as it would ask a
Makeway, and they are answered here, once the API server has agreed that he may: who may read a
Workload is told why and how long it waits, who may create a Job what would become of it, and who
may look into all namespaces what other queues would change. What he may not see is not named.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from makeway.api.kinds import WORKLOADS
from makeway.client import ApiError, Client
from makeway.client.transport import Answer, Call, Transport
from makeway.dashboard.sight import EVERYWHERE, ClusterSight


class Scheduler(Protocol):
    """The one that decides; each raises ApiError where it can't tell."""

    def explain(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    def forecast(self, namespace: str, name: str) -> Mapping[str, Any]: ...

    def preview(self, document: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]: ...


class AskedTransport:
    """A reader's way to the API server, and for such questions to the scheduler."""

    def __init__(self, transport: Transport, sight: ClusterSight, scheduler: Scheduler) -> None:
        self._transport, self._sight, self._scheduler = transport, sight, scheduler

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        told = await self._told(call)
        if told is not None:
            yield Answer(code=200, headers={}, pieces=_one(orjson.dumps(told)))
            return
        async with self._transport.send(call) as answer:
            yield answer

    async def close(self) -> None:
        await self._transport.close()

    async def _told(self, call: Call) -> Mapping[str, Any] | None:
        """None: the API server's to answer."""
        match call.path.strip("/").split("/"):
            case [*_, "namespaces", namespace, WORKLOADS.plural, name, "explanation"]:
                return await self._explanation(namespace, name)
            case [*_, "namespaces", namespace, WORKLOADS.plural, name, "forecast"]:
                return await self._forecast(namespace, name)
            case ["diff"]:
                return await self._difference(orjson.loads(call.body)["items"])
        return await self._preview(call) if call.query.get("preview") == "true" else None

    async def _explanation(self, namespace: str, name: str) -> Mapping[str, Any]:
        await Client(self._transport).get(WORKLOADS, name, namespace)
        return await self._seen(self._scheduler.explain(namespace, name), "pieces")

    async def _forecast(self, namespace: str, name: str) -> Mapping[str, Any]:
        """When it is expected to start and end; on whom that depends is not for everybody."""
        await Client(self._transport).get(WORKLOADS, name, namespace)
        told = self._scheduler.forecast(namespace, name)
        parts = ("verdict", "isCurrent", "start", "end", "failure")
        return {part: told[part] for part in parts if part in told}

    async def _preview(self, call: Call) -> Mapping[str, Any]:
        """Of the object as the server would store it."""
        query = {name: value for name, value in call.query.items() if name != "preview"}
        async with self._transport.send(replace(call, query=query)) as answer:
            found = orjson.loads(await answer.body())
        if answer.code >= 300:
            raise ApiError(answer.code, found.get("reason", ""), found.get("message", ""))
        return await self._seen(self._scheduler.preview(found), "outcome", "pieces")

    async def _difference(self, documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        await self._sight.learn(())
        if not self._sight.sees(EVERYWHERE):
            why = "who may list workloads in all namespaces may ask what other queues would change"
            raise ApiError(403, "Forbidden", why)
        return self._scheduler.difference(documents)

    async def _seen(self, told: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
        """These parts of it, without what the reader may not see."""
        kept = {name: told[name] for name in names}
        return {**kept, "pieces": await self._sight.pieces(told["pieces"])}


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
