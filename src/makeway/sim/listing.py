"""One CSV line per job, for spreadsheets and notebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from makeway.sim.result import Result

COLUMNS = (
    *("job", "queue", "priority", "size", "submit_s", "first_run_s", "end_s", "wait_s"),
    *("run_s", "lost_s", "evictions", "fate"),
)


def job_lines(result: Result) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for run in result.runs:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            (
                run.key,
                run.queue,
                run.priority,
                run.size,
                _seconds(run.job.submit_s),
                _seconds(run.first_run_at),
                _seconds(run.ended_at),
                _seconds(result.wait_of(run)),
                _seconds(run.job.run_s),
                _seconds(run.lost_s),
                run.evictions,
                run.outcome.value,
            )
        )
        yield line.getvalue()


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
