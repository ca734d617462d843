"""The model of run times: like jobs first, then coarser ones; never beyond the limit."""

from __future__ import annotations

from math import inf

import pytest

from makeway.forecast.run_times import (
    BY_ITSELF,
    BY_LIMIT,
    NOT_KNOWN,
    Luck,
    PastJob,
    RunTimes,
    stem,
)
from tests.forecast.lab import past_job, ran, taught
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, queue


def draws(model: RunTimes, one: PastJob, ran_s: float = 0.0) -> list[float]:
    return sorted(model.run_s(one, ran_s, Luck(seed, 0.3)) for seed in range(200))


def a_job(name: str = "train-9", user: str = "ann", limit: float | None = None) -> PastJob:
    return past_job(job(name)._replace(user=user, requested_s=limit))


def test_a_job_runs_as_long_as_its_like_did() -> None:
    model = taught(
        *(ran(minutes * MINUTE, "train-1") for minutes in range(50, 70)),
        *(ran(10.0, "probe", user="bob") for _ in range(5)),
    )

    found = draws(model, a_job())

    assert 50 * MINUTE <= found[100] <= 70 * MINUTE
    assert model.basis(a_job()) == "jobs of the same user, name and shape (20)"
    assert model.basis(a_job(limit=90 * MINUTE)) == "jobs of the same user, name and shape (20)"


def test_a_program_tells_more_than_a_number_for_a_name() -> None:
    seven, eight = (past_job(job(str(n), run=HOUR)._replace(program=str(n))) for n in (7, 8))
    model = taught(*[seven] * 20, *[eight._replace(job=eight.job._replace(run_s=MINUTE))] * 5)

    again = past_job(job("12")._replace(program="7"))

    assert model.basis(again) == "jobs of the same queue, name and shape (20)"
    assert draws(model, again)[100] == pytest.approx(HOUR)


def test_without_its_like_coarser_groups_tell() -> None:
    model = taught(*(ran(HOUR, "train", user="bob") for _ in range(4)))

    assert model.basis(a_job()) == "jobs of the same queue, name and shape (4)"
    assert draws(model, a_job()) == pytest.approx([HOUR] * 200)


def test_few_of_a_kind_tell_little() -> None:
    model = taught(ran(MINUTE, "train"), *(ran(HOUR, "other", user="bob") for _ in range(50)))

    found = draws(model, a_job())

    # One of its like against many of its queue: about every tenth draw follows the one.
    assert 0.05 < sum(run_s < 2 * MINUTE for run_s in found) / 200 < 0.2


def test_who_has_run_for_long_is_compared_with_those_that_ran_longer() -> None:
    model = taught(*(ran(run_s) for run_s in (MINUTE,) * 50), *(ran(HOUR) for _ in range(10)))

    assert draws(model, a_job("old"))[100] < 2 * MINUTE
    assert draws(model, a_job("old"), ran_s=5 * MINUTE) == pytest.approx([HOUR] * 200)


def test_who_still_runs_tells_of_those_who_are_to_start() -> None:
    """Of twelve that came together, the two short ones have ended, and ten run since an hour."""
    model = taught(ran(MINUTE), ran(MINUTE), *(ran(2 * HOUR, "long") for _ in range(10)))
    assert draws(model, a_job("old"))[50] == MINUTE

    model.see_running((a_job("old"), HOUR) for _ in range(10))

    found = draws(model, a_job("old"))
    assert found[20] == MINUTE  # so some of them are
    assert found[50] > HOUR
    assert draws(model, a_job("old"), ran_s=MINUTE) == pytest.approx([2 * HOUR] * 200)
    model.see_running(())
    assert draws(model, a_job("old"))[50] == MINUTE


def test_nobody_runs_beyond_its_limit() -> None:
    model = taught(*(ran(HOUR * n) for n in (1, 2, 3, 4, 5)))

    assert draws(model, a_job("old", limit=3 * HOUR))[-1] <= 3 * HOUR + 1
    late = draws(model, a_job("old", limit=HOUR), ran_s=2 * HOUR)
    assert late == [2 * HOUR + MINUTE] * 200  # it is about to be ended


def test_a_limit_that_others_had_tells_more_than_the_queue() -> None:
    two_queues = cluster(flavor("a"), queue("q", a=1), queue("speech", a=1))
    elsewhere = job("asr", on="speech", run=HOUR)._replace(requested_s=2 * HOUR)
    model = taught(
        *[past_job(elsewhere, two_queues)] * 20,
        *(ran(MINUTE, "probe", user="eve") for _ in range(20)),
    )

    assert model.basis(a_job(limit=2 * HOUR)) == "jobs of the same limit (20)"
    assert draws(model, a_job(limit=2 * HOUR))[150] == pytest.approx(HOUR)
    assert draws(model, a_job())[150] == pytest.approx(MINUTE)


def test_a_limit_is_all_that_is_known_of_the_first_job() -> None:
    found = draws(RunTimes(), a_job(limit=HOUR))

    assert HOUR / 20 <= found[0] < found[-1] <= HOUR
    assert RunTimes().basis(a_job(limit=HOUR)) == BY_LIMIT


def test_who_has_run_longer_than_anybody_runs_as_long_again_as_often_as_not() -> None:
    model = taught(*(ran(MINUTE) for _ in range(5)))

    found = draws(model, a_job("old"), ran_s=HOUR)

    assert found[0] > HOUR
    assert 1.6 * HOUR < found[100] < 2.5 * HOUR
    assert model.basis(a_job("old"), HOUR) == BY_ITSELF


def test_of_some_jobs_nothing_is_known() -> None:
    assert draws(RunTimes(), a_job()) == [inf] * 200
    assert RunTimes().basis(a_job()) == NOT_KNOWN


def test_names_differ_by_more_than_numbers() -> None:
    assert stem("train-17") == stem("train-18") == "train"
    assert stem("train-x7k2p") == stem("train-17-wl7hp") == "train"  # of several called train
    assert stem("train-seven") == "train-seven"
    assert stem("train-17") != stem("eval-17")
