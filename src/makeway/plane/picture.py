"""The latest of every object that we keep up with.

Two ways lead here: what a watch tells, and what the server answers to our own writes. The higher
revision wins, so a watch that lags behind never takes us back to before our own write.

Objects are kept as bytes, which take a fifth of the memory of decoded documents. What is decoded
stays decoded while the object is *warm*, so that all who look at the same change share the work.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from makeway.api.codec import Decoded, decode
from makeway.api.kinds import Resource
from makeway.client.client import Document
from makeway.plane.writes import Key, key_of

REMEMBERED_MAX = 20_000  # objects that are gone, lest a late answer brings one back
WARM_MAX = 256  # objects whose decoded form is kept

Group = TypeVar("Group", bound=Hashable)
Kept = TypeVar("Kept")


class Object:
    """An object as the server last showed it. What it hands out is shared: nobody changes it."""

    __slots__ = ("_body", "_document", "_is_held", "_read", "_warm", "entries", "key", "revision")

    def __init__(self, key: Key, revision: int, document: Document, warm: deque[Object]) -> None:
        self.key, self.revision = key, revision
        # The encoder's own result holds on to several times its size.
        self._body = bytes(memoryview(orjson.dumps(document)))
        self._document: Document | None = document
        self._read: Decoded[Any] | None = None
        self._warm, self._is_held = warm, False
        self.entries: tuple[tuple[Any, Any] | None, ...] = ()  # one for each index of its kind
        self._keep_warm()

    def _keep_warm(self) -> None:
        self._warm.append(self)
        if len(self._warm) > WARM_MAX:
            cold = self._warm.popleft()
            if not cold._is_held:
                cold._document = cold._read = None

    def hold(self) -> None:
        """Keep what is decoded until `let_go`, for somebody who looks a moment later."""
        self._is_held = True

    def let_go(self) -> None:
        self._is_held = False
        self._keep_warm()

    @property
    def document(self) -> Document:
        document = self._document
        if document is None:
            document = self._document = orjson.loads(self._body)
            self._keep_warm()  # which may let it go cold at once: it may have been kept before
        return document

    @property
    def read(self) -> Decoded[Any]:
        """The typed view, or what is wrong with the document."""
        if self._read is None:
            self._read = decode(self.document)
        return self._read

    @property
    def view(self) -> Any:
        """The typed view; None if the document can't be read. Not always the same one: equal."""
        return self.read.object

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])


class Change(NamedTuple):
    resource: Resource
    key: Key
    old: Object | None  # None: it is new
    new: Object | None  # None: it is gone


class Index(Generic[Group, Kept]):
    """Objects of one kind by group, and what somebody wants to know of each at any time."""

    def __init__(self, place: int, read: Callable[[Object], tuple[Group, Kept] | None]) -> None:
        self.read, self._place = read, place
        self._groups: dict[Group, dict[Key, Kept]] = {}

    def entry(self, object: Object | None) -> tuple[Group, Kept] | None:
        """Group and value of an object; None: it belongs to no group."""
        return None if object is None else object.entries[self._place]

    def items(self, group: Group) -> list[tuple[Key, Kept]]:
        """The members of a group, sorted by key."""
        found = self._groups.get(group)
        return [] if found is None else sorted(found.items(), key=lambda item: item[0])

    def values(self, group: Group) -> list[Kept]:
        return [kept for _, kept in self.items(group)]

    def keys(self, group: Group) -> list[Key]:
        return sorted(self._groups.get(group, ()))

    def has(self, group: Group) -> bool:
        return group in self._groups

    def groups(self, change: Change) -> Iterable[Group]:
        """The groups that an object belonged to before, and belongs to now."""
        entries = self.entry(change.old), self.entry(change.new)
        return dict.fromkeys(entry[0] for entry in entries if entry is not None)

    def touched(self, change: Change) -> Iterable[Group]:
        """The same where what is kept of the object has changed; else none."""
        is_same = self.entry(change.old) == self.entry(change.new)
        return () if is_same else self.groups(change)

    def move(self, change: Change) -> None:
        before, after = self.entry(change.old), self.entry(change.new)
        if before is not None and (after is None or before[0] != after[0]):
            members = self._groups[before[0]]
            del members[change.key]
            if not members:
                del self._groups[before[0]]
        if after is not None:
            self._groups.setdefault(after[0], {})[change.key] = after[1]


class Picture:
    def __init__(self) -> None:
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._indexes: dict[Resource, list[Index[Any, Any]]] = {}
        self._warm: deque[Object] = deque()
        self._gone: OrderedDict[tuple[Resource, Key], int] = OrderedDict()

    def index(
        self, resource: Resource, read: Callable[[Object], tuple[Group, Kept] | None]
    ) -> Index[Group, Kept]:
        """Declare how objects of a kind belong together; `read` says group and value of each."""
        indexes = self._indexes.setdefault(resource, [])
        index = Index(len(indexes), read)
        indexes.append(index)
        for key, found in self._objects.get(resource, {}).items():
            found.entries += (read(found),)
            index.move(Change(resource, key, None, found))
        return index

    def find(self, resource: Resource, key: Key) -> Object | None:
        return self._objects.get(resource, {}).get(key)

    def get(self, resource: Resource, key: Key) -> Document | None:
        found = self.find(resource, key)
        return None if found is None else found.document

    def has(self, resource: Resource, key: Key) -> bool:
        return key in self._objects.get(resource, {})

    def keys(self, resource: Resource) -> Iterator[Key]:
        return iter(self._objects.get(resource, {}))

    def all(self, resource: Resource) -> Iterator[Document]:
        return (found.document for found in self._objects.get(resource, {}).values())

    def take(self, resource: Resource, document: Document) -> Change | None:
        """Keep an object as it is now; None if we know a later state of it."""
        key, revision = key_of(document), revision_of(document)
        known = self._objects.setdefault(resource, {}).get(key)
        if known is not None and known.revision >= revision:
            return None
        if known is None and self._gone.get((resource, key), -1) >= revision:
            return None
        new = Object(key, revision, document, self._warm)
        indexes = self._indexes.get(resource, ())
        new.entries = tuple([index.read(new) for index in indexes])
        self._objects[resource][key] = new
        change = Change(resource, key, known, new)
        for index in indexes:
            index.move(change)
        return change

    def lose(self, resource: Resource, key: Key, revision: int) -> Change | None:
        """An object is gone as of a revision; None if we didn't have it, or have a later one."""
        known = self.find(resource, key)
        if known is None or known.revision > revision:
            return None
        del self._objects[resource][key]
        change = Change(resource, key, known, None)
        for index in self._indexes.get(resource, ()):
            index.move(change)
        self._gone[resource, key] = revision
        self._gone.move_to_end((resource, key))
        while len(self._gone) > REMEMBERED_MAX:
            self._gone.popitem(last=False)
        return change

    def missing_from(self, resource: Resource, keys: Iterable[Key]) -> list[Key]:
        """Those of the keys that we know which are not among the keys of a list."""
        there = set(keys)
        return [key for key in self._objects.get(resource, {}) if key not in there]


def in_one_group(object: Object) -> tuple[None, Any] | None:
    """For an index of the views of all objects of a kind: there should be few of them."""
    return None if object.view is None else (None, object.view)


def revision_of(document: Document) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)
