"""Two people on one machine: each sees of the other that he waits, and can't touch his jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from makeway.api.kinds import WORKLOADS
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.sight import for_others
from makeway.dashboard.site import Site
from makeway.embedded import client_in_process
from makeway.plane.picture import Picture
from makeway.server.messages import Request, Response
from tests.harness import documents
from tests.harness.documents import condition
from tests.harness.people import ADA, GRACE, Lab, play

NOW = 1_700_000_000.0


def site_of(lab: Lab) -> Site:
    """Pages of two workloads, one of ada's and one of bob's."""
    picture = Picture()
    board = Board(picture, lambda: NOW)
    for revision, who in enumerate(("ada", "bob"), 1):
        waits = condition("QuotaReserved", "False", message=f"secret of {who}")
        workload = {**documents.workload(f"of-{who}"), "status": {"conditions": [waits]}}
        workload["metadata"] = {
            **workload["metadata"],
            "namespace": who,
            "uid": who,
            "resourceVersion": str(revision),
        }
        change = picture.take(WORKLOADS, workload)
        assert change is not None
        board.changed(change)
    site = Site(b"k" * 32, lambda: NOW, lambda reader: client_in_process(lab.app, uid=reader.uid))
    site.follow(Feed(board, lambda: NOW))
    lab.app.dashboard = site
    return site


async def ask(site: Site, method: str, path: str, body: Any = None, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await site.handle(
        Request(
            method=method,
            path=path,
            query={},
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


async def jobs_seen(site: Site, session: str) -> Mapping[str, Mapping[str, Any]]:
    answer = await ask(site, "GET", "/api/stream", makeway_session=session)
    assert not isinstance(answer.body, bytes)
    rows: dict[str, Any] = {}
    async for line in answer.body:
        message = json.loads(line)
        for row in message.get("items", ()):
            rows[row["namespace"]] = row
        if message["type"] == "synced":
            break
    site.follow(None)
    return rows


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
