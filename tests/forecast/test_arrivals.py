"""Who comes next: a day of the past, drawn again."""

from __future__ import annotations

from collections import Counter

from makeway.forecast.arrivals import Arrivals
from makeway.forecast.run_times import Luck, PastJob, RunTimes
from makeway.sim.continuation import Arrival
from tests.forecast.lab import past_job
from tests.sim.worlds import HOUR, cluster, flavor, job, queue

DAY = 24 * HOUR
LAB = cluster(flavor("x"), queue("a", x=1), queue("b", x=1))
# Every night at two a job comes, and at three another.
NIGHTS = [past_job(job(f"night-{n}", at=n * DAY + h * HOUR)) for n in range(10) for h in (2, 3)]


def drawn(past: list[PastJob], at: float, until: float, seed: int = 1) -> list[float]:
    found = Arrivals(past, at).drawn(at, until, RunTimes(), Luck(seed, 0.0), seed)
    return sorted(arrival.job.submit_s for arrival in found)


def test_nights_stay_nights() -> None:
    assert drawn(NIGHTS, 10 * DAY, 11 * DAY) == [10 * DAY + 2 * HOUR, 10 * DAY + 3 * HOUR]
    assert drawn(NIGHTS, 10 * DAY, 10 * DAY + HOUR) == []
    assert len(drawn(NIGHTS, 10 * DAY, 15 * DAY)) == 10  # further ahead than one day, too


def days(*numbers: int, on: str = "a") -> list[PastJob]:
    """So many jobs on each day, an hour apart."""
    return [
        past_job(job(f"{on}-{day}-{n}", at=day * DAY + n * HOUR, on=on), LAB)
        for day, number in enumerate(numbers)
        for n in range(number)
    ]


def test_a_run_keeps_to_the_day_it_drew() -> None:
    """Else a quiet day and a busy one would make up for each other, in every run alike."""
    quiet_and_busy = days(*(2, 20) * 5)

    found = Counter(len(drawn(quiet_and_busy, 10 * DAY, 13 * DAY, seed)) for seed in range(100))

    assert set(found) == {3 * 2, 3 * 20}


def test_where_the_load_has_halved_most_runs_go_by_what_it_is_now() -> None:
    halved = days(*(20,) * 12, *(10,) * 3)

    found = Counter(len(drawn(halved, 15 * DAY, 16 * DAY, seed)) for seed in range(200))

    assert set(found) == {10, 20}
    assert 0.7 < found[10] / 200 < 0.8  # three days: 1 + 0.63 + 0.40 of 2.70 in all


def test_each_queue_draws_its_own_day() -> None:
    both = days(1, 2, 3, on="a") + days(4, 8, 12, on="b")
    both.sort(key=lambda past: past.job.submit_s)

    found = {len(drawn(both, 3 * DAY, 4 * DAY, seed)) for seed in range(100)}

    assert found == {5, 6, 7, 9, 10, 11, 13, 14, 15}


def test_they_are_new_jobs_and_the_same_for_the_same_seed() -> None:
    def come(since: float, until: float) -> list[Arrival]:
        return Arrivals(NIGHTS, 10 * DAY).drawn(since, until, RunTimes(), Luck(1, 0.0), 1)

    found = [come(10 * DAY, 14 * DAY) for _ in "ab"]

    assert found[0] == found[1] == [*come(10 * DAY, 11.5 * DAY), *come(11.5 * DAY, 14 * DAY)]
    keys = {arrival.workload.key for arrival in found[0]}
    assert len(keys) == 8
    assert not keys & {past.workload.key for past in NIGHTS}
    assert all(a.workload.created_at == a.job.submit_s for a in found[0])


def test_with_less_than_a_day_of_past_nobody_comes() -> None:
    past = NIGHTS[:2]

    assert Arrivals(past, 20 * HOUR).days == 0
    assert drawn(past, 20 * HOUR, 5 * DAY) == []
