"""One watch: what happens to the objects of a kind, as lines for whoever watches."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from makeway.server import errors
from makeway.server.errors import ApiError
from makeway.server.messages import decode, encode
from makeway.server.selectors import Matcher
from makeway.server.views import View
from makeway.store import Compacted, Event, Record, Store

QUEUE_MAX = 2000  # events that a watcher may lag behind before it is cut off
CHUNK_BYTES = 64 * 1024
CHUNK_LINES = 50  # looked into before others get their turn
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_ADDED, _MODIFIED, _DELETED = b"ADDED", b"MODIFIED", b"DELETED"


class Watch:
    """What one watcher has not been sent yet."""

    def __init__(
        self, store: Store, view: View, namespace: str, match: Matcher, clock: Callable[[], float]
    ) -> None:
        self._store, self._view, self._namespace, self._match = store, view, namespace, match
        self._clock = clock
        self._initial: Iterable[bytes] = ()
        self._queue: list[Event] = []
        self._has_header = True  # of a Table; only the first event needs it
        self._stop: Callable[[], None] | None = None
        self.is_over = False  # after what `chunks` still has
        self._error: ApiError | None = None
        self.wake = asyncio.Event()

    def open(self, since: int | None, wants_initial: bool, wants_bookmarks: bool) -> None:
        kind = self._view.resource.stored.full_name
        if not since or wants_initial:
            # No revision, or 0: begin with everything there is.
            records = self._store.scan(kind, self._namespace)
            end = self._store.revision if wants_initial and wants_bookmarks else None
            self._initial = self._initial_lines(records, end)
        else:
            try:
                self._queue.extend(self._store.events_since(since, kind))
            except Compacted as compacted:
                self._error = errors.expired(str(compacted))
                self.is_over = True
                return
        self._stop = self._store.listen(kind, self._on_event)

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _on_event(self, event: Event) -> None:
        if self._namespace and event.record.key.namespace != self._namespace:
            return
        if len(self._queue) >= QUEUE_MAX:
            # It would not catch up; it may come back with the last revision it has seen.
            self._queue.clear()
            self.is_over = True
            self.close()
        else:
            self._queue.append(event)
        self.wake.set()

    async def wait(self, seconds: float) -> None:
        if self._queue or self.is_over:
            return
        self.wake.clear()
        handle = asyncio.get_running_loop().call_later(max(seconds, 0.0), self.wake.set)
        try:
            await self.wake.wait()
        finally:
            handle.cancel()

    def chunks(self) -> Iterable[bytes]:
        """Yield lines that wait, several in one piece."""
        size, lines = 0, list[bytes]()
        for count, line in enumerate(self._lines()):
            lines.append(line)
            size += len(line)
            if size >= CHUNK_BYTES or count % CHUNK_LINES == CHUNK_LINES - 1:
                yield b"".join(lines)
                size, lines = 0, []
        if lines:
            yield b"".join(lines)

    def _lines(self) -> Iterable[bytes]:
        initial, self._initial = self._initial, ()
        yield from initial
        if self._error is not None:
            error, self._error = self._error, None
            yield b'{"type":"ERROR","object":' + encode(error.status()) + b"}\n"
            return
        while self._queue:
            queue, self._queue = self._queue, []
            for event in queue:
                yield self._line(event) or b""

    def _initial_lines(self, records: list[Record], end: int | None) -> Iterable[bytes]:
        for record in records:
            yield self._written(_ADDED, record.body) if self._match(record.body) else b""
        if end is not None:
            yield self.bookmark(end, is_end=True)

    def _line(self, event: Event) -> bytes | None:
        """The event as this watcher sees it: an object may enter or leave its selection."""
        if self._namespace and event.record.key.namespace != self._namespace:
            return None
        body, before = event.record.body, event.previous
        if self._match.is_trivial:
            was, is_now = before is not None, not event.is_deletion
        else:
            was = before is not None and self._match(before.body)
            is_now = not event.is_deletion and self._match(body)
        if was and is_now:
            return self._written(_MODIFIED, body)
        if is_now:
            return self._written(_ADDED, body)
        if was:
            if not event.is_deletion:
                assert before is not None
                body = _at_revision(before.body, body)
            return self._written(_DELETED, body)
        return None

    def _written(self, type_: bytes, body: bytes) -> bytes:
        shown = self._view.one(body, self._clock(), has_header=self._has_header)
        self._has_header = False
        return b'{"type":"' + type_ + b'","object":' + shown + b"}\n"

    def bookmark(self, revision: int | None = None, *, is_end: bool = False) -> bytes:
        resource = self._view.resource
        metadata: dict[str, Any] = {
            "resourceVersion": str(self._store.revision if revision is None else revision),
            "creationTimestamp": None,
        }
        if is_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        if self._view.table_version:
            shown = self._view.table((), 0.0, metadata, has_header=False)
        else:
            shown = {
                "kind": resource.kind,
                "apiVersion": resource.in_version(self._view.version),
                "metadata": metadata,
            }
        return b'{"type":"BOOKMARK","object":' + encode(shown) + b"}\n"


def _at_revision(before: bytes, after: bytes) -> bytes:
    """How an object looked when it still was in a selection, with the revision at which it left."""
    left = decode(before)
    left["metadata"]["resourceVersion"] = decode(after)["metadata"]["resourceVersion"]
    return encode(left)
