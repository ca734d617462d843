"""One CSV line per job, for spreadsheets and notebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from makeway.sim.comparison import LETTERS
from makeway.sim.record import STAY_ENDINGS, JobRun
from makeway.sim.result import Result

COLUMNS = (
    *("job", "queue", "priority", "size", "submit_s", "first_run_s", "end_s", "wait_s"),
    *("run_s", "lost_s", "evictions", "fate", "turnaround_s", "attempts", "flavors", "stays"),
    *("preempted_by", "user", "requested_s"),
)


def job_lines(result: Result) -> Iterator[str]:
    """Lists within a field are separated by a space, parts of a stay by a slash."""
    stays, preemptors = _stays(result), _preemptors(result)
    yield ",".join(COLUMNS) + "\n"
    for run in result.runs:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            (
                run.key,
                run.queue,
                run.priority,
                run.size,
                _seconds(run.submitted_at),
                _seconds(run.first_run_at),
                _seconds(run.ended_at),
                _seconds(result.wait_of(run)),
                _seconds(run.job.run_s),
                _seconds(run.lost_s),
                run.evictions,
                run.outcome.value,
                "" if run.ended_at is None else _seconds(run.ended_at - run.submitted_at),
                len(stays.get(run.index, ())),
                " ".join(
                    dict.fromkeys(stay.partition("/")[0] for stay in stays.get(run.index, ()))
                ),
                " ".join(stays.get(run.index, ())),
                " ".join(preemptors.get(run.index, ())),
                run.job.user,
                _seconds(run.job.requested_s),
            )
        )
        yield line.getvalue()


def side_lines(results: Sequence[Result]) -> Iterator[str]:
    """The jobs of several runs below each other, with the letter of theirs in front."""
    for letter, result in zip(LETTERS, results, strict=False):
        head, *lines = job_lines(result)
        if result is results[0]:
            yield f"side,{head}"
        yield from (f"{letter},{line}" for line in lines)


def _stays(result: Result) -> dict[int, list[str]]:
    """Per job, every time that its pods ran: `flavor/from/to/ending`."""
    record, found = result.record, dict[int, list[str]]()
    flavors = ["+".join(names) for names in record.flavor_sets]
    for i, ran in enumerate(record.stay_ran):
        if ran:
            where, ending = flavors[record.stay_flavors[i]], STAY_ENDINGS[record.stay_ending[i]]
            span = f"{_seconds(record.stay_from[i])}/{_seconds(record.stay_to[i])}"
            found.setdefault(record.stay_job[i], []).append(f"{where}/{span}/{ending.value}")
    for run in result.runs:
        if run.run_from is not None:
            found.setdefault(run.index, []).append(_open_stay(run))
    return found


def _open_stay(run: JobRun) -> str:
    return f"{'+'.join(run.flavors)}/{_seconds(run.run_from)}//open"


def _preemptors(result: Result) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for eviction in result.record.evictions:
        if eviction.by >= 0:
            found.setdefault(eviction.job, []).append(result.demand.all_runs[eviction.by].key)
    return found


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
