"""Arrays on a real machine: each index is a job of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.api.kinds import JOBS
from makeway.client import Conflict
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "8", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("arrays")
    with running_on(BOX, folder) as started:
        yield started


def submitted(up: Up, indexes: str, script: str, *options: str) -> str:
    """Submit an array; its number."""
    said = up.makeway("submit", "--array", indexes, *options, "--", "sh", "-c", script)
    return said.split()[2].rstrip(":")


def states(up: Up, number: str) -> dict[int, str]:
    """The status of each index."""
    items: list[dict[str, Any]] = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    own = [item for item in items if (item["array"] or {}).get("id") == number]
    return {item["array"]["index"]: item["status"] for item in own}


def test_one_index_fails_alone_and_is_addressed_alone(up: Up) -> None:
    number = submitted(
        up, "1,4-5", 'echo "I am $JOB_COMPLETION_INDEX"; [ $MAKEWAY_ARRAY_INDEX != 4 ]'
    )

    up.makeway("wait", number, code=1)

    assert states(up, number) == {1: "succeeded", 4: "failed", 5: "succeeded"}
    assert up.makeway("logs", f"{number}_4") == "I am 4\n"
    assert up.makeway("logs", number).splitlines()[0] == f"[{number}_1] I am 1"
    assert "makeway.dev/array-index: 4" in up.makeway("describe", f"{number}_4")
    assert "is an array; name one of it" in up.makeway("explain", number, code=1)


def test_an_array_wider_than_the_machine_starts_with_what_fits(up: Up) -> None:
    number = submitted(up, "0-5:2", "sleep 99", "--cpu", "4")

    wait_until(lambda: sorted(states(up, number).values()) == ["pending", "running", "running"])

    up.makeway("cancel", number, "-y")
    wait_until(lambda: set(states(up, number).values()) == {"cancelled"})


def test_a_limit_holds_the_others_back_and_one_that_is_cancelled_makes_room(up: Up) -> None:
    number = submitted(up, "1-4%2", "sleep 99", "--cpu", "1")
    wait_until(lambda: list(states(up, number).values()) == ["running"] * 2 + ["pending"] * 2)
    assert up.makeway("status").count("ArrayLimit: 2 of its array at once") == 2

    up.makeway("cancel", f"{number}_1", "-y")

    wait_until(lambda: states(up, number)[3] == "running")
    assert states(up, number)[4] == "pending"
    up.makeway("cancel", number, "-y")


def test_it_is_made_as_a_whole_or_not_at_all(up: Up) -> None:
    before = len(up.listed(JOBS))
    up.makeway("submit", "--name", "one-7", "--hold", "--", "true")
    job = json.loads(up.makeway("submit", "--dry-run", "client", "-o", "json", "--", "true"))
    job["metadata"]["name"] = "one"  # of which index 7 is there already

    with pytest.raises(Conflict, match="already exists"):
        up.ask(lambda client: client.create_array(job, "1-9", namespace="default"))

    assert len(up.listed(JOBS)) == before + 1
    assert "at most 10000" in up.makeway("submit", "--array", "0-10000", "--", "true", code=2)
