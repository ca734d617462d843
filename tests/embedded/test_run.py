"""`makeway run`: a command in this terminal, under quota like any job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.harness.documents import flavor, local_queue, queue, queueing
from tests.harness.process import Up, running_on, wait_until
from tests.harness.terminal import TRAP, UNTIL_CAUGHT, Terminal, terminal, until_sized

__all__ = ["terminal"]

BOX = {"cpu": "2", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("run")
    lab = queue("lab", "2", flavor="lab", preemption={"withinClusterQueue": "LowerPriority"})
    urgent = queueing("WorkloadPriorityClass", "urgent", value=1000)
    objects = flavor("lab"), lab, local_queue("team", "lab"), urgent
    with running_on(BOX, folder, *objects) as started:
        yield started


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "makeway.cli.main", "run", "-q", "team", *words]


def started(up: Up, *words: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
    streams = subprocess.PIPE if terminal is None else terminal
    return subprocess.Popen(
        command(*words),
        env={**up.environment, "TERM": "dumb"},
        stdin=streams,
        stdout=streams,
        stderr=streams,
        start_new_session=True,
    )


def status_of(up: Up, name: str) -> str:
    items = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    return str(next((item["status"] for item in items if item["name"] == name), ""))


def test_without_a_terminal_the_streams_are_the_callers(up: Up) -> None:
    done = subprocess.run(
        command("--", "sh", "-c", "cat; echo aside >&2; exit 5"),
        env=up.environment,
        input=b"through\n",
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (5, b"through\n")
    assert b"\naside\n" in done.stderr


def test_on_a_terminal_it_is_typed_resized_and_interrupted_there(
    up: Up, terminal: Terminal
) -> None:
    terminal.resize(33, 77)
    first, then = until_sized(33, 77), until_sized(20, 50)
    script = f"{TRAP}; {first}; echo sized; read line; echo got $line; {UNTIL_CAUGHT}"
    script += f"; {then}; echo resized; exit 3"
    process = started(up, "--", "sh", "-c", script, terminal=terminal.theirs)
    terminal.until("sized")

    terminal.type("typed\n")
    terminal.until("got typed")
    terminal.resize(20, 50)
    os.kill(process.pid, signal.SIGWINCH)
    terminal.type("\x03")

    terminal.until("caught")
    terminal.until("resized")
    assert process.wait(timeout=30) == 3


def test_who_has_to_make_way_is_told_for_whom(up: Up) -> None:
    script = "trap 'exit 0' TERM; echo begins; sleep 99 & wait"
    process = started(up, "--name", "guest", "--cpu", "2", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begins\n"

    up.makeway("submit", "-q", "team", "--cpu", "2", "--priority", "urgent", "--wait", "--", "true")

    _, told = process.communicate(timeout=30)
    assert process.returncode == 143
    assert b"had to make way" in told
    assert b"Preempted to accommodate" in told
    assert status_of(up, "guest") == "failed"


def test_out_of_time_is_124(up: Up) -> None:
    process = started(up, "--time-limit", "1s", "--", "sleep", "99")

    process.communicate(timeout=30)

    assert process.returncode == 124


def test_ctrl_c_while_it_waits_cancels_it(up: Up) -> None:
    process = started(up, "--name", "greedy", "--cpu", "99", "--force", "--", "true")
    wait_until(lambda: status_of(up, "greedy") == "pending")

    os.kill(process.pid, signal.SIGINT)

    process.communicate(timeout=30)
    assert process.returncode == 130
    wait_until(lambda: status_of(up, "greedy") == "cancelled")
    refused = up.makeway("run", "--array", "1-3", "--", "true", code=2)
    assert "--array is for `makeway submit`" in refused
