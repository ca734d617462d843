"""How many evictions the preemptors of a queue may cause in an hour.

What a queue takes back of its own quota does not count: nobody has to save up for what is his.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from makeway.engine.decisions import BudgetSpent, VictimRule
from makeway.engine.model import Phase, Queue, QueueName
from makeway.engine.victims import Chosen

HOUR_S = 3600.0


class Budgets:
    def __init__(self) -> None:
        self._times: dict[QueueName, list[float]] = {}  # of evictions that count, oldest first

    def note(self, queue: QueueName, times: Iterable[float]) -> None:
        self._times[queue] = sorted([*self._times.get(queue, ()), *times])

    def spent(self, queue: QueueName, now: float) -> tuple[float, ...]:
        """When evictions were caused that still count; were the clock set back, as of now."""
        known = self._times.get(queue)
        if not known:
            return ()
        left = [min(at, now) for at in known if at > now - HOUR_S]
        self._times[queue] = left
        return tuple(left)

    def refuse(self, queue: Queue, victims: Collection[Chosen], now: float) -> BudgetSpent | None:
        """Until when a preemptor of the queue can't have these victims; None: it can.

        Who needs more than there ever is needs the whole of it.
        """
        limit = queue.preemption.evictions_per_hour
        if limit is None:
            return None
        needed = sum(map(counts, victims))
        if not needed:
            return None
        spent = self.spent(queue.name, now)
        too_many = len(spent) + min(needed, limit) - limit
        if too_many <= 0:
            return None
        return BudgetSpent(limit, needed, spent[too_many - 1] + HOUR_S)


def counts(victim: Chosen) -> bool:
    """Whether it is stopped for this, and not for quota of the preemptor's own."""
    return victim.rule is not VictimRule.RECLAIM and victim.entry.phase is not Phase.EVICTING
