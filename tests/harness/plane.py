"""Parts of a control plane at work on the real server, step by step, on a clock of the test's.

The server runs in this process, with all its rules, and keeps everything in memory. Parts hear of
every change before they are asked again, unless the test holds the watches back; their writes go
through the real client, one after the other, and may be refused, lost or left unanswered.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import orjson

from makeway.api.configuration import Configuration
from makeway.api.kinds import NAMESPACES, PODS, Resource
from makeway.api.times import format_time
from makeway.client.client import ApiError, Document, Unavailable
from makeway.embedded.inside import client_in_process
from makeway.plane.parts import Done, Failed, Outcome, Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Bind, Evict, Key, ObjectWrite, Say, key_of, send
from makeway.server.app import App
from makeway.store import Batch, Event, Store, WriteFailed
from makeway.store import Key as StoreKey

T = TypeVar("T")
PartsMaker = Callable[[Picture], Sequence[Part]]
Error = ApiError | Unavailable

NAMESPACE = "lab"
ROUNDS_MAX = 100
_open: list[Plane] = []


def close_all() -> None:
    """End what a test has begun; called after each."""
    while _open:
        _open[-1].close()


async def _keep_in_memory(batch: Batch) -> WriteFailed | None:
    return None


class _Ascending(Random):
    """Gives uids in the order of creation, by which those of the same second are told apart."""

    _given = 0

    def getrandbits(self, k: int, /) -> int:
        self._given += 1
        return self._given << (k - 32) if k == 128 else super().getrandbits(k)


class Plane:
    """Everything lives in the namespace `lab` unless the story says otherwise."""

    def __init__(
        self,
        parts: PartsMaker,
        *,
        now: float = 1_000.0,
        configuration: Configuration = Configuration(),  # noqa: B008
    ) -> None:
        self.now, self.configuration = now, configuration
        self.said: list[Say] = []
        self.sent: list[ObjectWrite] = []
        self.next_at: float | None = None
        self.fault: Callable[[ObjectWrite], Error | None] = lambda write: None  # not carried out
        self.is_lost: Callable[[ObjectWrite], bool] = lambda write: False  # done, no answer
        self.refusals: list[Error] = []  # of the writes to come, one each
        self.fates_unknown = 0  # so many writes to come take effect and aren't answered
        self.is_late = False  # watches tell only when `hear` is called
        self._make_parts = parts
        self._unheard: deque[tuple[Resource, Event]] = deque()
        self._kinds: set[Resource] = set()
        self._folder = Path(tempfile.mkdtemp(prefix="makeway-plane-"))
        self._store = Store(self._folder / "makeway.db", first_revision=1000)
        self._loop = asyncio.new_event_loop()
        self._app = self.do(self._start_app())
        self.client = client_in_process(self._app)
        _open.append(self)
        self.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        self.restart()

    async def _start_app(self) -> App:
        app = App(
            self._store,
            token="",
            clock=lambda: self.now,
            chance=_Ascending(1),
            flush=_keep_in_memory,
            configuration=self.configuration,
        )
        await app.start()
        return app

    def close(self) -> None:
        _open.remove(self)
        self.do(self._app.stop())
        self._loop.close()
        self._store.close()
        shutil.rmtree(self._folder)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something with the server, let it do what it does by itself, and hear of it."""
        try:
            return self._loop.run_until_complete(self._and_rest(work))
        finally:
            if not self.is_late:
                self.hear()

    async def _and_rest(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        finally:
            revision = -1
            while revision != self._store.revision:
                revision = self._store.revision
                for _ in range(8):
                    await asyncio.sleep(0)

    # The parts: everything here that knows what a part is asked and told

    def restart(self, parts: PartsMaker | None = None) -> None:
        """Others take over, with nothing but the objects."""
        self._make_parts = parts or self._make_parts
        self.picture = Picture()
        self.parts = list(self._make_parts(self.picture))
        self._unheard.clear()
        heard = dict.fromkeys(resource for part in self.parts for resource in part.resources)
        for resource in heard:
            if resource not in self._kinds:
                self._kinds.add(resource)
                self._store.listen(_store_kind(resource), self._note(resource))
            for document in self.all(resource):
                self._show(resource, key_of(document), document, 0)

    def _note(self, resource: Resource) -> Callable[[Event], None]:
        def note(event: Event) -> None:
            self._unheard.append((resource, event))
            self.watched(resource, event)

        return note

    def watched(self, resource: Resource, event: Event) -> None:
        """For stories that look at every write; also of what no part has heard of yet."""

    def hear(self, most: int | None = None) -> None:
        """The watches tell what has happened; at most so many changes."""
        for _ in range(len(self._unheard) if most is None else min(most, len(self._unheard))):
            resource, event = self._unheard.popleft()
            document = None if event.is_deletion else orjson.loads(event.record.body)
            key = Key(event.record.key.namespace, event.record.key.name)
            self._show(resource, key, document, event.revision)

    def _show(self, resource: Resource, key: Key, document: Document | None, revision: int) -> None:
        if document is None:
            change = self.picture.lose(resource, key, revision)
        else:
            change = self.picture.take(resource, document)
        for part in self.parts:
            if change is not None and resource in part.resources:
                part.changed(change)

    def ask(self) -> list[tuple[Part, ObjectWrite]]:
        """What the parts want written now."""
        plans = [(part, part.act(self.now)) for part in self.parts]
        self.next_at = min((p.next_at for _, p in plans if p.next_at is not None), default=None)
        self.said += [w for _, plan in plans for w in plan.writes if isinstance(w, Say)]
        return [(p, w) for p, plan in plans for w in plan.writes if not isinstance(w, Say)]

    def answer(self, part: Part, write: ObjectWrite) -> None:
        """Carry out a write, and tell its part what became of it."""
        self.sent.append(write)
        outcome = self.carry_out(write)
        if isinstance(outcome, Done) and outcome.document is not None:
            self._show(write.resource, write.key, outcome.document, 0)
        self.said += part.settled(write, outcome, self.now)

    def carry_out(self, write: ObjectWrite) -> Outcome:
        """Send a write, of which its part hears nothing yet."""
        error = self.refusals.pop(0) if self.refusals else self.fault(write)
        if error is None:
            try:
                document = self.do(send(self.client, write))
            except ApiError as refusal:
                error = refusal
            else:
                if self.fates_unknown or self.is_lost(write):
                    self.fates_unknown = max(0, self.fates_unknown - 1)
                    error = Unavailable("no answer")
        if error is not None:
            return Failed(error)
        return Done(None if isinstance(write, Bind | Evict) else document)

    # Time

    def settle(self, now: float | None = None) -> None:
        """Let the parts act, at a time, until they want nothing more at that time."""
        self.now = self.now if now is None else now
        for _ in range(ROUNDS_MAX):
            writes = self.ask()
            for part, write in writes:
                self.answer(part, write)
            if not writes and (self.next_at is None or self.next_at > self.now):
                return
        raise AssertionError(f"no end in sight; the last write was {self.sent[-1]}")

    def run(self, seconds: float = 1.0) -> None:
        """Do what there is to do within this time, and see all that comes of it."""
        until = self.now + seconds
        self.settle()
        while self.next_at is not None and self.next_at <= until:
            self.settle(self.next_at)
        self.now = until

    # What users and other controllers do

    def create(self, resource: Resource, document: Document) -> Document:
        """A new object, with its status, which others than its creator write."""
        kinds = {"apiVersion": resource.api_version, "kind": resource.kind}
        status = document.get("status")
        made = self.do(self.client.create(resource, kinds | document))
        return self.edit(resource, key_of(made), {"status": status}, "status") if status else made

    def put(self, resource: Resource, document: Document) -> Document:
        """An object as a server with other rules has stored it, whatever ours would say of it."""
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        metadata = {
            "uid": f"uid-{self._store.revision}",
            "creationTimestamp": format_time(self.now),
            "generation": 1,
            **document["metadata"],
        }

        def encode(revision: int) -> bytes:
            stored = {**metadata, "resourceVersion": str(revision)}
            return orjson.dumps({**head, **document, "metadata": stored})

        namespace, name = key_of(document)
        place = StoreKey(_store_kind(resource), namespace, name)
        found = self._store.get(place)
        self.do(self._app.committer.write(place, found.revision if found else 0, encode))
        return self.get(resource, key_of(document))

    def edit(
        self, resource: Resource, key: Key | str, patch: Document, subresource: str = ""
    ) -> Document:
        namespace, name = _key(resource, key)
        return self.do(
            self.client.patch(resource, name, namespace, patch=patch, subresource=subresource)
        )

    def bind(self, name: str, node: str) -> None:
        uid = self.get(PODS, name)["metadata"]["uid"]
        self.do(send(self.client, Bind(key=_key(PODS, name), uid=uid, node=node)))

    def delete(self, resource: Resource, key: Key | str, **options: Any) -> None:
        namespace, name = _key(resource, key)
        self.do(self.client.delete(resource, name, namespace, **options))

    def find(self, resource: Resource, key: Key | str) -> Document | None:
        found = self._store.get(StoreKey(_store_kind(resource), *_key(resource, key)))
        return None if found is None else orjson.loads(found.body)

    def get(self, resource: Resource, key: Key | str) -> Document:
        found = self.find(resource, key)
        assert found is not None, f"{resource.kind} {key} is not there"
        return found

    def all(self, resource: Resource) -> list[Document]:
        """In the order of their names."""
        return [orjson.loads(record.body) for record in self._store.scan(_store_kind(resource))]

    # What became of it

    def reasons_said(self) -> list[str]:
        return [saying.reason for saying in self.said]

    def condition(self, resource: Resource, key: Key | str, type: str) -> Document:
        conditions = (self.get(resource, key).get("status") or {}).get("conditions") or ()
        return next((c for c in conditions if c["type"] == type), {})


def _key(resource: Resource, key: Key | str) -> Key:
    """A name alone is one of our namespace, or of none."""
    return key if isinstance(key, Key) else Key(NAMESPACE * resource.is_namespaced, key)


def _store_kind(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
