"""Get, list and watch: objects as they are, and what becomes of them."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from makeway.api.kinds import Resource
from makeway.server import errors
from makeway.server.errors import ApiError, bad_request
from makeway.server.messages import Request, Response, decode, encode
from makeway.server.selectors import Matcher, matcher_of
from makeway.server.views import View
from makeway.server.watches import Watch
from makeway.store import Compacted, Key, Record, Store

WATCH_TIMEOUT_S = 1800.0
BOOKMARK_EVERY_S = 60.0
WATCHES_MAX = 5000
STREAM_FROM = 2000  # objects in a list that is sent in pieces
YIELD_EVERY = 50  # objects looked into before others get their turn


class Reads:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store, self.clock = store, clock
        self._watches: dict[Watch, None] = {}  # in the order in which they began
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
        match = matcher_of(request, view.resource)
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
        match = matcher_of(request, resource)
        records, _ = await self._find(resource, namespace, None, None, match)
        return [record.key for record in records]

    async def _find(
        self,
        resource: Resource,
        namespace: str,
        after: tuple[str, str] | None,
        limit: int | None,
        match: Matcher,
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
        match = matcher_of(request, view.resource)
        since = self._check_not_future(request)
        wants_initial = request.flag("sendInitialEvents")
        _check_initial(request, wants_initial=wants_initial)
        asked_s = request.number("timeoutSeconds")
        timeout_s = WATCH_TIMEOUT_S if not asked_s else min(float(asked_s), WATCH_TIMEOUT_S)
        wants_bookmarks = request.flag("allowWatchBookmarks")
        watch = Watch(self.store, view, namespace, match, self.clock)
        begin = partial(watch.open, since, wants_initial, wants_bookmarks)
        body = self._stream(watch, begin, timeout_s, wants_bookmarks)
        return Response(body=body, has_lines=True)

    async def _stream(
        self, watch: Watch, begin: Callable[[], None], timeout_s: float, wants_bookmarks: bool
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
