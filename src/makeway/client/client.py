"""Verbs of the Kubernetes protocol on plain documents."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from makeway.api.resource import Resource
from makeway.api.times import format_time
from makeway.backoff import backoff_s
from makeway.client.transport import Answer, Call, Transport, Unreachable

Document = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE = 500
ATTEMPTS = 8
BACKOFF_S = 0.2
BACKOFF_MAX_S = 5.0
RETRY_AFTER_MAX_S = 30.0
CONFLICT_ATTEMPTS = 10
CONFLICT_DELAY_S = 0.005  # doubled each time
WATCH_SILENCE_MAX_S = 150.0  # servers send a bookmark every minute
# Answers that say: not now, nothing was done.
_AGAIN = frozenset((429, 503))
_AGAIN_IF_READING = frozenset((500, 502, 504))


class ApiError(Exception):
    """The server refused; what it said."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = dict(details or {})
        self.retry_after_s: float | None = None  # as the server asked; None: it didn't

    @property
    def is_forbidden(self) -> bool:
        return self.code == 403

    @property
    def may_lack_path(self) -> bool:
        """Whether a server that has no such path may say so: Kubernetes asks for a right first,
        which nobody has whom nobody gave all rights.
        """
        return self.is_forbidden or self.code == 404

    @property
    def is_about_budget(self) -> bool:
        """Whether a disruption budget forbids it: no matter of a busy server that soon passes."""
        causes = self.details.get("causes") or ()
        return self.code == 429 and any(c.get("reason") == "DisruptionBudget" for c in causes)


class NotFound(ApiError):
    pass


class Conflict(ApiError):
    """The object was changed meanwhile, or exists already (reason AlreadyExists)."""


class Gone(ApiError):
    """The revision asked for is no longer kept; list again."""


class Unavailable(Exception):
    """No answer, or none but "not now", after several attempts."""


_CLASSES: Mapping[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Gone}


