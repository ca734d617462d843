"""What-if: overlays, knobs, another load, sweeps, searches."""

from __future__ import annotations

import json
import re
from collections import Counter
from csv import DictReader
from pathlib import Path
from typing import Any

import pytest

from makeway.cli.main import main
from makeway.sim import SimulationError, simulate
from makeway.sim.cluster import SimulatedCluster, read_cluster
from makeway.sim.examples import load_example, queues_text, trace_text
from makeway.sim.intervals import interval_of
from makeway.sim.knobs import parse_turn
from makeway.sim.load import Load
from makeway.sim.named_figures import figures_of, full_name, parse_goal
from makeway.sim.overlay import merged
from makeway.sim.search import Range, Search
from makeway.sim.simulate import changed_cluster
from makeway.sim.sweep import Question, Runs, Task, parse_axis
from makeway.sim.sweep_report import answer as answer_lines
from makeway.sim.sweep_report import search_table
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, play, queue, settings, trace

DAY = 24 * HOUR
LAB = (
    *(flavor("a"), queue("vision", cohort="lab", a=8)),
    queue("speech", cohort="lab", a=4),
)


def quotas(found: SimulatedCluster) -> dict[str, int]:
    return {
        name: quota.nominal
        for name, one in found.queues.items()
        for group in one.groups
        for own in group.flavors
        for quota in own.quotas.values()
    }


def turned(found: SimulatedCluster, *texts: str) -> SimulatedCluster:
    return changed_cluster(found, (), [parse_turn(text) for text in texts])[0]


# --- files over files ---

