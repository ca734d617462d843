"""Get, list and watch: objects as they are, and what becomes of them."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from makeway.api.kinds import Resource
from makeway.server import errors
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import Request, Response, accepted, decode, encode, is_json
from makeway.server.objects import shown_as
from makeway.server.selectors import Predicate, field_selector, label_selector
from makeway.server.tables import table
from makeway.store import Compacted, Event, Key, Record, Store

WATCH_TIMEOUT_S = 1800.0
BOOKMARK_EVERY_S = 60.0
WATCH_QUEUE_MAX = 2000  # events that a watcher may lag behind before it is cut off
WATCHES_MAX = 5000
CHUNK_BYTES = 64 * 1024
STREAM_FROM = 2000  # objects in a list that is sent in pieces
YIELD_EVERY = 50  # objects looked into before others get their turn
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a client wants to see objects."""

    resource: Resource
    version: str
    table_version: str = ""  # of meta.k8s.io, when a Table is asked for; else empty
    include_object: str = "Metadata"
    is_metadata_only: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether stored bodies can be sent as they are."""
        is_stored = self.version == self.resource.versions[0] and not self.resource.stored_as
        return is_stored and not self.table_version and not self.is_metadata_only

    def document(self, body: bytes) -> Any:
        document = shown_as(decode(body), self.resource, self.version)
        if self.is_metadata_only:
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": document["metadata"],
            }
        return document

    def table(
        self, bodies: Iterable[bytes], now: float, metadata: Any, *, has_header: bool = True
    ) -> dict[str, Any]:
        return table(
            self.resource.stored.full_name,
            map(decode, bodies),  # columns are those of the stored version
            now,
            metadata=metadata,
            include_object=self.include_object,
            api_version=f"meta.k8s.io/{self.table_version}",
            has_header=has_header,
        )

    def one(self, body: bytes, now: float, *, has_header: bool = True) -> bytes:
        if self.is_plain:
            return body
        if not self.table_version:
            return encode(self.document(body))
        revision = decode(body)["metadata"].get("resourceVersion", "")
        metadata = {"resourceVersion": revision}
        return encode(self.table([body], now, metadata, has_header=has_header))


def view_of(request: Request, resource: Resource, version: str) -> View:
    """Read what the client accepts; the first acceptable answer wins."""
    plain = View(resource=resource, version=version)
    for kind, words in accepted(request):
        if not is_json(kind) or words.get("g", "meta.k8s.io") != "meta.k8s.io":
            continue
        shown_as, meta_version = words.get("as"), words.get("v", "v1")
        if shown_as == "Table" and meta_version in ("v1", "v1beta1"):
            include = request.query.get("includeObject", "") or "Metadata"
            if include not in ("None", "Metadata", "Object"):
                raise bad_request(f'unrecognized includeObject value: "{include[:50]}"')
            return replace(plain, table_version=meta_version, include_object=include)
        if shown_as in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return replace(plain, is_metadata_only=True)
        if shown_as is None:
            return plain
    raise errors.not_acceptable(["application/json"])


class Reads:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self._watches: dict[_Watch, None] = {}  # in the order in which they began
        self._is_closing = False

    def get(self, request: Request, view: View, key: Key) -> Response:
        self._check_not_future(request)
        record = self.store.get(key)
        if record is None:
            raise errors.not_found(view.resource, key.name)
        return Response(body=view.one(record.body, self.clock()))

    # List

    async def listing(self, request: Request, view: View, namespace: str) -> Response:
        self._check_not_future(request)
        _check_match(request)
        limit = request.number("limit") or None
        revision, after = self.store.revision, None
        if token := request.query.get("continue"):
            revision, after = _read_continue(token)
            if revision < self.store.oldest:
                raise errors.expired(
                    "The provided continue parameter is too old to display a consistent list "
                    "result. You must start a new list without the continue parameter."
                )
        if request.query.get("resourceVersionMatch") == "Exact":
            revision = self._exact(request, view.resource)
        match = _matcher(request, view.resource)
        records, more = await self._find(view.resource, namespace, after, limit, match)
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if more is not None and records:
            metadata["continue"] = _write_continue(revision, records[-1].key)
            if match.is_trivial:
                metadata["remainingItemCount"] = more
        if view.is_plain and len(records) > STREAM_FROM:
            return Response(body=_streamed(_head(view, metadata), records))
        return Response(body=await self._encoded(view, records, metadata))

    def _exact(self, request: Request, resource: Resource) -> int:
        """The revision that is asked for, if nothing of the kind has changed since."""
        asked = request.number("resourceVersion")
        assert asked is not None
        try:
            is_past = bool(self.store.events_since(asked, resource.stored.full_name))
        except Compacted:
            is_past = True
        if is_past:
            raise errors.expired("The resourceVersion for the provided list is too old.")
        return asked

    async def keys(self, request: Request, resource: Resource, namespace: str) -> list[Key]:
        """What a list with the same selectors would show."""
        match = _matcher(request, resource)
        records, _ = await self._find(resource, namespace, None, None, match)
        return [record.key for record in records]

    async def _find(
        self,
        resource: Resource,
        namespace: str,
        after: tuple[str, str] | None,
        limit: int | None,
        match: "Matcher",
    ) -> tuple[list[Record], int | None]:
        """Return the records of a page, and how many more there are; None if none."""
        kind = resource.stored.full_name
        if match.name is not None and (namespace or not resource.is_namespaced):
            found = self.store.get(Key(kind, namespace, match.name))
            return ([found] if found is not None and match(found.body) else []), None
        if match.is_trivial:
            records = self.store.scan(kind, namespace, after, None if limit is None else limit + 1)
            if limit is None or len(records) <= limit:
                return records, None
            rest = self.store.count(kind, namespace, after) - limit
            return records[:limit], rest
        records = []
        for count, record in enumerate(self.store.scan(kind, namespace, after)):
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            if match(record.body):
                if limit is not None and len(records) == limit:
                    return records, 1
                records.append(record)
        return records, None

    async def _encoded(self, view: View, records: list[Record], metadata: dict[str, Any]) -> bytes:
        if view.table_version:
            return await self._table(view, records, metadata)
        if view.is_plain:
            items = [record.body for record in records]
        else:
            items = []
            for count, record in enumerate(records):
                if count % YIELD_EVERY == YIELD_EVERY - 1:
                    await asyncio.sleep(0)
                items.append(encode(view.document(record.body)))
        return _head(view, metadata) + b",".join(items) + b"]}"

    async def _table(self, view: View, records: list[Record], metadata: dict[str, Any]) -> bytes:
        head, rows = b"", list[bytes]()
        for start in range(0, max(1, len(records)), YIELD_EVERY):
            bodies = [record.body for record in records[start : start + YIELD_EVERY]]
            shown = view.table(bodies, self.clock(), metadata)
            head = head or encode({**shown, "rows": []})[:-2]
            rows.append(encode(shown["rows"])[1:-1])
            await asyncio.sleep(0)
        return head + b",".join(rows) + b"]}"

    def _check_not_future(self, request: Request) -> int | None:
        """The revision that is asked for, if it has been; None if none is."""
        asked = request.number("resourceVersion")
        if asked is not None and asked > self.store.revision:
            raise errors.too_large_revision(asked, self.store.revision)
        return asked

    # Watch

    def watch(self, request: Request, view: View, namespace: str) -> Response:
        if len(self._watches) >= WATCHES_MAX:
            raise errors.too_many_requests("too many watches, please try again later")
        match = _matcher(request, view.resource)
        since = self._check_not_future(request)
        wants_initial = request.flag("sendInitialEvents")
        _check_initial(request, wants_initial=wants_initial)
        asked_s = request.number("timeoutSeconds")
        timeout_s = WATCH_TIMEOUT_S if not asked_s else min(float(asked_s), WATCH_TIMEOUT_S)
        wants_bookmarks = request.flag("allowWatchBookmarks")
        watch = _Watch(self.store, view, namespace, match, self.clock)
        begin = partial(watch.open, since, wants_initial, wants_bookmarks)
        body = self._stream(watch, begin, timeout_s, wants_bookmarks)
        return Response(body=body, has_lines=True)

    async def _stream(
        self, watch: "_Watch", begin: Callable[[], None], timeout_s: float, wants_bookmarks: bool
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        next_bookmark = loop.time() + BOOKMARK_EVERY_S
        self._watches[watch] = None
        try:
            begin()
            yield b""  # headers go out now, or clients wait for the first event
            while True:
                for chunk in watch.chunks():
                    yield chunk
                    await asyncio.sleep(0)
                if watch.is_over or self._is_closing:
                    return
                now = loop.time()
                if now >= end:
                    if wants_bookmarks:
                        yield watch.bookmark()
                    return
                if wants_bookmarks and now >= next_bookmark:
                    next_bookmark = now + BOOKMARK_EVERY_S
                    yield watch.bookmark()
                await watch.wait(min(end, next_bookmark) - now)
        finally:
            del self._watches[watch]
            watch.close()

    def end_watches(self) -> None:
        """Let all watches end cleanly; the server goes down."""
        self._is_closing = True
        for watch in self._watches:
            watch.wake.set()


def _head(view: View, metadata: dict[str, Any]) -> bytes:
    """A list up to its items."""
    resource = view.resource
    head = {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.in_version(view.version),
        "metadata": metadata,
    }
    if view.is_metadata_only:
        head |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    return encode(head)[:-1] + b',"items":['


async def _streamed(head: bytes, records: list[Record]) -> AsyncIterator[bytes]:
    """A long list in pieces: never twice in memory, and others get their turn."""
    yield head
    for start in range(0, len(records), YIELD_EVERY):
        piece = b",".join([record.body for record in records[start : start + YIELD_EVERY]])
        yield b"," + piece if start else piece
        await asyncio.sleep(0)
    yield b"]}"


class Matcher:
    """Whether an object is selected."""

    def __init__(self, tests: list[Predicate], name: str | None) -> None:
        self._tests, self.name = tests, name

    @property
    def is_trivial(self) -> bool:
        return not self._tests

    def __call__(self, body: bytes) -> bool:
        if not self._tests:
            return True
        document = decode(body)
        return all(test(document) for test in self._tests)


def _check_match(request: Request) -> None:
    """Refuse what asks for a revision in a way that makes no sense."""
    field, match = "resourceVersionMatch", request.query.get("resourceVersionMatch", "")
    revision = request.query.get("resourceVersion", "")
    if "sendInitialEvents" in request.query:
        raise _forbidden_option("sendInitialEvents", "is forbidden for list")
    if match == "Exact" and revision == "0":
        raise _forbidden_option(field, 'exact is forbidden for resourceVersion "0"')
    if match and not revision:
        raise _forbidden_option(field, "is forbidden unless resourceVersion is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match[:50]}": supported values: "Exact", "NotOlderThan"'
        raise errors.bad_option("ListOptions", field, "FieldValueNotSupported", why)
    if request.query.get("continue") and revision not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def _check_initial(request: Request, *, wants_initial: bool) -> None:
    field, match = "resourceVersionMatch", request.query.get("resourceVersionMatch", "")
    if match and "sendInitialEvents" not in request.query:
        raise _forbidden_option(
            field, "is forbidden for watch unless sendInitialEvents is provided"
        )
    if wants_initial and match != "NotOlderThan":
        raise _forbidden_option(field, "sendInitialEvents requires NotOlderThan")


def _forbidden_option(field: str, why: str) -> ApiError:
    return errors.bad_option("ListOptions", field, "FieldValueForbidden", f"Forbidden: {why}")


def _matcher(request: Request, resource: Resource) -> Matcher:
    labels = label_selector(request.query.get("labelSelector", ""))
    fields, name = field_selector(request.query.get("fieldSelector", ""), resource.full_name)
    return Matcher([test for test in (labels, fields) if test is not None], name)


def _write_continue(revision: int, last: Key) -> str:
    token = encode({"v": "makeway/v1", "rv": revision, "start": [last.namespace, last.name]})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read_continue(token: str) -> tuple[int, tuple[str, str]]:
    try:
        read = decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, (namespace, name) = read["rv"], read["start"]
        if isinstance(revision, int) and isinstance(namespace, str) and isinstance(name, str):
            return revision, (namespace, name)
    except (ValueError, KeyError, TypeError, binascii.Error):
        pass
    raise bad_request("continue key is not valid")


def _at_revision(before: bytes, after: bytes) -> bytes:
    """How an object looked when it still was in a selection, with the revision at which it left."""
    left = decode(before)
    left["metadata"]["resourceVersion"] = decode(after)["metadata"]["resourceVersion"]
    return encode(left)


_ADDED, _MODIFIED, _DELETED = b"ADDED", b"MODIFIED", b"DELETED"


class _Watch:
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
        if len(self._queue) >= WATCH_QUEUE_MAX:
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
            if size >= CHUNK_BYTES or count % YIELD_EVERY == YIELD_EVERY - 1:
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
