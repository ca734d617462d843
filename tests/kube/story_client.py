"""Tells a story to a server and writes down its answers, without what differs from run to run.

A story is a script of calls. Told to two servers, it gives two transcripts, which have to be equal:
identities, revisions and times are numbered in the order in which they appear, so it still shows
when two of them are the same. Left out are the texts of refusals for the sake of what was sent
(each server says that in its own words), nulls, and who manages which field unless the story is
about that.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import orjson

from makeway.client.kubeconfig import Access
from makeway.client.transport import Answer, Call
from tests.server.harness import Kubectl

Document = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WAIT_S = 30.0
POLL_S = 0.05
THEN = "2020-01-01T00:00:00Z"  # a time that a story writes itself, and wants back

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"(?<![-\w.])\d+(ms|s|m|h)(\d+s)?(?![-\w])")
_REVISION_IN_TEXT = re.compile(r"(resource version: \d+ \(|in record \()\d+(\))|(current: )\d+")
_STORAGE = re.compile(r"StorageError: .*AdditionalErrorMsg: ")


class Notes:
    """Names for what differs from run to run: uid-1, revision-2, time."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self.replaced: dict[str, str] = {}  # made-up names, by what they are called here

    def name(self, kind: str, value: str) -> str:
        if (kind, value) not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[(kind, value)] = f"{kind}-{self._counts[kind]}"
        return self._names[(kind, value)]

    def text(self, text: str) -> str:
        for value, name in self.replaced.items():
            text = text.replace(value, name)
        text = _UID.sub(lambda found: self.name("uid", found[0]), text)
        text = _REVISION_IN_TEXT.sub(r"\1\3N\2", text)
        text = _STORAGE.sub("", text)
        return _TIME.sub(lambda found: found[0] if found[0] == THEN else "time", text)

    def plain(self, value: Any, *, with_managers: bool = False) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.plain(item, with_managers=with_managers) for item in value]
        if not isinstance(value, dict):
            return value
        plain: Document = {}
        for key in sorted(value):
            item = value[key]
            if item is None or (key == "managedFields" and not with_managers):
                continue
            if key == "details" and not item:
                continue
            if key.endswith("resourceVersion") and isinstance(item, str):
                is_list = key == "resourceVersion" and "uid" not in value
                item = "revision" if is_list else self.name("revision", item)
            elif key == "continue":
                if not item:
                    continue
                item = "token"
            plain[self.text(key)] = self.plain(item, with_managers=with_managers)
        return plain


_REFUSAL = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


def refusal(code: int, body: Document) -> Document | None:
    """What is particular to a refusal; None if this is none, or not of the usual form.

    Of what was sent, only the fields to blame are told, each server has its own words for it.
    """
    rest = {key: value for key, value in body.items() if key not in (*_REFUSAL, "code")}
    if body != {**_REFUSAL, "code": code, **rest}:
        return None
    details = dict(body.get("details") or {})
    if code in (400, 406, 415, 422):
        rest.pop("message", None)
        if "causes" in details:
            fields = {cause.get("field", "") for cause in details["causes"]}
            rest["details"] = {**details, "causes": sorted(fields)}
    return rest


def picked(body: Any, paths: Sequence[str]) -> Any:
    """The named parts of a document."""
    found: Document = {}
    for path in paths:
        value = body
        for step in path.split("."):
            if isinstance(value, list) and step.isdecimal():
                value = value[int(step)] if int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        found[path] = value
    return found


def _shown(code: int, answer: Any, show: Sequence[str]) -> Document:
    if not isinstance(answer, dict):
        return {"text": answer}
    if code < 300:
        return {"body": picked(answer, show) if show else answer}
    refused = refusal(code, answer)
    return {"body": answer} if refused is None else {"refused": refused}


