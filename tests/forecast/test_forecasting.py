"""Forecasts: times where there are any, and a word where there are none."""

from __future__ import annotations

from dataclasses import replace

from makeway.engine.model import WorkloadStatus
from makeway.forecast.forecasting import ALONE, Forecast, Question, Range, Verdict, forecast
from makeway.sim.beginning import OpenJob
from makeway.sim.trace_jobs import TraceJob
from tests.forecast.lab import key, past_job, ran, situation
from tests.sim.worlds import HOUR, MINUTE, flavor, job, queue

DAY = 24 * HOUR
PAST = [ran(minutes * MINUTE, "old") for minutes in (40, 50, 60, 70, 80)]


def asked(present: list[TraceJob], *names: str, at: float = 30 * MINUTE, seed: int = 0) -> Forecast:
    told = [one._replace(user="ann") for one in present]
    return forecast(situation(told, at, PAST), Question(asked=[*map(key, names)], seed=seed))


def test_the_next_one_starts_when_the_running_one_ends() -> None:
    """It has run half an hour, and its like took 40 to 80 minutes."""
    answer = asked([job("old-1"), job("old-2", at=MINUTE)], "old-2").jobs[key("old-2")]

    assert answer.verdict is Verdict.EXPECTED
    assert answer.start is not None
    assert answer.end is not None
    assert 40 * MINUTE <= answer.start.p10 < answer.start.p50 < answer.start.p90 <= 80 * MINUTE
    assert answer.end.p50 > answer.start.p50 + 40 * MINUTE
    assert answer.basis == "jobs of the same user, name and shape (5)"


def test_a_running_job_has_an_end_and_started_when_it_did() -> None:
    answer = asked([job("old-1")], "old-1").jobs[key("old-1")]

    assert answer.start is not None
    assert answer.end is not None
    assert set(answer.start) == {0.0}
    assert 40 * MINUTE <= answer.end.p10 <= answer.end.p90 <= 80 * MINUTE


def test_the_same_state_and_seed_give_the_same_answer() -> None:
    present = [job("old-1"), job("old-2", at=MINUTE)]

    assert asked(present, "old-2") == asked(present, "old-2")
    assert asked(present, "old-2") != asked(present, "old-2", seed=1)


def test_a_job_that_can_never_fit_never_starts() -> None:
    told = situation([job("old-1")], HOUR, PAST)
    huge = past_job(job("huge", gpus=2, at=MINUTE))  # of one
    waiting = OpenJob(huge.job, huge.workload, WorkloadStatus())
    beginning = told.beginning._replace(jobs=(*told.beginning.jobs, waiting))

    found = forecast(replace(told, beginning=beginning), Question(asked=[key("huge")]))

    assert found.jobs[key("huge")].verdict is Verdict.NEVER
    assert found.jobs[key("huge")].obstacles


def test_what_depends_on_a_job_of_which_nothing_is_known_is_unknown() -> None:
    told = situation([job("new-1"), job("new-2", at=MINUTE)], HOUR)

    found = forecast(told, Question(asked=[key("new-2")]))

    assert found.jobs[key("new-2")].verdict is Verdict.UNKNOWN
    assert found.assumptions == (ALONE,)


def test_a_job_in_a_stopped_queue_waits_for_somebodys_doing() -> None:
    stopped = (flavor("a"), queue("q", more="  stopPolicy: Hold\n", a=1))
    told = situation([job("old-1")], HOUR, PAST, stopped)

    answer = forecast(told, Question(asked=[key("old-1")])).jobs[key("old-1")]

    assert answer.verdict is Verdict.UNKNOWN
    assert answer.obstacles


def test_others_come_first_where_they_are_more_important() -> None:
    """Every hour an important job comes and takes an hour: an unimportant one waits on and on."""
    past = [past_job(job(f"vip-{n}", at=n * HOUR, run=59 * MINUTE, priority=9)) for n in range(72)]
    told = situation([job("old-1", at=71.5 * HOUR), job("low", at=71.6 * HOUR)], 72 * HOUR, past)

    alone = forecast(told, Question(asked=[key("low")], others_come=False)).jobs[key("low")]
    among = forecast(told, Question(asked=[key("low")])).jobs[key("low")]

    assert alone.start is not None
    assert among.start is not None
    assert alone.start.p50 < 73 * HOUR
    assert among.start.p50 > 75 * HOUR


def test_of_a_long_line_the_last_are_not_waited_for_in_every_run() -> None:
    """A hundred wait for one GPU: who is among the last ten is told by nine runs of twenty."""
    line = [job(f"old-{n}", at=float(n))._replace(user="ann") for n in range(101)]
    told = situation(line, 30 * MINUTE, PAST)
    asked = [key(f"old-{n}") for n in range(1, 101)]

    def starts(runs: int, *names: str) -> list[Range | None]:
        question = Question(asked=asked, runs=runs, horizon_s=30 * DAY)
        found = forecast(told, question).jobs
        return [found[key(name)].start for name in names]

    last_by_nine, first_by_nine = starts(9, "old-100", "old-1")
    last, first = starts(20, "old-100", "old-1")

    assert last == last_by_nine
    assert first != first_by_nine
