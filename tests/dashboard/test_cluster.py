"""On a cluster: what a reader may not list is not there, and his machine lets only him in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from makeway.client import Client
from makeway.client.transport import Call, InProcessTransport
from makeway.dashboard.bearers import Bearers, WithToken
from makeway.dashboard.board import Fresh
from makeway.dashboard.feed import Batch
from makeway.dashboard.relay import Relay
from makeway.dashboard.sight import ClusterSight
from makeway.server.messages import Request, Response

SECRET = "good-token"


class Server:
    """An API server that knows one token, and lets its bearer list these."""

    def __init__(self, *may_list: str) -> None:
        self.may_list = {*may_list}
        self.reviews: list[str] = []  # what was asked for: a namespace, or a kind without one
        self.now = 0.0

    async def handle(self, call: Call) -> tuple[int, dict[str, str], bytes]:
        if call.headers.get("Authorization") != f"Bearer {SECRET}":
            return 401, {}, b'{"message": "Unauthorized"}'
        if call.path.endswith("selfsubjectreviews"):
            self.reviews.append("who")
            return 201, {}, orjson.dumps({"status": {"userInfo": {"username": "ada"}}})
        asked = json.loads(call.body)["spec"]["resourceAttributes"]
        scope = (
            asked["resource"] if asked["resource"] != "workloads" else asked.get("namespace", "")
        )
        self.reviews.append(scope)
        return 201, {}, orjson.dumps({"status": {"allowed": scope in self.may_list}})

    def sight(self) -> ClusterSight:
        transport = WithToken(InProcessTransport(self.handle), SECRET)
        return ClusterSight(Client(transport), lambda: self.now)


def row(table: str, namespace: str, key: str, **fields: Any) -> Fresh:
    return Fresh(table, key, namespace, orjson.dumps({"key": key, **fields}))


ROWS = [
    row("jobs", "team", "Job/team/mine"),
    row("jobs", "other", "Job/other/theirs"),
    Fresh("jobs", "Job/other/gone", "other", b""),
    row("queues", "", "q", localQueues=[{"namespace": "team"}, {"namespace": "other"}]),
    row("nodes", "", "n", pods=[{"pod": "other/p", "job": "Job/other/theirs", "asks": {"cpu": 1}}]),
]


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await story()

    asyncio.run(run())


async def told(batch: Batch, sight: ClusterSight | None) -> dict[str, list[Any]]:
    lines = b"".join(await batch.pieces(sight)).splitlines()
    return {m["table"]: m["items"] + m["gone"] for m in map(json.loads, lines)}


def test_rows_of_other_namespaces_are_not_even_told_to_be_gone() -> None:
    async def story() -> None:
        server = Server("team")
        assert await told(Batch(ROWS), server.sight()) == {"jobs": [{"key": "Job/team/mine"}]}

    play(story)


def test_of_queues_and_nodes_that_one_may_list_others_are_left_out() -> None:
    async def story() -> None:
        found = await told(Batch(ROWS), Server("team", "clusterqueues", "nodes").sight())

        assert found["queues"] == [{"key": "q", "localQueues": [{"namespace": "team"}]}]
        assert found["nodes"] == [
            {"key": "n", "pods": [{"pod": "", "job": "", "asks": {"cpu": 1}}]}
        ]

    play(story)


def test_a_namespace_is_asked_about_once_a_minute_however_many_pages_are_open() -> None:
    async def story() -> None:
        server = Server("team")
        sight = server.sight()
        for _ in range(100):
            await Batch(ROWS[:2]).pieces(sight)
        assert server.reviews == ["", "other", "team"]

        server.now += 61
        server.may_list |= {"other"}
        await asyncio.gather(*(sight.renew() for _ in range(100)))
        assert server.reviews[3:] == ["", "other", "team"]
        assert sight.version == 1  # open pages begin anew, and see more

    play(story)


def test_who_sees_everything_is_asked_about_no_namespace() -> None:
    async def story() -> None:
        server = Server("", "clusterqueues", "nodes")
        batch = Batch(ROWS)
        assert len((await told(batch, server.sight()))["jobs"]) == 3
        assert sorted(server.reviews) == ["", "clusterqueues", "nodes"]

    play(story)


def test_a_batch_is_written_once_for_all_who_see_the_same_of_it() -> None:
    async def story() -> None:
        batch = Batch(ROWS)
        first, second = Server("team"), Server("team")
        assert await batch.pieces(first.sight()) is await batch.pieces(second.sight())
        assert await batch.pieces(None) is not await batch.pieces(first.sight())

    play(story)


def test_references_to_what_one_may_not_see_lose_their_names() -> None:
    async def story() -> None:
        line = [
            "held by ",
            {"kind": "Workload", "key": "other/w"},
            " on ",
            {"kind": "Node", "key": "n"},
        ]
        own = [{"kind": "Workload", "key": "team/w"}, {"kind": "ClusterQueue", "key": "q"}]
        hidden, shown = await Server("team").sight().pieces([line, own])

        assert hidden == ["held by ", "another's workload", " on ", "another's node"]
        assert shown == own

    play(story)


class NoScheduler:
    def explain(self, namespace: str, name: str) -> dict[str, Any]:
        return {"pieces": []}

    def preview(self, document: Any) -> dict[str, Any]:
        return {}

    def difference(self, documents: Any) -> dict[str, Any]:
        return {}


def test_a_token_is_known_for_a_minute_and_a_bad_one_never() -> None:
    async def story() -> None:
        server = Server()
        bearers = Bearers(InProcessTransport(server.handle), NoScheduler(), lambda: server.now)
        good = {"authorization": f"Bearer {SECRET}"}
        assert await bearers.session({}) is None
        assert await bearers.session({"authorization": "Bearer bad"}) is None
        for _ in range(3):
            session = await bearers.session(good)
            assert session is not None
            assert session.reader.name == "ada"
        assert server.reviews == ["who"]
        server.now += 61
        await bearers.session(good)
        assert server.reviews == ["who", "who"]

    play(story)


def test_a_relay_hands_on_what_its_own_pages_ask_and_nothing_else() -> None:
    calls: list[Call] = []

    async def controller(call: Call) -> tuple[int, dict[str, str], bytes]:
        calls.append(call)
        return 200, {"content-type": "application/json", "set-cookie": "no"}, b'{"told": 1}'

    async def story() -> None:
        relay = Relay(InProcessTransport(controller), lambda: "", lambda: 0.0)

        async def ask(method: str, path: str, **headers: str) -> Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            asked = {"host": "127.0.0.1:9000", **named}
            return await relay.handle(
                Request(method=method, path=path, query={}, headers=asked, body=b"")
            )

        for path in ("/api/job", "//api/job", "/%61pi/job", "/api//job"):
            assert (await ask("GET", path)).code == 401
        assert (await ask("GET", "/x/../api/job")).code == 404
        assert (await ask("GET", "/", host="evil.example")).code == 421
        assert calls == []

        code = relay.code()
        signed_in = await ask("POST", "/api/session", makeway_code=code)
        assert (await ask("POST", "/api/session", makeway_code=code)).code == 401
        assert isinstance(signed_in.body, bytes)
        session = json.loads(signed_in.body)["session"]
        foreign = "http://127.0.0.1:8000"
        answer = await ask("POST", "/api/action", makeway_session=session, origin=foreign)
        assert (answer.code, calls) == (403, [])

        answer = await ask("GET", "/api/job", makeway_session=session, cookie="x")
        assert (answer.code, answer.body) == (200, b'{"told": 1}')
        assert "set-cookie" not in {name.lower() for name, _ in answer.headers}
        assert [(call.path, dict(call.headers)) for call in calls] == [("/api/job", {})]

    play(story)
