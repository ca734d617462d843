"""One queue of identical machines, in the fewest lines: a judge of the simulator's start times.

Nothing in here is shared with the simulator or the engine, and nothing is clever.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple


class PlainJob(NamedTuple):
    submit_s: float
    run_s: float
    size: int


def start_times(jobs: Sequence[PlainJob], capacity: int, *, is_strict: bool) -> list[float | None]:
    """When each job starts; None for those too big for all the machines together.

    Jobs come in order of submission. At one moment first whoever is through ends, then whoever is
    due arrives, then places are given, one job after the other. Strict: nobody passes the first;
    else the first that fits is taken. A job without length has ended before the next is looked at.
    """
    starts: list[float | None] = [None] * len(jobs)
    waiting: list[int] = []
    ends: list[tuple[float, int]] = []  # when, and how many machines come back
    free, to_come = capacity, 0
    while to_come < len(jobs) or ends:
        arrival = jobs[to_come].submit_s if to_come < len(jobs) else inf
        now = min(arrival, ends[0][0] if ends else inf)
        while ends and ends[0][0] <= now:
            free += heappop(ends)[1]
        while to_come < len(jobs) and jobs[to_come].submit_s <= now:
            if jobs[to_come].size <= capacity:
                waiting.append(to_come)
            to_come += 1
        at = 0
        while at < len(waiting):
            job = jobs[waiting[at]]
            if job.size > free:
                at = len(waiting) if is_strict else at + 1
                continue
            starts[waiting.pop(at)] = now
            if job.run_s > 0:
                free -= job.size
                heappush(ends, (now + job.run_s, job.size))
    return starts
