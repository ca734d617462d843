"""When figures need a word: it was stopped, or one job decides them, which is named."""

from __future__ import annotations

from makeway.api.times import format_span
from makeway.sim.record import JobOutcome, JobRun
from makeway.sim.result import Result
from makeway.sim.spans import short_span

JOBS_LEAST = 20  # with fewer, some job is always the last by far
LAST_SHARE = 0.01
LOST_SHARE = 0.5


def warnings(result: Result) -> list[str]:
    """Sentences for whoever reads the figures; none where they can be trusted."""
    found = [_given_up(result), _last_ones(result), _biggest_loser(result)]
    return [sentence for sentence in found if sentence is not None]


def end_text(result: Result) -> str | None:
    """How it ended if more would have happened; None also where a warning says it."""
    if result.is_complete or result.is_given_up:
        return None
    after = format_span(result.end)
    if result.is_as_long_as_asked:
        return f"ends after {after}, as asked: what comes later is not in the figures"
    return f"STOPPED EARLY after {after}: the figures are partial"


def _given_up(result: Result) -> str | None:
    if not result.is_given_up:
        return None
    open_runs = [run for run in result.runs if run.ended_at is None]
    most = max(open_runs, key=lambda run: (run.lost_s, run.index), default=None)
    left = "1 job" if len(open_runs) == 1 else f"{len(open_runs)} jobs"
    named = "" if most is None else f"; {most.key} {_fate(result, most)}"
    return (
        f"given up after {short_span(result.end)}, far beyond what the work needs,"
        f" with {left} left{named} (--until sets another end)"
    )


def _last_ones(result: Result) -> str | None:
    """The last hundredth of the jobs takes as long as all others together."""
    ended = [run for run in result.runs if run.outcome is not JobOutcome.NEVER_FITS]
    if len(ended) < JOBS_LEAST:
        return None
    ended.sort(key=lambda run: (_end_of(result, run), run.index))
    others, last = ended[-1 - max(1, int(LAST_SHARE * len(ended)))], ended[-1]
    if 2 * _end_of(result, others) > _end_of(result, last):
        return None
    return (
        f"most jobs had ended after {short_span(_end_of(result, others))}, the last one after"
        f" {short_span(_end_of(result, last))}: {last.key} {_fate(result, last)};"
        " --measure steady leaves the end out"
    )


def _biggest_loser(result: Result) -> str | None:
    total = sum(run.lost_s * run.size for run in result.runs)
    most = max(result.runs, key=lambda run: (run.lost_s * run.size, -run.index), default=None)
    if most is None or len(result.runs) < JOBS_LEAST:
        return None
    lost = most.lost_s * most.size
    if lost <= LOST_SHARE * total or lost <= 10 * most.job.run_s * most.size:
        return None
    return (
        f"{most.key} alone lost {100 * lost / total:.0f} % of all work that was lost:"
        f" it needs {short_span(most.job.run_s)} and was thrown back again and again"
    )


def _end_of(result: Result, run: JobRun) -> float:
    return result.end if run.ended_at is None else run.ended_at


def _fate(result: Result, run: JobRun) -> str:
    stays = sum(
        1
        for job, ran in zip(result.record.stay_job, result.record.stay_ran, strict=True)
        if ran and job == run.index
    )
    needs = f"needs {short_span(run.job.run_s)}"
    if not run.lost_s:
        return f"{needs} and lost nothing"
    return f"{needs}, was started {stays} times and lost {short_span(run.lost_s)} of progress"
