"""What jobs print stays, however they end; and so does what became of them."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.documents import flavor, local_queue, queue, queueing
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi"}
SAVES = "trap 'echo saved; exit 0' TERM; echo begins; sleep 99 & wait"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("lost")
    lab = queue("lab", "2", flavor="lab", preemption={"withinClusterQueue": "LowerPriority"})
    urgent = queueing("WorkloadPriorityClass", "urgent", value=1000)
    objects = flavor("lab"), lab, local_queue("team", "lab"), urgent
    with running_on(BOX, folder, *objects) as started:
        yield started


def begun(up: Up, name: str, *options: str, script: str = SAVES) -> None:
    """Submit a job, and wait for its first line."""
    up.makeway("submit", "-q", "team", "--name", name, *options, "--", "sh", "-c", script)
    wait_until(lambda: "begins" in said(up, name))


def said(up: Up, *words: str) -> str:
    """Its output, or nothing as long as there is none."""
    try:
        return up.makeway("logs", *words)
    except AssertionError:
        return ""


def history(up: Up, name: str) -> dict[str, Any]:
    items = json.loads(up.makeway("history", "-o", "json"))["items"]
    return next((item for item in items if item["name"] == name), {})


def test_a_cancelled_job_keeps_its_output_and_who_cancelled_it(up: Up) -> None:
    begun(up, "cancelled")

    up.makeway("cancel", "cancelled", "-y")

    row = wait_until(lambda: history(up, "cancelled"))
    assert (row["status"], row["exitCode"]) == ("cancelled", 143)
    assert row["reason"] == f"Cancelled by {getpass.getuser()}"
    assert up.makeway("logs", "cancelled") == "begins\nsaved\n"
    assert "was cancelled by" in up.makeway("wait", "cancelled", code=143)


def test_a_job_that_waits_is_cancelled_at_once(up: Up) -> None:
    up.makeway("submit", "-q", "team", "--name", "waits", "--cpu", "2", "--hold", "--", "true")

    up.makeway("cancel", "waits", "-y")

    assert wait_until(lambda: history(up, "waits"))["status"] == "cancelled"
    assert "has printed nothing, it is cancelled" in up.makeway("logs", "waits", code=1)


def test_a_job_out_of_time_keeps_its_output(up: Up) -> None:
    begun(up, "late", "--time-limit", "3s")

    up.makeway("wait", "late", code=124)

    assert up.makeway("logs", "late") == "begins\nsaved\n"


def test_each_attempt_of_a_preempted_job_keeps_its_own(up: Up) -> None:
    first = f'[ "$MAKEWAY_ATTEMPT" = 2 ] || {{ {SAVES}; }}'
    script = f'echo "begins $MAKEWAY_ATTEMPT $MAKEWAY_LAST_END"; {first}'
    begun(up, "victim", "--cpu", "2", script=script)
    up.makeway("submit", "-q", "team", "--cpu", "2", "--priority", "urgent", "--wait", "--", "true")

    up.makeway("wait", "victim")

    assert said(up, "victim", "--attempt", "1") == "begins 1 \nbegins\nsaved\n"
    assert said(up, "victim") == "begins 2 Preempted\n"
    both = said(up, "victim", "--all-attempts")
    assert "attempt 1 ended at" in both
    assert "(Preempted)" in both
    assert both.index("saved") < both.index("begins 2")
    assert "has begun 2 times, not 3" in up.makeway("logs", "victim", "--attempt", "3", code=1)


def test_a_job_that_is_held_keeps_its_output(up: Up) -> None:
    begun(up, "held")

    up.makeway("hold", "held")

    wait_until(lambda: said(up, "held") == "begins\nsaved\n")
    up.makeway("cancel", "held", "-y")


def test_a_deleted_job_is_in_the_history_until_it_is_cleaned(up: Up) -> None:
    begun(up, "deleted", script="echo begins; exit 3")
    up.makeway("wait", "deleted", code=3)
    number = history(up, "deleted")["id"]

    up.makeway("delete", "job", "deleted")

    row = wait_until(lambda: history(up, "deleted"))
    assert (row["status"], row["exitCode"]) == ("failed", 3)
    assert up.makeway("logs", str(number)) == "begins\n"

    assert "1 job removed" in up.makeway("clean", str(number), "-y")
    assert not history(up, "deleted")
    kept = json.loads(up.makeway("history", "--all", "-o", "json"))["items"]
    (row,) = [row for row in kept if row["name"] == "deleted"]  # accounts need it
    assert (row["status"], row["exitCode"], row["submittedBy"]) == ("ended", None, None)
    assert "there is no job" in up.makeway("logs", str(number), code=1)


def test_what_is_kept_survives_a_restart(up: Up) -> None:
    begun(up, "before", script="echo begins")
    up.makeway("wait", "before")
    up.makeway("delete", "job", "before")
    up.kill()
    up.start()

    assert up.makeway("logs", "before") == "begins\n"
    assert history(up, "before")["status"] == "succeeded"


def test_clean_removes_what_has_ended_and_nothing_else(up: Up) -> None:
    begun(up, "stays")

    assert "stays" not in up.makeway("clean", "--all", "--dry-run")
    up.makeway("clean", "--all", "-y")

    wait_until(lambda: "no job has ended" in up.makeway("history"))
    assert "stays" in up.makeway("status")
    wait_until(lambda: len(list((up.folder / "logs").iterdir())) == 1)
    up.makeway("cancel", "stays", "-y")