OVER = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec: {queueingStrategy: StrictFIFO}
---
apiVersion: makeway.dev/v1alpha1
kind: Simulation
spec: {startup: [{flavor: spot, delay: 4m}]}
"""


def test_a_later_file_is_laid_over_an_earlier_one(tmp_path: Path) -> None:
    both = (*LAB, flavor("spot"))
    base = "---\n".join((*both, settings("termination: 30s, startup: [{flavor: a, delay: 1m}]")))
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "over.yaml").write_text(OVER)

    found = read_cluster([tmp_path / "base.yaml", tmp_path / "over.yaml"])

    assert quotas(found) == {"vision": 8, "speech": 4}
    assert found.queues["vision"].strategy.value == "StrictFIFO"  # type: ignore[index]
    assert found.settings.termination == 30.0
    assert [(one.flavor, one.delay) for one in found.settings.startup] == [
        *(("a", MINUTE), ("spot", 4 * MINUTE))
    ]


def test_a_setting_may_name_what_only_a_scenario_brings(tmp_path: Path) -> None:
    spot = settings("stockouts: [{flavor: spot, from: 0s, for: 1h}]")
    (tmp_path / "spot.yaml").write_text(queue("vision", a=8, spot=8) + "---\n" + flavor("spot"))
    base = cluster(*LAB, spot)

    with pytest.raises(SimulationError, match='"spot" is no flavor here; write a'):
        changed_cluster(base, (), ())
    found, _ = changed_cluster(base, [tmp_path / "spot.yaml"], ())
    assert found.settings.stockouts[0].flavor == "spot"


def test_lists_of_named_things_merge_and_other_lists_are_replaced() -> None:
    lower = {"flavors": [{"name": "a", "n": 1, "m": 1}, {"name": "b", "n": 2}], "words": ["x"]}
    upper = {"flavors": [{"name": "a", "n": 9}, {"name": "c"}], "words": ["y"]}

    assert merged(lower, upper) == {
        "flavors": [{"name": "a", "n": 9, "m": 1}, {"name": "b", "n": 2}, {"name": "c"}],
        "words": ["y"],
    }
    assert merged({"a": 1, "b": 2}, {"b": None}) == {"a": 1}


def test_two_settings_in_one_file_are_an_error() -> None:
    with pytest.raises(SimulationError, match=r"test.yaml:31:1: a Simulation is there already"):
        cluster(*LAB, settings("termination: 30s"), settings("termination: 5s"))


def test_what_an_overlay_gets_wrong_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("---\n".join(LAB))
    (tmp_path / "over.yaml").write_text(OVER.replace("StrictFIFO", "FIFO"))

    with pytest.raises(SimulationError, match=r"over.yaml:4:\d+: spec.queueingStrategy"):
        read_cluster([tmp_path / "base.yaml", tmp_path / "over.yaml"])


# --- knobs ---


@pytest.mark.parametrize(
    ("text", "vision", "speech"),
    [
        ("quota of flavor a=24", 16, 8),
        ("quota of flavor a=13", 9, 4),  # 8.67 and 4.33: the sum is exact
        ("quota of a=x0.5", 4, 2),
        ("quota of queue vision=+4", 12, 4),
        ("quota of flavor a of queue speech=-4", 8, 0),
        ("quota=6", 4, 2),
        (
            "queue/vision.resourceGroups[0].flavors[a].resources[nvidia.com/gpu].nominalQuota=3",
            3,
            4,
        ),
    ],
)
def test_quota_is_turned(text: str, vision: int, speech: int) -> None:
    assert quotas(turned(cluster(*LAB), text)) == {"vision": vision, "speech": speech}


def test_other_resources_of_a_flavor_grow_as_its_machines_do() -> None:
    both = queue("q", a=8).replace("[nvidia.com/gpu]", "[nvidia.com/gpu, cpu]")
    both = both.replace("nominalQuota: 8}", 'nominalQuota: 8}, {name: cpu, nominalQuota: "64"}')

    found = turned(cluster(flavor("a"), both), "quota of flavor a=12")

    assert [found.quota_of(cell) for cell in found.cells()] == [12, 96_000]


def test_fields_and_gates_are_turned() -> None:
    found = turned(
        cluster(*LAB),
        "queue/*.queueingStrategy=StrictFIFO",
        "simulation.startup[a].delay=90s",
        "gate OwnersFirst=false",
    )

    assert {one.strategy.value for one in found.queues.values()} == {"StrictFIFO"}
    assert found.settings.startup[0].delay == 90.0
    assert found.gates == {"OwnersFirst": False}
    assert found.source == (
        "test.yaml with queue/*.queueingStrategy=StrictFIFO, simulation.startup[a].delay=90s,"
        " gate OwnersFirst=false"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("speed", "speed: write KNOB=VALUE, for example 'quota of flavor a100=+8'"),
        ("", "(nothing): write KNOB=VALUE"),
        ("speed=3", "speed: is nothing that can be turned"),
        (
            "quota of flavor b=3",
            "quota of flavor b: no queue or cohort has such a quota (by flavor there is a)",
        ),
        (
            "quota of queue visoin=3",
            "quota of queue visoin: no queue or cohort has such a quota (by queue there is",
        ),
        ("quota of flavor a=many", "quota of flavor a=many: many is no amount"),
        ("quota of flavor a=-13", "quota of flavor a=-13: there is only 12"),
        (
            "queue/nobody.queueingStrategy=x",
            "queue/nobody.queueingStrategy: there is no ClusterQueue",
        ),
        ("queue.queueingStrategy=x", "queue.queueingStrategy: write queue/NAME.queueingStrategy"),
        ("load=fast", "load=fast: write a factor such as 1.5"),
        (
            "configuration.fairSharin=null",
            "with configuration.fairSharin=null: --set: fairSharin: is not a known field; did you",
        ),
        (
            "queue/vision.queueingStrategy=x",
            'with queue/vision.queueingStrategy=x: test.yaml:8:1: spec.queueingStrategy: "x" is n',
        ),
    ],
)
def test_a_wrong_turn_is_one_error(text: str, error: str) -> None:
    with pytest.raises(SimulationError) as caught:
        turned(cluster(*LAB), text)

    assert str(caught.value).startswith(error)


def test_what_a_scenario_adds_is_named_as_its_name_may_be_misspelt(tmp_path: Path) -> None:
    (tmp_path / "over.yaml").write_text(queue("visoin", a=1))
    changed, _ = changed_cluster(cluster(*LAB), [tmp_path / "over.yaml"], [])

    assert changed.notes == [f"{tmp_path / 'over.yaml'} adds ClusterQueue visoin"]


def test_a_scenario_without_objects_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "over.yaml").write_text("# to be written\n")

    with pytest.raises(SimulationError, match=r"over\.yaml: there is no object in it"):
        changed_cluster(cluster(*LAB), [tmp_path / "over.yaml"], [])


# --- load ---


def test_more_load_is_more_jobs_and_the_same_ones_stay() -> None:
    jobs = trace(job(f"job-{i}", at=i * MINUTE) for i in range(1000))

    less, more, much = (Load(scale=scale).applied(jobs, seed=1).jobs for scale in (0.5, 0.8, 2.25))

    assert len(less) == pytest.approx(500, abs=50)
    assert {one.name for one in less} < {one.name for one in more}
    assert len(much) == pytest.approx(2250, abs=50)
    copies = {one.name: one.submit_s for one in much}
    assert 0 <= copies["job-7~2"] - copies["job-7"] <= HOUR
    assert Load(scale=0.5).applied(jobs, seed=2).jobs != less


def test_one_queue_grows_and_the_others_stay() -> None:
    jobs = trace(job(f"job-{i}", on="vision" if i % 2 else "speech") for i in range(100))

    grown = Load(growth={"vision": 3.0}).applied(jobs, seed=0)

    assert Counter(one.queue for one in grown.jobs) == {"vision": 150, "speech": 50}
    with pytest.raises(SimulationError, match="load of queue robots: the trace has only speech"):
        Load(growth={"robots": 2.0}).applied(jobs, seed=0)


def test_a_bootstrap_draws_whole_days() -> None:
    jobs = trace(job(f"d{day}-{i}", at=day * DAY + i * HOUR) for day in range(10) for i in range(5))

    drawn = Load(bootstrap_s=DAY).applied(jobs, seed=3)

    assert len(drawn.jobs) == 50
    by_day: dict[int, set[str]] = {}
    for one in drawn.jobs:
        by_day.setdefault(int(one.submit_s // DAY), set()).add(one.name.partition("-")[0])
    assert all(len(days) == 1 for days in by_day.values())  # each day is one day of the trace
    assert len(set().union(*by_day.values())) < 10  # some of them more than once
    assert Load(bootstrap_s=DAY).applied(jobs, seed=3) == drawn


def test_a_trace_too_short_to_draw_from_is_an_error() -> None:
    with pytest.raises(SimulationError, match="that is not two blocks of 86400 s"):
        Load(bootstrap_s=DAY).applied(trace([job("x"), job("y", at=HOUR)]), seed=0)


# --- stockouts of a part ---


def test_a_partial_stockout_leaves_the_rest_to_run() -> None:
    """A fifth of ten is missing for two hours: eight jobs start, the others as places come back."""
    dry = settings("stockouts: [{flavor: a, from: 0s, for: 2h, share: 0.2}]")
    jobs = [job(f"job-{i}", at=1.0, run=HOUR) for i in range(10)]

    starts = Counter(
        run.first_run_at for run in play((flavor("a"), queue("q", a=10), dry), *jobs).runs
    )

    assert starts == {1.0: 8, 1.0 + HOUR: 2}


def test_a_partial_stockout_takes_no_more_than_its_share() -> None:
    dry = settings("stockouts: [{flavor: a, from: 30m, for: 2h, share: 0.3, stopsRunning: true}]")
    jobs = [job(f"job-{i}", run=HOUR) for i in range(10)]

    result = play((flavor("a"), queue("q", a=10), dry), *jobs)

    assert result.record.counts["jobs hit by failures"] == 3
    assert Counter(run.lost_s for run in result.runs) == {0.0: 7, 30 * MINUTE: 3}
    # They begin again when the seven others are through, after an hour.
    assert Counter(run.ended_at for run in result.runs) == {HOUR: 7, 2 * HOUR: 3}


# --- figures and goals ---


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("p95 wait", "p95 wait of all"),
        ("wait", "mean wait of all"),
        ("p95 wait of vision", "p95 wait of queue vision"),
        ("held of a100", "held of a100 nvidia.com/gpu"),
        ("preemptions", "preemptions"),
    ],
)
def test_a_figure_is_found_by_what_people_write(text: str, name: str) -> None:
    figures = figures_of(simulate(*load_example("borrow")))

    assert full_name(text, figures) == name


def test_a_figure_that_is_not_there_is_told_with_those_that_are() -> None:
    figures = figures_of(simulate(*load_example("borrow")))

    with pytest.raises(
        SimulationError,
        match="there is no such figure; there are p95 wait of all, p95 wait of queue",
    ):
        full_name("p95 wait of size 1000", figures)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("p95 wiat of all", "did you mean 'p95 wait of all'?"),
        ("cost", "nothing has a price"),
        ("fairness", "it takes two queues in which somebody waits"),
    ],
)
def test_a_figure_that_this_run_lacks_says_why(text: str, error: str) -> None:
    figures = figures_of(simulate(*load_example("gang")))

    with pytest.raises(SimulationError, match=re.escape(error)):
        full_name(text, figures)


def test_a_figure_that_no_run_can_have_is_told_after_the_first(lab: Path) -> None:
    arguments = ["sweep", *FILES, *GRID, "-j", "1", "--save", "done.jsonl"]

    assert main(["simulate", *arguments, "--show", "p95 wiat"]) == 2

    assert len((lab / "done.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [("p95 wait", "write for example"), ("p95 wait < soon", "soon is no span of time")],
)
def test_a_goal_that_is_none_is_an_error(text: str, error: str) -> None:
    with pytest.raises(SimulationError, match=error):
        parse_goal(text)


def test_an_interval_is_students() -> None:
    """Two, four and six: mean 4, deviation 2, t of two degrees 4.303."""
    interval = interval_of([2.0, 4.0, 6.0])

    assert interval.mean == 4.0
    assert interval.half == pytest.approx(4.303 * 2 / 3**0.5)
    assert interval_of([3.0]).half is None


# --- sweeps ---


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("load=1,1.5", ("1", "1.5")),
        ("quota=600..900:100", ("600", "700", "800", "900")),
        ("quota=x1..x1.2:0.1", ("x1", "x1.1", "x1.2")),
        ("gate OwnersFirst=true,false", ("true", "false")),
    ],
)
def test_values_are_listed_or_counted(text: str, values: tuple[str, ...]) -> None:
    assert parse_axis(text).values == values


@pytest.mark.parametrize(
    "text", ["load=1..", "load=2..1:1", "load=1..2:0", "load=1,,2", "load=1..9:0.001"]
)
def test_values_that_are_none_are_an_error(text: str) -> None:
    with pytest.raises(SimulationError, match=f"--vary {text}"):
        parse_axis(text)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(queues_text("borrow"))
    (tmp_path / "jobs.csv").write_text(trace_text("borrow"))
    return tmp_path


FILES = ("-f", "queues.yaml", "--trace", "jobs.csv")
GRID = ("--vary", "quota of flavor a100=12,16", "--vary", "load=1,2")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["simulate", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_sweep_runs_every_point_and_every_seed(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--seeds", "2", "--bootstrap", "3h", "-j", "2", "--csv", "runs.csv")
    data = answer(capsys, "sweep", *FILES, *GRID, *options)

    assert [point["values"] for point in data["points"]] == [
        *(["12", "1"], ["12", "2"], ["16", "1"], ["16", "2"])
    ]
    assert {point["runs"] for point in data["points"]} == {2}
    waits = [point["figures"]["mean wait of all"] for point in data["points"]]
    assert waits[0]["mean"] < waits[1]["mean"]
    assert waits[0]["low"] < waits[0]["mean"] < waits[0]["high"]
    rows = [*DictReader((lab / "runs.csv").read_text().splitlines())]
    assert len(rows) == 8
    assert float(rows[0]["mean wait of all"]) > 0


def test_two_cores_say_what_one_says(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = answer(capsys, "sweep", *FILES, *GRID, "-j", "1")

    assert answer(capsys, "sweep", *FILES, *GRID, "-j", "2") == one


def test_a_sweep_goes_on_where_it_was_stopped(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = answer(capsys, "sweep", *FILES, *GRID, "--save", "done.jsonl", "-j", "1")
    lines = (lab / "done.jsonl").read_text().splitlines()
    assert len(lines) == 4
    broken = lines[2][: len(lines[2]) // 2]  # written while the power went off
    (lab / "done.jsonl").write_text("\n".join([*lines[:2], broken]))

    assert answer(capsys, "sweep", *FILES, *GRID, "--save", "done.jsonl", "-j", "1") == first
    assert len((lab / "done.jsonl").read_text().splitlines()) == 5


def test_a_sweep_fits_a_narrow_terminal(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["simulate", "sweep", *FILES, "--vary", "load=1", "-j", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["mean", "p95"]
    assert lines[5].split()[:3] == ["1", "37.1m", "4.8h"]


def test_how_many_runs_there_are_is_told_where_not_all_have_as_many(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within 9 h the run with more quota is done, the other is not."""
    asked = ["--vary", "quota of flavor a100=16,64", "-j", "1"]
    main(["simulate", "sweep", *FILES, *asked])
    assert " runs\n" not in capsys.readouterr().out.partition("\n2 runs")[0]

    main(["simulate", "sweep", *FILES, *asked, "--until", "10h30m"])
    head, *rows = capsys.readouterr().out.splitlines()[1:4]
    assert head.endswith("  runs")
    assert [row.split("  ")[-1].strip() for row in rows] == ["1 (1 partial)", "1"]


