"""Clients that mean harm or don't know better: clear refusals, bounded memory."""

import asyncio
import os
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from makeway.client import Client
from makeway.client.kubeconfig import Access, read_kubeconfig
from makeway.server.messages import Request
from tests.harness.documents import cluster_queue, job
from tests.harness.process import Up, running
from tests.prerequisites import samples
from tests.server.harness import JOBS, MERGE, QUEUES, TOKEN, Server, play

# In process: bodies


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
BODIES = {
    "empty": b"",
    "text": b"hello",
    "null": b"null",
    "list": b"[]",
    "number": b"5",
    "cut": b'{"metadata":{"name":"a"',
    "deep": DEEP,
    "deep list": b"[" * 100_000,
    "not utf-8": b'{"metadata":{"name":"\xff\xfe"}}',
    "metadata is a list": b'{"metadata":[]}',
    "name is a number": b'{"metadata":{"name":5}}',
    "labels are a list": b'{"metadata":{"name":"a","labels":["x"]}}',
    "huge number": b'{"metadata":{"name":"a"},"spec":{"parallelism":1e999}}',
    "spec is null": b'{"metadata":{"name":"a"},"spec":null}',
    "half a surrogate": b'{"metadata":{"name":"a","labels":{"x":"\\ud800"}}}',
    "name of dots": b'{"metadata":{"name":".."}}',
    "name with a slash": b'{"metadata":{"name":"a/b"}}',
    "owner is text": b'{"metadata":{"name":"a","ownerReferences":["x"]},"spec":{"template":{}}}',
}
TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_nonsense_is_refused_and_nothing_is_stored(tmp_path: Path, body: bytes) -> None:
    async def story(server: Server) -> None:
        for content_type in TYPES:
            answer = await server.send("POST", JOBS, body, content_type=content_type)
            assert 400 <= answer.code < 500, answer
        await server.json("POST", JOBS, job())
        before = server.store.revision
        for content_type in (
            MERGE,
            "application/json-patch+json",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ):
            answer = await server.send(
                "PATCH", f"{JOBS}/train?fieldManager=x", body, content_type=content_type
            )
            assert answer.code < 500
        answer = await server.send("PUT", f"{JOBS}/train", body)
        assert 400 <= answer.code < 500
        await server.send("DELETE", f"{JOBS}/nope", body)
        assert server.store.revision == before

    play(tmp_path, story)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "name",
                    "spec",
                    "status",
                    "template",
                    "containers",
                    "labels",
                    "$patch",
                    "finalizers",
                    "ownerReferences",
                    "managedFields",
                    "resourceVersion",
                    "conditions",
                    "resourceGroups",
                    "flavors",
                    "resources",
                    "nominalQuota",
                    "fieldsV1",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_PATCHES = (
    MERGE,
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Any]]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    async def begin() -> Server:
        server = Server(tmp_path_factory.mktemp("fuzz"))
        await server.app.start()
        await server.json("POST", JOBS, job())
        await server.json("POST", QUEUES, cluster_queue())
        return server

    server = loop.run_until_complete(begin())
    yield server, loop
    loop.run_until_complete(server.app.stop())
    server.store.close()
    loop.close()


@settings(
    max_examples=int(os.environ.get("MAKEWAY_FUZZ", samples(200))),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    document=_JSON,
    how=st.sampled_from(_PATCHES),
    query=st.sampled_from(["", "&force=true"]),
    where=st.sampled_from(
        [f"{JOBS}/train", f"{JOBS}/train/status", f"{QUEUES}/vision", f"{QUEUES}/vision/status"]
    ),
)
def test_no_document_makes_the_server_stumble(
    fuzzed: tuple[Server, Any], document: Any, how: str, query: str, where: str
) -> None:
    server, loop = fuzzed

    async def story() -> None:
        body = orjson.dumps(document) if _is_plain(document) else b"0"
        before = server.store.revision
        url = f"{where}?fieldManager=fuzz{query}&dryRun=All"
        collection = where.partition("/train")[0].partition("/vision")[0]
        for method, address in (
            ("PATCH", url),
            ("PUT", url),
            ("POST", f"{collection}?dryRun=All"),
        ):
            content = how if method == "PATCH" else "application/json"
            answer = await server.send(method, address, body, content_type=content)
            assert answer.code < 500, (method, document, answer.body)
        assert server.store.revision == before

    loop.run_until_complete(story())


