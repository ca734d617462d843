"""Sees every write that reaches the store, in order, and has it checked.

The observer stands beside the server, not behind a watch: what it knows is the truth at every
moment, and it knows it before anybody else can act on it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

import orjson

from makeway.api.kinds import RESOURCES
from makeway.store import Event, Store

Document = dict[str, Any]
Place = tuple[str, str]  # namespace and name

KINDS = tuple(resource.full_name for resource in RESOURCES)
EVENTS, JOBS, NODES, PODS = "events", "jobs.batch", "nodes", "pods"
QUEUES, COHORTS = "clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io"
LOCAL_QUEUES, WORKLOADS = "localqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"
FLAVORS = "resourceflavors.kueue.x-k8s.io"
GANG_WORKLOADS, POD_GROUPS = "workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"
REMEMBERED = 40  # changes that a failure shows


class Change(NamedTuple):
    at: float  # virtual seconds since the beginning
    kind: str
    place: Place
    before: Document | None  # None: it was not there
    after: Document | None  # None: it is gone


class Truth:
    """All objects as the store has them now."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wall = 0.0  # what the clock on the wall showed when somebody looked last
        self.two_decided_at = -inf  # when there was last more than one who decides
        self._documents: dict[str, dict[Place, Document]] = {kind: {} for kind in KINDS}
        self._owned: dict[str, dict[tuple[str, Place], None]] = {}

    def get(self, kind: str, place: Place) -> Document | None:
        return self._documents[kind].get(place)

    def all(self, kind: str) -> Iterable[Document]:
        return self._documents[kind].values()

    def places(self, kind: str) -> Iterable[Place]:
        return self._documents[kind].keys()

    def owned_by(self, uid: str, kind: str) -> Iterator[Document]:
        for found, place in self._owned.get(uid, ()):
            if found == kind:
                yield self._documents[kind][place]

    def put(self, kind: str, place: Place, document: Document | None) -> None:
        before = self._documents[kind].pop(place, None)
        if before is not None and (owner := owner_uid(before)):
            self._owned[owner].pop((kind, place), None)
        if document is not None:
            self._documents[kind][place] = document
            if owner := owner_uid(document):
                self._owned.setdefault(owner, {})[kind, place] = None


class Checker:
    """Finds nothing wrong."""

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        """What is wrong since this change."""
        return iter(())

    def later(self, truth: Truth) -> Iterator[str]:
        """What is wrong because time passed; asked now and then, and at the end."""
        return iter(())


class Observer:
    def __init__(self, checkers: Sequence[Checker] = ()) -> None:
        self.truth = Truth()
        self._last: deque[Change] = deque(maxlen=REMEMBERED)
        self.violations: list[str] = []
        self.changes = 0
        self.changed_at = 0.0
        self._checkers = checkers
        self._revision = 0
        self._hash = hashlib.sha256()

    @property
    def history(self) -> str:
        """A fingerprint of everything that was ever written, in order."""
        return self._hash.hexdigest()[:16]

    def last(self) -> list[str]:
        """The last changes, for people."""
        return [_line(change) for change in self._last]

    def attach(self, store: Store) -> None:
        """Look at a store from now on; after a restart it must hold all that was seen before."""
        since = max(self._revision, store.oldest)
        missed = [event for kind in KINDS for event in store.events_since(since, kind)]
        for event in sorted(missed, key=lambda event: event.revision):
            self._hear(event)
        for kind in KINDS:
            store.listen(kind, self._hear)
            found = {r.key[1:]: orjson.loads(r.body) for r in store.scan(kind)}
            for place in sorted({*found, *self.truth.places(kind)}):
                if found.get(place) != self.truth.get(kind, place):
                    self.note_violation(f"a restart changed {kind} {'/'.join(place)}")

    def note_violation(self, what: str) -> None:
        self.violations.append(f"{self.truth.now:10.3f} {what}")

    def look_again(self, wall: float) -> None:
        """Time has passed."""
        self.truth.now, self.truth.wall = asyncio.get_running_loop().time(), wall
        for checker in self._checkers:
            for wrong in checker.later(self.truth):
                self.note_violation(wrong)

    def _hear(self, event: Event) -> None:
        now = self.truth.now = asyncio.get_running_loop().time()
        self._revision = event.revision
        kind, *rest = event.record.key
        place = (rest[0], rest[1])
        self._hash.update(event.record.body + (b"-" if event.is_deletion else b"+"))
        before = self.truth.get(kind, place)
        after = None if event.is_deletion else orjson.loads(event.record.body)
        self.truth.put(kind, place, after)
        if kind == EVENTS:
            return
        self.changes += 1
        self.changed_at = now
        change = Change(now, kind, place, before, after)
        self._last.append(change)
        for checker in self._checkers:
            for wrong in checker.saw(change, self.truth):
                self.note_violation(wrong)


def owner_uid(document: Document) -> str:
    """The uid of the object that controls this one; empty if none."""
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def _line(change: Change) -> str:
    name = f"{change.kind.partition('.')[0]} {'/'.join(change.place).lstrip('/')}"
    if change.after is None:
        return f"{change.at:10.3f} {name} is gone"
    if change.before is None:
        return f"{change.at:10.3f} {name} is new"
    return f"{change.at:10.3f} {name} {' '.join(_differences('', change.before, change.after))}"


def _differences(path: str, before: Any, after: Any) -> Iterator[str]:
    if before == after or path.endswith(("resourceVersion", "managedFields", "generation")):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differences(f"{path}.{key}", before.get(key), after.get(key))
    elif path.endswith("conditions"):
        yield f"{path}={[_condition(c) for c in after or () if c not in (before or ())]}"
    else:
        yield f"{path}={orjson.dumps(after).decode()[:80]}"


def _condition(condition: Document) -> str:
    return f"{condition.get('type')}={condition.get('status')} {condition.get('reason', '')}"
