"""Jobs that come after others have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.sim.record import JobRun


def is_sent_by_others(run: JobRun) -> bool:
    """It comes so long after others end, whenever that is; its own time of submission is void."""
    return bool(run.before) and run.job.think_s is not None


class Successors:
    def __init__(self, runs: Iterable[JobRun]) -> None:
        self._left: dict[int, int] = {}  # by job: how many have to end before it comes
        self._after: dict[int, list[JobRun]] = {}  # by job: who waits for its end
        self._due: set[int] = set()  # jobs whose own time has come
        for run in runs:
            if run.before:
                self._left[run.index] = len(run.before)
            if is_sent_by_others(run):
                self._due.add(run.index)
            for index in run.before:
                self._after.setdefault(index, []).append(run)

    def has_to_wait(self, run: JobRun) -> bool:
        """Its time has come: does it still wait for others?"""
        self._due.add(run.index)
        return self._left.get(run.index, 0) > 0

    def after(self, run: JobRun) -> Sequence[JobRun]:
        """Who comes now that a job has ended, however it did."""
        found = []
        for follower in self._after.pop(run.index, ()):
            self._left[follower.index] -= 1
            if not self._left[follower.index] and follower.index in self._due:
                found.append(follower)
        return found


def without_circles(before: Sequence[Sequence[int]]) -> set[int]:
    """The jobs that can come at all: not those that wait for each other, or for such ones."""
    after: dict[int, list[int]] = {}
    left = [len(indexes) for indexes in before]
    for job, indexes in enumerate(before):
        for index in indexes:
            after.setdefault(index, []).append(job)
    free = [job for job, number in enumerate(left) if not number]
    found = set(free)
    while free:
        for job in after.get(free.pop(), ()):
            left[job] -= 1
            if not left[job]:
                found.add(job)
                free.append(job)
    return found
