"""The command as a whole: help, exit codes, and no traceback whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.cli import main as main_module
from makeway.cli.main import COMMANDS, main

SOURCE = str(Path(__file__).parents[2] / "src")


def test_without_a_command_it_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    help_text = capsys.readouterr().out
    assert "makeway demo" in help_text
    for command in COMMANDS:
        assert command.summary in " ".join(help_text.split())


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([command, "--help"])

    assert exit.value.code == 0
    assert f"usage: makeway {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["chekc"], ["check"], ["check", "-o", "xml", "x"]])
def test_wrong_usage_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)

    assert exit.value.code == 2
    assert "usage: makeway" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("makeway 0.")


def test_nobody_reads_the_output_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "makeway.cli.main", "demo"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": SOURCE},
        check=False,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


def failing_with(error: BaseException) -> Callable[[object], int]:
    def run(arguments: object) -> int:
        raise error

    return run


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `makeway version` fail in a given way."""

    def break_with(error: BaseException) -> None:
        version = next(command for command in COMMANDS if command.name == "version")
        failing = replace(version, run=failing_with(error))
        monkeypatch.setattr(main_module, "COMMANDS", (failing,))

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
