"""The latest of every object that we keep up with.

Two ways lead here: what a watch tells, and what the server answers to our own writes. The higher
revision wins, so a watch that lags behind never takes us back to before our own write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

from makeway.api.meta import controller_of
from makeway.client.client import Document, Resource
from makeway.plane.writes import Key, key_of

REMEMBERED_MAX = 20_000  # objects that are gone, lest a late answer brings one back


class _Kept(NamedTuple):
    revision: int
    owner: str  # uid of the controlling owner; empty if none
    body: bytes  # a fifth of the memory that the decoded document takes


class Picture:
    def __init__(self) -> None:
        self._kept: dict[Resource, dict[Key, _Kept]] = {}
        self._owned: dict[str, dict[tuple[Resource, Key], None]] = {}
        self._gone: OrderedDict[tuple[Resource, Key], int] = OrderedDict()

    def get(self, resource: Resource, key: Key) -> Document | None:
        kept = self._kept.get(resource, {}).get(key)
        if kept is None:
            return None
        document: Document = orjson.loads(kept.body)
        return document

    def has(self, resource: Resource, key: Key) -> bool:
        return key in self._kept.get(resource, {})

    def keys(self, resource: Resource) -> Iterator[Key]:
        return iter(self._kept.get(resource, {}))

    def all(self, resource: Resource) -> Iterator[Document]:
        for kept in self._kept.get(resource, {}).values():
            yield orjson.loads(kept.body)

    def owned_by(self, uid: str, resource: Resource) -> list[Document]:
        """Objects of a kind whose controlling owner has this uid, sorted by key."""
        keys = sorted(key for kind, key in self._owned.get(uid, ()) if kind == resource)
        return [orjson.loads(self._kept[resource][key].body) for key in keys]

    def take(self, resource: Resource, document: Document) -> bool:
        """Keep an object as it is now; False if we know a later state of it."""
        key, revision = key_of(document), revision_of(document)
        known = self._kept.setdefault(resource, {}).get(key)
        if known is not None and known.revision >= revision:
            return False
        if known is None and self._gone.get((resource, key), -1) >= revision:
            return False
        controller = controller_of(document)
        owner = controller.uid if controller is not None else ""
        if known is not None and known.owner != owner:
            self._disown(known.owner, resource, key)
        if owner:
            self._owned.setdefault(owner, {})[resource, key] = None
        # The encoder's own result holds on to several times its size.
        body = bytes(memoryview(orjson.dumps(document)))
        self._kept[resource][key] = _Kept(revision, owner, body)
        return True

    def lose(self, resource: Resource, key: Key, revision: int) -> bool:
        """An object is gone as of a revision; False if we didn't have it, or have a later one."""
        known = self._kept.get(resource, {}).get(key)
        if known is None or known.revision > revision:
            return False
        del self._kept[resource][key]
        self._disown(known.owner, resource, key)
        self._gone[resource, key] = revision
        self._gone.move_to_end((resource, key))
        while len(self._gone) > REMEMBERED_MAX:
            self._gone.popitem(last=False)
        return True

    def missing_from(self, resource: Resource, keys: Iterable[Key]) -> list[Key]:
        """Who of those we know is not among the keys of a list."""
        there = set(keys)
        return [key for key in self._kept.get(resource, {}) if key not in there]

    def _disown(self, owner: str, resource: Resource, key: Key) -> None:
        owned = self._owned.get(owner)
        if owned is not None:
            owned.pop((resource, key), None)
            if not owned:
                del self._owned[owner]


def revision_of(document: Document) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)
