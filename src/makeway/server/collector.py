"""What the server does by itself: dependents follow their owners, namespaces empty, events expire.

Looks at every event of the store once and notes the keys that may need something; a single task
works them off. Everything it does it does by the same verbs as everybody.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from makeway.api.kinds import BY_FULL_NAME, BY_KIND, EVENTS, NAMESPACES, RESOURCES, Resource
from makeway.api.times import TimeError, parse_time
from makeway.logs import Fields
from makeway.server.errors import ApiError
from makeway.server.messages import decode
from makeway.server.objects import Target, can_be_removed
from makeway.server.options import DeleteOptions, Options
from makeway.server.patch import MERGE_PATCH
from makeway.server.verbs import FOREGROUND, ORPHAN, Verbs
from makeway.store import Event, Key, Record, Store
from makeway.watchdog import Pulse, keep_up

log = logging.getLogger("makeway.server.collector")

EVENT_TTL_S = 3600.0
EXPIRE_EVERY_S = 60.0
PATIENCE_S = 60.0  # for one object, or all events; each is a write or two
RETRY_AFTER_S, BUG_RETRY_AFTER_S = 1.0, 30.0
_OWNER_REFERENCES, _DELETION_TIMESTAMP = b'"ownerReferences"', b'"deletionTimestamp"'


class Collector:
    def __init__(self, store: Store, verbs: Verbs, clock: Callable[[], float]) -> None:
        self.store, self.verbs, self.clock = store, verbs, clock
        self._dependents: dict[str, set[Key]] = {}  # uid of an owner -> objects that name it
        self._owners: dict[Key, tuple[str, ...]] = {}  # the inverse
        self._due: dict[Key, None] = {}  # in order, each once
        self._stranded: set[Key] = set()  # objects that nothing holds, still there when last seen
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.pulse = Pulse("collecting garbage", PATIENCE_S)
        self.expiry = Pulse("expiring events", PATIENCE_S)
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        for resource in RESOURCES:
            for record in self.store.scan(resource.full_name):
                self._index(record)
            self._stops.append(self.store.listen(resource.full_name, self._on_event))
        self._due.update(dict.fromkeys(self._owners))
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(keep_up(self._run, self.pulse)),
            loop.create_task(keep_up(self._expire, self.expiry)),
        ]
        self._wake.set()

    async def stop(self) -> None:
        for stop in self._stops:
            stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What may need something

    def _on_event(self, event: Event) -> None:
        record = event.record
        if event.is_deletion:
            metadata = decode(record.body)["metadata"]
            self._due.update(dict.fromkeys(sorted(self._dependents.get(metadata["uid"], ()))))
            for reference in metadata.get("ownerReferences") or ():
                owner = _owner_key(reference, record.key.namespace)
                if owner is not None:
                    self._due[owner] = None
            self._unindex(record.key)
            namespace = self.store.get(Key(NAMESPACES.full_name, "", record.key.namespace))
            if namespace is not None and _DELETION_TIMESTAMP in namespace.body:
                self._due[namespace.key] = None
        else:
            self._index(record)
        if self._due:
            self._wake.set()

    def _index(self, record: Record) -> None:
        if _OWNER_REFERENCES in record.body:
            metadata = decode(record.body)["metadata"]
            uids = tuple(
                reference.get("uid", "") for reference in metadata.get("ownerReferences") or ()
            )
            if self._owners.get(record.key) != uids:
                self._unindex(record.key)
                self._owners[record.key] = uids
                for uid in uids:
                    self._dependents.setdefault(uid, set()).add(record.key)
                self._due[record.key] = None
        elif record.key in self._owners:
            self._unindex(record.key)
        if _DELETION_TIMESTAMP in record.body:
            self._due[record.key] = None

    def _unindex(self, key: Key) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents is not None:
                dependents.discard(key)
                if not dependents:
                    del self._dependents[uid]

    # What is done about it

    async def _run(self) -> None:
        while True:
            self.pulse.rest()
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                # All at once: a dict that is emptied from its front gets slower and slower.
                due, self._due = self._due, {}
                for key in due:
                    self.pulse.turn()
                    await self._try_to_reconcile(key)

    async def _try_to_reconcile(self, key: Key) -> None:
        try:
            await self._reconcile(key)
        except Exception as error:
            # Of one object; a refusal may pass, and a bug of ours mustn't leave the others lying.
            is_bug = not isinstance(error, ApiError)
            log.warning(Fields(key="/".join(key), error=error), exc_info=is_bug)
            after_s = BUG_RETRY_AFTER_S if is_bug else RETRY_AFTER_S
            asyncio.get_running_loop().call_later(after_s, self._requeue, key)

    def _requeue(self, key: Key) -> None:
        self._due[key] = None
        self._wake.set()

    async def _reconcile(self, key: Key) -> None:
        was_stranded = key in self._stranded
        self._stranded.discard(key)
        record = self.store.latest(key)
        if record is None:
            if was_stranded and self.store.get(key) is not None:
                self._strand(key)  # its end stands in line, and may fail yet
            return
        resource = BY_FULL_NAME.get(key.kind)
        if resource is None:
            return  # of a kind that an older or newer Makeway served
        document = decode(record.body)
        metadata = document["metadata"]
        target = _target(resource, key)
        if metadata.get("deletionTimestamp"):
            if can_be_removed(resource, document):
                await self._end(target, metadata["uid"], was_stranded=was_stranded)
                return
            if resource is NAMESPACES:
                await self._empty_namespace(target, document)
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND in finalizers:
                await self._delete_dependents_first(target, metadata)
            elif ORPHAN in finalizers:
                await self._orphan_dependents(target, metadata)
        elif metadata.get("ownerReferences") and self._is_orphan(key, metadata):
            await self._delete(target, metadata["uid"], "Background")

    async def _end(self, target: Target, uid: str, *, was_stranded: bool) -> None:
        """A pod leaves in two writes; should the second one fail, nobody else would send it."""
        if was_stranded:
            await self._delete(target, uid, "")
        else:
            self._strand(target.key)

    def _strand(self, key: Key) -> None:
        """Remove an object if it is still there in a while."""
        self._stranded.add(key)
        asyncio.get_running_loop().call_later(RETRY_AFTER_S, self._requeue, key)

    def _is_orphan(self, key: Key, metadata: dict[str, Any]) -> bool:
        """Whether all owners are known kinds, and gone."""
        for reference in metadata["ownerReferences"]:
            owner = _owner_key(reference, key.namespace)
            if owner is None:
                return False
            record = self.store.latest(owner)
            if record is not None and decode(record.body)["metadata"]["uid"] == reference["uid"]:
                return False
        return True

    async def _delete(self, target: Target, uid: str, propagation: str) -> None:
        try:
            await self.verbs.delete(target, DeleteOptions(propagation=propagation, uid=uid))
        except ApiError as error:
            if error.code not in (404, 409):  # gone or replaced meanwhile
                raise

    def _dependents_of(self, owner: dict[str, Any]) -> Iterator[tuple[Target, dict[str, Any]]]:
        """Objects that name an owner and are still there when their turn comes."""
        for key in sorted(self._dependents.get(owner["uid"], ())):
            record = self.store.latest(key)
            if record is not None:
                yield _target(BY_FULL_NAME[key.kind], key), decode(record.body)["metadata"]

    async def _delete_dependents_first(self, target: Target, metadata: dict[str, Any]) -> None:
        is_blocked = False
        waiting = self._owners_that_wait(target.key, metadata)
        for target_of, dependent in self._dependents_of(metadata):
            if not dependent.get("deletionTimestamp"):
                await self._delete(target_of, dependent["uid"], "Foreground")
            if dependent["uid"] not in waiting and self.store.latest(target_of.key) is not None:
                is_blocked = is_blocked or any(
                    reference.get("blockOwnerDeletion")
                    for reference in dependent["ownerReferences"]
                    if reference.get("uid") == metadata["uid"]
                )
        if not is_blocked:
            await self._drop_finalizer(target, metadata, FOREGROUND)

    def _owners_that_wait(self, key: Key, metadata: dict[str, Any]) -> set[str]:
        """Uids of those, near and far, that go only after this object has gone.

        One of them that is a dependent of this object as well closes a circle: were it waited for,
        nobody of the circle would ever go.
        """
        found, ways = set[str](), [(key, metadata)]
        while ways:
            key, metadata = ways.pop()
            for reference in metadata.get("ownerReferences") or ():
                owner = _owner_key(reference, key.namespace)
                record = None if owner is None else self.store.latest(owner)
                if record is None:
                    continue
                above = decode(record.body)["metadata"]
                is_waiting = FOREGROUND in (above.get("finalizers") or ())
                if (
                    is_waiting
                    and above["uid"] == reference.get("uid")
                    and above["uid"] not in found
                ):
                    found.add(above["uid"])
                    ways.append((record.key, above))
        return found

    async def _orphan_dependents(self, target: Target, metadata: dict[str, Any]) -> None:
        for target_of, dependent in self._dependents_of(metadata):
            kept = [r for r in dependent["ownerReferences"] if r.get("uid") != metadata["uid"]]
            patch = {"metadata": {"uid": dependent["uid"], "ownerReferences": kept or None}}
            await self._patch(target_of, patch)
        await self._drop_finalizer(target, metadata, ORPHAN)

    async def _drop_finalizer(self, target: Target, metadata: dict[str, Any], name: str) -> None:
        kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != name]
        patch = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": kept or None,
            }
        }
        await self._patch(target, patch)

    async def _patch(self, target: Target, patch: dict[str, Any]) -> None:
        options = Options(manager="makeway-collector", field_validation="Ignore")
        try:
            await self.verbs.patch(target, MERGE_PATCH, patch, options)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _empty_namespace(self, target: Target, document: dict[str, Any]) -> None:
        is_empty = True
        for resource in RESOURCES:
            if not resource.is_namespaced:
                continue
            for record in self.store.scan(resource.full_name, target.name):
                metadata = decode(record.body)["metadata"]
                if not metadata.get("deletionTimestamp"):
                    await self._delete(_target(resource, record.key), metadata["uid"], "Background")
            is_empty = is_empty and not self.store.scan(resource.full_name, target.name, limit=1)
        if is_empty and (document.get("spec") or {}).get("finalizers"):
            await self.verbs.finalize(target, [])

    async def _expire(self) -> None:
        while True:
            self.expiry.rest(EXPIRE_EVERY_S)
            await asyncio.sleep(EXPIRE_EVERY_S)
            self.expiry.turn()
            try:
                await self.expire_events()
            except ApiError as error:
                log.warning(Fields(expire="failed", error=error))

    async def expire_events(self) -> None:
        """Delete events that happened longer ago than they are kept."""
        limit = self.clock() - EVENT_TTL_S
        for record in self.store.scan(EVENTS.full_name):
            event = decode(record.body)
            if _last_time(event) < limit:
                await self._delete(
                    _target(EVENTS, record.key), event["metadata"]["uid"], "Background"
                )


def _last_time(event: dict[str, Any]) -> float:
    series = event.get("series") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"]["creationTimestamp"],
    ):
        if text:
            with contextlib.suppress(TimeError):
                return parse_time(text)
    return 0.0


def _target(resource: Resource, key: Key) -> Target:
    return Target(resource, resource.versions[0], key.namespace, key.name)


def _owner_key(reference: dict[str, Any], namespace: str) -> Key | None:
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    resource = BY_KIND.get((group, str(reference.get("kind", ""))))
    if resource is None:
        return None
    where = namespace if resource.is_namespaced else ""
    return Key(resource.full_name, where, str(reference.get("name", "")))
