"""`makeway simulate` as people type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from csv import DictReader
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from makeway.cli.main import main
from makeway.cli.simulation_progress import Bar, bar_text
from makeway.sim import simulate
from makeway.sim.examples import EXAMPLES, queues_text, trace_text
from makeway.sim.world import Progress, World
from tests.sim.worlds import cluster, flavor, job, queue, trace


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the example `borrow`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(queues_text("borrow"))
    (tmp_path / "jobs.csv").write_text(trace_text("borrow"))
    return tmp_path


def test_files_in_tables_out(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["simulate", "-f", "queues.yaml", "--trace", "jobs.csv"])

    out = capsys.readouterr().out
    assert code == 0
    assert "jobs.csv: 26 of 26 jobs, from 2026-03-02T06:09:00Z" in out
    assert "waiting by queue" in out
    assert "longest waits" in out
    assert "Owners first: borrowing nvidia.com/gpu of flavor a100 would take what" in out


@pytest.mark.parametrize(
    ("piped", "asked", "said"),
    [
        ("jobs.csv", ["-f", "queues.yaml", "--trace", "-"], "standard input: 26 of 26 jobs, from"),
        ("queues.yaml", ["-f", "-", "--trace", "jobs.csv"], "jobs.csv: 26 of 26 jobs, from"),
    ],
)
def test_one_of_the_files_may_come_through_a_pipe(
    lab: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    piped: str,
    asked: list[str],
    said: str,
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO((lab / piped).read_bytes())))

    assert main(["simulate", *asked]) == 0
    assert capsys.readouterr().out.startswith(said)
    assert main(["simulate", "-f", "-", "--trace", "-"]) == 2
    assert "standard input, which can be read once" in capsys.readouterr().err


def test_what_is_given_twice_is_not_dropped(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (lab / "jobs.csv").read_text().replace("submit,name,queue,run,gpus", "a,name,queue,b,c")
    (lab / "jobs.csv").write_text(text)
    asked = ["simulate", "-f", "queues.yaml", "--trace", "jobs.csv"]

    assert main([*asked, "--map", "submit=a,run=b", "--map", "gpus=c"]) == 0
    assert "26 finished" in capsys.readouterr().out
    assert main([*asked, "--trace", "more.csv"]) == 2
    assert capsys.readouterr().err.startswith("makeway: --trace more.csv: one trace at a time")


def test_json_report_and_listing_are_written(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--report", "out.html", "--jobs", "out.csv"]
    code = main(["simulate", "-f", "queues.yaml", "--trace", "jobs.csv", "-o", "json", *files])

    data = json.loads(capsys.readouterr().out)
    assert code == 0
    assert data["jobs"]["finished"] == 26
    assert "text" in data["longestWaits"][0]["reasons"][0]
    assert (lab / "out.html").read_text().startswith("<!doctype html>")
    assert len((lab / "out.csv").read_text().splitlines()) == 27


def test_a_job_tells_its_life(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example", "stockout", "--explain", "train-20"]) == 0

    out = capsys.readouterr().out
    story = " ".join(out[out.index("the life of default/train-20") :].split())
    for word in (
        "submitted",
        "no machines",
        "evicted",
        "falls back from flavor spot",
        "pods ready",
        "finished",
    ):
        assert word in story


def test_a_job_that_still_waits_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--example", "borrow", "--until", "6h", "--explain", "asr-14"]

    assert main(["simulate", *arguments]) == 0

    story = capsys.readouterr().out.partition("the life of default/asr-14")[2]
    assert "at the end" in story
    assert "nvidia.com/gpu in flavor a100" in " ".join(story.split())


def test_two_configurations_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--example", "stockout", "--compare", "stockout-without-rules"]

    assert main(["simulate", *arguments]) == 0

    out = capsys.readouterr().out
    assert "A: stockout.yaml   B: stockout-without-rules.yaml" in out
    assert "WORSE" in out


def test_a_comparison_of_three_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = ["--compare", "gang-best-effort", "--compare", "quota of flavor h100=+8"]
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["simulate", "--example", "gang", *sides]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines if line.startswith("  mean wait, size 9-16 ")]
    assert [row[4:] for row in rows] == [  # B beside A, and below that C beside A
        ["29.0m", "5.4h", "11x", "WORSE"],
        ["29.0m", "2.7m", "-90.8", "%", "better"],
    ]


def test_more_sides_than_letters_are_called_as_columns_of_a_spreadsheet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = [part for i in range(27) for part in ("--compare", f"load=1.{i + 10}")]

    assert main(["simulate", "--example", "gang", "--until", "2h", *sides]) == 0

    assert "\nAB against A: waits are " in capsys.readouterr().out


def test_in_a_file_a_comparison_stays_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--compare", "gang-best-effort", "--compare", "quota of flavor h100=+8"]

    assert main(["simulate", "--example", "gang", *sides]) == 0

    out = capsys.readouterr().out
    assert out.count("mean wait, size 9-16 ") == 1


@pytest.mark.parametrize("example", [example.name for example in EXAMPLES])
def test_an_example_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["simulate", "--example", example]) == 0

    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_jobs_of_all_sides_are_listed(lab: Path) -> None:
    main(["simulate", "--example", "gang", "--compare", "gang-best-effort", "--jobs", "out.csv"])

    rows = [*DictReader((lab / "out.csv").read_text().splitlines())]
    waits = {row["side"]: row["wait_s"] for row in rows if row["job"] == "default/gang-1"}
    assert waits == {"A": "1290", "B": "24960"}  # 21.5 min, 6.9 h
    assert len(rows) == 2 * 93


def test_a_comparison_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--example", "gang", "--compare", "gang-best-effort", "-o", "json"]

    assert main(["simulate", *arguments]) == 0

    data = json.loads(capsys.readouterr().out)
    first, second = data["runs"]
    assert first["configuration"]["source"] == "gang.yaml"
    assert second["waits"]["bySize"]["9-16"]["median"] > 4 * 3600
    assert data["differences"][0]["what"] == "mean wait, all"


def test_a_proposal_can_be_used_as_it_is(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "init", "--trace", "jobs.csv"]) == 0
    (lab / "proposed.yaml").write_text(capsys.readouterr().out)

    assert main(["check", "proposed.yaml"]) == 0
    assert main(["simulate", "-f", "proposed.yaml", "--trace", "jobs.csv"]) == 0


def test_the_examples_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example"]) == 0

    assert "stockout    spot machines don't come" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "which jobs? give a trace with --trace FILE"),
        (["--trace", "jobs.csv"], "which queues? give them with -f queues.yaml"),
        (["--trace", "nope.csv"], "nope.csv: no such file or directory"),
        (["--example", "nope"], "there is no example nope; there are borrow, stockout"),
        (["--example", "borrow", "--until", "soon"], "--until soon: not a span of time"),
        (["--example", "borrow", "--first", "0"], "--first 0: write how many jobs"),
        (["--example", "borrow", "--explain", "nobody"], "borrow.csv: no job nobody"),
        (["--from-live", "--first", "5"], "--from-live: --map, --first and --queue are about"),
        (["init", "--trace", "jobs.csv", "-f", "queues.yaml"], "init proposes queues from --trace"),
        (["-f", "bad.yaml", "--trace", "jobs.csv"], "bad.yaml:4:9: spec.cohort: is not a known"),
    ],
)
def test_trouble_is_one_line(
    lab: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    version = "apiVersion: kueue.x-k8s.io/v1beta2"
    text = f"{version}\nkind: ClusterQueue\nmetadata: {{name: q}}\nspec: {{ cohort: lab }}\n"
    (lab / "bad.yaml").write_text(text)

    assert main(["simulate", *arguments]) == 2

    err = capsys.readouterr().err
    assert err.startswith(f"makeway: {error}"), err
    assert err.count("\n") == 1


def test_settings_are_checked_with_the_queues(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "queues.yaml"]) == 0
    (lab / "queues.yaml").write_text(queues_text("borrow").replace("30m", "30 minutes"))

    assert main(["check", "queues.yaml"]) == 1
    assert "spec.checkpoints[0].interval" in capsys.readouterr().out


def test_until_gives_a_partial_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example", "borrow", "--until", "2h"]) == 0

    out = capsys.readouterr().out
    assert "ends after 2h, as asked: what comes later is not in the figures" in out
    assert "STOPPED" not in out


def test_a_side_that_does_not_come_to_its_end_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 9 h that were asked for, A takes 8.2 and B would take 9.4."""
    arguments = ["--example", "gang", "--until", "9h", "--compare", "gang-best-effort"]
    assert main(["simulate", *arguments]) == 0

    out = capsys.readouterr().out
    assert "\nB: ends after 9h, as asked" in out
    assert "A: ends" not in out


