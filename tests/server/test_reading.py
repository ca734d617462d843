"""Get, list, tables, watch and discovery."""

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from makeway.server.tables import human_duration
from tests.harness.documents import cluster_queue, job, pod
from tests.server.harness import JOBS, MERGE, PODS, QUEUES, START, Document, Server, collect, play

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
NAMESPACES = "/api/v1/namespaces"


async def _jobs(server: Server, *names: str) -> None:
    for name in names:
        wanted = job(name)
        wanted["metadata"]["labels"] = {"app": name, "tier": "gpu" if name < "c" else "cpu"}
        await server.json("POST", JOBS, wanted)


def _names(listing: Document) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


def test_lists_carry_the_revision_and_whole_objects(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a", "b")
        found = await server.json("GET", JOBS)
        assert found["kind"] == "JobList"
        assert found["apiVersion"] == "batch/v1"
        assert found["metadata"] == {"resourceVersion": str(server.store.revision)}
        assert found["items"][0] == await server.json("GET", f"{JOBS}/a")

    play(tmp_path, story)


SELECTORS = {
    "labelSelector=app=a": "a",
    "labelSelector=app==a": "a",
    "labelSelector=app!=a": "bcd",
    "labelSelector=app in (a, c)": "ac",
    "labelSelector=app notin (a,c)": "bd",
    "labelSelector=tier=gpu,app=b": "b",
    "labelSelector=app": "abcd",
    "labelSelector=!app": "",
    "fieldSelector=metadata.name=c": "c",
    "fieldSelector=metadata.name!=c": "abd",
    "fieldSelector=metadata.namespace=default": "abcd",
    "fieldSelector=metadata.namespace=other": "",
}


@pytest.mark.parametrize(("query", "expected"), SELECTORS.items(), ids=SELECTORS)
def test_selectors(tmp_path: Path, query: str, expected: str) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, *"abcd")
        assert "".join(_names(await server.json("GET", f"{JOBS}?{query}"))) == expected
        everywhere = f"/apis/batch/v1/jobs?{query}"
        assert "".join(_names(await server.json("GET", everywhere))) == expected

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("labelSelector=a b", "is not a selector"),
        ("labelSelector=((", "is not a selector"),
        ("fieldSelector=spec.x=1", "field label not supported: spec.x"),
        ("fieldSelector=nonsense", "can't understand"),
        ("limit=-1", "is not a whole number"),
        ("continue=xyz", "continue key is not valid"),
        ("watch=perhaps", "is not a boolean"),
    ],
)
def test_bad_questions_get_a_word(tmp_path: Path, query: str, words: str) -> None:
    async def story(server: Server) -> None:
        answer = await server.json("GET", f"{JOBS}?{query}", code=400)
        assert words in answer["message"]

    play(tmp_path, story)


def test_a_missing_field_matches_an_empty_value(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        event: Document = {"metadata": {"name": "e"}, "involvedObject": {"name": "x"}}
        await server.json("POST", "/api/v1/namespaces/default/events", event)
        query = "fieldSelector=involvedObject.namespace=,involvedObject.name=x"
        assert _names(await server.json("GET", f"/api/v1/events?{query}")) == ["e"]

    play(tmp_path, story)


def test_pages_together_are_the_list(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, *"abcde")
        names, token, revisions = list[str](), "", set[str]()
        for expected_rest in (3, 1, None):
            page = await server.json("GET", f"{JOBS}?limit=2&continue={token}")
            names += _names(page)
            token = page["metadata"].get("continue", "")
            assert page["metadata"].get("remainingItemCount") == expected_rest
            revisions.add(page["metadata"]["resourceVersion"])
            await server.json("PATCH", f"{JOBS}/a", _label("x", names[-1]), content_type=MERGE)
        assert names == list("abcde")
        assert not token
        assert len(revisions) == 1

    play(tmp_path, story)


def _label(key: str, value: str) -> Document:
    return {"metadata": {"labels": {key: value}}}


def test_a_long_list_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, *"abcde")
        whole = await server.json("GET", JOBS)
        monkeypatch.setattr("makeway.server.reads.STREAM_FROM", 1)
        monkeypatch.setattr("makeway.server.reads.YIELD_EVERY", 2)
        response = await server.send("GET", JOBS)
        pieces: Any = response.body
        assert orjson.loads(b"".join([piece async for piece in pieces])) == whole

    play(tmp_path, story)


def test_an_old_page_token_is_gone(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, *"abc")
        token = (await server.json("GET", f"{JOBS}?limit=1"))["metadata"]["continue"]
        for number in range(600):
            await server.json("PATCH", f"{JOBS}/a", _label("x", str(number)), content_type=MERGE)
        answer = await server.json("GET", f"{JOBS}?limit=1&continue={token}", code=410)
        assert answer["reason"] == "Expired"

    play(tmp_path, story, events_kept=5)


