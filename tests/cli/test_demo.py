"""The demo tells the story it promises, with real processes under a real Makeway."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.cli.check import check_texts
from makeway.cli.demo import read_objects

ROOT = Path(__file__).parents[2]
OBJECTS = ROOT / "src" / "makeway" / "cli" / "demo.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo has its own folder: others may run a demo on this machine, too."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "makeway.cli.main", "demo"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "TMPDIR": str(folder)},
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(printed: str) -> str:
    """What the demo prints, without times and the signs that make names unique."""
    return plain(printed)


def plain(text: str) -> str:
    text = re.sub(r"^ *\d+\.\d s ", "", text, flags=re.MULTILINE)
    text = re.sub(r"reservation was \d+s", "reservation was 0s", text)
    text = re.sub(r"(job-[a-z-]+)-[0-9a-f]{5}\b", r"\1", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "uid", text)
    return " ".join(text.split())


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_speech_borrows_and_gives_back_by_preemption(told: str) -> None:
    assert in_order(
        told,
        "admitted train-asr",
        "12 nvidia.com/gpu of flavor reserved, borrowing from the cohort",
        "evicted train-asr Preempted to accommodate a workload (UID: uid, JobUID: uid) due to"
        " reclamation within the cohort; preemptor path: /lab/vision; preemptee path: /lab/speech",
        "admitted train-seg",
        "finished train-asr",
    )


def test_the_reason_for_waiting_is_asked_for(told: str) -> None:
    assert "job lab/train-asr waits in ClusterQueue speech" in told
    assert "the end of job lab/train-seg" in told


def test_every_line_fits_a_terminal_of_eighty_columns(printed: str) -> None:
    assert max(map(len, printed.splitlines())) <= 80


def test_spot_machines_that_never_come_are_given_up(told: str) -> None:
    assert in_order(
        told,
        "4 nvidia.com/gpu of flavor spot",
        "evicted transcribe Evicted from ClusterQueue speech: it falls back from flavor spot",
        "4 nvidia.com/gpu of flavor reserved",
        "finished transcribe",
    )


def test_a_gang_preempts_another_as_a_whole(told: str) -> None:
    assert in_order(
        told,
        "evicted sweep Every pod was preempted by gang lab/job-evaluate",
        "runs evaluate",
        "finished evaluate",
        "finished sweep",
    )


def test_nothing_runs_on_after_the_demo(told: str, folder: Path) -> None:
    assert "gone without a trace" in told
    assert not list(folder.iterdir())
    assert not [command for command in commands() if str(folder) in command]


def commands() -> Iterator[str]:
    """Of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def test_the_readme_shows_the_demo_as_it_is(told: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text demo\n")[1].split("\n```")[0]

    for part in shown.split("\n[...]\n"):
        assert plain(part) in told


def test_the_objects_of_the_demo_have_no_errors() -> None:
    assert not check_texts(((str(OBJECTS), OBJECTS.read_text()),)).errors
    assert len(read_objects()) > 10