def _is_plain(document: Any) -> bool:
    try:
        orjson.dumps(document)
    except TypeError:
        return False
    return True


@settings(max_examples=samples(200), deadline=None)
@given(
    path=st.text(max_size=40),
    query=st.dictionaries(
        st.sampled_from(
            [
                "watch",
                "limit",
                "continue",
                "labelSelector",
                "fieldSelector",
                "resourceVersion",
                "timeoutSeconds",
                "dryRun",
                "fieldValidation",
            ]
        ),
        st.text(max_size=12),
        max_size=3,
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]),
)
def test_no_path_makes_the_server_stumble(
    fuzzed: tuple[Server, Any], path: str, query: dict[str, str], method: str
) -> None:
    server, loop = fuzzed
    for where in (f"/{path}", f"/api/v1/{path}", f"{JOBS}/{path}", JOBS):
        if method == "DELETE" and where == JOBS:
            continue
        request = Request(
            method=method, path=where, query=query, headers={"authorization": f"Bearer {TOKEN}"}
        )
        answer = loop.run_until_complete(server.app.handle(request))
        assert answer.code < 500 or answer.code == 504, (where, query, answer.body)


# Over the wire


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(tmp_path_factory.mktemp("data")) as started:
        yield started


def _memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Raw:
    """A connection on which one can write anything."""

    def __init__(self, access: Access) -> None:
        host, _, port = access.address.removeprefix("https://").partition(":")
        self.host, self.port = host, int(port)
        self.tls = ssl.create_default_context(cadata=access.ca)
        self.token = access.token

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port, ssl=self.tls)

    def head(self, line: str, *more: str) -> bytes:
        lines = [line, "Host: x", f"Authorization: Bearer {self.token}", *more, "", ""]
        return "\r\n".join(lines).encode()

    async def ask(self, data: bytes) -> bytes:
        reader, writer = await self.open()
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(65536), 60)
        writer.close()
        return answer


async def _is_well(access: Access) -> None:
    client = Client(access.transport())
    jobs = await client.resource("batch/v1", "Job")
    began = time.monotonic()
    await client.list(jobs, "default")
    await client.close()
    assert time.monotonic() - began < 5


def test_broken_http_and_huge_bodies_are_refused(server: Up) -> None:
    async def story() -> None:
        access = read_kubeconfig(server.kubeconfig)
        raw = Raw(access)
        post = f"POST {JOBS} HTTP/1.1"
        assert b" 400 " in await raw.ask(b"hello\r\n\r\n")
        assert b" 400 " in await raw.ask(b"GET /api HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n")
        answer = await raw.ask(raw.head(post, "Content-Length: 4000000") + b"{")
        assert b" 413 " in answer
        assert b"Request entity too large: limit is 3145728" in answer
        chunks = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
        answer = await raw.ask(raw.head(post, "Transfer-Encoding: chunked") + chunks * 4)
        assert b" 413 " in answer
        await _is_well(access)

    asyncio.run(story())