def test_a_revision_of_the_future_is_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        answer = await server.json("GET", f"{JOBS}?resourceVersion=99999999", code=504)
        assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    play(tmp_path, story)


def test_a_table_has_kueues_columns(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", QUEUES, cluster_queue(cohortName="lab"))
        shown = await server.json("GET", QUEUES, accept=TABLE)
        assert shown["kind"] == "Table"
        assert [c["name"] for c in shown["columnDefinitions"] if not c["priority"]] == [
            "Name",
            "Cohort",
            "Pending Workloads",
        ]
        assert shown["rows"][0]["cells"][:2] == ["vision", "lab"]
        assert shown["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        one = await server.json("GET", f"{QUEUES}/vision", accept=TABLE)
        assert one["rows"][0]["cells"] == shown["rows"][0]["cells"]

    play(tmp_path, story)


def test_pods_and_jobs_are_shown_as_kubectl_users_know_them(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", PODS, pod())
        await server.json("POST", JOBS, job())
        server.now = START + 200
        pods = await server.json("GET", PODS, accept=TABLE)
        assert pods["rows"][0]["cells"][:5] == ["p", "0/1", "Pending", "0", "3m20s"]
        jobs = await server.json("GET", JOBS, accept=TABLE)
        assert jobs["rows"][0]["cells"][:5] == ["train", "Running", "0/1", "", "3m20s"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (312, "5m12s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (52 * 3600, "2d4h"),
        (10 * 86400, "10d"),
        (3 * 365 * 86400, "3y"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


# Watch


def _seen(events: list[Document]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def test_a_watch_without_revision_begins_with_what_is_there(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a")
        watch = asyncio.create_task(collect(await server.send("GET", f"{JOBS}?watch=true"), 3))
        await asyncio.sleep(0)
        await server.json("PATCH", f"{JOBS}/a", _label("x", "1"), content_type=MERGE)
        await server.json("DELETE", f"{JOBS}/a?propagationPolicy=Background")
        assert _seen(await watch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    play(tmp_path, story)


def test_a_watch_from_a_revision_replays_what_came_after(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a", "b")
        revision = server.store.revision
        await server.json("DELETE", f"{JOBS}/a?propagationPolicy=Background")
        await _jobs(server, "c")
        url = f"{JOBS}?watch=True&resourceVersion={revision}"
        events = await collect(await server.send("GET", url), 2)
        assert _seen(events) == [("DELETED", "a"), ("ADDED", "c")]
        deleted = int(events[0]["object"]["metadata"]["resourceVersion"])
        assert deleted == revision + 1

    play(tmp_path, story)


def test_a_selecting_watch_sees_objects_come_and_go(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a")
        revision = server.store.revision
        for value in ("yes", "yes2", "no"):
            patch = _label("x", "no" if value == "no" else "yes")
            patch["metadata"]["labels"]["y"] = value
            await server.json("PATCH", f"{JOBS}/a", patch, content_type=MERGE)
        url = f"{JOBS}?watch=1&resourceVersion={revision}&labelSelector=x%3Dyes"
        events = await collect(await server.send("GET", url), 3)
        assert _seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    play(tmp_path, story)


def test_watches_keep_to_their_namespace(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        revision = server.store.revision
        await server.json("POST", NAMESPACES, {"metadata": {"name": "team"}})
        await server.json("POST", "/apis/batch/v1/namespaces/team/jobs", job("there"))
        await server.json("POST", JOBS, job("here"))
        url = f"{JOBS}?watch=1&resourceVersion={revision}"
        assert _seen(await collect(await server.send("GET", url), 1)) == [("ADDED", "here")]

    play(tmp_path, story)


def test_a_watch_from_too_long_ago_says_gone_and_ends(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a")
        revision = server.store.revision
        for number in range(600):
            patch = _label("x", str(number))
            await server.json("PATCH", f"{JOBS}/a", patch, content_type=MERGE)
        url = f"{JOBS}?watch=1&resourceVersion={revision}"
        events = await collect(await server.send("GET", url), 99)
        assert [event["type"] for event in events] == ["ERROR"]
        assert events[0]["object"]["code"] == 410
        assert events[0]["object"]["reason"] == "Expired"

    play(tmp_path, story, events_kept=5)


def test_initial_events_end_with_a_bookmark(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await _jobs(server, "a", "b")
        query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
        url = f"{JOBS}?{query}&resourceVersionMatch=NotOlderThan"
        events = await collect(await server.send("GET", url), 3)
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
        metadata = events[2]["object"]["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert metadata["resourceVersion"] == str(server.store.revision)

    play(tmp_path, story)


def test_a_watch_that_lags_too_far_behind_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("makeway.server.watches.QUEUE_MAX", 5)

    async def story(server: Server) -> None:
        await _jobs(server, "a")
        response = await server.send("GET", f"{JOBS}?watch=1")
        pieces: Any = response.body
        await anext(pieces)  # subscribed
        for number in range(10):
            patch = _label("x", str(number))
            await server.json("PATCH", f"{JOBS}/a", patch, content_type=MERGE)
        rest = [piece async for piece in pieces]
        assert b"".join(rest).count(b"\n") <= 6  # what was there at first; then it ended

    play(tmp_path, story)


def test_watches_end_when_the_server_stops(tmp_path: Path) -> None:
    watching: list[asyncio.Task[list[Document]]] = []

    async def story(server: Server) -> None:
        response = await server.send("GET", f"{JOBS}?watch=1")
        watching.append(asyncio.create_task(collect(response, 1)))
        await asyncio.sleep(0.01)
        server.app.reads.end_watches()
        assert await watching[0] == []

    play(tmp_path, story)


# Discovery


def test_discovery_in_both_forms_names_the_same_kinds(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        response = await server.send("GET", "/apis", accept=accept)
        assert response.content_type == accept
        aggregated = await server.json("GET", "/apis", accept=accept)
        legacy = await server.json("GET", "/apis")
        new = {
            (group["metadata"]["name"], version["version"], resource["resource"])
            for group in aggregated["items"]
            for version in group["versions"]
            for resource in version["resources"]
        }
        old = set()
        for group in legacy["groups"]:
            for version in group["versions"]:
                url = f"/apis/{version['groupVersion']}"
                for resource in (await server.json("GET", url))["resources"]:
                    if "/" not in resource["name"]:
                        old.add((group["name"], version["version"], resource["name"]))
        assert new == old
        assert ("kueue.x-k8s.io", "v1beta1", "workloads") in new

    play(tmp_path, story)


def test_every_kind_has_a_schema_with_its_name(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        index = await server.json("GET", "/openapi/v3")
        for path, entry in index["paths"].items():
            document = await server.json("GET", entry["serverRelativeURL"])
            kinds = {
                kind["kind"]
                for schema in document["components"]["schemas"].values()
                for kind in schema.get("x-kubernetes-group-version-kind", ())
            }
            for url, methods in document["paths"].items():
                assert url.startswith(f"/{path}/")
                for operation in (methods[verb] for verb in methods if verb != "parameters"):
                    assert operation["x-kubernetes-group-version-kind"]["kind"] in kinds
        response = await server.send("GET", "/openapi/v2")
        assert (response.code, response.body) == (200, b"")

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("method", "url", "code"),
    [
        ("GET", "/version/", 200),
        ("GET", "/healthz", 200),
        ("GET", "/nope", 404),
        ("GET", "/api/v2", 404),
        ("GET", "/apis/batch/v2/jobs", 404),
        ("GET", "/apis/batch/v1/nopes", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("GET", "/apis/batch/v1/namespaces/default/jobs/a/nope", 404),
        ("GET", "/api/v1/namespaces/../../etc/passwd", 404),
        ("GET", "/api/v1/namespaces/%2e%2e/pods", 404),
        ("GET", "/api/v1/namespaces/default/pods/a%2Fb", 404),
        ("GET", "/api/v1/namespaces/default/pods/%00", 404),
    ],
)
def test_paths(tmp_path: Path, method: str, url: str, code: int) -> None:
    async def story(server: Server) -> None:
        response = await server.send(method, url, {} if method != "GET" else None)
        assert response.code == code

    play(tmp_path, story)


@pytest.mark.parametrize("token", ["", "wrong", "secret2", "secre", "sécret"])
def test_without_the_token_nothing_is_shown(tmp_path: Path, token: str) -> None:
    async def story(server: Server) -> None:
        for url in (JOBS, "/api", "/openapi/v3", "/nope"):
            answer = await server.json("GET", url, token=token, code=401)
            assert answer["reason"] == "Unauthorized"

    play(tmp_path, story)


def test_an_exact_list_is_of_that_revision_or_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        async def exact(revision: int, code: int) -> Any:
            url = f"{JOBS}?resourceVersionMatch=Exact&resourceVersion={revision}"
            return await server.json("GET", url, code=code)

        await server.json("POST", JOBS, job("one"))
        then = server.store.revision
        await server.json("POST", QUEUES, cluster_queue("q"))
        assert (await exact(then, 200))["metadata"]["resourceVersion"] == str(then)
        await server.json("POST", JOBS, job("two"))
        assert (await exact(then, 410))["reason"] == "Expired"
        await exact(1, 410)
        await exact(0, 422)
        assert len((await exact(server.store.revision, 200))["items"]) == 2

    play(tmp_path, story)


def test_openapi_declares_what_stands_in_the_paths(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for index in (await server.json("GET", "/openapi/v3"))["paths"]:
            document = await server.json("GET", f"/openapi/v3/{index}")
            for path, item in document["paths"].items():
                declared = {one["name"] for one in item.get("parameters", ())}
                assert declared == set(re.findall(r"{(\w+)}", path)), path

    play(tmp_path, story)
