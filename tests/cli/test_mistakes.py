"""What is surely mistaken is asked about, and what Slurm's people write is understood."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from makeway.cli.command import UsageError
from makeway.cli.main import main
from makeway.cli.sbatch import read_line
from makeway.cli.units import check_amount

Capsys = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("resource", "text", "said"),
    [
        ("memory", "512m", "so this is 0.512 bytes; did you mean 512Mi?"),
        ("memory", "16", "this is 16 bytes; did you mean 16Gi?"),
        ("memory", "10GB", "did you mean 10Gi, or 10G?"),
        ("memory", "8gb", "did you mean 8Gi, or 8G?"),
        ("memory", "lots", "write a quantity such as 2"),
        ("memory", "9Ei", "no machine has so much memory"),
        ("cpu", "500000", "this is 500000 cores; a thousandth of a core is written m"),
        ("nvidia.com/gpu", "80000", "this is 80000 GPUs"),
        ("cpu", "-1", "write a quantity"),
    ],
)
def test_units_that_can_hardly_be_meant(resource: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_amount("--x", resource, text, is_forced=False)

    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("resource", "text"),
    [("memory", "512Mi"), ("memory", "0"), ("cpu", "500m"), ("nvidia.com/gpu", "8")],
)
def test_units_that_are_meant(resource: str, text: str) -> None:
    check_amount("--x", resource, text, is_forced=False)


def test_who_insists_gets_it() -> None:
    check_amount("--memory", "memory", "512m", is_forced=True)


@pytest.mark.parametrize(
    ("line", "options", "left"),
    [
        ("--job-name=train --gres=gpu:2", ("--name", "train", "--gpu", "2"), ()),
        ("--gres=gpu:a100:4", ("--gpu", "4"), ()),
        ("--gres=gpu", ("--gpu", "1"), ()),
        ("--gres=tmp:10G", (), ("--gres=tmp:10G",)),
        ("-G 3", ("--gpu", "3"), ()),
        ("-t 90", ("--time-limit", "5400s"), ()),
        ("--time=01:30:00", ("--time-limit", "5400s"), ()),
        ("--time=1-02", ("--time-limit", "93600s"), ()),
        ("-t 30:15", ("--time-limit", "1815s"), ()),
        ("--mem=16G", ("--memory", "16Gi"), ()),
        ("--mem 4000", ("--memory", "4000Mi"), ()),
        ("-c8 -N 1 -n 1", ("--cpu", "8"), ()),
        ("-N 4", (), ("-N 4",)),
        ("--array=0-9%2 --export=NONE", ("--array", "0-9%2", "--no-env"), ()),
        ("-p gpu --mail-type=END -H", ("--hold",), ("-p gpu", "--mail-type=END")),
        ("", (), ()),
    ],
)
def test_slurms_lines(line: str, options: tuple[str, ...], left: tuple[str, ...]) -> None:
    assert read_line("job.sh:2", line) == (options, left)


@pytest.mark.parametrize("line", ["--time=soon", "--mem=much", "--comment 'open"])
def test_slurms_lines_that_can_not_be_read(line: str) -> None:
    with pytest.raises(UsageError, match=r"^job\.sh:2: "):
        read_line("job.sh:2", line)


SCRIPT = """\
#!/bin/bash
#SBATCH --gres=gpu:2 --time=1:00:00
#SBATCH --partition=long
#MAKEWAY -q vision --gpu 1
python train.py
"""


def test_a_script_of_slurms_runs_as_it_says_and_the_rest_is_named(
    tmp_path: Path, capsys: Capsys
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT)

    assert main(["submit", "--dry-run", "client", "--no-env", str(script)]) == 0
    printed = capsys.readouterr()
    assert "nvidia.com/gpu: '1'" in printed.out  # our own line goes first
    assert "activeDeadlineSeconds: 3600" in printed.out
    assert printed.err == "warning: #SBATCH --partition=long: means nothing here\n"


def test_behind_dashes_the_lines_of_a_script_are_not_read_and_that_is_said(
    tmp_path: Path, capsys: Capsys
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT)

    assert main(["submit", "-q", "x", "--dry-run", "client", "--no-env", "--", str(script)]) == 0
    assert "are not read behind --; leave -- out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sumbit"], "there is no command 'sumbit' (did you mean submit?)"),
        (["frobnicate"], "there is no command 'frobnicate'; `makeway --help` lists them"),
        (["status", "--quue", "x"], "there is no option --quue (did you mean --queue?)"),
        (["submit", "--gpus", "1"], "there is no option --gpus (did you mean --gpu?)"),
    ],
)
def test_did_you_mean(
    words: list[str], said: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["makeway", *words])
    try:
        code: object = main(words)
    except SystemExit as ended:
        code = ended.code

    assert code == 2
    assert said in capsys.readouterr().err
