"""Figures that can be believed: what is measured, who decides them, who pays for a better mean."""

from __future__ import annotations

from csv import DictReader

import pytest

from makeway.cli.main import main
from makeway.sim import Result, SimulationError, simulate
from makeway.sim.comparison import figures, verdict
from makeway.sim.examples import load_example, load_variant
from makeway.sim.listing import job_lines
from makeway.sim.measuring import parse_measure
from makeway.sim.paired import PairedComparison, change_text, reason_of
from makeway.sim.report_tables import tables
from makeway.sim.straggling import warnings
from makeway.sim.trace_jobs import Trace
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, play, queue, settings, trace

DAY = 24 * HOUR
ONE = (flavor("a"), queue("q", a=1))


def hourly(count: int, run: float = HOUR) -> Trace:
    return trace(job(f"job-{i}", at=i * HOUR, run=run) for i in range(count))


# --- the window ---


def test_warm_up_and_end_are_left_out_of_a_steady_window() -> None:
    """101 jobs of two hours come hourly to one place: the queue grows, then empties for days."""
    whole = simulate(cluster(*ONE), hourly(101, run=2 * HOUR))
    steady = simulate(cluster(*ONE), hourly(101, run=2 * HOUR), measure="steady")

    assert (steady.window.since, steady.window.until) == (10 * HOUR, 100 * HOUR)
    assert steady.wait().jobs == 91
    # Job i starts at 2i hours: it waits i hours.
    assert steady.wait().mean == pytest.approx(sum(range(10, 101)) / 91 * HOUR)
    assert whole.wait().mean == pytest.approx(50 * HOUR)
    assert whole.end == 202 * HOUR


def test_use_is_told_while_jobs_came_and_over_all() -> None:
    jobs = (job("short", run=HOUR, gpus=1), job("long", at=HOUR, run=9 * HOUR, gpus=1))
    use = play((flavor("a"), queue("q", a=2)), *jobs).use("a")

    assert (use.used_while_jobs_came, use.used) == (1.0, 1.0)

    late = play((flavor("a"), queue("q", a=1)), job("x", run=HOUR), job("y", at=4 * HOUR, run=HOUR))
    assert late.use("a").used_while_jobs_came == pytest.approx(1 / 4)
    assert late.use("a").used == pytest.approx(2 / 5)


def test_a_job_that_never_runs_on_the_other_side_is_named() -> None:
    """By the end of all that happens there, nobody had waited for long."""
    jobs = trace([job("x", run=HOUR, on="a"), job("y", run=HOUR, on="b")])
    world = (flavor("f"), queue("a", f=4), queue("b", f=4))
    stopped = cluster(*world[:2], queue("b", f=4, more="  stopPolicy: Hold\n"))
    first, second = simulate(cluster(*world), jobs), simulate(stopped, jobs)

    said = verdict([first, second])
    assert said[0].endswith("; of 2 jobs 0 wait less, 1 longer")
    assert said[1] == "But default/y finishes in A and waits for ever in B"
    assert verdict([second, first])[1] == "But default/y finishes in B and waits for ever in A"
    (lost,) = PairedComparison(first, second).losers()
    assert lost.texts == ("0s", "for ever", "")
    turnaround = next(one for one in figures([first, second]) if one.what == "turnaround, all")
    assert (turnaround.text(1), turnaround.verdict(1)) == ("60.0m", "")


def test_of_jobs_that_came_at_once_there_is_no_use_while_they_came() -> None:
    result = play((flavor("a"), queue("q", a=4)), job("x", run=HOUR), job("y", run=HOUR))

    assert result.use("a").used_while_jobs_came is None
    (row,) = next(table.rows for table in tables(result) if table.title == "use of quota")
    assert row[2:5] == ("50.0 %", "-", "50.0 %")


def test_a_window_in_which_nothing_is_left_is_told_before_any_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "--example", "borrow", "--measure", "30d..40d"]) == 2

    out, error = capsys.readouterr()
    assert (out, error) == (
        "",
        "makeway: --measure: nothing is left to measure, the run ended after 11.1h\n",
    )


