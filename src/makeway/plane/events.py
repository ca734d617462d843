"""Events about objects, as `kubectl describe` shows them; the same one again only counts up."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from makeway.api.times import format_time
from makeway.client.client import ApiError, Client, Document, NotFound

REMEMBERED_MAX = 4096


class EventRecorder:
    """Writes events; one that was written before by this recorder gets a higher count."""

    def __init__(self, client: Client, component: str, clock: Callable[[], float]) -> None:
        self._client, self._component, self._clock = client, component, clock
        # What was said -> name of the event and its count.
        self._said: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()

    async def record(self, about: Document, type_: str, reason: str, message: str) -> None:
        """`type_` is Normal or Warning; `about` the object as the server shows it."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        key = (metadata["uid"], type_, reason, message)
        events = await self._client.resource("v1", "Event")
        now = format_time(int(self._clock()))
        if key in self._said:
            name, count = self._said[key]
            patch = {"count": count + 1, "lastTimestamp": now}
            try:
                await self._client.patch(events, name, namespace, patch=patch)
                self._remember(key, name, count + 1)
                return
            except NotFound:
                pass  # expired meanwhile
        digest = hashlib.sha256("\0".join((*key, repr(self._clock()))).encode()).hexdigest()
        name = f"{metadata['name'][:200]}.{digest[:16]}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _reference(about),
            "type": type_,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(events, event)
        except ApiError as error:
            if error.code not in (403, 404, 409):  # its namespace goes away, or it is there
                raise
        self._remember(key, name, 1)

    def _remember(self, key: tuple[str, ...], name: str, count: int) -> None:
        self._said[key] = (name, count)
        self._said.move_to_end(key)
        while len(self._said) > REMEMBERED_MAX:
            self._said.popitem(last=False)


def _reference(about: Document) -> Document:
    metadata = about["metadata"]
    return {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
    }
