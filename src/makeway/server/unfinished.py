"""How many objects of a namespace have not ended: counted once, and kept up from then on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.api.batch import ENDED_PHASES
from makeway.server.messages import decode
from makeway.store import Event, Record, Store


class Unfinished:
    """Of one kind."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store, self._kind = store, kind
        self._counts: dict[str, int] = {}  # by namespace, of those that were asked for
        store.listen(kind, self._heard)

    def reaches(self, namespace: str, limit: int) -> bool:
        """Whether there are so many; who has fewer in all is not counted."""
        if self._store.count(self._kind, namespace) < limit:
            return False
        if namespace not in self._counts:
            records = self._store.scan(self._kind, namespace)
            self._counts[namespace] = sum(map(_is_open, records))
        return self._counts[namespace] >= limit

    def _heard(self, event: Event) -> None:
        namespace = event.record.key.namespace
        if namespace in self._counts:
            is_open = not event.is_deletion and _is_open(event.record)
            was_open = event.previous is not None and _is_open(event.previous)
            self._counts[namespace] += is_open - was_open


def _is_open(record: Record) -> bool:
    return not _has_ended(decode(record.body))


def _has_ended(document: Mapping[str, Any]) -> bool:
    status = document.get("status") or {}
    if status.get("phase") in ENDED_PHASES:
        return True
    return any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