def test_ctrl_c_ends_the_simulation_and_not_its_report() -> None:
    jobs = [job(f"job-{i}", at=float(i)) for i in range(1000)]

    with Bar(is_shown=False) as bar:

        def look(progress: Progress) -> bool:
            if progress.jobs_ended > 300:
                signal.raise_signal(signal.SIGINT)
            return bar.look(progress)

        result = simulate(cluster(flavor("a"), queue("q", a=100)), trace(jobs), watch=look)

    assert not result.is_complete
    assert 300 < result.finished < 900
    assert result.wait().jobs == len(result.runs)


@pytest.mark.parametrize(
    ("jobs", "said"), [(26, "STOPPED EARLY after "), (52, "26 finished")], ids=["in A", "in B"]
)
def test_after_ctrl_c_nobody_is_compared_with_half_a_side(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jobs: int, said: str
) -> None:
    """Stopped in A, A alone is shown as far as it came; stopped in B, A alone and whole."""

    def look(bar: Bar, progress: Progress) -> bool:
        bar.is_stopped = progress.jobs == jobs and progress.jobs_ended > 5
        return not bar.is_stopped

    monkeypatch.setattr(Bar, "look", look)
    monkeypatch.setattr("makeway.sim.world.CYCLES_BETWEEN_LOOKS", 1)
    assert main(["simulate", "--example", "borrow", "--compare", "load=2"]) == 130

    out, error = capsys.readouterr()
    assert said in out
    assert "against A" not in out
    assert error == "makeway: one side was not played to the end, and left out\n"


def test_a_mistake_in_another_side_is_told_before_the_first_is_played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "run", None)
    assert main(["simulate", "--example", "borrow", "--compare", "nosuch.yaml"]) == 2

    assert capsys.readouterr().err.startswith("makeway: nosuch.yaml: no such file")


def test_the_bar_tells_time_speed_and_what_is_left() -> None:
    text = bar_text(Progress(now=86_400, last_submit=0, jobs_ended=50, jobs=100, steps=3000), 30.0)

    assert text.startswith("[############............]  50 %  24.0h simulated  50 of 100 jobs")
    assert text.endswith("  100 events/s  30s left")


def test_the_same_command_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    outputs = set()
    for seed in ("0", "1"):
        command = [sys.executable, "-m", "makeway.cli.main", "simulate", "--example", "fair"]
        run = subprocess.run(
            [*command, "-o", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        outputs.add(run.stdout)

    assert len(outputs) == 1