def test_another_trace_has_other_keys() -> None:
    queues, jobs = load_example("borrow")
    task = Task((), 0)

    keys = {
        question.key_of(task)
        for question in (
            Question(cluster=queues, trace=jobs),
            Question(cluster=queues, trace=jobs.first(20)),
            Question(cluster=turned(queues, "quota=20"), trace=jobs),
            Question(cluster=queues, trace=jobs, measure="steady"),
        )
    }

    assert len(keys) == 4


def test_seeds_that_change_nothing_are_called_that(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["simulate", "sweep", *FILES, "--seeds", "2", "-j", "1", "--set", "simulation.startup=[]"])

    out = capsys.readouterr().out
    assert "all seeds gave the same: nothing here is random" in out
    assert "2 runs" in out


# --- searches ---


def test_the_least_quota_is_found_next_to_one_that_is_too_little(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = ("--find", "p95 wait of all < 1h", "--by", "quota of flavor a100", "-j", "1")
    data = answer(capsys, *FILES, *goal)

    met = {int(one["value"]): one["isMet"] for one in data["trials"]}
    assert data["answer"] == "20"
    assert (met[20], met[19]) == (True, False)
    assert data["runs"] == len(met) <= 8
    assert data["sentences"][0].startswith("20 is the least quota of flavor a100 that meets")


def test_the_most_load_is_found(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goal = ("--find", "p95 wait of all < 6h", "--by", "load=1..2:0.25", "-j", "1")
    data = answer(capsys, *FILES, *goal)

    met = {one["value"]: one["isMet"] for one in data["trials"]}
    assert met[data["answer"]]
    assert not met[f"{float(data['answer']) + 0.25:g}"]


def test_a_goal_that_nothing_meets_is_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--find", "longest wait < 0s", "--by", "quota of flavor a100=16..64:16", "-j", "1"]

    assert main(["simulate", *FILES, *arguments]) == 1
    assert "longest wait < 0s is met nowhere between 16 and 64" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("goal", "knob", "sentence"),
    [
        ("cost < 600", "quota", "33 is the most quota that meets cost < 600: 596.20"),
        ("cost < 600", "quota=8..64:4", "32 is the most quota that meets cost < 600: 578.13"),
        ("finished > 25", "quota", "8 is the least quota that meets finished > 25: 26"),
    ],
)
def test_a_search_knows_what_grows_with_quota(
    lab: Path, capsys: pytest.CaptureFixture[str], goal: str, knob: str, sentence: str
) -> None:
    price = "simulation.prices=[{flavor: a100, perHour: 2, reserved: true}]"
    data = answer(capsys, *FILES, "--set", price, "--find", goal, "--by", knob, "-j", "1")

    assert data["sentences"][0].startswith(sentence)
    assert "misses it" in data["sentences"][1]


def test_a_search_in_runs_that_were_stopped_says_so(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = ("--find", "p95 wait < 1h", "--by", "quota=16..17", "--until", "1h", "-j", "1")

    assert (
        "2 runs were stopped while jobs waited or ran"
        in answer(capsys, *FILES, *goal)["sentences"][-1]
    )


def test_who_has_not_finished_has_no_turnaround() -> None:
    result = play((flavor("a"), queue("q", a=1, more="  stopPolicy: Hold\n")), job("x"))

    assert "mean turnaround of all" not in figures_of(result)
    assert figures_of(result)["never ran of all"] == 1


BIG_AND_SMALL = trace([job("big", run=HOUR, gpus=8), job("small", run=HOUR)])
ALONE = Question(cluster=cluster(flavor("a"), queue("vision", a=16)), trace=BIG_AND_SMALL)


def test_quota_too_small_for_some_jobs_does_not_shorten_waits() -> None:
    """With 7 or less the big job is out, and the small one never waits."""
    search = Search(ALONE, parse_goal("longest wait < 1s"), "quota of flavor a", Range(1, 16, 1))

    place = search.run(Runs(ALONE))

    assert place == 9
    assert search.trials[1].never_fit == 1
    assert not search.trials[1].is_met
    assert "a value at which jobs can never fit" in answer_lines(search, place)[-1]


def test_a_search_among_values_that_leave_jobs_out_says_so() -> None:
    search = Search(ALONE, parse_goal("longest wait < 1s"), "quota of flavor a", Range(2, 4, 1))

    place = search.run(Runs(ALONE))

    assert search_table(search).rows[0] == ("2", "0s", "1", "met")
    assert answer_lines(search, place)[-1] == (
        "jobs that can never fit there, and are not counted: 1; --by 'quota of flavor a=LOW..HIGH'"
        " looks further"
    )


@pytest.mark.parametrize(
    ("knob", "values", "place"),
    [("quota of flavor a", Range(9, 16, 1), 9), ("load", Range(1, 3, 1), 3)],
)
def test_where_both_ends_meet_the_goal_the_least_quota_and_the_most_load_are_told(
    knob: str, values: Range, place: int
) -> None:
    search = Search(ALONE, parse_goal("longest wait < 10h"), knob, values)

    assert search.run(Runs(ALONE)) == place


def test_a_search_for_jobs_that_never_fit_at_some_values_goes_on() -> None:
    goal = parse_goal("longest wait of size 5-8 < 1s")
    search = Search(ALONE, goal, "quota of flavor a", Range(4, 16, 4))

    assert search.run(Runs(ALONE)) == 2  # times 4
    assert search.trials[1].figure is None


def test_a_search_for_a_figure_that_no_run_has_is_an_error() -> None:
    goal = parse_goal("longest wait of nobody < 1s")
    search = Search(ALONE, goal, "quota of flavor a", Range(2, 4, 1))  # too little for the big one

    with pytest.raises(SimulationError, match="longest wait of nobody: there is no such figure"):
        search.run(Runs(ALONE))


def test_a_search_on_many_cores_tries_several_at_once() -> None:
    queues, jobs = load_example("borrow")
    question = Question(cluster=queues, trace=jobs)
    goal = parse_goal("p95 wait < 1h")
    search = Search(question, goal, "quota of flavor a100", Range(8, 40, 1))
    runs = Runs(question)
    runs.workers = 3  # as many places between; they are run here, one after the other
    runs.finish = lambda tasks: Runs(question).finish(tasks)  # type: ignore[method-assign]

    place = search.run(runs)

    assert place == 20
    assert [*search.trials][:5] == [8, 40, 16, 24, 32]


# --- side by side ---


def test_scenarios_and_knobs_are_compared(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "strict.yaml").write_text(OVER.replace("spot", "a100"))
    sides = ("--compare", "+strict.yaml", "--compare", "quota of queue vision=-4; load=2")

    data = answer(capsys, *FILES, *sides)

    assert [run["configuration"]["source"] for run in data["runs"]] == [
        "queues.yaml",
        "queues.yaml with strict.yaml",
        "queues.yaml with quota of queue vision=-4, load=2",
    ]
    assert data["runs"][2]["trace"]["simulated"] == 52
    assert [run["trace"]["drawnFrom"] for run in data["runs"]] == [None, None, 26]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--vary", "load=1,2"], "--vary goes with `makeway simulate sweep`"),
        (["sweep"], "sweep over what?"),
        (["--find", "p95 wait < 1h"], "--find what by turning what?"),
        (
            ["sweep", "--vary", "load=1", "--compare", "x"],
            "--compare goes with a plain run or --from-live",
        ),
        (
            ["--find", "p95 wait < 1h", "--by", "gate OwnersFirst"],
            "gate OwnersFirst: only quota and",
        ),
        (["--bootstrap", "soon"], "--bootstrap soon: not a span of time"),
        (["--bootstrap", "0d"], "--bootstrap 0d: write a span such as 1d"),
        (["--seeds", "5"], "--seeds goes with `makeway simulate sweep` or --find"),
        (["--moments", "5"], "--moments goes with --judge-forecasts"),
        (["--judge-forecasts", "--until", "5d"], "--until goes with a plain run, --from-live,"),
        (["sweep", "--find", "p95 wait < 1h"], "`makeway simulate sweep` and --find are two"),
        (["--find", "p95 wait < 1h", "--by", "load", "--vary", "load=1"], "--vary goes with"),
        (["sweep", "--vary", "load=1", "--vary", "load=2"], "--vary load: is there twice"),
        (["sweep", "--vary", "load=1", "-j", "0"], "-j 0: write how many"),
        (["sweep", "--vary", "load=1", "--csv", "no/a.csv"], "no/a.csv: there is no folder no"),
        (["sweep", "--vary", "load=1", "--save", "jobs.csv"], "--save jobs.csv: is there already"),
        (["--grow", "vision"], "--grow vision: write QUEUE=FACTOR"),
    ],
)
def test_trouble_is_one_line(
    lab: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    action = [one for one in arguments if one == "sweep"]
    rest = [one for one in arguments if one != "sweep"]

    assert main(["simulate", *action, *FILES, *rest]) == 2

    assert capsys.readouterr().err.startswith(f"makeway: {error}")
