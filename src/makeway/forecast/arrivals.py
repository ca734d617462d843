"""Who comes next: days of the past, drawn again.

For each queue, and for each stretch of time ahead, the jobs come that came in the same hours of a
day drawn from the last two weeks. So nights stay nights, bursts stay bursts, and a queue that
nobody uses stays empty. Jobs whose end has not been seen get a run time from the model.
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
    block_s: float = 6 * 3600.0  # one draw of a day holds for so long
    days: int = 14  # as far back as we look


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

    def drawn(self, until: float, rule: RunTimeRule, luck: Luck, seed: int) -> list[Arrival]:
        """Those who come until then; nobody where less than a day of the past is known."""
        random = SeededRandom(seed)
        return [
            _again(old, back_s, f"{queue}-{number}", rule, luck)
            for queue, past in self.by_queue.items()
            for number, (old, back_s) in enumerate(self._of_queue(past, until, random, queue))
        ]

    def _of_queue(
        self, past: Sequence[PastJob], until: float, random: SeededRandom, queue: LocalQueueKey
    ) -> Iterator[tuple[PastJob, float]]:
        """Jobs of the past, and how much later they come again."""
        draws = random.named("arrivals", queue)
        start = self._at
        while start < until and self.days:
            end = min(start + self.settings.block_s, until)
            day = ceil((end - self._at) / DAY_S) + draws.randrange(self.days)
            for old in _between(past, start - day * DAY_S, end - day * DAY_S):
                yield old, day * DAY_S
            start = end


def _between(past: Sequence[PastJob], start: float, end: float) -> Iterator[PastJob]:
    first = bisect_left(past, start, key=_submitted)
    for job in past[first:]:
        if job.job.submit_s >= end:
            return
        yield job


def _submitted(past: PastJob) -> float:
    return past.job.submit_s


def _again(old: PastJob, later_s: float, suffix: str, rule: RunTimeRule, luck: Luck) -> Arrival:
    at = old.job.submit_s + later_s
    key = WorkloadKey(f"{old.workload.key}+{suffix}")
    workload = replace(old.workload, key=key, uid=f"~{key}", created_at=at)
    job = old.job._replace(submit_s=at, cancel_s=None)
    if job.run_s == inf:
        job = job._replace(run_s=rule.run_s(PastJob(job, workload), 0.0, luck))
    return Arrival(job, workload)