class Watch:
    def __init__(self, client: "StoryClient", answer: Answer) -> None:
        self._client, self._pieces, self._rest = client, answer.pieces, b""
        self._code = answer.code
        self._events: list[Document] = []

    async def collect(self, step: str, count: int, show: Sequence[str] = ()) -> list[Document]:
        """Write down the next so many events."""
        while len(self._events) < count:
            piece = await asyncio.wait_for(anext(self._pieces, b""), WAIT_S)
            assert piece, f"{step}: ended after {self._events} {self._rest!r}"
            *lines, self._rest = (self._rest + piece).split(b"\n")
            self._events += [orjson.loads(line) for line in lines if line]
        events, self._events = self._events[:count], self._events[count:]
        shown = [
            {"type": e["type"], "object": picked(e["object"], show) if show else e["object"]}
            for e in events
        ]
        self._client.note(step, {"code": self._code, "events": shown})
        return events


class Socket:
    """A watch whose events come as messages."""

    def __init__(self, client: "StoryClient", socket: aiohttp.ClientWebSocketResponse) -> None:
        self._client, self._socket = client, socket

    async def collect(self, step: str, count: int, show: Sequence[str] = ()) -> None:
        shown = []
        for _ in range(count):
            message = await self._socket.receive(WAIT_S)
            event = orjson.loads(message.data)
            seen = picked(event["object"], show) if show else event["object"]
            shown.append({"type": event["type"], "object": seen, "as": message.type.name})
        self._client.note(step, {"events": shown})

    async def ends(self, step: str) -> None:
        message = await self._socket.receive(WAIT_S)
        self._client.note(step, {"as": message.type.name})


