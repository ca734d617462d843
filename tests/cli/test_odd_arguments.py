"""Whatever is typed, the answer is a line and an exit code."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import cast

import pytest

from makeway.cli.main import NAMES, main
from tests.harness.cli import CliServer

ODD = [
    [],
    [""],
    ["--"],
    ["-"],
    ["@"],
    ["job/"],
    ["queue", ""],
    ["a/b/c"],
    ["../../etc/passwd"],
    ["queue", "../x"],
    ["queue/"],
    ["workload/"],
    ["job", "\x00"],
    ["\x00"],
    ["\udcff"],
    ["💥"],
    ["a b\nc"],
    ["%2e%2e", "?watch=true"],
    ["x" * 5000],
    ["9" * 5000],
    ["1", "--timeout", "-5s"],
    ["1", "--timeout", "9" * 400 + "h"],
    ["1", "--for", "jsonpath={"],
    ["1", "--since", "yesterday", "-o", "json"],
    ["1", "--tail", "-7"],
    ["-n", "no such namespace", "1"],
    ["-n", "../default", "1", "x"],
    ["-o", "xml", "1"],
    ["-f", "/nonexistent/file", "--dry-run"],
    ["--kubeconfig", "/dev/null", "1"],
    ["--all", "-y", "-n", "\udcff"],
    ["--cpu", "9" * 500, "--", "\udcff"],
    ["--array", "0-999999%0", "--", "true"],
    ["--env", "=", "--", "true"],
    ["--env", "A B=1", "--workdir", "\x00", "--", "true"],
    ["--name", "Not A Name", "--", "true"],
    ["--time-limit", "1e9h", "--", "true"],
    ["--time-limit", "999999999999999h", "--", "true"],
    ["--priority", "../x", "--", "true"],
    ["--gpu-resource", "", "--gpu", "1", "--", "true"],
]
# These start what does not end, or are known by their own tests.
LEFT_OUT = ("up", "demo", "simulate", "controller", "install", "uninstall", "run")


def answer(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    # As Python opens it, when nobody captures it.
    cast("io.TextIOWrapper", sys.stderr).reconfigure(errors="backslashreplace")
    try:
        return main(arguments)
    except SystemExit as exit:
        return exit.code


@pytest.mark.parametrize("command", sorted(set(NAMES) - set(LEFT_OUT)))
def test_no_arguments_are_too_odd(
    command: str,
    cli: CliServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        code = answer([command, *odd], monkeypatch)

        told = capsys.readouterr()
        assert code in (0, 1, 2), (command, odd, told)
        assert "Traceback" not in told.err
        assert code == 0 or told.err or told.out, (command, odd)


@pytest.mark.parametrize("name", ["kubeconfig of others", "folder", "nothing"])
def test_no_server_is_one_line(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = '{"current-context": "x", "contexts": [{"name": "x", "context": {}}]}'
    (tmp_path / "kubeconfig of others").write_text(text)
    (tmp_path / "folder").mkdir()

    code = answer(["status", "--kubeconfig", str(tmp_path / name)], monkeypatch)

    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
