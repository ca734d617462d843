"""Who comes next: hours of the past, drawn again, queue by queue.

Who is busy stays busy for a while: in the next hours those come again that came after a moment like
this one, at which as many had come lately, at about this time of day. After these hours, the jobs
come that came in the same hours of a day drawn from the last two weeks. So nights stay nights,
bursts stay bursts, and a queue that nobody uses stays empty. Jobs whose end has not been seen get a
run time from the model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil, exp, inf, log1p
from typing import NamedTuple

from makeway.engine.model import LocalQueueKey, WorkloadKey
from makeway.forecast.run_times import Luck, PastJob, RunTimeRule
from makeway.sim.continuation import Arrival
from makeway.sim.seeded_random import SeededRandom

HOUR_S, DAY_S = 3600.0, 86_400.0
LATELY_S = (HOUR_S, 3 * HOUR_S)  # moments are alike if as many came in these spans before them
BETWEEN_MOMENTS_S = HOUR_S / 2
TIME_OF_DAY_S = 3 * HOUR_S  # as much earlier or later is less alike by a standard deviation
UNLIKE = 1e-3  # the weight of a moment that is not like this one


class ArrivalSettings(NamedTuple):
    block_s: float = 6 * HOUR_S  # one draw holds for so long
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
        # Moments of the past from which on a whole block is known, by how long ago they were.
        first_s, last_s = self.settings.block_s, self.days * DAY_S - max(LATELY_S)
        number = int((last_s - first_s) / BETWEEN_MOMENTS_S) + 1
        self._backs = [first_s + n * BETWEEN_MOMENTS_S for n in range(number)]
        self._weights: dict[LocalQueueKey, Sequence[float]] = {}

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
            if start == self._at:
                (back_s,) = draws.choices(self._backs, cum_weights=self._alike(queue))
            else:
                back_s = (ceil((end - self._at) / DAY_S) + draws.randrange(self.days)) * DAY_S
            for old in _between(past, start - back_s, end - back_s):
                yield old, back_s
            start = end

    def _alike(self, queue: LocalQueueKey) -> Sequence[float]:
        """How much each moment of the past was like this one, for a queue; summed up."""
        found = self._weights.get(queue)
        if found is None:
            came = [past.job.submit_s for past in self.by_queue[queue]]
            now = _lately(came, self._at)
            weights = (self._weight(now, _lately(came, self._at - b), b) for b in self._backs)
            found = self._weights[queue] = [*accumulate(weights)]
        return found

    def _weight(self, now: Sequence[float], then: Sequence[float], back_s: float) -> float:
        apart = sum((a - b) ** 2 for a, b in zip(now, then, strict=True))
        hours = min(back_s % DAY_S, -back_s % DAY_S) / TIME_OF_DAY_S
        return (exp(-apart / 2) + UNLIKE) * exp(-(hours**2) / 2)


def _lately(came: Sequence[float], at: float) -> list[float]:
    """How many came an hour, on a logarithmic scale; `came` in order."""
    until = bisect_left(came, at)
    return [log1p((until - bisect_left(came, at - s)) * HOUR_S / s) for s in LATELY_S]


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
