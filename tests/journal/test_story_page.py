"""Who took my place yesterday at 14:05? docs/past.md shows what the commands print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.api.times import parse_time
from makeway.cli.command import UsageError
from makeway.cli.main import main
from makeway.cli.moments import moment_of
from makeway.journal.file import NAME, JournalFile
from tests.harness.engine import ANY, queue
from tests.journal.stories import RecordedScenario

PAGE = Path(__file__).parents[2] / "docs" / "past.md"
SHOWN = re.compile(r"```\n\$ makeway (.*?)\n(.*?)```", re.DOTALL)
ONE = parse_time("2026-03-02T13:00:00Z")
HOUR_S = 3600.0


def tell(folder: Path) -> None:
    """speech trains on borrowed GPUs from 13:00; vision wants its own back at 14:01:30."""
    lab = RecordedScenario(
        folder,
        queue("vision", gpu=8, reclaim=ANY),
        queue("speech", gpu=8),
        cohort="lab",
        now=ONE,
    )
    lab.pending("train-asr", on="speech", gpu=12)
    lab.cycles()
    lab.later(10).pods_ready("train-asr")
    lab.cycles()
    lab.later(3680).pending("train-seg", on="vision", gpu=8)
    lab.cycles()
    lab.later(20).let_go("train-asr")
    lab.cycles()
    lab.later(5).pods_ready("train-seg")
    lab.cycles()
    lab.later(3600).finish("train-seg")
    lab.remove("train-seg")
    lab.cycles()
    lab.later(1800).finish("train-asr")
    lab.remove("train-asr")
    lab.cycles()
    lab.recorded.writer.close()


def printed(command: str) -> str:
    """What a command of the page prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(shlex.split(command)) == 0, command
    return said.getvalue()