def test_preemptions_outside_the_window_are_not_counted() -> None:
    policy = "  preemption: {withinClusterQueue: LowerPriority}\n"
    world = cluster(flavor("a"), queue("q", a=1, more=policy))
    jobs = trace(
        [
            job("low", run=10 * HOUR),
            job("high", at=HOUR, run=HOUR, priority=1),
            job("higher", at=5 * HOUR, run=HOUR, priority=2),
        ]
    )

    assert simulate(world, jobs).preemptions == 2
    late = simulate(world, jobs, measure="4h..")
    assert late.preemptions == 1
    assert [run.key for run in late.counted] == ["default/higher"]


@pytest.mark.parametrize("text", ["soon", "3d..2d", "1h", "x..y"])
def test_a_window_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(SimulationError, match=f"--measure {text}"):
        parse_measure(text)


def test_a_window_after_the_end_is_an_error() -> None:
    with pytest.raises(SimulationError, match="nothing is left to measure"):
        _ = simulate(cluster(*ONE), hourly(2), measure="3d..").window


# --- runaways ---

DYING = settings("failures: [{flavor: a, every: 5h}]")


def test_a_job_that_never_ends_is_given_up_and_named() -> None:
    """A failure every five hours, and a job of ten days that begins again from nothing."""
    jobs = [job(f"job-{i}", at=i * HOUR, run=MINUTE) for i in range(20)]
    result = simulate(
        cluster(flavor("a"), queue("q", a=4), DYING), trace([*jobs, job("endless", run=10 * DAY)])
    )

    assert result.is_given_up
    assert not result.is_complete
    assert result.end == 365 * DAY
    given_up, last, loser = warnings(result)
    assert given_up.startswith("given up after 365.0d, far beyond what the work needs, with 1 job")
    assert "default/endless needs 10.0d, was started" in given_up
    assert last.startswith("most jobs had ended after 19.0h, the last one after 365.0d")
    assert loser.startswith("default/endless alone lost 100 % of all work that was lost")


def test_an_end_that_is_asked_for_is_not_given_up() -> None:
    result = play((*ONE, DYING), job("endless", run=10 * DAY), until=2 * DAY)

    assert (result.is_complete, result.is_given_up, result.end) == (False, False, 2 * DAY)
    assert warnings(result) == []


@pytest.mark.parametrize("name", ["borrow", "stockout", "fair", "gang"])
def test_ordinary_runs_warn_of_nothing(name: str) -> None:
    assert warnings(simulate(*load_example(name))) == []


# --- jobs that ask for nothing, and for what ---


def test_jobs_that_ask_for_nothing_are_left_out_and_counted() -> None:
    jobs = [job("x"), job("y")._replace(amounts=(("cpus", 4000),))]
    result = simulate(cluster(*ONE), trace(jobs))

    (oddity,) = result.oddities
    assert oddity.what == "jobs that ask for nothing the queues have quota for"
    assert (oddity.count, oddity.is_left_out, oddity.examples) == (1, True, ["y"])
    assert result.wait().jobs == 1


def test_the_only_queue_takes_jobs_of_others_and_says_so() -> None:
    result = play(ONE, job("x", on="robotics"), job("y", on="q"))

    (oddity,) = result.oddities
    assert (oddity.what, oddity.is_left_out) == ("jobs of queue robotics go to queue q", False)


# --- fairness ---


def test_queues_that_own_nothing_have_a_share_by_weight() -> None:
    result = simulate(*load_example("fair"))

    # Alpha has weight 2 of 4, and all three want more than there is.
    assert result.shares["alpha"] == pytest.approx(1.0, abs=0.1)
    assert result.shares["beta"] == pytest.approx(1.2, abs=0.1)
    assert result.shares["gamma"] == pytest.approx(1.0, abs=0.1)
    assert result.fairness == pytest.approx(1.0, abs=0.02)