@dataclass(frozen=True, slots=True)
class Listing:
    items: list[Document]
    resource_version: str  # watch from here


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the objects of a list."""

    items: list[Document]
    resource_version: str  # of the whole list
    is_first: bool


@dataclass(frozen=True, slots=True)
class WatchEvent:
    type: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    object: Document


Sleep = Callable[[float], Awaitable[None]]


class Client:
    def __init__(
        self,
        transport: Transport,
        *,
        manager: str = "makeway",
        attempts: int = ATTEMPTS,
        sleep: Sleep | None = None,
    ) -> None:
        """`sleep` is the event loop's, unless another is named."""
        self.transport, self._manager = transport, manager
        self.sleep = sleep or _sleep
        self._attempts = attempts
        self._resources: dict[str, list[Resource]] = {}  # by API version
        self.warnings: list[str] = []  # what the server said besides its answers

    async def close(self) -> None:
        await self.transport.close()

    # Discovery

    async def resources(self, api_version: str) -> list[Resource]:
        """The kinds of a group and version; NotFound if the server has none such."""
        if api_version not in self._resources:
            root = "/apis/" if "/" in api_version else "/api/"
            found = await self._json(Call(method="GET", path=root + api_version))
            self._resources[api_version] = [
                Resource(
                    api_version,
                    entry["name"],
                    entry["kind"],
                    entry["namespaced"],
                    (*filter(None, [entry.get("singularName")]), *(entry.get("shortNames") or ())),
                )
                for entry in found["resources"]
                if "/" not in entry["name"]
            ]
        return self._resources[api_version]

    async def resource(self, api_version: str, kind: str) -> Resource:
        for resource in await self.resources(api_version):
            if resource.kind == kind:
                return resource
        raise NotFound(404, "NotFound", f"{api_version} has no kind {kind}")

    async def api_versions(self) -> list[str]:
        """All groups, each in its preferred version first."""
        found = await self._json(Call(method="GET", path="/apis"))
        versions = ["v1"]
        for group in found["groups"]:
            preferred = group["preferredVersion"]["groupVersion"]
            rest = [v["groupVersion"] for v in group["versions"]]
            versions += [preferred, *(version for version in rest if version != preferred)]
        return versions

    async def find_resource(self, word: str) -> Resource:
        """The kind that a user means by its name, plural, short name, or plural.group."""
        word = word.lower()
        for api_version in await self.api_versions():
            for resource in await self.resources(api_version):
                names = (resource.plural, resource.singular, *resource.short_names)
                if word.removesuffix(f".{resource.group}") in names:
                    return resource
        raise NotFound(404, "NotFound", f'the server doesn\'t have a resource type "{word}"')

    # Reading

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Document:
        path = resource.path(namespace, name, subresource)
        return await self._json(Call(method="GET", path=path))

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        """Return all objects; the revision is that of the first page."""
        items: list[Document] = []
        async for page in self.pages(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        ):
            if page.is_first:
                items = []
            items += page.items
        return Listing(items, page.resource_version)

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Page]:
        """Yield all objects page by page; a first page that is not the first one begins anew."""
        path = resource.path(namespace)
        query = _selectors(label_selector, field_selector)
        try:
            async for page in self._pages(path, query | {"limit": str(PAGE)}, resource):
                yield page
        except Gone:  # what the pages are of is no longer kept; in one piece that can't happen
            async for page in self._pages(path, query, resource):
                yield page

    async def _pages(
        self, path: str, query: Mapping[str, str], resource: Resource
    ) -> AsyncIterator[Page]:
        revision, following = "", ""
        while True:
            asked = {**query, "continue": following} if following else query
            page = await self._json(Call(method="GET", path=path, query=asked))
            items = list(page.get("items") or ())
            for item in items:
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            is_first = not revision
            revision = revision or page["metadata"]["resourceVersion"]
            yield Page(items, revision, is_first)
            following = page["metadata"].get("continue") or ""
            if not following:
                return

    async def peek(self, resource: Resource) -> None:
        """See whether a kind can be listed: NotFound if there is no such, 403 if we may not."""
        await self._json(Call(method="GET", path=resource.path(), query={"limit": "1"}))

    async def jobs(self, namespace: str, query: Mapping[str, str]) -> Document:
        """Jobs at a glance, of a Makeway that runs jobs itself; NotFound of other servers."""
        place = f"/namespaces/{namespace}" if namespace else ""
        path = f"/apis/visibility.makeway.dev/v1{place}/jobs"
        return await self._json(Call(method="GET", path=path, query=query))

    async def prospects(self, namespace: str, job: Document) -> Document:
        """Why a Job could never run (`never`), before it is made; NotFound as above."""
        return await self._json(
            Call(
                method="POST",
                path=f"/apis/visibility.makeway.dev/v1/namespaces/{namespace}/prospects",
                headers={"Content-Type": "application/json"},
                body=orjson.dumps(job),
            )
        )

    async def table(
        self, resource: Resource, name: str = "", namespace: str = "", *, label_selector: str = ""
    ) -> Document:
        """What `get` shows, rendered by the server."""
        return await self._json(
            Call(
                method="GET",
                path=resource.path(namespace, name),
                query=_selectors(label_selector, ""),
                headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
            )
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int = 300,
    ) -> AsyncIterator[WatchEvent]:
        """Yield what happens after a revision, until the server ends it; Gone if that is too old.

        Unreachable when the connection breaks: watch again from the last revision seen.
        """
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        if resource_version:
            query["resourceVersion"] = resource_version
        call = Call(
            method="GET",
            path=resource.path(namespace),
            query=query,
            is_stream=True,
            silence_max_s=WATCH_SILENCE_MAX_S,
        )
        async with self.transport.send(call) as answer:
            if answer.code != 200:
                raise _error(answer, await answer.body())
            async for line in _lines(answer):
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise _from_status(status.get("code") or 500, status)
                yield WatchEvent(event["type"], event["object"])

    async def logs(
        self, name: str, namespace: str, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """What a pod has printed."""
        async for piece in self._stream(f"/api/v1/namespaces/{namespace}/pods/{name}/log", query):
            yield piece

    async def _stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        call = Call(method="GET", path=path, query=query, is_stream=True)
        async with self.transport.send(call) as answer:
            if answer.code != 200:
                raise _error(answer, await answer.body())
            async for piece in answer.pieces:
                yield piece

    # What is gone, which only Makeway's own server tells

    async def gone_jobs(self, namespace: str = "") -> Sequence[Document]:
        """Jobs that were deleted, as they last were; other servers show those that are there."""
        call = Call(method="GET", path=_jobs(namespace), query={"gone": "true"})
        return list((await self._json(call)).get("items") or ())

    async def attempts(self, name: str, namespace: str, uid: str) -> Sequence[Document]:
        """The pods that have run for a job, there or gone; NotFound where nobody keeps that."""
        path = _jobs(namespace, name, "attempts")
        found = await self._json(Call(method="GET", path=path, query={"uid": uid}))
        return list(found["items"])

    async def job_logs(
        self, name: str, namespace: str, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """What a pod of a job has printed, also of one that is gone."""
        async for piece in self._stream(_jobs(namespace, name, "log"), query):
            yield piece

    async def forget_job(self, name: str, namespace: str, uid: str) -> None:
        """Have what a deleted job has printed removed, and its record."""
        path = _jobs(namespace, name, "log")
        await self._json(Call(method="DELETE", path=path, query={"uid": uid}))

    # Writing

    async def create(
        self, resource: Resource, document: Document, *, namespace: str = "", dry_run: bool = False
    ) -> Document:
        where = namespace or document.get("metadata", {}).get("namespace", "")
        return await self._write("POST", resource.path(where), document, dry_run=dry_run)

    async def create_array(
        self, job: Document, indexes: str, *, namespace: str, dry_run: bool = False
    ) -> Sequence[Document]:
        """Have Makeway's own server make a Job for each index, all or none; their metadata."""
        query = {"array": indexes}
        path = _jobs(namespace)
        made = await self._write("POST", path, job, query=query, dry_run=dry_run)
        return [item["metadata"] for item in made["items"]]

    async def preview(
        self, resource: Resource, document: Document, *, namespace: str = ""
    ) -> Document:
        """Have a Makeway tell what would become of an object, were it created now."""
        where = document.get("metadata", {}).get("namespace", "") or namespace
        path, query = resource.path(where), {"preview": "true"}
        return await self._write("POST", path, document, query=query, dry_run=True)

    async def difference(self, documents: Sequence[Document]) -> Document:
        """Have a Makeway tell what would change for whom with these queue objects."""
        return await self.ask("/diff", {"items": documents})

    async def ask(self, path: str, document: Mapping[str, Any] | None = None) -> Document:
        """GET what is no object, or POST a document there."""
        if document is None:
            return await self._json(Call(method="GET", path=path))
        headers, body = {"content-type": "application/json"}, orjson.dumps(document)
        return await self._json(Call(method="POST", path=path, headers=headers, body=body))

    async def post(
        self, resource: Resource, key: tuple[str, str], subresource: str, document: Document
    ) -> Document:
        """Create what a subresource takes: a binding, an eviction."""
        return await self._write("POST", resource.path(*key, subresource), document)

    async def replace(
        self, resource: Resource, document: Document, *, subresource: str = ""
    ) -> Document:
        metadata = document["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._write("PUT", path, document)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        patch: Any,
        subresource: str = "",
    ) -> Document:
        """Change an object by a merge patch."""
        path = resource.path(namespace, name, subresource)
        return await self._write("PATCH", path, patch, content_type=MERGE_PATCH)

    async def apply(
        self,
        resource: Resource,
        document: Document,
        *,
        namespace: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Document:
        metadata = document["metadata"]
        path = resource.path(metadata.get("namespace") or namespace, metadata["name"])
        query = {"force": "true"} if force else {}
        return await self._write(
            "PATCH", path, document, content_type=APPLY_PATCH, query=query, dry_run=dry_run
        )

    async def update(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        edit: Callable[[Document], Document | None],
        subresource: str = "",
    ) -> Document:
        """Read, edit, write, and again if somebody was quicker; None from `edit` writes nothing."""
        for attempt in range(CONFLICT_ATTEMPTS):
            if attempt:
                # The write that was quicker may not be on disk yet, and reads show only what is.
                await self.sleep(backoff_s(attempt + 1, CONFLICT_DELAY_S, BACKOFF_S))
            current = await self.get(resource, name, namespace)
            wanted = edit(current)
            if wanted is None:
                return current
            try:
                return await self.replace(resource, wanted, subresource=subresource)
            except Conflict as conflict:
                last = conflict
        raise last

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        grace_s: int | None = None,
        uid: str = "",
        dry_run: bool = False,
    ) -> Document:
        options: Document = {"propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        if dry_run:
            options["dryRun"] = ["All"]
        call = Call(
            method="DELETE",
            path=resource.path(namespace, name),
            headers={"Content-Type": "application/json"},
            body=orjson.dumps(options),
        )
        return await self._json(call)

    # Sending

    async def _write(
        self,
        method: str,
        path: str,
        document: Any,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Document:
        options = {"fieldManager": self._manager, "fieldValidation": "Strict", **(query or {})}
        if dry_run:
            options["dryRun"] = "All"
        return await self._json(
            Call(
                method=method,
                path=path,
                query=options,
                headers={"Content-Type": content_type},
                body=orjson.dumps(document),
            )
        )

    async def backup(self, path: str) -> None:
        """Have a Makeway on this machine copy its database, as it is now, to a file of its."""
        body = orjson.dumps({"path": path})
        headers = {"content-type": "application/json"}
        await self._json(Call(method="POST", path="/backup", headers=headers, body=body))

    async def past_explanation(
        self, resource: Resource, name: str, namespace: str, at: float
    ) -> Document:
        """Why a Workload did not run at a time, of which there may be no trace but the journal."""
        path = resource.path(namespace, name, "explanation")
        return await self._json(Call(method="GET", path=path, query={"at": format_time(at)}))

    async def usage(self, since: float, until: float) -> Document:
        """What everybody has had between two times, from the journal of a Makeway."""
        query = {"since": format_time(since), "until": format_time(until)}
        return await self._json(Call(method="GET", path="/apis/makeway.dev/v1/usage", query=query))

    async def invitation(self) -> Document:
        """The address of a Makeway's dashboard, and a code that opens it once."""
        return await self._json(Call(method="POST", path="/dashboard"))

    async def sign_out(self) -> None:
        """End all pages of a Makeway's dashboard that are ours."""
        await self._json(Call(method="DELETE", path="/dashboard"))

    async def _json(self, call: Call) -> Document:
        """Send, again while the server says "not now"; a write whose fate is unknown is not sent
        twice."""
        for attempt in range(self._attempts):
            delay_s = backoff_s(attempt + 1, BACKOFF_S, BACKOFF_MAX_S)
            delay_s *= 0.5 + random.random() / 2
            try:
                async with self.transport.send(call) as answer:
                    body = await answer.body()
            except Unreachable as error:
                if call.method != "GET" or attempt == self._attempts - 1:
                    raise Unavailable(str(error)) from error
                await self.sleep(delay_s)
                continue
            if answer.code < 300:
                self._note_warnings(answer)
                decoded: Document = orjson.loads(body)
                return decoded
            refusal = _error(answer, body)
            is_again = answer.code in _AGAIN or (
                call.method == "GET" and answer.code in _AGAIN_IF_READING
            )
            if not is_again or refusal.is_about_budget:
                raise refusal
            if attempt < self._attempts - 1:
                asked_s = refusal.retry_after_s
                await self.sleep(delay_s if asked_s is None else asked_s)
        raise Unavailable(str(refusal)) from refusal

    def _note_warnings(self, answer: Answer) -> None:
        text = answer.headers.get("warning")
        if text:
            parts = text.split('299 - "')[1:]
            self.warnings += [
                part.rstrip(", ").removesuffix('"').replace('\\"', '"') for part in parts
            ]


async def _sleep(seconds: float) -> None:
    import asyncio  # whoever needs no loop does without

    await asyncio.sleep(seconds)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in query.items() if value}


def _error(answer: Answer, body: bytes) -> ApiError:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):
        status = {"message": body[:200].decode("utf-8", "replace")}
    error = _from_status(answer.code, status)
    text = answer.headers.get("retry-after", "")
    if text.isascii() and text.isdecimal():
        error.retry_after_s = min(float(text), RETRY_AFTER_MAX_S)
    return error


def _from_status(code: int, status: Mapping[str, Any]) -> ApiError:
    cls = _CLASSES.get(code, ApiError)
    message = status.get("message") or f"the server answered {code}"
    return cls(code, status.get("reason") or "", message, status.get("details"))


def _jobs(namespace: str = "", *rest: str) -> str:
    """Where a server has its Jobs."""
    middle = f"/namespaces/{namespace}" if namespace else ""
    return "/".join((f"/apis/batch/v1{middle}/jobs", *rest))


async def _lines(answer: Answer) -> AsyncIterator[bytes]:
    rest: list[bytes] = []
    async for piece in answer.pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            if rest:
                rest.append(line)
                line = b"".join(rest)
                rest = []
            if line:
                yield line
        if last:
            rest.append(last)
