"""The scripts that shells load are made from the commands as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from makeway.cli.main import NAMES, main
from tests.prerequisites import program


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash offers for the last of the words."""
    typed = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _makeway; echo "${{COMPREPLY[@]}}"'
    text = script("bash", capsys) + f"\n{ask}\n"
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(["makeway", "he"], capsys) == []
    assert completed(["makeway", "hi"], capsys) == ["history"]
    assert completed(["makeway", ""], capsys) == list(NAMES)


def test_bash_completes_options_and_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed(["makeway", "submit", "--gpu"], capsys) == ["--gpu", "--gpu-resource"]
    assert completed(["makeway", "status", "-o", "j"], capsys) == ["json"]
    assert completed(["makeway", "completion", "z"], capsys) == ["zsh"]


def test_bash_completes_kinds_queues_and_priorities(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`makeway` itself is asked for names; here it is a script that knows two of each."""
    own = tmp_path / "makeway"
    own.write_text('#!/bin/sh\nprintf "%s/vision\\n%s/speech\\n" "$2" "$2"\n')
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert completed(["makeway", "submit", "-q", ""], capsys) == ["vision", "speech"]
    assert completed(["makeway", "submit", "--priority", "s"], capsys) == ["speech"]
    assert completed(["makeway", "describe", "clusterq"], capsys) == ["clusterqueues"]
    assert completed(["makeway", "gpu", "d"], capsys) == ["drain"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_can_read_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    binary = program(shell)

    text = script(shell, capsys)

    subprocess.run([binary, "-n"], input=text, text=True, check=True)


def test_fish_knows_every_command_and_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("fish", capsys)

    for name in NAMES:
        assert f"-a {name} -d " in text
    assert "-n '__fish_seen_subcommand_from logs' -f -a '(makeway status" in text
