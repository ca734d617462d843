"""Members of shares: each has a queue with the name of the share in his namespace.

A share is a ClusterQueue that says whose it is: an account's, or a Unix group's. Who comes and is a
member gets his LocalQueue then; who is no longer finds it closed for new jobs. While there is the
automatic queue, who comes for the first time finds that, too: his first word may be a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from makeway.api.kinds import LOCAL_QUEUES, NAMESPACES, QUEUES
from makeway.api.labels import AUTOMATIC, DEFAULT, SHARE, SHARE_LABEL, SHARE_OF, SHARE_ORDER
from makeway.server.errors import ApiError
from makeway.server.messages import decode
from makeway.server.objects import Target
from makeway.server.options import Options
from makeway.server.patch import MERGE_PATCH
from makeway.server.people import Person
from makeway.server.verbs import Verbs
from makeway.store import Event, Key, Record

CLOSED = "makeway.dev/share-closed"  # annotation of a LocalQueue that we hold
OURS = Options(is_trusted=True)


class _Share(NamedTuple):
    queue: str
    whose: str
    order: str

    def is_of(self, person: Person) -> bool:
        sort, _, name = self.whose.partition(":")
        return name == person.name if sort == "account" else name in person.groups


class Membership:
    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._stamp = 0  # another one when shares come, go or change hands
        self._seen: dict[int, tuple[int, tuple[str, ...]]] = {}  # by uid: stamp and groups
        verbs.store.listen(QUEUES.full_name, self._heard)

    def _heard(self, event: Event) -> None:
        before = None if event.previous is None else _share_in(event.previous)
        if event.is_deletion or before != _share_in(event.record):
            self._stamp += 1

    async def keep(self, person: Person) -> None:
        """Have the person's queues in order; costs nothing while nothing has changed."""
        now = self._stamp, person.groups
        if self._seen.get(person.uid) == now:
            return
        found = map(_share_in, self._verbs.store.scan(QUEUES.full_name))
        own = {share.queue: share for share in found if share is not None and share.is_of(person)}
        await self._open_automatic(person.namespace)
        await self._label(person.namespace, own)
        for share in own.values():
            await self._open(person.namespace, share)
        for record in self._verbs.store.scan(LOCAL_QUEUES.full_name, person.namespace):
            if record.key.name not in own:
                await self._close(record)
        self._seen[person.uid] = now

    async def _open_automatic(self, namespace: str) -> None:
        """As whoever keeps the automatic queue would a moment later."""
        found = self._verbs.store.latest(Key(QUEUES.full_name, "", DEFAULT))
        queue = {} if found is None else decode(found.body)
        labels = (queue.get("metadata") or {}).get("labels") or {}
        is_open = (queue.get("spec") or {}).get("stopPolicy", "None") == "None"
        if labels.get(AUTOMATIC) == "true" and is_open:
            metadata = {"name": DEFAULT, "labels": {AUTOMATIC: "true"}}
            await self._make(namespace, metadata, DEFAULT)

    async def _label(self, namespace: str, own: Mapping[str, _Share]) -> None:
        """Mark the namespace as a member's, which is what the queue looks for."""
        labels = {f"{SHARE_LABEL}{name}": "member" for name in own}
        if labels:
            target = Target(NAMESPACES, "v1", "", namespace)
            patch = {"metadata": {"labels": labels}}
            await self._verbs.patch(target, MERGE_PATCH, patch, OURS)

    async def _open(self, namespace: str, share: _Share) -> None:
        target = _local_queue(namespace, share.queue)
        marks = {SHARE_ORDER: share.order}
        found = self._verbs.store.latest(target.key)
        if found is None:
            metadata = {"name": share.queue, "labels": {SHARE: "true"}, "annotations": marks}
            await self._make(namespace, metadata, share.queue)
            return
        document = decode(found.body)
        if _is_made_by_us(document):
            patch: dict[str, Any] = {"metadata": {"annotations": marks}}
            if CLOSED in (document["metadata"].get("annotations") or {}):
                patch["metadata"]["annotations"] = {**marks, CLOSED: None}
                patch["spec"] = {"stopPolicy": "None"}
            await self._verbs.patch(target, MERGE_PATCH, patch, OURS)

    async def _make(self, namespace: str, metadata: dict[str, Any], queue: str) -> None:
        made = {"metadata": metadata, "spec": {"clusterQueue": queue}}
        try:
            await self._verbs.create(_local_queue(namespace, metadata["name"]), made, OURS)
        except ApiError as error:
            if error.code != 409:  # it is there, or another request of his was quicker
                raise

    async def _close(self, record: Record) -> None:
        document = decode(record.body)
        if not _is_made_by_us(document) or CLOSED in (
            document["metadata"].get("annotations") or {}
        ):
            return
        patch = {"metadata": {"annotations": {CLOSED: "true"}}, "spec": {"stopPolicy": "Hold"}}
        target = _local_queue(record.key.namespace, record.key.name)
        await self._verbs.patch(target, MERGE_PATCH, patch, OURS)


def _share_in(record: Record) -> _Share | None:
    metadata = decode(record.body)["metadata"]
    annotations = metadata.get("annotations") or {}
    if (metadata.get("labels") or {}).get(SHARE) != "true" or not annotations.get(SHARE_OF):
        return None
    return _Share(metadata["name"], annotations[SHARE_OF], annotations.get(SHARE_ORDER, "0"))


def _is_made_by_us(document: Mapping[str, Any]) -> bool:
    return (document["metadata"].get("labels") or {}).get(SHARE) == "true"


def _local_queue(namespace: str, name: str) -> Target:
    return Target(LOCAL_QUEUES, LOCAL_QUEUES.versions[0], namespace, name)
