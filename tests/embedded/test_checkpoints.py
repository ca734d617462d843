"""A job that is to end gets the time and the signals to save its work, and may say that it has."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "4", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("checkpoints")
    with running_on(BOX, folder) as started:
        yield started


def saving() -> list[str]:
    """A program below a shell, which catches nothing and dies of SIGTERM."""
    program = (
        "import signal, sys, time\n"
        "def say(word, ends=False):\n"
        "    print(word)\n"
        "    if ends: sys.exit(0)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: say('warned'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: say('asked', True))\n"
        "print('begins')\n"
        "while True: time.sleep(0.05)\n"
    )
    return ["sh", "-c", f'python3 -c "{program}"; echo $?']


def begun(up: Up, name: str, *options: str) -> None:
    up.makeway("submit", "--name", name, *options, "--", *saving())
    wait_until(lambda: "begins" in said(up, name))


def said(up: Up, name: str) -> str:
    try:
        return up.makeway("logs", name)
    except AssertionError:
        return ""


def test_a_signal_comes_before_sigterm_to_those_who_wait_for_it(up: Up) -> None:
    begun(up, "warned", "--grace", "20s", "--signal", "USR1@1")

    up.makeway("cancel", "warned", "-y")

    wait_until(lambda: "asked" in said(up, "warned"))
    assert said(up, "warned").split()[:3] == ["begins", "warned", "asked"]


def test_the_signal_comes_before_the_time_limit_and_the_job_may_go_on(up: Up) -> None:
    begun(up, "limited", "--time-limit", "1h", "--signal", "USR1@3597")

    wait_until(lambda: said(up, "limited").split() == ["begins", "warned"])

    assert "running" in up.makeway("status")
    up.makeway("cancel", "limited", "-y")


def test_the_grace_is_what_was_asked_for(up: Up) -> None:
    made = json.loads(
        up.makeway(
            "submit",
            "--dry-run",
            "server",
            "-o",
            "json",
            "--grace",
            "2m",
            "--signal",
            "USR1@60",
            "--",
            "true",
        )
    )

    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 180
    assert "USR1@120" in up.makeway("submit", "--signal", "KILL@3", "--", "true", code=2)


def test_a_job_knows_what_it_is_and_says_that_it_has_saved(up: Up) -> None:
    script = "echo $MAKEWAY_JOB_ID $MAKEWAY_ATTEMPT $PYTHONUNBUFFERED; sleep 99"
    up.makeway("submit", "--name", "saved", "--", "sh", "-c", script)
    number = wait_until(lambda: said(up, "saved")).split()
    assert number[1:] == ["1", "1"]

    assert "is saved as of" in up.makeway("checkpoint", number[0])

    noted = json.loads(up.makeway("get", "job", "saved", "-o", "json"))["metadata"]["annotations"]
    assert noted["makeway.dev/last-checkpoint"].startswith("20")
    assert "this is no job" in up.makeway("checkpoint", code=2)
    up.makeway("cancel", "saved", "-y")
