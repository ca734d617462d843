"""Jobs that displace each other in a circle are named, and the simulation goes on."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from random import Random

import pytest

from makeway.cli.main import main
from makeway.engine.decisions import Preempt, Victim, VictimRule
from makeway.engine.model import FlavorName, QueueName, WorkloadKey
from makeway.sim import simulate
from makeway.sim.circle_watch import MOST_TIMES, CircleWatch
from makeway.sim.circles import Circle, Round, circle_lines
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.comparison import figures
from makeway.sim.page import render_page
from makeway.sim.record import JobOutcome, JobRun
from makeway.sim.report import as_data
from makeway.sim.result import Result
from makeway.sim.trace_jobs import TraceJob
from makeway.sim.world import World
from tests.prerequisites import IS_THOROUGH, SLOWNESS, samples
from tests.sim.circle_worlds import (
    BOTH_QUEUES,
    EVERYDAY,
    EVERYDAY_ROUND,
    GATES_OFF,
    IN_QUEUE,
    NEWER,
    SHARES,
    SMALLEST,
    Small,
    configuration,
    lab,
    row,
)
from tests.sim.worlds import cluster, flavor, job, play, queue, run, settings, told, trace

ENDLESS = 512  # cycles: no world in here that comes to rest needs half of them


def displaced(circle: Circle | Round) -> list[tuple[str, str, VictimRule]]:
    return [(_short(d.preemptor), _short(d.victim), d.rule) for d in circle.displacements]


def _short(key: WorkloadKey) -> str:
    return key.removeprefix("default/")


def only_circle(result: Result) -> Circle:
    (circle,) = result.record.circles
    return circle


class Unguarded(World):
    """Nobody is kept from anything; only so many cycles are played."""

    def _break_circle(self, closed: Round) -> None:
        pass

    def comes_to_rest(self) -> bool:
        return self.run(watch=lambda _: self.record.cycles < ENDLESS)


def test_everyday_policies_go_in_a_circle_that_is_named_and_left() -> None:
    began = time.process_time()

    result = play(lab(8, 8), *EVERYDAY)

    assert time.process_time() - began < SLOWNESS
    assert result.finished == len(EVERYDAY)
    circle = only_circle(result)
    assert displaced(circle) == EVERYDAY_ROUND
    assert (circle.tree, circle.since, circle.times) == ("cohort lab", 210.0, 1)
    assert [*circle.kept] == ["default/a-5"]
    assert result.preemptions < 4 * len(EVERYDAY_ROUND)


@pytest.mark.parametrize("small", SMALLEST, ids=[small.id for small in SMALLEST])
def test_small_circles_are_named_and_left(small: Small) -> None:
    documents, jobs = small.documents, small.jobs

    result = play(documents, *jobs)

    assert not Unguarded(cluster(*documents), trace(jobs)).comes_to_rest()
    assert result.finished == len(jobs)
    assert displaced(next(iter(result.record.circles))) == small.one_round


@pytest.mark.parametrize("small", SMALLEST, ids=[small.id for small in SMALLEST])
def test_the_engine_slows_the_circles_that_it_does_not_prevent(small: Small) -> None:
    """Those who displace each other anyway wait 1, 2, 4 ... seconds before they do so again."""
    documents = [text.replace(GATES_OFF, "") for text in small.documents]

    result = play(documents, *small.jobs)

    circles = [*result.record.circles]
    assert result.finished == len(small.jobs)
    rounds = [set(displaced(circle)) for circle in circles]
    assert rounds == ([] if small.is_prevented else [set(small.one_round)])
    assert all(not circle.kept and circle.last_at - circle.since >= 1 + 2 for circle in circles)


def test_a_circle_takes_time_where_pods_take_time_to_stop() -> None:
    """It is the same circle, though the clock goes on; and no job comes to its end in it."""
    documents, jobs, one_round = BOTH_QUEUES.documents, BOTH_QUEUES.jobs, BOTH_QUEUES.one_round
    slow = settings("termination: 30s, startup: [{delay: 1m}]")

    result = play((*documents, slow), *jobs)

    circle = next(iter(result.record.circles))
    assert displaced(circle) == one_round
    assert circle.last_at - circle.since == 2 * 3 * 30.0  # two rounds of three who stop
    assert result.finished == len(jobs)


def test_who_was_kept_from_preempting_tries_again_after_the_next_change() -> None:
    documents, jobs = SHARES.documents, SHARES.jobs

    result = play(documents, *jobs)

    (first, second) = [what for what in told(result, "a-3") if "preempt" in what][:2]
    assert (first, second) == ("kept from preempting", "may preempt again")
    # b-4 comes ten seconds later, and the circle begins anew.
    circle = next(iter(result.record.circles))
    assert (circle.since, circle.last_at, circle.times) == (20.0, 30.0, 2)
    assert run(result, "a-3").outcome is JobOutcome.FINISHED


def test_a_change_in_another_tree_is_none_here() -> None:
    documents, jobs = SHARES.documents, SHARES.jobs
    ticks = [job(f"tick-{i}", at=20.0 + i, run=1.0, on="apart") for i in range(9)]

    result = play((*documents, queue("apart", f=1)), *jobs, *ticks)

    # Was it noticed at 20 s, and again with b-4 at 30 s, and not with every tick?
    assert next(iter(result.record.circles)).times == 2


def test_displacing_once_and_coming_back_is_no_circle() -> None:
    """a-2 issues victims twice in vain while b-3 and a-4 take turns; then the engine rests."""
    jobs = (
        *(row("a-1", 2), row("a-2", 4, at=10.0), row("b-3", 4, 10, at=20.0)),
        row("a-4", 1, at=40.0),
    )
    documents = list(lab(2, 2, NEWER, is_fair=True))
    documents[-1] = documents[-1].replace(
        "reclaimWithinCohort: Any", "reclaimWithinCohort: LowerPriority"
    )

    result = play(documents, *jobs)

    assert run(result, "a-4").evictions == 2
    assert not len(result.record.circles)


def random_world(random: Random) -> tuple[SimulatedCluster, list[TraceJob]]:
    words = ("LowerPriority", NEWER)
    queues = random_lab(
        *(random.randint(0, 4), random.randint(0, 4), random.choice(words), random.choice(words)),
        *(random.choice(("Never", "LowerPriority")), random.random() < 0.6),
    )
    jobs = [
        row(
            f"{random.choice('ab')}-{i}",
            gpus=random.choice((1, 2, 2, 3, 4, 4)),
            priority=random.choice((0, 10)),
            at=10.0 * i,
            run_s=random.choice((15.0, 1000.0, 5000.0)),
        )
        for i in range(random.randint(4, 12))
    ]
    return queues, jobs


@cache
def random_lab(a: int, b: int, *rest: str | bool) -> SimulatedCluster:
    own, other, borrowing, is_fair = rest
    within = (str(own), str(other))
    borrowing = "Never" if is_fair else str(borrowing)
    return cluster(*lab(a, b, within, borrowing, is_fair=bool(is_fair)))


def test_circles_are_named_in_exactly_those_worlds_that_never_come_to_rest() -> None:
    endless = 0
    for seed in range(samples(120)):
        queues, jobs = random_world(Random(seed))

        result = simulate(queues, trace(jobs))

        is_endless = not Unguarded(queues, trace(jobs)).comes_to_rest()
        assert is_endless == bool(len(result.record.circles)), f"seed {seed}"
        assert result.waits_for_ever == 0, f"seed {seed}"
        endless += is_endless
    assert endless == (5 if IS_THOROUGH else 1)


def test_who_issues_victims_again_and_again_is_taken_to_go_in_a_circle() -> None:
    """No picture comes twice here: every time another job more runs in the tree."""
    watch = CircleWatch({QueueName("q"): "queue q"})
    victim = Victim(WorkloadKey("v"), QueueName("q"), IN_QUEUE, (), True)
    decision = Preempt(
        preemptor=WorkloadKey("p"), queue=QueueName("q"), victims=(victim,), reasons=()
    )

    found = []
    for i in range(MOST_TIMES + 1):
        one = JobRun(row("q", 1), i, WorkloadKey(f"job-{i}"), QueueName("q"))
        one.usage, one.flavors = {}, (FlavorName("f"),)
        watch.place(one)
        found.append(watch.note(float(i), [decision]))

    assert found[:-1] == [[]] * MOST_TIMES
    assert [displaced(one) for one in found[-1]] == [[("p", "v", IN_QUEUE)]]
    assert found[-1][0].since == 0.0


# --- what the reader sees ---


def test_lines_say_who_displaces_whom_and_under_which_rule() -> None:
    assert circle_lines(only_circle(play(lab(8, 8), *EVERYDAY))) == [
        "default/a-5 (a) displaces default/b-1 (b): InCohortReclamation",
        "default/b-8 (b) displaces default/a-5 (a): InCohortReclamation",
        "default/b-11 (b) displaces default/a-14 (a): InCohortReclamation",
        "default/b-1 (b) displaces default/b-2 (b), default/b-8 (b): InClusterQueue",
    ]


def test_the_report_has_circles_as_data() -> None:
    result = play(lab(8, 8), *EVERYDAY)
    data = as_data(result)

    (circle,) = data["circles"]
    assert circle["tree"] == "cohort lab"
    assert (circle["sinceSeconds"], circle["times"]) == (210.0, 1)
    assert circle["keptFromPreempting"] == ["default/a-5"]
    assert circle["displacements"][0] == {
        "preemptor": "default/a-5",
        "queue": "a",
        "victim": "default/b-1",
        "victimQueue": "b",
        "rule": "InCohortReclamation",
    }
    assert data["counts"]["circles of displacement"] == 1
    assert "keptFromPreempting" in render_page(result)


def test_a_comparison_counts_circles() -> None:
    with_circle = play(lab(8, 8), *EVERYDAY)
    without = play((configuration(), flavor("f"), queue("a", f=8), queue("b", f=8)), *EVERYDAY)

    (figure,) = [f for f in figures([with_circle, without]) if "circles" in f.what]

    assert (figure.values, figure.verdict(1)) == ((1, 0), "better")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text("---\n".join(lab(8, 8)))
    lines = [
        f"{one.name},{one.queue},{one.submit_s},{one.run_s},{one.amounts[0][1]},{one.priority}\n"
        for one in EVERYDAY
    ]
    (tmp_path / "jobs.csv").write_text("".join(["name,queue,submit,run,gpus,priority\n", *lines]))
    return tmp_path


def test_the_command_warns_at_once_and_reports_at_the_end(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "-f", "queues.yaml", "--trace", "jobs.csv"]) == 0

    shown = capsys.readouterr()
    assert shown.err.startswith("makeway: at 3.5m jobs displace each other in a circle:\n")
    assert "  default/a-5 (a) displaces default/b-1 (b): InCohortReclamation\n" in shown.err
    assert "  default/a-5 is kept from preempting until something else happens in" in shown.err
    report = shown.out[shown.out.index("jobs displace each other in a circle") :]
    assert "in cohort lab, seen once, from 210.000s to 210.000s" in report
    assert "default/b-8 (b) displaces default/a-5 (a): InCohortReclamation" in report


def test_json_stays_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", "queues.yaml", "--trace", "jobs.csv", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out)["circles"][0]["times"] == 1
