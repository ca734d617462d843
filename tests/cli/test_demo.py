"""The demo tells the story it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.cli.check import check_texts
from makeway.cli.demo import WIDTH, Demo
from makeway.cli.main import main
from makeway.cli.terminal import Pen

OBJECTS = Path(__file__).parents[2] / "src" / "makeway" / "cli" / "demo.yaml"


@pytest.fixture(scope="module")
def moments() -> dict[str, str]:
    """What is printed at each time of the day, white space evened out."""
    lines: list[str] = []
    Demo(Pen(), lines.append).play()
    blocks: dict[str, str] = {}
    for block in "\n".join(lines).split("\n\n"):
        if block[:1].isdigit() or block[1:2].isdigit():
            clock = block.strip()[:8]
            blocks[clock] = " ".join(block.split())
        elif block.strip():
            blocks[clock] += " " + " ".join(block.split())
    return blocks


def test_the_borrower_is_admitted(moments: dict[str, str]) -> None:
    assert "admitted speech/train-asr" in moments["09:00:00"]
    assert "12 nvidia.com/gpu of flavor reserved, borrowing from the cohort" in moments["09:00:00"]
    assert "speech reserved ████████▒▒▒▒ 12 of 8" in moments["09:00:00"]


def test_the_owner_reclaims_by_preemption(moments: dict[str, str]) -> None:
    assert "preempts vision/train-seg" in moments["09:05:00"]
    assert "in flavor reserved, 4 more needed" in moments["09:05:00"]
    assert (
        "speech/train-asr: Preempted to accommodate a workload (vision/train-seg) due to "
        "reclamation within the cohort [InCohortReclamation]"
    ) in moments["09:05:00"]
    assert "admitted vision/train-seg" in moments["09:05:30"]


def test_the_victim_waits_with_its_reasons(moments: dict[str, str]) -> None:
    assert "waits speech/train-asr" in moments["09:05:30"]
    assert "flavor spot, previously considered podsets requests (0)" in moments["09:05:30"]
    assert "flavor reserved, 4 more needed" in moments["09:05:30"]
    assert "Tried again upon: quota freed" in moments["09:05:30"]


def test_who_asks_is_told_who_holds_it_and_what_would_help(moments: dict[str, str]) -> None:
    assert "position in queue: 0" in moments["09:07:00"]
    assert "vision/train-seg (ClusterQueue vision): 8 nvidia.com/gpu" in moments["09:07:00"]
    assert "its queue uses no more than its own quota" in moments["09:07:00"]
    assert "4 nvidia.com/gpu more quota of flavor reserved" in moments["09:07:00"]


def test_spot_machines_that_never_come_are_given_up(moments: dict[str, str]) -> None:
    assert "4 nvidia.com/gpu of flavor spot" in moments["09:10:00"]
    assert "falls back from flavor spot [FlavorFallback]" in moments["09:20:00"]
    assert "admitted speech/tune-tts" in moments["09:20:30"]
    assert "4 nvidia.com/gpu of flavor reserved" in moments["09:20:30"]


def test_the_victim_comes_back(moments: dict[str, str]) -> None:
    assert "admitted speech/train-asr" in moments["10:30:00"]
    assert list(moments)[-1] == "11:30:00"
    assert "vision reserved ········ 0 of 8" in moments["11:30:00"]


def test_the_command_fits_a_terminal_and_ends_with_what_to_try_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in "".join(lines)
    assert lines[-4] == "What to try next:"


def test_on_a_terminal_there_is_colour() -> None:
    lines: list[str] = []

    Demo(Pen(has_colour=True), lines.append).play()

    assert "\x1b[1;32madmitted" in "\n".join(lines)


def test_a_poor_terminal_gets_plain_bars() -> None:
    lines: list[str] = []

    Demo(Pen(has_blocks=False), lines.append).play()

    assert "########++++" in "\n".join(lines)
    assert "\n".join(lines).isascii()


def test_its_objects_are_right_and_fully_supported() -> None:
    report = check_texts([("demo.yaml", OBJECTS.read_text())])

    assert (report.errors, report.warnings) == ([], [])
