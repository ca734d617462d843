"""Keeps up with all objects of a kind: list, watch from there, list again when that is too old.

list ──► watch ──► ended, or connection lost: watch again from the last revision seen
  ▲        │
  └── 410 ─┘       (as an answer, or as an event in the stream)
"""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from makeway.client.client import ApiError, Client, Gone, Resource, Sleep, Unavailable
from makeway.client.transport import Unreachable

Document = dict[str, Any]

BACKOFF_S = 0.1
BACKOFF_MAX_S = 10.0


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything there is; whatever is not among it is gone."""

    items: list[Document]
    revision: int


@dataclass(frozen=True, slots=True)
class Changed:
    type: str  # ADDED, MODIFIED or DELETED
    object: Document


class Reflector:
    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client, self._resource, self._namespace = client, resource, namespace
        self._labels, self._fields = label_selector, field_selector
        self._sleep = sleep
        self._failures = 0  # in a row

    async def changes(self) -> AsyncIterator[Synced | Changed]:
        """Yield for ever: first everything, then each change; everything anew after a gap."""
        while True:
            try:
                listing = await self._client.list(
                    self._resource,
                    self._namespace,
                    label_selector=self._labels,
                    field_selector=self._fields,
                )
            except (ApiError, Unavailable):
                await self._back_off()
                continue
            yield Synced(listing.items, int(listing.resource_version))
            revision = listing.resource_version
            while revision:
                try:
                    async for event in self._client.watch(
                        self._resource,
                        self._namespace,
                        resource_version=revision,
                        label_selector=self._labels,
                        field_selector=self._fields,
                    ):
                        self._failures = 0
                        revision = event.object["metadata"]["resourceVersion"]
                        if event.type != "BOOKMARK":
                            yield Changed(event.type, event.object)
                except Gone:
                    revision = ""
                except (ApiError, Unreachable):
                    await self._back_off()

    async def _back_off(self) -> None:
        delay_s = min(BACKOFF_S * 2 ** min(self._failures, 10), BACKOFF_MAX_S)
        self._failures += 1
        await self._sleep(delay_s * (0.5 + random.random() / 2))
