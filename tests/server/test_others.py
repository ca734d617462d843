"""Rows of jobs, cut down for who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from makeway.server.messages import decode, json_response
from makeway.server.others import for_reader
from tests.harness.people import ADA, BOB, GRACE, Lab, play

SECRET = "nobody else's business"


def row(namespace: str) -> dict[str, Any]:
    return {
        "id": 7,
        "name": "moonshot",
        "kind": "Job",
        "namespace": namespace,
        "queue": "vision",
        "status": "running",
        "priority": 3,
        "submittedBy": namespace,
        "gpus": 2,
        "createdAt": "2026-01-01T00:00:00Z",
        "until": "2026-01-02T00:00:00Z",
        "requests": {"cpu": "4"},
        "gpuIndexes": [0, 1],
        "reason": SECRET,
        "message": SECRET,
        "command": ["sh", "-c", SECRET],
        "directory": SECRET,
        "gitRevision": SECRET,
        "pods": [SECRET],
        "workload": SECRET,
        "heldBy": SECRET,
        "whatever": {"comes": SECRET},
    }


def seen(*, shows_names: bool = True, by_name: bool = False) -> list[dict[str, Any]]:
    """By ada."""
    listed = {"metadata": {"unreadable": [SECRET]}, "items": [row("ada"), row("bob")]}
    response = for_reader(
        json_response(listed),
        lambda namespace: namespace == "ada",
        shows_names=shows_names,
        by_name=by_name,
    )
    assert isinstance(response.body, bytes)
    found: dict[str, Any] = decode(response.body)
    assert found["metadata"] == {}
    items: list[dict[str, Any]] = found["items"]
    return items


@pytest.mark.parametrize("shows_names", [True, False])
def test_of_others_one_sees_who_and_how_much_and_until_when(shows_names: bool) -> None:
    own, other = seen(shows_names=shows_names)
    assert own == row("ada")
    assert SECRET not in str(other)
    assert other.keys() == own.keys()
    shown = {key: value for key, value in other.items() if value}
    assert shown.pop("name", "") == ("moonshot" if shows_names else "")
    assert shown == {
        "id": 7,
        "kind": "Job",
        "namespace": "bob",
        "queue": "vision",
        "status": "running",
        "priority": 3,
        "submittedBy": "bob",
        "gpus": 2,
        "requests": {"cpu": "4"},
        "createdAt": "2026-01-01T00:00:00Z",
        "until": "2026-01-02T00:00:00Z",
        "gpuIndexes": [0, 1],
    }


def test_where_names_are_hidden_nobody_is_found_by_his() -> None:
    assert [found["namespace"] for found in seen(shows_names=False, by_name=True)] == ["ada"]
    assert len(seen(by_name=True)) == 2


class _Insight:
    """Rows of all jobs, whoever asks."""

    is_ready = True

    def jobs(self, namespace: str, query: Mapping[str, str]) -> dict[str, Any]:
        return {"items": [row(name) for name in ("ada", "bob") if namespace in ("", name)]}


def test_every_way_to_the_rows_is_through_the_same_door(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        lab.app.insight = _Insight()  # type: ignore[assignment]
        root = "/apis/visibility.makeway.dev/v1"
        token = (await lab.json(ADA, "POST", "/tokens", {}))["token"]
        for who in (ADA, token):
            found = (await lab.json(who, "GET", f"{root}/jobs"))["items"]
            assert found[0] == row("ada")
            assert (found[1]["namespace"], SECRET in str(found[1])) == ("bob", False)
            [other] = (await lab.json(who, "GET", f"{root}/namespaces/bob/jobs"))["items"]
            assert SECRET not in str(other)
        assert (await lab.json(GRACE, "GET", f"{root}/jobs"))["items"][1] == row("bob")
        await lab.json(BOB, "POST", "/grants", {"account": "ada"})
        assert (await lab.json(ADA, "GET", f"{root}/jobs"))["items"][1] == row("bob")

    play(tmp_path, story)
