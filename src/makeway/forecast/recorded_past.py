"""How long jobs ran that are deleted by now: what a journal tells of them.

A journal holds what the engine counts with, so of a job that is gone we know the name, the queue,
what it asked for and when it began and ended, but neither who sent it nor its limit. It is read
from the newest segments alone: a model of run times forgets what is older than that anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from makeway.engine.model import Workload
from makeway.journal.coding import Unreadable
from makeway.journal.file import Journal
from makeway.journal.past import job_name
from makeway.journal.records import WrittenSegment
from makeway.sim.recorded import RecordedJobs

NEWEST_BYTES = 2_000_000  # of the past, besides the segment that is written: 20 000 jobs


class EndedJob(NamedTuple):
    """A job that has finished; times are seconds since 1970."""

    name: str
    workload: Workload
    run_s: float  # of its last attempt
    ended_at: float


def newest_segments(path: Path) -> list[WrittenSegment]:
    """What a journal's last segments have, as they are written: all that is learnt from."""
    journal = Journal(path)
    try:
        return journal.newest(NEWEST_BYTES)
    finally:
        journal.close()


def ended_jobs(segments: Iterable[WrittenSegment]) -> Iterator[EndedJob]:
    """Who was seen from its start to its end, in no certain order."""
    jobs = RecordedJobs()
    for segment in segments:
        try:
            for record in segment.records():
                jobs.take(record)
        except Unreadable:
            continue  # another version wrote it, or it is damaged: it teaches nothing
    for job in jobs.told.values():
        if job.finished_at is not None and job.run_s is not None:
            name = job_name(job.workload.key)
            yield EndedJob(name, job.workload, job.run_s, job.finished_at)
