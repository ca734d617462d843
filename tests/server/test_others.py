"""Rows of jobs, cut down for who reads them."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.server.messages import decode, json_response
from makeway.server.others import for_reader

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
