"""Jobs that wait for the end of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.api.kinds import WORKLOADS
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "8", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("after")
    with running_on(BOX, folder) as started:
        yield started


def submitted(up: Up, *words: str) -> str:
    """Submit; the number."""
    return up.makeway("submit", *words).split()[2].rstrip(":")


def waiting(up: Up, name: str) -> str:
    """A job that doesn't end before it is told to, by a file."""
    path = up.folder.parent / f"{name}.end"
    script = f"until [ -e {path} ]; do sleep 0.05; done; [ ! -s {path} ]"
    return submitted(up, "--name", name, "--", "sh", "-c", script)


def end(up: Up, name: str, text: str = "") -> None:
    """As it should, or with a text, as it should not."""
    (up.folder.parent / f"{name}.end").write_text(text)


def rows(up: Up) -> dict[str, dict[str, Any]]:
    items = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    return {item["name"]: item for item in items}


def test_it_waits_with_a_reason_and_begins_when_the_other_has_succeeded(up: Up) -> None:
    first = waiting(up, "prepare")
    up.makeway("submit", "--name", "train", "--after", first, "--", "echo", "trained")
    wait_until(lambda: rows(up)["prepare"]["status"] == "running")

    row = rows(up)["train"]
    assert (row["status"], row["reason"]) == ("pending", "waits for the success of prepare")
    assert len(up.listed(WORKLOADS)) == 1  # none was made for it

    end(up, "prepare")

    up.makeway("wait", "train")
    assert up.makeway("logs", "train") == "trained\n"


def test_what_can_not_come_true_fails_and_those_who_wait_for_it(up: Up) -> None:
    first = waiting(up, "broken")
    second = submitted(up, "--name", "second", "--after", first, "--", "true")
    submitted(up, "--name", "third", "--after", second, "--", "true")
    submitted(up, "--name", "mourner", "--after-failed", first, "--", "true")
    submitted(up, "--name", "anyway", "--after-any", f"{first},{second}", "--", "true")

    end(up, "broken", "badly")

    up.makeway("wait", "mourner", "anyway")
    up.makeway("wait", "third", code=1)
    assert rows(up)["second"]["reason"] == "broken has not succeeded"
    assert rows(up)["third"]["reason"] == "second has not succeeded"


def test_a_cancelled_job_counts_as_failed_and_a_deleted_one_as_it_ended(up: Up) -> None:
    gone = submitted(up, "--name", "gone", "--wait", "--", "true")
    up.makeway("delete", "job", "gone")
    up.makeway("submit", "--name", "late", "--after", gone, "--wait", "--", "true")

    held = submitted(up, "--name", "held", "--hold", "--", "true")
    submitted(up, "--name", "hopeful", "--after", held, "--", "true")
    up.makeway("cancel", held, "-y")

    up.makeway("wait", "hopeful", code=1)
    failed = json.loads(up.makeway("get", "job", "hopeful", "-o", "json"))["status"]["conditions"]
    assert failed[-1]["reason"] == "DependencyNeverSatisfied"


def test_arrays_wait_index_by_index_and_others_for_all_of_it(up: Up) -> None:
    script = "[ $MAKEWAY_ARRAY_INDEX != 2 ]"
    first = submitted(up, "--name", "parts", "--array", "1-3", "--", "sh", "-c", script)
    second = submitted(up, "--name", "checks", "--array", "1-3", "--after", first, "--", "true")
    submitted(up, "--name", "sum", "--after-any", first, "--", "true")

    up.makeway("wait", second, code=1)
    up.makeway("wait", "sum")

    ends = {name: rows(up)[name]["status"] for name in ("checks-1", "checks-2", "checks-3")}
    assert ends == {"checks-1": "succeeded", "checks-2": "failed", "checks-3": "succeeded"}


def test_a_job_that_never_was_is_refused(up: Up) -> None:
    assert "there is no job '777'" in up.makeway("submit", "--after", "777", "--", "true", code=1)