def test_plain_http_and_wrong_tokens_get_nowhere(server: Up) -> None:
    async def story() -> None:
        access = read_kubeconfig(server.kubeconfig)
        raw = Raw(access)
        raw.token = "wrong"
        assert b" 401 " in await raw.ask(raw.head("GET /api/v1/pods HTTP/1.1"))
        reader, writer = await asyncio.open_connection(raw.host, raw.port)
        writer.write(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.wait_for(reader.read(100), 60) == b""
        writer.close()

    asyncio.run(story())


def test_slow_writers_and_watches_that_never_read_harm_nobody(server: Up) -> None:
    async def story() -> None:
        access = read_kubeconfig(server.kubeconfig)
        raw = Raw(access)
        open_ones = []
        for _ in range(20):  # bodies that never come
            _, writer = await raw.open()
            writer.write(raw.head(f"POST {JOBS} HTTP/1.1", "Content-Length: 1000") + b"{")
            open_ones.append(writer)
        for _ in range(10):
            _, writer = await raw.open()
            writer.write(raw.head(f"GET {QUEUES}?watch=1 HTTP/1.1"))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            open_ones.append(writer)
        await asyncio.sleep(0.3)
        before = _memory_bytes(server.pid)
        client = Client(access.transport())
        resource = await client.resource("kueue.x-k8s.io/v1beta2", "ClusterQueue")
        await client.create(resource, cluster_queue("busy"))
        note = "x" * 20_000
        for number in range(200):
            patch = {"metadata": {"annotations": {"note": f"{note}{number}"}}}
            await client.patch(resource, "busy", patch=patch)
        await client.close()
        # 200 x 20 kB in the log once; not ten times more for those who don't read.
        assert _memory_bytes(server.pid) - before < 60_000_000
        await _is_well(access)
        for writer in open_ones:
            writer.transport.abort()

    asyncio.run(story())


@pytest.mark.parametrize("count", [int(os.environ.get("MAKEWAY_WATCHES", "300"))])
def test_many_idle_watches(server: Up, count: int) -> None:
    async def story() -> None:
        access = read_kubeconfig(server.kubeconfig)
        raw = Raw(access)
        before = _memory_bytes(server.pid)

        async def watch() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await raw.open()
            writer.write(raw.head("GET /api/v1/nodes?watch=1 HTTP/1.1"))
            await reader.readuntil(b"\r\n\r\n")
            return reader, writer

        watching = []
        for _ in range(0, count, 50):
            watching += await asyncio.gather(*(watch() for _ in range(50)))
        await _is_well(access)
        assert _memory_bytes(server.pid) - before < 100_000 * count
        client = Client(access.transport())
        nodes = await client.resource("v1", "Node")
        await client.create(nodes, {"metadata": {"name": "n1"}})
        await client.close()
        for reader, writer in watching:
            assert b'"ADDED"' in await asyncio.wait_for(reader.read(4096), 60)
            writer.transport.abort()

    asyncio.run(story())


@pytest.mark.parametrize("name", ["../../../../escaped", "a/b", "..", "", "UPPER"])
def test_a_volume_whose_name_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    async def story(server: Server) -> None:
        made = job()
        made["spec"]["template"]["spec"]["volumes"] = [{"name": name, "emptyDir": {}}]
        answer = await server.json("POST", JOBS, made, code=422)
        assert "spec.template.spec.volumes[0].name" in answer["message"]

    play(tmp_path, story)


def test_a_number_in_yaml_that_json_has_no_room_for_is_the_clients_mistake(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        text = (
            b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\n"
            b"spec: {parallelism: 100000000000000000000000000}\n"
        )
        for method, url, content_type in (
            ("PATCH", f"{JOBS}/train?fieldManager=x", "application/apply-patch+yaml"),
            ("POST", JOBS, "application/yaml"),
        ):
            answer = await server.json(method, url, text, content_type=content_type, code=400)
            assert "64-bit" in answer["message"]

    play(tmp_path, story)


def test_without_memory_a_request_is_told_so_and_the_next_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError

    async def story(server: Server) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(server.app.verbs, "create", none_left)
            answer = await server.json("POST", JOBS, job(), code=503)
            assert answer["message"] == "the server has no memory left for this request"
        await server.json("POST", JOBS, job())

    play(tmp_path, story)
