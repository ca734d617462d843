"""What others go by, to be compared with: the limit, and the last two jobs of the same user."""

from __future__ import annotations

from collections import deque
from math import inf

from makeway.forecast.run_times import OVERDUE_S, Luck, PastJob


class LimitRule:
    """Everybody runs as long as it may."""

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float:
        limit_s = job.job.requested_s or inf
        return limit_s if ran_s < limit_s else ran_s + OVERDUE_S


class LastTwoRule:
    """The mean of the last two jobs of the user, or of the queue where there is no user.

    Who has run longer than that, or is the first of them, has its limit.
    """

    def __init__(self) -> None:
        self._last: dict[object, deque[float]] = {}

    def learn(self, past: PastJob) -> None:
        self._last.setdefault(_whose(past), deque(maxlen=2)).append(past.job.run_s)

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float:
        last = self._last.get(_whose(job), ())
        limit_s = job.job.requested_s or inf
        expected = sum(last) / len(last) if last else limit_s
        return min(expected, limit_s) if expected > ran_s else LimitRule().run_s(job, ran_s, luck)


def _whose(past: PastJob) -> object:
    return (
        (past.job.user, past.workload.local_queue) if past.job.user else past.workload.local_queue
    )
