"""One request hurts nobody else: a hostile client beside a heartbeat that must not miss.

The heart beats on the event loop that serves; its gaps are counted in the CPU time of that thread,
so a busy machine is not held against anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson
import pytest

from makeway.api import kinds
from makeway.api.manifests import write_yaml
from makeway.embedded.inside import client_in_process
from makeway.embedded.serving import serve
from makeway.embedded.settings import Settings
from makeway.server import worker
from makeway.server.messages import Request, Response
from tests.harness.documents import container, job, template
from tests.prerequisites import SLOWNESS
from tests.server.harness import APPLY, JOBS, JSON, MERGE, Server, play

GAP_MAX_S = 0.1 * SLOWNESS
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"


def variables(count: int, value: str = "x") -> list[dict[str, str]]:
    return [{"name": f"V{number}", "value": value} for number in range(count)]


def short_job(name: str, **metadata: Any) -> dict[str, Any]:
    """One that succeeds: one that fails would be tried again and again."""
    made = container(command=["true"])
    return job(name, metadata, suspend=True, template=template(containers=[made]))


def large_job(name: str, count: int) -> dict[str, Any]:
    made = short_job(name)
    made["spec"]["template"]["spec"]["containers"][0]["env"] = variables(count)
    return made


def yaml_job(name: str, count: int) -> bytes:
    return write_yaml(large_job(name, count)).encode()


def alias_bomb() -> bytes:
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for letter in b"bcdefg":
        before = b"*%c" % (letter - 1)
        lines.append(b"%c: &%c [%s]" % (letter, letter, b", ".join([before] * 10)))
    return b"\n".join(lines)


class Attack(NamedTuple):
    code: int
    method: str
    url: str
    body: Any
    content_type: str = JSON


def pod_with(count: int) -> dict[str, Any]:
    container = {"name": "a", "image": "x", "command": ["true"], "env": variables(count)}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def copies() -> list[dict[str, Any]]:
    first = {"op": "add", "path": "/a", "value": {"a": [1] * 10}}
    return [first, *({"op": "copy", "from": "/a", "path": f"/a/a{n}"} for n in range(40))]


def insertions() -> list[dict[str, Any]]:
    first = {"op": "add", "path": "/x", "value": [1] * 40_000}
    return [first, *[{"op": "add", "path": "/x/0", "value": 1}] * 2_000]


SMALL = f"{JOBS}/train"
# Within the limits these are carried out, beyond them refused; neither may hold up the heart.
ATTACKS: dict[str, Callable[[], Attack]] = {
    "a large Job": lambda: Attack(201, "POST", JOBS, large_job("large", 4_900)),
    "a strategic merge": lambda: Attack(
        200, "PATCH", SMALL, {"metadata": {"finalizers": holds(4_900)}}, STRATEGIC
    ),
    "an apply": lambda: Attack(
        201, "PATCH", f"{JOBS}/ap?fieldManager=x", large_job("ap", 4_900), APPLY
    ),
    "an apply in YAML": lambda: Attack(
        201, "PATCH", f"{JOBS}/ay?fieldManager=x", yaml_job("ay", 4_900), APPLY
    ),
    "a large pod": lambda: Attack(201, "POST", "/api/v1/namespaces/default/pods", pod_with(4_900)),
    "aliases": lambda: Attack(400, "PATCH", f"{SMALL}?fieldManager=x", alias_bomb(), APPLY),
    "copies": lambda: Attack(413, "PATCH", SMALL, copies(), JSON_PATCH),
    "insertions": lambda: Attack(413, "PATCH", SMALL, insertions(), JSON_PATCH),
    "a huge annotation": lambda: Attack(
        422, "PATCH", SMALL, {"metadata": {"annotations": {"k": "x" * 2_800_000}}}, MERGE
    ),
    "many labels": lambda: Attack(
        413, "PATCH", SMALL, {"metadata": {"labels": {f"l{n}": "v" for n in range(60_000)}}}, MERGE
    ),
    "many unknown fields": lambda: Attack(
        413, "POST", JOBS, {**job("u"), **{f"u{n}": n for n in range(150_000)}}
    ),
    "a large object": lambda: Attack(
        413, "POST", JOBS, large_job("fat", 4_000) | _fat(4_000, "x" * 400)
    ),
    "a selector of spaces": lambda: Attack(
        400, "GET", f"{JOBS}?labelSelector={'+' * 100_000}%01", None
    ),
    "a selector of much": lambda: Attack(
        400, "GET", f"{JOBS}?labelSelector={'a,' * 50_000}a", None
    ),
    "a selector of fields": lambda: Attack(
        400, "GET", f"{JOBS}?fieldSelector={'metadata.name=a,' * 6_000}", None
    ),
    "a selector of values": lambda: Attack(
        200, "GET", f"{JOBS}?labelSelector=a+in+({'b,' * 9_000}b)", None
    ),
    "depth": lambda: Attack(400, "POST", JOBS, b'{"a":' * 3_000 + b"1" + b"}" * 3_000),
}


def holds(count: int) -> list[str]:
    return [f"example.com/hold-{number}" for number in range(count)]


def _fat(count: int, value: str) -> dict[str, Any]:
    made = large_job("fat", 0)
    made["spec"]["template"]["spec"]["containers"][0]["env"] = variables(count, value)
    return {"spec": made["spec"]}


class Heart:
    """Beats on the event loop; knows the longest time that this thread worked between two beats."""

    def __init__(self) -> None:
        self.gap_s = 0.0

    async def beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.002)
            self.gap_s = max(self.gap_s, time.thread_time() - before)


def test_no_single_request_keeps_the_event_loop_for_a_tenth_of_a_second(tmp_path: Path) -> None:
    gaps: dict[str, float] = {}

    async def story() -> None:
        async with serve(tmp_path / "data", Settings(port=0)) as running:
            token = (tmp_path / "data" / "pki" / "token").read_text().strip()
            train = short_job("train", namespace="default")
            await client_in_process(running.app).create(kinds.JOBS, train)
            for name, made in ATTACKS.items():
                attack = made()
                heart = Heart()
                beating = asyncio.create_task(heart.beat())
                answer = await sent(running.app.handle, attack, token)
                await asyncio.sleep(0.1)  # who watches takes it in
                beating.cancel()
                assert answer.code == attack.code, (name, answer.body)
                gaps[name] = round(heart.gap_s, 3)

    asyncio.run(story())
    assert max(gaps.values()) < GAP_MAX_S, gaps


async def sent(handle: Callable[[Request], Any], attack: Attack, token: str) -> Response:
    path, _, query = attack.url.partition("?")
    body = attack.body if isinstance(attack.body, bytes) else orjson.dumps(attack.body)
    headers = {"content-type": attack.content_type, "authorization": f"Bearer {token}"}
    asked = dict(parse_qsl(query))
    request = Request(method=attack.method, path=path, query=asked, headers=headers, body=body)
    answer: Response = await handle(request)
    return answer


def test_a_request_that_takes_too_long_is_told_so_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BUDGET_S", 0.001)

    async def story(server: Server) -> None:
        answer = await server.json("POST", JOBS, large_job("slow", 4_900), code=504)
        assert "nothing of it is written" in answer["message"]
        await asyncio.sleep(0.3)
        await server.json("GET", f"{JOBS}/slow", code=404)

    play(tmp_path, story)


def test_a_large_write_and_small_ones_of_others_all_come_to_pass(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, large_job("both", 3_000))
        patches = [{"metadata": {"labels": {f"l{n}": "x" * n}}} for n in range(8)]
        big = {"metadata": {"annotations": {"k": "x" * 20_000}}}
        writes = [
            server.json("PATCH", f"{JOBS}/both", patch, content_type=MERGE)
            for patch in (*patches, big, *patches)
        ]
        await asyncio.gather(*writes)
        found = (await server.json("GET", f"{JOBS}/both"))["metadata"]
        assert set(found["labels"]) >= {f"l{n}" for n in range(8)}
        assert len(found["annotations"]["k"]) == 20_000

    play(tmp_path, story)
