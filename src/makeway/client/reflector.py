"""Keeps up with all objects of a kind: list, watch from there, list again when that is too old.

list ──► watch ──► ended, or connection lost: watch again from the last revision seen
  ▲        │
  └── 410 ─┘       (as an answer, or as an event in the stream)
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from makeway.api.kinds import Resource
from makeway.backoff import backoff_s
from makeway.client.client import ApiError, Client, Gone, Sleep, Unavailable
from makeway.client.transport import Unreachable
from makeway.logs import Fields

Document = dict[str, Any]

log = logging.getLogger("makeway.reflector")

BACKOFF_S = 0.1
BACKOFF_MAX_S = 10.0
TOLD_FROM = 3  # failures in a row; a connection or two that break are nothing to tell of


@dataclass(frozen=True, slots=True)
class Listed:
    """Some of what there is; the rest follows, and after it `Synced`."""

    items: list[Document]
    is_first: bool  # nothing that was listed before counts


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything there is; whatever is not among it, or was `Listed` before, is gone."""

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
        items: list[Document] = []
        async for change in self.pieces():
            if isinstance(change, Listed):
                if change.is_first:
                    items = []
                items += change.items
            elif isinstance(change, Synced):
                yield Synced(items, change.revision)
                items = []
            else:
                yield change

    async def pieces(self) -> AsyncIterator[Listed | Synced | Changed]:
        """The same page by page: many objects at once take much memory."""
        while True:
            try:
                async for page in self._client.pages(
                    self._resource,
                    self._namespace,
                    label_selector=self._labels,
                    field_selector=self._fields,
                ):
                    yield Listed(page.items, page.is_first)
                    revision = page.resource_version
            except (ApiError, Unavailable) as error:
                await self._back_off(error)
                continue
            yield Synced([], int(revision))
            while revision:
                has_heard = False
                try:
                    async for event in self._client.watch(
                        self._resource,
                        self._namespace,
                        resource_version=revision,
                        label_selector=self._labels,
                        field_selector=self._fields,
                    ):
                        self._failures, has_heard = 0, True
                        revision = event.object["metadata"]["resourceVersion"]
                        if event.type != "BOOKMARK":
                            yield Changed(event.type, event.object)
                    if not has_heard:
                        await self._back_off(Unreachable("the watch ended without a word"))
                except Gone as error:
                    revision = ""
                    if not has_heard:
                        await self._back_off(error)
                except (ApiError, Unreachable) as error:
                    await self._back_off(error)

    async def _back_off(self, error: Exception) -> None:
        self._failures += 1
        delay_s = backoff_s(self._failures, BACKOFF_S, BACKOFF_MAX_S)
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        wait_s = max(delay_s * (0.5 + random.random() / 2), asked_s or 0.0)
        if self._failures >= TOLD_FROM:
            log.warning(
                Fields(
                    kind=self._resource.plural,
                    attempts=self._failures,
                    again_s=round(wait_s, 1),
                    error=error,
                )
            )
        await self._sleep(wait_s)
