"""Who comes next: days of the past, drawn again."""

from __future__ import annotations

from makeway.forecast.arrivals import Arrivals
from makeway.forecast.run_times import Luck, PastJob, RunTimes
from tests.forecast.lab import past_job
from tests.sim.worlds import HOUR, job

DAY = 24 * HOUR
# Every night at two a job comes, and at three another.
NIGHTS = [past_job(job(f"night-{n}", at=n * DAY + h * HOUR)) for n in range(10) for h in (2, 3)]


def drawn(past: list[PastJob], at: float, until: float, seed: int = 1) -> list[float]:
    found = Arrivals(past, at).drawn(until, RunTimes(), Luck(seed, 0.0), seed)
    return sorted(arrival.job.submit_s for arrival in found)


def test_nights_stay_nights() -> None:
    assert drawn(NIGHTS, 10 * DAY, 11 * DAY) == [10 * DAY + 2 * HOUR, 10 * DAY + 3 * HOUR]
    assert drawn(NIGHTS, 10 * DAY, 10 * DAY + HOUR) == []
    assert len(drawn(NIGHTS, 10 * DAY, 15 * DAY)) == 10  # further ahead than one day, too


def test_they_are_new_jobs_and_the_same_for_the_same_seed() -> None:
    found = [Arrivals(NIGHTS, 10 * DAY).drawn(14 * DAY, RunTimes(), Luck(1, 0.0), 1) for _ in "ab"]

    assert found[0] == found[1]
    keys = {arrival.workload.key for arrival in found[0]}
    assert len(keys) == 8
    assert not keys & {past.workload.key for past in NIGHTS}
    assert all(a.workload.created_at == a.job.submit_s for a in found[0])


def test_with_less_than_a_day_of_past_nobody_comes() -> None:
    past = NIGHTS[:2]

    assert Arrivals(past, 20 * HOUR).days == 0
    assert drawn(past, 20 * HOUR, 5 * DAY) == []
