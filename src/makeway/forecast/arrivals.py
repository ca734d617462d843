"""Who comes next: a day of the past, drawn again.

For each queue a run draws one of the last days, and those come who came on it, at the same times of
day, and again on each day ahead. So nights stay nights, bursts stay bursts, and a queue that nobody
uses stays empty. Later days are likelier: where the load has changed, most runs go by what it is
now, and some by what it was. A run keeps to its day, as in one that drew anew every few hours busy
and quiet stretches would make up for each other, and all runs would see the same load.

Jobs whose end has not been seen get a run time from the model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import NamedTuple

from makeway.engine.model import LocalQueueKey, WorkloadKey
from makeway.forecast.run_times import Luck, PastJob, RunTimeRule
from makeway.sim.continuation import Arrival
from makeway.sim.seeded_random import SeededRandom

DAY_S = 86_400.0


class ArrivalSettings(NamedTuple):
    """Chosen on first halves of recorded traces, as they are and with changes of load made."""

    days: int = 14  # as far back as we look
    half_life_days: float = 1.5  # a day is half as likely as one so much later


class Arrivals:
    def __init__(
        self, past: Sequence[PastJob], at: float, settings: ArrivalSettings | None = None
    ) -> None:
        """`past` in order of submission, up to `at`."""
        self.settings = settings or ArrivalSettings()
        self._at = at
        self.by_queue: dict[LocalQueueKey, list[PastJob]] = {}
        for job in past:
            self.by_queue.setdefault(job.workload.local_queue, []).append(job)
        since = past[0].job.submit_s if past else at
        self.days = min(self.settings.days, int((at - since) / DAY_S))  # whole days of past
        half_life = self.settings.half_life_days
        self._days_again: dict[tuple[LocalQueueKey, int, int], list[Arrival]] = {}
        self._weights = [0.5 ** (back / half_life) for back in range(self.days)]

    def drawn(
        self, since: float, until: float, rule: RunTimeRule, luck: Luck, seed: int
    ) -> list[Arrival]:
        """Those who come in that time; nobody where less than a day of the past is known.

        The same come if it is asked for in several parts.
        """
        return [
            arrival if arrival.job.run_s < inf else _with_run_time(arrival, rule, luck)
            for arrival in self._of_days(until, SeededRandom(seed))
            if since <= arrival.job.submit_s < until
        ]

    def _of_days(self, until: float, random: SeededRandom) -> Iterator[Arrival]:
        """All of the days that a run drew, one for each queue."""
        if not self.days:
            return
        days = range(1, self.days + 1)
        for queue in self.by_queue:
            (back,) = random.named("arrivals", queue).choices(days, self._weights)
            for ahead in range(ceil((until - self._at) / DAY_S)):
                yield from self._day_again(queue, back, ahead)

    def _day_again(self, queue: LocalQueueKey, back: int, ahead: int) -> list[Arrival]:
        """Those who came on a day of the past come again so many days from now.

        They are made once: many runs draw the same day.
        """
        known = self._days_again.get((queue, back, ahead))
        if known is None:
            begun = self._at - back * DAY_S
            that_day = [*_between(self.by_queue[queue], begun, begun + DAY_S)]
            later_s, first = (back + ahead) * DAY_S, ahead * len(that_day)
            known = self._days_again[queue, back, ahead] = [
                _again(old, later_s, f"{queue}-{first + number}")
                for number, old in enumerate(that_day)
            ]
        return known


def _between(past: Sequence[PastJob], start: float, end: float) -> Iterator[PastJob]:
    first = bisect_left(past, start, key=_submitted)
    for job in past[first:]:
        if job.job.submit_s >= end:
            return
        yield job


def _submitted(past: PastJob) -> float:
    return past.job.submit_s


def _again(old: PastJob, later_s: float, suffix: str) -> Arrival:
    at = old.job.submit_s + later_s
    key = WorkloadKey(f"{old.workload.key}+{suffix}")
    workload = replace(old.workload, key=key, uid=f"~{key}", created_at=at)
    return Arrival(old.job._replace(submit_s=at, cancel_s=None), workload)


def _with_run_time(arrival: Arrival, rule: RunTimeRule, luck: Luck) -> Arrival:
    job, workload = arrival
    return Arrival(job._replace(run_s=rule.run_s(PastJob(job, workload), 0.0, luck)), workload)
