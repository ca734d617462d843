"""On a cluster: what a reader may not list is not there, and his machine lets only him in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from makeway.api.kinds import WORKLOADS
from makeway.client import ApiError, Client
from makeway.client.transport import Call, InProcessTransport
from makeway.dashboard.bearers import Bearers, WithToken
from makeway.dashboard.board import Board, Fresh
from makeway.dashboard.feed import Batch, Feed
from makeway.dashboard.figures import Seen
from makeway.dashboard.past import Past
from makeway.dashboard.relay import Relay
from makeway.dashboard.scheduler import AskedTransport
from makeway.dashboard.sight import ClusterSight
from makeway.dashboard.signing_in import Reader
from makeway.dashboard.site import Site
from makeway.dashboard.turns import TooMany, Turns
from makeway.engine.events import NamespaceChanged
from makeway.journal.over_time import Parts, parts_of
from makeway.plane.picture import Picture
from makeway.server.messages import Request, Response
from tests.harness.engine import ANY, queue
from tests.journal.stories import RecordedScenario

SECRET = "good-token"
NOW, HOUR_S = 1_700_000_000.0, 3600.0


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


def test_namespaces_of_the_past_are_asked_about_when_somebody_looks_and_not_kept_up() -> None:
    async def story() -> None:
        server = Server("team", "old-1")
        sight = server.sight()
        await sight.learn(["team"])
        of_a_month = ["team", *(f"old-{n}" for n in range(3))]
        for _ in range(2):
            assert await sight.seen_of(of_a_month) == {"team", "old-1"}
        assert server.reviews == ["", "team", "old-0", "old-1", "old-2"]

        server.now += 61
        server.reviews.clear()
        server.may_list |= {"old-2"}
        await sight.renew()
        assert server.reviews == ["", "team"]
        assert sight.version == 0  # pages of now have nothing new
        assert await sight.seen_of(of_a_month) == {"team", "old-1", "old-2"}

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


def test_what_went_and_came_back_at_once_is_there() -> None:
    async def story() -> None:
        whole = row("jobs", "team", "Job/team/mine", status="pending")
        gone, changed = whole._replace(body=b""), whole._replace(change=b'{"key":"Job/team/mine"}')

        assert (await told(Batch([gone, whole, changed]), None))["jobs"] == [
            {"key": "Job/team/mine", "status": "pending"},
            {"key": "Job/team/mine"},
        ]
        assert (await told(Batch([whole, changed, gone]), None))["jobs"] == ["Job/team/mine"]

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


class FakeScheduler:
    def explain(self, namespace: str, name: str) -> dict[str, Any]:
        return {"pieces": []}

    def forecast(self, namespace: str, name: str) -> dict[str, Any]:
        start = {"p50": None}
        return {
            "verdict": "Expected",
            "isCurrent": True,
            "start": start,
            "message": "after x/secret",
        }

    def preview(self, document: Any) -> dict[str, Any]:
        return {}

    def difference(self, documents: Any) -> dict[str, Any]:
        return {}


def test_a_token_is_known_for_a_minute_and_a_bad_one_never() -> None:
    async def story() -> None:
        server = Server()
        bearers = Bearers(InProcessTransport(server.handle), FakeScheduler(), lambda: server.now)
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


def test_who_signs_out_with_a_token_ends_nobodys_pages() -> None:
    """There is no session to end, and others may have a token of the same name."""

    async def story() -> None:
        server = InProcessTransport(Server("").handle)
        bearers = Bearers(server, FakeScheduler(), lambda: NOW)
        site = Site(b"k" * 32, lambda: NOW, bearers.client, bearers=bearers)
        site.follow(Feed(Board(Picture(), lambda: NOW), lambda: NOW))
        shown = {"host": "127.0.0.1", "authorization": f"Bearer {SECRET}"}

        async def ask(method: str, path: str) -> Response:
            return await site.handle(
                Request(method=method, path=path, query={}, headers=shown, body=b"")
            )

        assert (await ask("DELETE", "/api/session")).code == 404
        page = (await ask("GET", "/api/stream")).body
        assert not isinstance(page, bytes)
        assert b"hello" in await anext(page)

    play(story)


def test_who_may_read_a_workload_is_told_when_and_not_after_whom() -> None:
    async def handle(call: Call) -> tuple[int, dict[str, str], bytes]:
        is_own = "/namespaces/team/" in call.path
        return (200 if is_own else 403), {}, b'{"metadata": {}, "message": "not yours"}'

    async def story() -> None:
        transport = AskedTransport(
            InProcessTransport(handle), Server("team").sight(), FakeScheduler()
        )
        client = Client(transport)

        told = await client.get(WORKLOADS, "mine", "team", subresource="forecast")
        assert told == {"verdict": "Expected", "isCurrent": True, "start": {"p50": None}}
        with pytest.raises(ApiError, match="not yours"):
            await client.get(WORKLOADS, "theirs", "other", subresource="forecast")

    play(story)


def test_history_is_of_the_namespaces_that_one_may_look_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """team's train borrows for an hour, then other's eval takes its own back."""
    lab = RecordedScenario(
        tmp_path, queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab", now=NOW
    )
    for namespace in ("team", "other"):
        lab.apply(NamespaceChanged(namespace, {}))
    lab.pending("train", on="speech", gpu=12, namespace="team")
    lab.cycle()
    lab.later(HOUR_S).pending("eval", on="vision", gpu=8, namespace="other")
    lab.cycle()
    lab.later(60.0)
    lab.journal().close()

    def asking(*may_list: str) -> Callable[..., Awaitable[Any]]:
        server = InProcessTransport(Server(*may_list).handle)
        bearers = Bearers(server, FakeScheduler(), lambda: lab.now)
        past = Past(lab.path, lambda: lab.now)
        site = Site(b"k" * 32, lambda: lab.now, bearers.client, past, bearers=bearers)
        shown = {"host": "127.0.0.1", "authorization": f"Bearer {SECRET}"}

        async def ask(path: str, **query: str) -> Any:
            asked = Request(method="GET", path=path, query=query, headers=shown, body=b"")
            answer = (await site.handle(asked)).body
            assert isinstance(answer, bytes)
            return json.loads(answer)

        return ask

    async def story() -> None:
        ask = asking("")
        told = await ask("/api/history", span="86400")
        assert [account["user"] for account in told["accounts"]] == ["other", "team"]
        assert sum(told["waiting"]["vision"]) > 0

        ask = asking("team")
        told = await ask("/api/history", span="86400")
        assert [account["user"] for account in told["accounts"]] == ["team"]
        assert sum(told["waiting"].get("vision", ())) == 0
        assert told["preemptions"] == [{"preemptor": "vision", "victim": "speech", "jobs": 1}]
        span = {name: f"{told[name]:.3f}" for name in ("since", "until")}
        jobs = (await ask("/api/history/jobs", **span))["jobs"]
        assert [(job["name"], job["used"]) for job in jobs] == [
            ("train", {"gpu": 12 * (HOUR_S + 60)})
        ]
        (taken,) = (await ask("/api/history/preemptions", **span))["preemptions"]
        assert (taken["victim"]["name"], taken["preemptor"]["name"]) == ("train", "another's")
        assert "is no moment" in (await ask("/api/history/jobs", since="x"))["message"]
        for part_s in (0.2, 0.4):  # of a second
            later = {name: f"{told[name] + part_s:.3f}" for name in ("since", "until")}
            assert (await ask("/api/history/jobs", **later))["jobs"] == jobs
        assert len(readings) == 1

    def noted(*asked: Any) -> Parts:
        readings.append(asked)
        return parts_of(*asked)

    readings: list[tuple[Any, ...]] = []
    monkeypatch.setattr("makeway.dashboard.past.parts_of", noted)
    play(story)


def test_figures_of_the_past_are_written_once_for_all_who_see_the_same(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("vision", gpu=8), cohort="lab", now=NOW)
    lab.pending("train", on="vision", gpu=8)
    lab.cycle()
    lab.journal().close()

    async def story() -> None:
        past = Past(lab.path, lambda: NOW + 60.5)

        async def written(*namespaces: str) -> bytes:
            return await past.document(await past.course(HOUR_S), Seen(frozenset(namespaces)))

        first = await written("default", "team")
        assert json.loads(first)["until"] == NOW + 60  # moments are whole seconds
        assert await written("team", "default") is first
        assert json.loads(await written("team"))["accounts"] == []

    play(story)


def test_questions_of_one_reader_wait_for_each_other_and_not_for_others() -> None:
    ada, bob = Reader("ada"), Reader("bob")

    async def story() -> None:
        turns, told, may_end = Turns(), list[str](), asyncio.Event()

        async def ask(reader: Reader) -> None:
            async with turns.turn(reader):
                told.append(reader.name)
                await may_end.wait()

        asked = [asyncio.ensure_future(ask(who)) for who in (ada, ada, bob)]
        await asyncio.sleep(0)
        assert told == ["ada", "bob"]
        asked += [asyncio.ensure_future(ask(ada)) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="8 questions of yours"):
            await ask(ada)
        may_end.set()
        await asyncio.gather(*asked)
        assert (told.count("ada"), told.count("bob")) == (8, 1)

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
