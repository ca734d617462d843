"""The judge: forecasts know the past alone, and are compared with what came."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from random import Random

import pytest

from makeway.cli.main import main
from makeway.forecast.forecasting import Range
from makeway.forecast.judging import (
    ARRIVALS_KNOWN,
    LAST_TWO,
    LIMITS_S,
    MODEL,
    RUN_TIMES_KNOWN,
    Judged,
    JudgeSettings,
    judge,
    scores,
    with_limits,
)
from makeway.sim.trace_jobs import Trace, TraceJob
from tests.forecast.lab import key
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, queue, trace

DAY = 24 * HOUR
LAB = cluster(flavor("a"), queue("q", a=3))
FEW = JudgeSettings(moments=4, jobs=5, runs=20, horizon_s=DAY)


def busy(days: int, per_day: int = 70) -> Trace:
    """Two users, one with short and one with long jobs, on three GPUs."""
    draws = Random(5)
    jobs: list[TraceJob] = []
    for n in range(days * per_day):
        mean = draws.choice((20 * MINUTE, 100 * MINUTE))
        one = job(f"j-{n}", at=draws.uniform(0, days * DAY), run=draws.gammavariate(3, mean / 3))
        jobs.append(one._replace(user="ann" if mean < HOUR else "bob"))
    return trace(jobs)


def test_a_forecast_does_not_know_the_future() -> None:
    """Whatever comes after the moment, and however long who runs will run: the same forecasts."""
    settings = JudgeSettings(moments=1, jobs=9, seed=2, horizon_s=DAY)
    told, _ = with_limits(busy(4), 0)
    (moment,) = {one.asked_at for one in judge(LAB, told, settings)}
    changed = [_other_future(one, moment) for one in told.jobs[:-1]]

    before = {(one.rule, one.key): one.expected for one in judge(LAB, told, settings)}
    # The last one stays: moments are drawn in the time that the trace takes.
    after = judge(LAB, trace([*changed, told.jobs[-1]]), settings)

    shared = {(one.rule, one.key): one.expected for one in after if (one.rule, one.key) in before}
    assert len(shared) >= 4
    assert shared == {question: before[question] for question in shared}


def _other_future(one: TraceJob, moment: float) -> TraceJob:
    if one.submit_s > moment:
        return one._replace(run_s=1.0, submit_s=one.submit_s + MINUTE)
    return one._replace(run_s=one.run_s + DAY) if one.submit_s + one.run_s > moment else one


def test_forecasts_beat_the_last_two_jobs_and_hold_what_they_promise() -> None:
    told, made = with_limits(busy(6), 0)

    found = {(s.rule, s.distance): s for s in scores(judge(LAB, told, FEW))}

    assert made == len(told.jobs)
    assert found[MODEL, "all"].number >= 10
    assert found[MODEL, "all"].coverage >= 0.5  # of a few; docs/forecast.md has real ones
    assert found[MODEL, "all"].error_s < found[LAST_TWO, "all"].error_s


def test_limits_are_round_and_never_less_than_the_run_time() -> None:
    told, _ = with_limits(busy(2), 7)

    assert all(one.requested_s in LIMITS_S for one in told.jobs)
    assert all((one.requested_s or 0) >= one.run_s for one in told.jobs)
    assert with_limits(busy(2), 7)[0] == told


def test_a_limit_tells_nobody_how_long_a_job_of_many_days_runs() -> None:
    weeks = trace(job(f"train-{n}", run=(8 + n / 7) * DAY) for n in range(35))

    told, _ = with_limits(weeks, 0)

    assert {(one.requested_s or 0) / DAY for one in told.jobs} <= {14, 30, 60, 90, 180, 365}


def test_scores_count_what_is_within_and_how_far_off() -> None:
    expected = Range(100.0, 200.0, 400.0)
    judged = [Judged(MODEL, key("x"), 0.0, expected, start) for start in (99.0, 150.0, 400.0)]

    whole, near = scores(judged)

    assert whole.number == 3
    assert whole.coverage == pytest.approx(2 / 3)
    assert (whole.width_s, whole.error_s) == (300.0, 101.0)
    assert near.distance == "< 10 min"


def test_later_than_a_forecast_looks_is_an_answer_that_holds_or_not() -> None:
    beyond = Range(inf, inf, inf)
    late, early = (
        Judged(MODEL, key("x"), 0.0, beyond, start, until=3 * DAY) for start in (4 * DAY, 2 * DAY)
    )

    assert (late.is_covered, late.error_s) == (True, 0.0)
    assert (early.is_covered, early.error_s) == (False, DAY)  # a day before "later" begins


def test_who_starts_after_the_horizon_was_not_foretold_by_a_time_before_it() -> None:
    by_noon = Judged(MODEL, key("x"), 0.0, Range(HOUR, 6 * HOUR, 12 * HOUR), 4 * DAY, until=3 * DAY)
    by_noon_or_later = by_noon._replace(expected=Range(HOUR, 6 * HOUR, inf))

    assert not by_noon.is_covered
    assert by_noon_or_later.is_covered
    assert by_noon.error_s == by_noon_or_later.error_s == 4 * DAY - 6 * HOUR


def test_the_command_prints_a_table_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [f"{one.name},{one.submit_s},{one.run_s},1,{one.user}" for one in busy(3).jobs]
    (tmp_path / "jobs.csv").write_text("\n".join(["name,submit,run,gpus,user", *rows]))
    (tmp_path / "queues.yaml").write_text("---\n".join((flavor("a"), queue("q", a=3))))
    command = [
        *("simulate", "-q", "-f", str(tmp_path / "queues.yaml"), "--judge-forecasts"),
        *("--trace", str(tmp_path / "jobs.csv"), "--moments", "2", "--asked", "3"),
    ]

    assert main(command) == 0
    text = capsys.readouterr().out
    assert main([*command, "--bounds", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert max(map(len, text.splitlines()[1:])) <= 80  # the path of the trace stands before it
    assert "limits made for 210 jobs that have none" in text
    assert "nobody else comes" in text
    assert "the median error is so much of that of reference rules: " in text
    assert found["errorRatios"][LAST_TWO] > 0
    errors = {
        row["rule"]: row["errorSeconds"] for row in found["scores"] if row["distance"] == "all"
    }
    assert errors[RUN_TIMES_KNOWN] < errors[MODEL]  # who knows the future does better
    assert ARRIVALS_KNOWN in errors


@pytest.mark.parametrize("option", ["--moments", "--asked", "--runs"])
def test_nothing_can_be_judged_by_nothing(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example", "borrow", "--judge-forecasts", option, "0"]) == 2

    assert capsys.readouterr().err == f"makeway: {option} 0: write how many, one at least\n"
