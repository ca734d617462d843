"""When does my job start? Asked of a server that runs jobs, while it runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import EVENTS, FLAVORS, JOBS, LOCAL_QUEUES, QUEUES
from makeway.journal.file import NAME as JOURNAL
from makeway.journal.file import Journal
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, end_pods, job, running, wait_until

MORE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 2}]}]
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One CPU: three short jobs are over, one with a limit runs, one waits, one can never run."""
    folder = tmp_path_factory.mktemp("forecast")
    with running(folder / "data") as started:
        started.create(FLAVORS, flavor("default"))
        started.create(QUEUES, queue("q", 1))
        started.create(LOCAL_QUEUES, local_queue("team", "q"))
        for name in ("probe-0", "probe-1", "probe-2"):
            started.create(JOBS, job(name, "true", queue="team"))
        wait_until(lambda: _statuses(started) == ["succeeded"] * 3)
        long = job("train-1", "sleep 600", queue="team", activeDeadlineSeconds=1200)
        started.create(JOBS, long)
        wait_until(lambda: _runs_longest(started, "train-1"))
        started.create(JOBS, job("probe-3", "true", queue="team"))
        started.create(JOBS, job("huge", "true", queue="team", cpu="4"))
        yield started
    end_pods(started.folder)


def _rows(up: Up) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    return found


def _statuses(up: Up) -> list[str]:
    return [row["status"] for row in _rows(up)]


def _runs_longest(up: Up, name: str) -> bool:
    """Longer than any before it has lived, or these would tell that it ends in a moment."""
    rows = {row["name"]: row for row in _rows(up)}
    ran_s = rows.pop(name)["runSeconds"] or 0
    return bool(ran_s > max(row["waitSeconds"] + row["runSeconds"] for row in rows.values()))


def test_who_asks_what_will_be_writes_nothing(up: Up, tmp_path: Path) -> None:
    """Neither into the store nor into the journal."""
    (tmp_path / "more.yaml").write_text(MORE)
    before = wait_until(lambda: _at_rest(up))

    made = json.loads(up.makeway("forecast", "-o", "json"))["items"]
    waits = up.makeway("submit", "-q", "team", "--preview", "--cpu", "1", "--", "true")
    up.makeway("diff", "-f", str(tmp_path / "more.yaml"), code=1)

    assert len(made) == 3
    assert waits.startswith("It would wait:")
    assert _standing(up) == before


def _standing(up: Up) -> tuple[object, ...]:
    """The revision of the store, and all that the journal has."""
    journal = Journal(up.folder / JOURNAL)
    try:
        written = [[*journal.records(segment)] for segment in journal.segments()]
    finally:
        journal.close()
    return up.ask(lambda client: client.list(JOBS)).resource_version, written


def _at_rest(up: Up) -> tuple[object, ...] | None:
    """How things stand, once everybody has said all there is to say: last, why two jobs wait."""
    found = [event for event in up.listed(EVENTS) if event["reason"] == "Pending"]
    told = " ".join(event["involvedObject"]["name"] for event in found)
    before = _standing(up)
    time.sleep(0.1)
    is_told = "probe-3" in told and "huge" in told  # others may have waited for a moment, too
    return before if is_told and _standing(up) == before else None


def test_who_is_not_asked_for_has_no_forecast_in_the_list(up: Up) -> None:
    def named(*asked: str) -> set[str]:
        found = json.loads(up.makeway("forecast", "-o", "json", *asked))
        return {one["metadata"]["name"] for one in found["items"]}

    assert named("-q", "team") == named() != set()
    assert named("-q", "another") == set()


def test_a_forecast_says_when_and_how_sure_and_never(up: Up) -> None:
    table = up.makeway("forecast").splitlines()
    found = {
        one["metadata"]["name"].split("-")[1]: one
        for one in json.loads(up.makeway("forecast", "-o", "json"))["items"]
    }

    assert {line.split()[1] for line in table[1:4]} == {"train-1", "probe-3", "huge"}
    assert table[4].startswith("assuming nobody else comes")
    assert found["huge"]["verdict"] == "Never"
    start = found["probe"]["start"]
    assert start["p10"] < start["p50"] < start["p90"]
    assert start["p10"] <= found["train"]["end"]["p50"] <= start["p90"]
    # Three probes are few: that train-1 still runs counts, too.
    assert found["probe"]["basis"] == "jobs of the same queue and shape (4)"


def test_explain_and_status_have_it_too(up: Up) -> None:
    up.makeway("forecast", "probe-3")

    said = up.makeway("explain", "probe-3")
    rows = json.loads(up.makeway("status", "-o", "json"))["items"]
    wide = up.makeway("status", "-o", "wide").splitlines()

    assert "It is expected to start at ~" in said
    assert "(8 of 10: " in said
    assert {row["name"]: (row["forecast"] or {}).get("verdict") for row in rows} == {
        "train-1": "Expected",
        "probe-3": "Expected",
        "huge": "Never",
    }
    assert re.search(r"START +8 OF 10 +END +8 OF 10 +RUN TIME FROM", wide[0])
    (line,) = [line for line in wide if "probe-3" in line]
    assert line.count("~") == 2  # its start and its end
    assert "jobs of the same queue and shape (4)" in line


def test_what_if_there_were_two_cpus(up: Up, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(MORE)

    found = up.makeway("simulate", "--from-live", "-q", "-f", str(tmp_path / "more.yaml"))

    assert "B against A: waits are shorter on average" in found
    assert "assuming nobody else comes" in found


def test_the_server_does_not_care_when_the_other_process_is_stopped(up: Up) -> None:
    """It is ended in the middle: the last forecast stays, and the next one is made."""
    before = json.loads(up.makeway("forecast", "probe-3", "-o", "json"))
    up.create(JOBS, job("probe-4", "true", queue="team"))

    def other() -> list[int]:
        up.makeway("forecast", "probe-3", "--patience", "0", "-o", "json")
        named = [pid for pid in _children(up.pid) if "forecast.forecaster" in _command(pid)]
        return [pid for pid in named if _stopped(pid)]

    (pid,) = wait_until(other)
    assert "os.nice(19)" in _command(pid)
    os.kill(pid, signal.SIGKILL)

    after = wait_until(lambda: _new_forecast(up, before["madeAt"]))
    assert after["verdict"] == "Expected"


def _stopped(pid: int) -> bool:
    """Stop a process before it is done; False: it was quicker."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    return True


def test_deleted_jobs_still_teach(up: Up) -> None:
    before = json.loads(up.makeway("forecast", "probe-3", "-o", "json"))
    up.makeway("delete", "job", "probe-0", "probe-1", "probe-2")

    after = wait_until(lambda: _with_deleted(up, before["madeAt"]))

    assert after["verdict"] == "Expected"
    assert after["basis"] == "jobs of the same queue and shape (4)"
    assert after["past"]["jobs"] == 3
    assert "3 of them deleted by now" in up.makeway("explain", "probe-3")
    # So they do for what would come of it all.
    said = up.makeway("simulate", "--from-live", "-q", "--until", "1h")
    assert "learnt from 3 jobs, 3 of them deleted by now" in said


def _with_deleted(up: Up, made_at: str) -> dict[str, Any] | None:
    found = _new_forecast(up, made_at)
    return found if found and found["past"]["deletedJobs"] == 3 else None


def _new_forecast(up: Up, made_at: str) -> dict[str, Any] | None:
    found: dict[str, Any] = json.loads(
        up.makeway("forecast", "probe-3", "--patience", "0", "-o", "json")
    )
    return found if found["madeAt"] > made_at else None


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except FileNotFoundError:
        return ""
