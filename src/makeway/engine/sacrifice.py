"""In which order candidates are sacrificed, for how long they are protected, what it costs them.

Who may be preempted at all is said in victims.py; nothing here adds a candidate. Priority comes
first in every order. Among equals a queue may sort by run time or by the work that would be lost,
then a workload says by its milestones what a disruption costs; what is still equal goes as
everywhere else, the most recently reserved first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import assert_never

from makeway.engine.entry import Entry, VictimOrder
from makeway.engine.model import (
    LocalQueue,
    LocalQueueKey,
    Milestones,
    Protection,
    Sorting,
    WorkloadStatus,
)
from makeway.engine.tree import QueueState

SacrificeKey = tuple[object, ...]


def protection_of(status: WorkloadStatus, queue: QueueState) -> Protection | None:
    """Counted from when its pods were ready, and until they are from its admission on.

    Who is not admitted yet has nothing to lose, and nobody is protected who is on the way out.
    """
    granted_s = queue.spec.preemption.min_runtime_s
    since = status.admitted_at if status.ready_at is None else status.ready_at
    if not granted_s or since is None or status.eviction is not None:
        return None
    return Protection(since, since + granted_s)


def is_protected(entry: Entry, queue: QueueState, at: float) -> bool:
    protection = protection_of(entry.status, queue)
    return protection is not None and at < protection.until


def run_time_s(status: WorkloadStatus, at: float) -> float:
    """How long its pods have been running."""
    return 0.0 if status.ready_at is None else max(0.0, at - status.ready_at)


def work_lost_s(entry: Entry, at: float) -> float:
    """How much of its run time would be in vain: all since the last checkpoint, or the start."""
    checkpoint_at = entry.workload.checkpoint_at
    ran_s = run_time_s(entry.status, at)
    return ran_s if checkpoint_at is None else min(ran_s, max(0.0, at - checkpoint_at))


def cost_at(milestones: Milestones, after_s: float) -> float:
    """Between two milestones in proportion; before the first and after the last as there."""
    if not milestones:
        return 0.0
    if after_s <= milestones[0].after_s:
        return milestones[0].cost
    for (begin, low), (end, high) in pairwise(milestones):
        if after_s < end:
            return low + (high - low) * (after_s - begin) / (end - begin)
    return milestones[-1].cost


class Sacrifice:
    """The order of candidates for one preemptor at one time, where it is not the usual one."""

    def __init__(
        self,
        sorting: tuple[Sorting, ...],
        local_queues: dict[LocalQueueKey, LocalQueue],
        at: float,
        usage_of: Callable[[LocalQueueKey], float] | None = None,  # None: the past does not count
    ) -> None:
        self._measures = [measure for word in sorting if (measure := _measure(word)) is not None]
        self._local_queues = local_queues
        self._at = at
        self._usage_of = usage_of

    def arranged(self, candidates: Iterable[VictimOrder], queue: QueueState) -> list[VictimOrder]:
        """Those of one queue. Cost: all candidates, once, and the time to sort them.

        Where usage of the past counts in the line, it counts here, too, and before priority.
        """
        usage_of = self._usage_of if queue.pending.usage_of is not None else None
        if usage_of is None:
            return sorted(candidates, key=self.key)
        return sorted(
            candidates,
            key=lambda c: (c.is_staying, -usage_of(c.entry.workload.local_queue), self.key(c)),
        )

    def key(self, candidate: VictimOrder) -> SacrificeKey:
        """Small first; no two are equal."""
        entry, at = candidate.entry, self._at
        return (
            candidate.is_staying,
            candidate.priority,
            *(measure(entry, at) for measure in self._measures),
            self._cost_of(entry),
            *candidate[2:5],
        )

    def _cost_of(self, entry: Entry) -> float:
        return disruption_cost(entry, self._local_queues, self._at)


def disruption_cost(
    entry: Entry, local_queues: dict[LocalQueueKey, LocalQueue], at: float
) -> float:
    milestones = entry.workload.milestones
    if not milestones:
        local_queue = local_queues.get(entry.workload.local_queue)
        milestones = () if local_queue is None else local_queue.milestones
    admitted_at = entry.status.admitted_at
    return 0.0 if admitted_at is None else cost_at(milestones, at - admitted_at)


def _measure(word: Sorting) -> Callable[[Entry, float], float] | None:
    match word:
        case Sorting.LOWEST_PRIORITY:
            return None
        case Sorting.LOWEST_RUNTIME:
            return lambda entry, at: run_time_s(entry.status, at)
        case Sorting.LONGEST_RUNTIME:
            return lambda entry, at: -run_time_s(entry.status, at)
        case Sorting.LEAST_WORK_LOST:
            return work_lost_s
        case _:
            assert_never(word)


def earliest(times: Iterable[float], works: Callable[[float], bool]) -> float | None:
    """The first of these times with which it works; None: not even with the last.

    What works once works later as well, so it takes few attempts; most often the first does.
    """
    moments = sorted(set(times))
    if moments and works(moments[0]):
        return moments[0]
    if not moments or not works(moments[-1]):
        return None
    return moments[bisect_right(moments[:-1], False, key=works)]