def test_what_is_due_grows_when_others_have_no_work() -> None:
    """A cohort owns four; alone, a queue is due all of them, with another one half of them."""
    cohort = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: lab}\nspec:\n"
        "  resourceGroups:\n  - coveredResources: [nvidia.com/gpu]\n    flavors:\n"
        "    - {name: a, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}\n"
    )
    lab = (flavor("a"), cohort, queue("x", cohort="lab", a=0), queue("y", cohort="lab", a=0))
    alone = play(lab, job("x1", on="x", gpus=4, run=HOUR), job("x2", on="x", gpus=4, run=HOUR))
    both = play(lab, job("x1", on="x", gpus=4, run=HOUR), job("y1", on="y", gpus=2, run=HOUR))

    assert alone.shares == {"x": 1.0, "y": None}
    assert alone.fairness is None
    # While y waits it has nothing, and two are due to it.
    assert both.shares == {"x": None, "y": 0.0}


def test_one_queue_alone_has_no_fairness_to_compare() -> None:
    first = simulate(*load_example("gang"))

    assert first.fairness is None
    assert not [f for f in figures([first, first]) if "fairness" in f.what]


# --- job by job ---


def gang() -> tuple[Result, Result]:
    first = simulate(*load_example("gang"))
    return first, simulate(load_variant("gang-best-effort"), first.trace)


def test_the_gang_example_tells_that_gangs_lost() -> None:
    whole, but = verdict(gang())

    assert whole.startswith(
        "B against A: waits are shorter on average (mean 29.6m → 11.2m, -62.0 %)"
    )
    assert "of 93 jobs 78 wait less, 3 longer" in whole
    assert but == (
        "But jobs of 9-16 nvidia.com/gpu lost: mean 29.0m → 5.4h, 11x, 3 of 3 wait longer"
    )


def test_the_losers_are_named_with_their_reason() -> None:
    compared = PairedComparison(*gang())

    assert [pair.second.key for pair in compared.losers()] == [
        *("default/gang-1", "default/gang-2", "default/gang-3")
    ]
    assert all("insufficient unused quota" in reason_of(p.second) for p in compared.losers())
    assert len(compared.winners()) == 10


def test_any_number_of_configurations_stand_side_by_side() -> None:
    jobs = trace(job(f"j{i}") for i in range(4))
    results = [simulate(cluster(flavor("a"), queue("q", a=n)), jobs) for n in (1, 2, 4)]

    mean = next(f for f in figures(results) if f.what == "mean wait, all")

    assert mean.values == (90.0, 30.0, 0.0)
    assert [mean.change(i) for i in (1, 2)] == ["-66.7 %", "-100.0 %"]
    assert [line.partition(":")[0] for line in verdict(results)] == ["B against A", "C against A"]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(1, 1, "same"), (0, 5, "new"), (4, 5, "+25.0 %"), (1, 3, "3.0x"), (1, 31.2, "31x")],
)
def test_a_change_reads_well(before: float, after: float, text: str) -> None:
    assert change_text(before, after) == text


# --- who preempted whom ---


def test_preemptions_are_counted_by_pair_of_queues_with_what_was_lost() -> None:
    reclaim = "  preemption: {reclaimWithinCohort: Any}\n"
    lab = (
        *(flavor("a"), queue("owner", cohort="lab", a=2, more=reclaim)),
        queue("guest", cohort="lab", a=0),
    )
    result = play(
        lab, job("g", on="guest", gpus=2, run=2 * HOUR), job("o", on="owner", gpus=2, at=HOUR)
    )

    ((pair, preempted),) = result.preemptions_by_queues.items()
    assert pair == ("owner", "guest")
    assert preempted == (1, 2 * HOUR)  # an hour on two GPUs
    row = next(DictReader(job_lines(result)))
    assert row["preempted_by"] == "default/o"
    assert row["stays"] == "a/0/3600/preempted a/3660/10860/finished"
    assert (row["attempts"], row["flavors"]) == ("2", "a")


def test_jobs_that_fit_on_one_side_only_are_told_in_the_verdict() -> None:
    jobs = [job("big", gpus=8), job("small")]
    small, big = (play((flavor("a"), queue("q", a=gpus)), *jobs) for gpus in (4, 8))

    assert "But 1 job fits in B and can never fit in A" in PairedComparison(small, big).sentences()
    assert "But 1 job fits in A and can never fit in B" in PairedComparison(big, small).sentences()
