"""Names, numbers, and jobs that one wants otherwise: again, back in line, changed, not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.api.kinds import JOBS
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("thoughts")
    with running_on(BOX, folder) as started:
        yield started


def submitted(up: Up, *words: str) -> str:
    """Submit; the number."""
    return up.makeway("submit", *words).split()[2].rstrip(":")


def jobs(up: Up) -> dict[str, dict[str, Any]]:
    """The rows of all jobs, by number."""
    items = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    assert items
    return {f"{i['id']}_{i['array']['index']}" if i["array"] else str(i["id"]): i for i in items}


def test_two_jobs_may_have_one_name_and_a_refused_one_burns_no_number(up: Up) -> None:
    first = submitted(up, "--name", "train", "--wait", "--", "echo", "one")
    up.makeway("submit", "--name", "Not A Name", "--", "true", code=1)
    second = submitted(up, "--name", "train", "--hold", "--", "echo", "two")

    assert int(second) == int(first) + 1
    assert jobs(up)[first]["name"] == "train"
    assert jobs(up)[second]["name"].startswith("train-")
    assert f"job {second} " in up.makeway("explain", "train")  # the one that has not ended

    third = submitted(up, "--name", "train", "--hold", "--", "true")
    said = up.makeway("cancel", "train", "-y", code=1)
    assert f"several jobs are called train; say which: {second}, {third}" in said
    up.makeway("cancel", second, third, "-y")


def test_a_failed_job_is_done_again_as_it_was(up: Up) -> None:
    script = "echo $KEPT; [ -e done ]"
    options = ("--env", "KEPT=kept", "--workdir", str(up.folder.parent), "--cpu", "2")
    first = submitted(up, "--name", "again", *options, "--", "sh", "-c", script)
    up.makeway("wait", first, code=1)
    (up.folder.parent / "done").touch()

    second = up.makeway("retry", first).split()[2]

    up.makeway("wait", second)
    assert up.makeway("logs", second) == "kept\n"
    made = next(j for j in up.listed(JOBS) if j["metadata"]["labels"]["makeway.dev/id"] == second)
    assert made["metadata"]["annotations"]["makeway.dev/retry-of"] == first
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2"}
    told = {e["name"]: e["value"] for e in container["env"] if e["name"].startswith("MAKEWAY_JOB")}
    assert told == {"MAKEWAY_JOB_ID": second}


def test_of_an_array_only_what_failed_is_done_again(up: Up) -> None:
    number = submitted(up, "--array", "1-3", "--", "sh", "-c", "[ $MAKEWAY_ARRAY_INDEX != 2 ]")
    up.makeway("wait", number, code=1)

    again = up.makeway("retry", number, "--failed").split()[2].rstrip(":")

    up.makeway("wait", again, code=1)
    assert [name for name in jobs(up) if name.startswith(f"{again}_")] == [f"{again}_2"]
    assert "nothing to do again" in up.makeway("retry", f"{number}_1", "--failed", code=1)


def test_a_running_job_goes_back_in_line_and_begins_anew(up: Up) -> None:
    script = "echo $MAKEWAY_ATTEMPT; sleep 99"
    number = submitted(up, "--grace", "1s", "--", "sh", "-c", script)
    wait_until(lambda: jobs(up)[number]["status"] == "running")

    up.makeway("requeue", number)

    wait_until(lambda: printed(up, number) == "2\n")
    assert printed(up, number, "--attempt", "1").startswith("1\n")
    up.makeway("cancel", number, "-y")


def printed(up: Up, *words: str) -> str:
    try:
        return up.makeway("logs", *words)
    except AssertionError:
        return ""


def test_what_waits_is_changed_and_what_runs_is_not(up: Up) -> None:
    number = submitted(up, "--cpu", "99", "--force", "--", "sleep", "99")
    wait_until(lambda: jobs(up)[number]["workload"])

    up.makeway("edit", number, "--cpu", "1", "--time-limit", "1h")

    wait_until(lambda: jobs(up)[number]["status"] == "running")
    assert "only what waits" in up.makeway("edit", number, "--cpu", "2", code=1)
    up.makeway("cancel", "--me", "-y")
    wait_until(lambda: jobs(up)[number]["status"] == "cancelled")


def test_the_job_of_another_is_asked_about(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    number = submitted(up, "--hold", "--", "true")
    monkeypatch.setattr("getpass.getuser", lambda: "ada")

    assert "'s; write -y to mean it" in up.makeway("cancel", number, code=2)
    assert "no job of yours" in up.makeway("cancel", "--me", "-y")
    up.makeway("cancel", number, "-y")
    assert jobs(up)[number]["submittedBy"] != "ada"