@pytest.fixture
def yesterday(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("COLUMNS", raising=False)  # as in a file: nothing is wrapped
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("MAKEWAY_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(time, "time", lambda: ONE + 24 * 3600.0)
    time.tzset()
    tell(tmp_path)
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("yesterday")
def test_the_page_shows_what_is_printed() -> None:
    shown = SHOWN.findall(PAGE.read_text())
    assert [command.split()[0] for command, _ in shown] == ["why", "report", "replay"]
    for command, expected in shown:
        assert printed(command) == expected, "python -m tests.journal.test_story_page writes it"


@pytest.mark.usefixtures("yesterday")
def test_what_a_preemption_would_have_cost_counts_up_to_that_moment() -> None:
    """Pods were ready at 13:00:10, and nothing was written down until 14:01:30."""
    said = printed("why train-asr --at '2026-03-02 13:30:10'")

    assert "At 2026-03-02 13:30:10, as of 2026-03-02 13:00:10:" in said
    assert "To preempt it now would cost 30m of work" in said


def test_a_long_story_fits_a_terminal(
    yesterday: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["why", "train-asr", "--at", "yesterday 14:05"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    place = lines.index("- insufficient unused quota for gpu in flavor default, 4 more needed (the")
    assert lines[place + 1].startswith("  request exceeds nominal quota")


def test_a_report_by_everything_fits_a_terminal(
    yesterday: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As wide as it is, it takes 83 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["report", "--by", "user,queue,flavor", "--since", "2d"]) == 0

    heads, names, *rows = capsys.readouterr().out.splitlines()
    assert max(map(len, (names, *rows))) <= 80
    assert (heads.split(), rows[0].split()[:3]) == (
        ["GPU-", "PRE-"],
        ["default", "speech", "default"],
    )
    assert names.split()[-4:] == ["HOURS", "EMPTED", "EVICTED", "LOST"]
    assert rows[0].split()[6:] == ["18.4", "1", "0", "1h1m"]


def test_a_bundle_of_it_has_no_names_and_is_replayed(
    yesterday: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = str(yesterday / "report.bundle")
    where = ["--data-dir", str(yesterday)]
    assert main(["bundle", to, *where]) == 1  # nobody can be asked
    assert "train-asr is" in capsys.readouterr().out
    assert main(["bundle", to, "--yes", *where]) == 0
    assert main(["bundle", to, "--yes", *where]) == 2  # it exists
    capsys.readouterr()
    assert main(["replay", to]) == 0
    assert "all the same" in capsys.readouterr().out
    assert main(["why", "train-asr", "--at", "2026-03-02 14:05", "--journal", to]) == 1


NODE = "{apiVersion: v1, kind: Node, metadata: {name: box}}"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["node.yaml"], "node.yaml is no bundle; what other queues would have made of it is asked"),
        (["notes.txt"], "notes.txt is no journal, nor a bundle of `makeway bundle`"),
        (["."], ". is a folder; its journal is asked with --data-dir ."),
        (["nowhere"], "nowhere: no such file or directory"),
        (
            ["-f", "node.yaml"],
            "node.yaml: no ClusterQueue in it, only Node; -f takes ClusterQueues",
        ),
    ],
)
def test_what_is_no_journal_is_told_what_would_be_right(
    yesterday: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(yesterday)
    for name in ("node.yaml", "notes.txt"):
        (yesterday / name).write_text(NODE)

    assert main(["replay", *asked]) == 2
    assert capsys.readouterr().err.startswith(f"makeway: {why}")


def test_the_jobs_of_a_journal_can_be_simulated_in_one_queue(
    yesterday: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 GPUs in a queue of another name, and nobody is preempted."""
    queues = yesterday / "queues.yaml"
    quota = "{name: default, resources: [{name: gpu, nominalQuota: 20}]}"
    group = f"resourceGroups: [{{coveredResources: [gpu], flavors: [{quota}]}}]"
    kueue = "apiVersion: kueue.x-k8s.io/v1beta2\nmetadata: "
    queues.write_text(
        f"{kueue}{{name: default}}\nkind: ResourceFlavor\n"
        + "".join(
            f"---\n{kueue}{{name: {name}}}\nkind: ClusterQueue\n"
            f"spec: {{namespaceSelector: {{}}, {group}}}\n"
            for name in ("all", "nobody")
        )
    )
    asked = ["replay", "-f", str(queues)]
    assert main(asked) == 2
    assert "name one for all jobs with --queue" in capsys.readouterr().err

    assert main([*asked, "--queue", "all"]) == 0
    assert "2 finished; 0 preemptions" in capsys.readouterr().out
    assert main(["replay", "--queue", "all"]) == 2
    assert capsys.readouterr().err == "makeway: --queue goes with -f\n"


def test_the_last_segment_counts_until_another_begins(
    yesterday: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was written in the last hour: that is how things have stood since."""
    to, where = str(yesterday / "hour.bundle"), ["--data-dir", str(yesterday), "--since", "1h"]
    assert main(["bundle", to, "--yes", *where]) == 0
    assert "2026-03-02 13:00:00 to 2026-03-02 15:31:55: 1 segment" in capsys.readouterr().out
    assert main(["replay", *where]) == 0
    assert "6 decisions replayed: all the same" in capsys.readouterr().out


def test_an_empty_journal_is_neither_bundled_nor_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    JournalFile(tmp_path / NAME).close()
    bundle = tmp_path / "report.bundle"
    for command in (["bundle", str(bundle), "--yes"], ["replay"]):
        assert main([*command, "--data-dir", str(tmp_path)]) == 1
        assert "nothing was written down yet" in capsys.readouterr().err
    assert not bundle.exists()


def test_nothing_is_known_of_other_times_and_other_jobs(
    yesterday: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data-dir", str(yesterday)]
    assert main(["why", "train-asr", "--at", "2026-03-02 18:00", *where]) == 0
    assert "default/train-asr was gone\n" in capsys.readouterr().out
    assert main(["why", "train-asr", "--at", "2020-01-01 14:05", *where]) == 1
    assert "the journal begins at 2026-03-02 13:00:00, after that" in capsys.readouterr().err
    assert main(["why", "train-seg", "--at", "2026-03-02 13:30", *where]) == 1
    assert "until then; it came at 2026-03-02 14:01:30" in capsys.readouterr().err
    assert main(["why", "train-asr", "--at", "2026-03-03 13:00:01", *where]) == 1
    assert "is still to come; `makeway forecast` tells" in capsys.readouterr().err
    assert main(["why", "nobody", "--at", "2026-03-02 14:05", *where]) == 1
    assert main(["why", "train-asr", "--at", "tomorrow", *where]) == 2
    assert main(["why", "train-asr", "--data-dir", str(yesterday / "none")]) == 2
    assert main(["report", "--by", "colour", *where]) == 2


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("13:00", 24 * HOUR_S),
        ("13:00:01", 1.0),  # today it is not so late yet
        ("yesterday 14:05", HOUR_S + 300),
        ("today 12:59", 24 * HOUR_S - 60),
        ("today 14:05", 25 * HOUR_S + 300),  # still to come, which is not for this function to say
        ("90m ago", 22.5 * HOUR_S),
        ("2d ago", -24 * HOUR_S),
        ("2026-03-02 14:05:30", HOUR_S + 330),
        ("2026-03-02T14:05:30.25+01:00", 330.25),
    ],
)
@pytest.mark.usefixtures("yesterday")
def test_a_moment_is_written_in_many_ways(text: str, at: float) -> None:
    assert moment_of("--at", text) == ONE + at


@pytest.mark.parametrize(
    ("times", "gpu_hours"),
    [
        (["--since", "2d"], 18.4),
        (["--since", "2026-03-02"], 18.4),
        (["--since", "yesterday", "--until", "today"], 18.4),
        (["--since", "yesterday 13:30", "--until", "yesterday 14:00"], 6.0),
        (["--since", "22h ago"], 6.0),  # since 15:00; it ran again from 15:01:55 to 15:31:55
    ],
)
def test_a_report_is_of_the_time_asked_for(
    yesterday: Path, capsys: pytest.CaptureFixture[str], times: list[str], gpu_hours: float
) -> None:
    """train-asr has 12 GPUs from 13:00 to 14:01:50, and again after train-seg."""
    assert main(["report", *times, "--data-dir", str(yesterday), "-o", "json"]) == 0
    speech = json.loads(capsys.readouterr().out)["items"][0]
    assert (speech["queue"], round(speech["usedHours"]["gpu"], 1)) == ("speech", gpu_hours)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            ["--since", "yesterday", "--until", "2026-03-01"],
            "--since yesterday is after 2026-03-01",
        ),
        (["--since", "tomorrow"], "--since tomorrow: write so long ago, as in 24h"),
        (["--since", "1w"], "--since 1w: write for example 90s"),
        (["--until", "2h"], "--until 2h: write a time such as"),
        (["--by", "user,user"], "--by user,user: name each field once"),
    ],
)
def test_a_report_of_no_time_is_refused(
    yesterday: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], why: str
) -> None:
    assert main(["report", *wrong, "--data-dir", str(yesterday)]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "ago", " ago", "two hours ago", "-2h ago", "today", "25:00"])
def test_other_words_are_no_moment(text: str) -> None:
    with pytest.raises(UsageError, match=r"write|negative"):
        moment_of("--at", text)


def test_a_second_is_meant_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times are printed so: who names one of them means what happened in it."""
    lab = RecordedScenario(tmp_path, queue("vision", gpu=8), cohort="lab", now=ONE)
    lab.later(0.75).pending("train", on="vision", gpu=4)
    lab.cycles()
    lab.recorded.writer.close()
    asked = ["why", "train", "--data-dir", str(tmp_path), "--at"]

    assert main([*asked, "2026-03-02T13:00:00.5Z"]) == 1
    assert main([*asked, "2026-03-02T13:00:00Z"]) == 0
    assert "default/train is admitted in ClusterQueue vision" in capsys.readouterr().out


def write_page(folder: Path) -> None:
    """Put what is printed now into the page."""
    tell(folder)
    page = SHOWN.sub(lambda m: f"```\n$ makeway {m[1]}\n{printed(m[1])}```", PAGE.read_text())
    PAGE.write_text(page)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAKEWAY_DATA_DIR", name)
        patch.setattr(time, "time", lambda: ONE + 24 * 3600.0)
        write_page(Path(name))
