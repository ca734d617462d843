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


class RankedJob(NamedTuple):
    submit_s: float
    run_s: float  # more than nothing
    size: int
    priority: int


def stays_with_preemption(
    jobs: Sequence[RankedJob], capacity: int, *, is_strict: bool
) -> list[list[tuple[float, float]]]:
    """From when to when each job runs, every time; preempted jobs begin again from nothing.

    The most important goes first, then who came first. Who does not fit takes places from less
    important ones: from the least important, of those from the last started; whoever was taken
    and need not have been stays, the dearest first. Equals leave each other alone.
    """
    stays: list[list[tuple[float, float]]] = [[] for _ in jobs]
    running: dict[int, float] = {}  # by job: since when
    waiting: list[int] = []
    to_come = 0
    while to_come < len(jobs) or running:
        ends = {since + jobs[i].run_s for i, since in running.items()}
        arrival = {jobs[to_come].submit_s} if to_come < len(jobs) else set()
        now = min(ends | arrival)
        for i in [i for i, since in running.items() if since + jobs[i].run_s <= now]:
            stays[i].append((running.pop(i), now))
        while to_come < len(jobs) and jobs[to_come].submit_s <= now:
            waiting += [to_come] if jobs[to_come].size <= capacity else []
            to_come += 1
        has_changed = True
        while has_changed:
            has_changed = False
            for i in sorted(waiting, key=lambda i: (-jobs[i].priority, i)):
                victims = _who_makes_way(i, jobs, running, capacity)
                if victims is None:
                    if is_strict:
                        break
                    continue
                for victim in victims:
                    stays[victim].append((running.pop(victim), now))
                waiting = [*(w for w in waiting if w != i), *victims]
                running[i] = now
                has_changed = True
                break
    return stays


def _who_makes_way(
    job: int, jobs: Sequence[RankedJob], running: dict[int, float], capacity: int
) -> list[int] | None:
    """Nobody, if there is room; None if even all less important ones would not do."""
    missing = jobs[job].size - (capacity - sum(jobs[i].size for i in running))
    lower = [i for i in running if jobs[i].priority < jobs[job].priority]
    lower.sort(key=lambda i: (jobs[i].priority, -running[i], i))
    taken: list[int] = []
    while missing > 0:
        if not lower:
            return None
        taken.append(lower.pop(0))
        missing -= jobs[taken[-1]].size
    for i in reversed(taken[:-1]):
        if missing + jobs[i].size <= 0:
            taken.remove(i)
            missing += jobs[i].size
    return taken