class StoryClient:
    def __init__(self, access: Access, namespace: str, kubectl: Kubectl | None = None) -> None:
        self.namespace = namespace
        self._access, self._transport = access, access.transport()
        self._kubectl = kubectl
        self.notes = Notes()
        self.transcript: list[Document] = []

    async def close(self) -> None:
        await self._transport.close()

    async def become_a_stranger(self) -> None:
        """From now on, speak with a token that nobody gave out."""
        await self._transport.close()
        self._transport = replace(self._access, token="made-up").transport()

    # Where things are

    def core(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def apis(self, group_version: str, plural: str, name: str = "") -> str:
        path = f"/apis/{group_version}/namespaces/{self.namespace}/{plural}"
        return path + (f"/{name}" if name else "")

    def pods(self, name: str = "") -> str:
        return self.core("pods", name)

    def jobs(self, name: str = "") -> str:
        return self.apis("batch/v1", "jobs", name)

    def workloads(self, name: str = "") -> str:
        return self.apis("kueue.x-k8s.io/v1beta2", "workloads", name)

    # Calls

    async def call(
        self,
        step: str,
        method: str,
        url: str,
        body: Any = None,
        content_type: str = JSON,
        *,
        accept: str = JSON,
        show: Sequence[str] = (),
        with_managers: bool = False,
    ) -> Any:
        """Send, write the answer down, and return its body as it came."""
        code, headers, answer = await self.send(method, url, body, content_type, accept)
        noted: Document = {"code": code}
        if "warning" in headers:
            noted["warning"] = headers["warning"]
        self.note(step, noted | _shown(code, answer, show), with_managers=with_managers)
        return answer

    async def quiet(self, method: str, url: str, body: Any = None, content_type: str = JSON) -> Any:
        """A call that is not part of the story; it has to succeed."""
        code, _, answer = await self.send(method, url, body, content_type, JSON)
        assert code < 300, answer
        return answer

    async def bind(self, name: str, node: str) -> None:
        """Give a pod a node, quietly."""
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.quiet("POST", f"{self.pods(name)}/binding", binding)
        await self.caught_up(self.pods(name), lambda found: bool(found["spec"].get("nodeName")))

    async def caught_up(self, url: str, holds: Callable[[Document], bool]) -> None:
        """Wait until all of the server knows.

        A real one may decide about a delete by a copy that lags behind; revision 0 asks that copy.
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            code, _, found = await self.send("GET", f"{url}?resourceVersion=0")
            if code == 200 and holds(found):
                return
            assert time.monotonic() < deadline, f"{url}: never came to hold; last: {found}"
            await asyncio.sleep(POLL_S)

    async def until(
        self,
        step: str,
        url: str,
        holds: Callable[[int, Any], bool],
        *,
        show: Sequence[str] = (),
    ) -> Any:
        """Ask again until something holds, and write down the answer in which it does."""
        deadline = time.monotonic() + WAIT_S
        while True:
            code, _, body = await self.send("GET", url, None, JSON, JSON)
            if holds(code, body):
                self.note(step, {"code": code} | _shown(code, body, show))
                return body
            assert time.monotonic() < deadline, f"{step}: never came to hold; last: {code} {body}"
            await asyncio.sleep(POLL_S)

    @contextlib.asynccontextmanager
    async def watch(self, url: str, *, accept: str = JSON) -> AsyncIterator[Watch]:
        parts = urlsplit(url)
        query = {**dict(parse_qsl(parts.query, keep_blank_values=True)), "watch": "true"}
        headers = {"Accept": accept}
        call = Call(method="GET", path=parts.path, query=query, headers=headers, is_stream=True)
        async with self._transport.send(call) as answer:
            yield Watch(self, answer)

    @contextlib.asynccontextmanager
    async def socket(self, step: str, url: str, *protocols: str) -> AsyncIterator[Socket]:
        """A watch over a WebSocket."""
        async with self._socket(url, protocols) as opened:
            self.note(step, {"protocol": opened.protocol})
            yield Socket(self, opened)

    async def no_socket(self, step: str, url: str) -> None:
        """A watch over a WebSocket that is refused."""
        try:
            async with self._socket(url, ()):
                raise AssertionError(f"{step}: was not refused")
        except aiohttp.WSServerHandshakeError as refused:
            self.note(step, {"code": refused.status})

    @contextlib.asynccontextmanager
    async def _socket(
        self, url: str, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        address = self._access.address + url + ("&" if "?" in url else "?") + "watch=true"
        headers = {"Authorization": f"Bearer {self._access.token}", "Origin": self._access.address}
        async with aiohttp.ClientSession() as session:
            opening = session.ws_connect(
                address, protocols=tuple(protocols), headers=headers, ssl=False
            )
            async with opening as opened:
                yield opened

    async def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> tuple[int, Mapping[str, str], Any]:
        parts = urlsplit(url)
        raw = body if isinstance(body, bytes) else orjson.dumps(body) if body is not None else b""
        headers = {"Accept": accept, "User-Agent": "story"}
        if raw or content_type != JSON:
            headers["Content-Type"] = content_type
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        call = Call(method=method, path=parts.path, query=query, headers=headers, body=raw)
        async with self._transport.send(call) as answer:
            text = await answer.body()
        try:
            return answer.code, answer.headers, orjson.loads(text)
        except orjson.JSONDecodeError:
            return answer.code, answer.headers, text.decode()

    def kubectl(self, step: str, *words: str, text: str = "", sort: bool = False) -> str:
        """What kubectl prints, ages and widths aside."""
        assert self._kubectl is not None
        code, output = self._kubectl.answer(*words, "-n", self.namespace, text=text)
        lines = [re.sub(r"\s{2,}", "  ", _AGE.sub("AGE", line)) for line in output.splitlines()]
        lines = [self.notes.text(line).strip() for line in lines]
        self.transcript.append(
            {"step": step, "exit": code, "output": sorted(lines) if sort else lines}
        )
        return output

    def note(self, step: str, answer: Document, *, with_managers: bool = False) -> None:
        assert all(step != earlier["step"] for earlier in self.transcript), f"{step}: told twice"
        plain = self.notes.plain(answer, with_managers=with_managers)
        self.transcript.append({"step": step, **plain})
