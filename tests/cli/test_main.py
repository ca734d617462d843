"""The command as a whole: help, exit codes, and no traceback whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from makeway.cli import version
from makeway.cli.main import NAMES, main
from makeway.engine import cycle

SOURCE = str(Path(__file__).parents[2] / "src")


def test_without_a_command_and_a_server_it_says_so_and_how_to_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAKEWAY_DATA_DIR", "/nonexistent")
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert main([]) == 2

    trouble, *hint = capsys.readouterr().err.splitlines()
    assert "start a server with `makeway up`" in trouble
    assert [line.split("  ")[1] for line in hint] == [
        "makeway demo",
        "makeway up",
        "makeway --help",
    ]


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([command, "--help"])

    assert exit.value.code == 0
    assert f"usage: makeway {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", NAMES)
def test_the_text_of_help_fits_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples stay as they are, to be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])

    text = capsys.readouterr().out.partition("\nexamples:")[0]
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [["check"], ["check", "-o", "xml", "x"]])
def test_wrong_usage_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)

    assert exit.value.code == 2
    assert "usage: makeway" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("makeway 0.")

    assert main(["version", "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    is_compiled = not str(cycle.__file__).endswith(".py")
    assert said["engine"] == ("compiled" if is_compiled else "pure Python")
    assert (
        printed == f"makeway {said['makeway']} (Python {said['python']}, {said['engine']} engine)\n"
    )


def test_nobody_reads_the_output_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "makeway.cli.main", "examples"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": SOURCE},
        check=False,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("redirection", "why"), [(">&-", "bad file descriptor"), (">/dev/full", "no space left")]
)
def test_output_that_can_not_be_written_is_one_line(redirection: str, why: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{sys.executable}' -m makeway.cli.main version {redirection}"],
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": SOURCE},
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"makeway: the output can't be written: {why}")
    assert done.stderr.count("\n") == 1


def failing_with(error: BaseException) -> Callable[[object], int]:
    def run(arguments: object) -> int:
        raise error

    return run


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `makeway version` fail in a given way."""

    def break_with(error: BaseException) -> None:
        monkeypatch.setattr(version, "run", failing_with(error))

    return break_with


def test_an_interruption_is_silent(
    broken: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    broken(KeyboardInterrupt())

    assert main(["version"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_of_ours_is_one_line_and_a_remedy(
    broken: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    broken(ValueError("3 is not 4"))

    assert main(["version"]) == 70
    printed = capsys.readouterr().err
    assert printed.startswith("makeway: this is a bug in Makeway: ValueError: 3 is not 4\n")
    assert "Traceback" not in printed


def test_a_bug_of_ours_can_be_looked_into(
    broken: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(ValueError("3 is not 4"))
    monkeypatch.setenv("MAKEWAY_TRACEBACK", "1")

    with pytest.raises(ValueError, match="3 is not 4"):
        main(["version"])


def test_a_command_loads_only_what_it_needs() -> None:
    script = (
        "import sys; from makeway.cli.main import main; main(['version']);"
        "print(*(m for m in sys.modules if m.startswith('makeway.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": SOURCE},
        check=True,
    )

    loaded = done.stdout.split("\n")[1].split()
    assert sorted(loaded) == [
        "makeway.cli",
        "makeway.cli.command",
        "makeway.cli.main",
        "makeway.cli.suggesting",
        "makeway.cli.version",
    ]
