"""Two people on one machine: each sees of the other that he waits, and can't touch his jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import JOBS, LOCAL_QUEUES, NODES, PODS, QUEUES, WORKLOADS, Resource
from makeway.api.labels import (
    CANCELLED_BY,
    GROUP_NAME,
    HELD_BY,
    IS_GROUP,
    MANAGED,
    QUEUE_NAME,
)
from makeway.client import Client
from makeway.dashboard.board import Board, Fresh
from makeway.dashboard.feed import Feed
from makeway.dashboard.past import Past
from makeway.dashboard.sight import Sight, for_others
from makeway.dashboard.signing_in import Reader
from makeway.dashboard.site import Site
from makeway.embedded.inside import client_in_process
from makeway.engine.events import NamespaceChanged
from makeway.plane.picture import Picture
from makeway.server.messages import Request, Response
from makeway.server.people import Entry
from tests.harness import documents
from tests.harness.documents import condition
from tests.harness.engine import queue
from tests.harness.people import ADA, BOB, GRACE, Document, Lab, entry, play
from tests.journal.stories import RecordedScenario

NOW = 1_700_000_000.0


def site_of(lab: Lab, *, shows_names: bool = True, past: Past | None = None) -> Site:
    """Pages of ada's and bob's pods, each a group that waits, on one node."""
    picture = Picture()
    board = Board(picture, lambda: NOW)

    def take(resource: Resource, document: Document, **metadata: Any) -> None:
        own = {"uid": str(len(board.rows())), "resourceVersion": str(board.backlog + 1)}
        document = {**document, "metadata": {**document["metadata"], **own, **metadata}}
        change = picture.take(resource, document)
        assert change is not None
        board.changed(change)

    take(NODES, documents.node("box"))
    take(QUEUES, documents.cluster_queue("all"))
    for who in ("ada", "bob"):
        waits = condition("QuotaReserved", "False", message=f"secret of {who}")
        workload = {**documents.workload(f"of-{who}"), "status": {"conditions": [waits]}}
        take(WORKLOADS, workload, namespace=who, annotations={IS_GROUP: "true"})
        labels = {MANAGED: "true", GROUP_NAME: f"of-{who}"}
        take(PODS, documents.pod(f"pod-of-{who}", nodeName="box"), namespace=who, labels=labels)
        take(LOCAL_QUEUES, documents.local_queue(f"door-of-{who}", "all", namespace=who))

    def client_of(reader: Reader) -> Client:
        return client_in_process(lab.app, uid=reader.uid, account=reader.name)

    site = Site(b"k" * 32, lambda: NOW, client_of, past, shows_names=shows_names)
    site.follow(Feed(board, lambda: NOW))
    lab.app.dashboard = site
    return site


async def ask(
    site: Site,
    method: str,
    path: str,
    body: Any = None,
    query: Mapping[str, str] | None = None,
    **headers: str,
) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await site.handle(
        Request(
            method=method,
            path=path,
            query=query or {},
            headers={"host": "127.0.0.1", **named},
            body=json.dumps(body or {}).encode(),
        )
    )


async def signed_in(lab: Lab, site: Site, uid: int) -> str:
    """As `makeway dashboard` does it, through the API."""
    invitation = await lab.json(uid, "POST", "/dashboard")
    answer = await ask(site, "POST", "/api/session", makeway_code=invitation["code"])
    assert isinstance(answer.body, bytes)
    return str(json.loads(answer.body)["session"])


async def rows_seen(site: Site, session: str) -> dict[str, list[Document]]:
    """What a page is told, by table."""
    answer = await ask(site, "GET", "/api/stream", makeway_session=session)
    assert not isinstance(answer.body, bytes), answer.body
    rows: dict[str, list[Document]] = {}
    async for piece in answer.body:
        for message in map(json.loads, piece.splitlines()):
            if message["type"] == "rows":
                rows.setdefault(message["table"], []).extend(message["items"])
        if b'"synced"' in piece:
            break
    site.follow(None)
    return rows


async def jobs_seen(site: Site, session: str) -> Mapping[str, Document]:
    return {row["namespace"]: row for row in (await rows_seen(site, session))["jobs"]}


def test_of_others_one_sees_that_they_wait_and_not_why(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        seen = await jobs_seen(site, await signed_in(lab, site, ADA))

        assert seen["ada"]["message"] == "secret of ada"
        assert (seen["bob"]["reason"], seen["bob"]["message"]) == ("", "")
        assert (seen["bob"]["name"], seen["bob"]["status"]) == ("of-bob", "pending")
        assert seen["bob"]["workload"] == ""

    play(tmp_path, story)


def test_an_admin_sees_everything(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        seen = await jobs_seen(site, await signed_in(lab, site, GRACE))

        assert [seen[who]["message"] for who in ("ada", "bob")] == [
            "secret of ada",
            "secret of bob",
        ]

    play(tmp_path, story)


def test_nobody_touches_what_is_not_his(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        session = await signed_in(lab, site, ADA)
        for action in ("hold", "cancel"):
            body = {"key": "Workload/bob/of-bob", "workload": "of-bob", "action": action}
            answer = await ask(site, "POST", "/api/action", body, makeway_session=session)
            assert answer.code == 403
            assert isinstance(answer.body, bytes)
            assert 'User "ada" cannot' in json.loads(answer.body)["message"]

    play(tmp_path, story)


def test_of_a_queue_one_sees_ones_own_doors(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        [queue] = (await rows_seen(site, await signed_in(lab, site, ADA)))["queues"]

        assert [door["name"] for door in queue["localQueues"]] == ["door-of-ada"]

    play(tmp_path, story)


def len_of(name: str) -> str:
    return str(len(name))


def test_names_that_are_hidden_stand_nowhere(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab, shows_names=False)
        seen = await rows_seen(site, await signed_in(lab, site, ADA))
        told = json.dumps(seen)

        assert "of-bob" not in told
        assert "pod-of-ada" in told
        [theirs] = [row for row in seen["jobs"] if row["namespace"] == "bob"]
        [_, pod] = sorted(seen["nodes"][0]["pods"], key=lambda entry: str(entry["pod"]))
        assert theirs["name"] == "of bob"
        assert (pod["pod"], pod["job"]) == ("bob", theirs["key"])  # so the map finds its row
        body = {"key": theirs["key"], "workload": "", "action": "cancel"}
        session = await signed_in(lab, site, ADA)
        answer = await ask(site, "POST", "/api/action", body, makeway_session=session)
        assert answer.code == 403

        sight = Sight(client_in_process(lab.app, uid=ADA, account="ada"), lambda: NOW, len_of)
        await sight.learn(["bob"])
        gone = sight.seen(Fresh("jobs", "Job/bob/secret", "bob", b""))
        assert gone is not None
        assert (gone.key, gone.body) == ("Job/bob/14", b"")

    play(tmp_path, story)


def test_names_of_a_namespaces_last_owner_are_hidden_from_the_next(tmp_path: Path) -> None:
    """Another ada ran a job an hour before this one came."""

    async def story(lab: Lab) -> None:
        recorded = RecordedScenario(tmp_path, queue("all", gpu=8), cohort="lab", now=lab.now - 3600)
        recorded.apply(NamespaceChanged("ada", {}))
        recorded.pending("secret", on="all", gpu=1, namespace="ada")
        recorded.cycle()
        recorded.later(3610).pending("own", on="all", gpu=1, namespace="ada")
        recorded.cycle()
        recorded.journal().close()
        past = Past(recorded.path, lambda: recorded.now)
        site = site_of(lab, shows_names=False, past=past)

        async def names(uid: int) -> list[str]:
            session = await signed_in(lab, site, uid)
            span = {"since": f"{lab.now - 7200:.0f}", "until": f"{recorded.now:.0f}"}
            path = "/api/history/jobs"
            answer = await ask(site, "GET", path, query=span, makeway_session=session)
            assert isinstance(answer.body, bytes)
            return [job["name"] for job in json.loads(answer.body)["jobs"]]

        assert await names(ADA) == ["own", "of ada"]
        assert await names(BOB) == ["of ada", "of ada"]
        assert await names(GRACE) == ["own", "secret"]

    play(tmp_path, story)


def test_a_token_opens_no_page(tmp_path: Path) -> None:
    """Else who has stolen one could read on when it is revoked."""

    async def story(lab: Lab) -> None:
        site_of(lab)
        token = (await lab.json(ADA, "POST", "/tokens"))["token"]
        refused = await lab.json(token, "POST", "/dashboard", code=403)

        assert "through the Unix socket" in refused["message"]

    play(tmp_path, story)


def test_one_signs_out_of_all_ones_pages_and_of_nobody_elses(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        sessions = [await signed_in(lab, site, uid) for uid in (ADA, ADA, BOB)]
        unused = (await lab.json(ADA, "POST", "/dashboard"))["code"]
        stream = (await ask(site, "GET", "/api/stream", makeway_session=sessions[0])).body
        assert not isinstance(stream, bytes)
        assert b"hello" in await anext(stream)
        await lab.json(ADA, "DELETE", "/dashboard")

        asked = [await ask(site, "POST", "/api/what-if", makeway_session=s) for s in sessions]
        assert [answer.code for answer in asked] == [401, 401, 400]
        assert (await ask(site, "POST", "/api/session", makeway_code=unused)).code == 401
        assert [piece async for piece in stream] == []

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (entry("ada", ADA, why_closed="it is locked"), "it is locked"),
        (entry("carl", ADA), "no longer the account ada"),
    ],
)
def test_a_page_ends_with_the_account_that_opened_it(tmp_path: Path, now: Entry, why: str) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        session = await signed_in(lab, site, ADA)
        lab.accounts.entries[ADA] = now
        lab.now += 61
        for path in ("/api/stream", "/api/history"):
            answer = await ask(site, "GET", path, makeway_session=session)
            assert answer.code == 401
            assert isinstance(answer.body, bytes)
            assert why in json.loads(answer.body)["message"]

    play(tmp_path, story)


def test_what_is_ones_own_is_held_resumed_and_cancelled(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        site = site_of(lab)
        session = await signed_in(lab, site, ADA)
        made = documents.job("train", {"labels": {QUEUE_NAME: "default"}})
        await lab.json(ADA, "POST", "/apis/batch/v1/namespaces/ada/jobs", made)
        workload = documents.workload("job-1-abcde")
        workload["metadata"]["namespace"] = "ada"
        await lab.client.create(WORKLOADS, workload)

        async def act(action: str) -> tuple[bool, Document]:
            """Whether its Workload is active then, and what the Job says."""
            body = {"key": "Job/ada/train", "workload": "job-1-abcde", "action": action}
            answer = await ask(site, "POST", "/api/action", body, makeway_session=session)
            assert answer.code == 200, answer.body
            job = await lab.client.get(JOBS, "train", "ada")
            held = await lab.client.get(WORKLOADS, "job-1-abcde", "ada")
            return held["spec"].get("active", True), job["metadata"]["annotations"]

        is_active, said = await act("hold")
        assert (is_active, said.get(HELD_BY)) == (False, "ada")
        is_active, said = await act("resume")
        assert (is_active, said.get(HELD_BY)) == (True, None)
        _, said = await act("cancel")
        assert said[CANCELLED_BY] == "ada"  # it is there, and whoever runs it ends it

    play(tmp_path, story)


def test_what_is_new_in_a_row_is_hidden_from_others_until_somebody_shows_it() -> None:
    row = dict.fromkeys(("name", "reason", "workload", "invented"), "x") | {
        "key": "k",
        "kind": "Job",
        "namespace": "bob",
        "id": 3,
        "user": "bob",
        "queue": "q",
        "status": "pending",
        "priority": 0,
        "created": 1.0,
        "admitted": None,
        "until": None,
        "started": None,
        "ended": None,
        "asks": {"cpu": 1},
        "flavors": [],
        "nodes": ["n"],
    }

    seen = for_others(row)

    assert (seen["name"], seen["id"], seen["asks"]) == ("x", 3, {"cpu": 1})
    assert (seen["reason"], seen["workload"], seen["invented"], seen["nodes"]) == ("", "", "", [])
