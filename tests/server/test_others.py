"""Lists of jobs where an admin hides names."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.server.messages import decode, json_response
from makeway.server.others import discreet


def seen(*, shows_names: bool, by_name: bool = False) -> list[tuple[str, str | None]]:
    """By ada."""
    rows = [{"namespace": namespace, "name": "moonshot"} for namespace in ("ada", "bob")]
    response = discreet(
        json_response({"metadata": {"unreadable": ["bob/moonshot"]}, "items": rows}),
        lambda namespace: namespace == "ada",
        shows_names=shows_names,
        by_name=by_name,
    )
    assert isinstance(response.body, bytes)
    found: dict[str, Any] = decode(response.body)
    assert found["metadata"] == {}  # what can't be read is told to admins only
    return [(row["namespace"], row["name"]) for row in found["items"]]


@pytest.mark.parametrize(("shows_names", "name"), [(True, "moonshot"), (False, None)])
def test_names_of_others_are_shown_or_not(shows_names: bool, name: str | None) -> None:
    assert seen(shows_names=shows_names) == [("ada", "moonshot"), ("bob", name)]


def test_where_names_are_hidden_nobody_is_found_by_his() -> None:
    assert seen(shows_names=False, by_name=True) == [("ada", "moonshot")]
    assert len(seen(shows_names=True, by_name=True)) == 2
