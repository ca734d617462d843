"""What came of a sweep or a search, as tables, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from makeway.sim.intervals import Interval
from makeway.sim.named_figures import NEVER_FIT, figure_text
from makeway.sim.report_tables import Table
from makeway.sim.search import Search, Trial
from makeway.sim.spans import short_span
from makeway.sim.sweep import Finished, SweepResult

HELD_SHOWN = 3
SCHEMA = "makeway.dev/simulation-sweep/v1"
SHOWN = (
    *("mean wait of all", "p95 wait of all", "longest wait of all", "slowdown of all"),
    *("preemptions", "work lost", "cost"),
)


def columns_of(sweep: SweepResult, asked: str) -> list[str]:
    """The figures that are shown: those asked for, or the usual ones and the use of quota."""
    if asked:
        return [sweep.figure_named(text.strip()) for text in asked.split(",")]
    names = sweep.names()
    held = [name for name in names if name.startswith("held of ")][:HELD_SHOWN]
    shown = [name for name in SHOWN if name in names]
    if any(run.figures[NEVER_FIT] for run in sweep.finished.values()):
        shown.append(NEVER_FIT)  # waits don't count these jobs, so no wait means much without it
    return [*shown, *held]


def sweep_table(sweep: SweepResult, figures: Sequence[str]) -> Table:
    runs = [_runs_text(sweep.runs_of(point)) for point in sweep.points]
    is_told = set(runs) != {str(len(sweep.seeds))}  # else the title says how many there are
    rows = []
    for point, number in zip(sweep.points, runs, strict=True):
        cells = [interval_text(name, sweep.interval(point, name)) for name in figures]
        rows.append((*point, *cells, *((number,) if is_told else ())))
    knobs = [axis.knob for axis in sweep.axes]
    columns = (*knobs, *figures, *(("runs",) if is_told else ()))
    return Table(title_of(sweep), columns, tuple(rows), beside=len(knobs))


def _runs_text(runs: Sequence[Finished]) -> str:
    partial = sum(not run.is_complete for run in runs)
    return f"{len(runs)}{f' ({partial} partial)' if partial else ''}"


def title_of(sweep: SweepResult) -> str:
    source = f"{sweep.question.trace.source} on {sweep.question.cluster.source}"
    return ", ".join((source, *seeds_note(sweep)))


def seeds_note(sweep: SweepResult) -> list[str]:
    seeds = len(sweep.seeds)
    return [f"{seeds} seeds each; ± is 95 % confidence"] if seeds > 1 else []


def interval_text(name: str, interval: Interval | None) -> str:
    if interval is None:
        return "-"
    if not interval.half:
        return figure_text(name, interval.mean)
    return f"{figure_text(name, interval.mean)} ± {figure_text(name, interval.half)}"


def notes_of(sweep: SweepResult) -> list[str]:
    notes = []
    if not sweep.is_complete:
        notes.append("STOPPED EARLY: runs are missing")
    if sweep.is_the_same_for_all_seeds:
        notes.append(
            "all seeds gave the same: nothing here is random. --bootstrap 1d draws a new trace for"
            " each seed"
        )
    runs = [*sweep.finished.values()]
    if runs:
        mean = sweep.cpu_s / len(runs)
        old = sum(run.is_old for run in runs)
        known = f", {old} of them known from before" if old else ""
        number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        notes.append(f"{number}{known}, {short_span(mean)} of CPU each")
    return notes


def run_lines(knobs: Sequence[str], runs: Iterable[Finished]) -> Iterator[str]:
    """CSV: one line per run, with all figures."""
    runs = [*runs]
    names = [*dict.fromkeys(name for run in runs for name in run.figures)]
    yield _line((*knobs, "seed", "complete", "cpu_s", *names))
    for run in runs:
        values = [turn.value for turn in run.task.turns]
        figures = [run.figures.get(name, "") for name in names]
        is_complete = str(run.is_complete).lower()
        yield _line((*values, run.task.seed, is_complete, round(run.cpu_s, 3), *figures))


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def sweep_data(sweep: SweepResult) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "trace": sweep.question.trace.source,
        "configuration": sweep.question.cluster.source,
        "isComplete": sweep.is_complete,
        "knobs": [{"knob": axis.knob, "values": list(axis.values)} for axis in sweep.axes],
        "seeds": list(sweep.seeds),
        "points": [
            {
                "values": list(point),
                "runs": len(sweep.runs_of(point)),
                "figures": {
                    name: _interval_data(sweep.interval(point, name)) for name in sweep.names()
                },
            }
            for point in sweep.points
        ],
    }


def _interval_data(interval: Interval | None) -> dict[str, float] | None:
    if interval is None:
        return None
    return {
        "mean": round(interval.mean, 6),
        "low": round(interval.low, 6),
        "high": round(interval.high, 6),
    }


def sweep_json(sweep: SweepResult) -> str:
    return json.dumps(sweep_data(sweep), indent=2, ensure_ascii=False) + "\n"


# --- searches ---


def search_table(search: Search) -> Table:
    trials = [*search.trials.values()]
    left_out = (NEVER_FIT,) if any(trial.never_fit for trial in trials) else ()
    rows = tuple(
        (
            trial.value,
            interval_text(search.figure, trial.figure),
            *(figure_text(NEVER_FIT, trial.never_fit) for _ in left_out),
            "met" if trial.is_met else "missed",
        )
        for trial in trials
    )
    figure = search.figure or search.goal.figure
    return Table(f"looking for {search.goal}", (search.knob, figure, *left_out, ""), rows)


def answer(search: Search, place: int | None) -> list[str]:
    """The answer in sentences, and how far it can be trusted."""
    if place is None:
        tried = [trial.value for trial in search.trials.values()]
        nowhere = f"{search.goal} is met nowhere between {_least(tried)} and {_most(tried)}"
        return [nowhere, *_never_fit_lines(search, 0.0)]
    found = search.trials[place]
    word = "least" if search.is_better_up else "most"
    text = interval_text(search.figure, found.figure)
    lines = [f"{found.value} is the {word} {search.knob} that meets {search.goal}: {text}"]
    beside = search.trials.get(place - 1 if search.is_better_up else place + 1)
    if beside is None:
        lines.append("it is met wherever it was tried")
    elif not beside.is_met:
        lines.append(f"{beside.value} misses it: {_why_missed(search, beside)}")
    lines += _never_fit_lines(search, found.never_fit)
    if partial := sum(not run.is_complete for run in search.finished):
        lines.append(
            f"{partial} runs were stopped while jobs waited or ran; waits count up to then"
        )
    if not search.is_monotone:
        lines.append("the goal was met, missed and met again on the way: look at the runs above")
    return lines


def _why_missed(search: Search, trial: Trial) -> str:
    if trial.figure is not None and not search.goal.is_met(trial.figure.mean):
        return interval_text(search.figure, trial.figure)
    more = trial.never_fit - search.never_fit_least
    if not more:
        return "nobody is left to have it"
    return f"{figure_text(NEVER_FIT, more)} more can never fit"


def _never_fit_lines(search: Search, never_fit: float) -> list[str]:
    """What a reader has to know where jobs are left out of the figure, or made values miss."""
    lines = []
    if never_fit:
        count, by = figure_text(NEVER_FIT, never_fit), f"--by '{search.knob}=LOW..HIGH'"
        further = "" if search.is_load else f"; {by} looks further"
        lines.append(f"jobs that can never fit there, and are not counted: {count}{further}")
    is_uneven = any(t.never_fit > search.never_fit_least for t in search.trials.values())
    if is_uneven and not search.is_load:
        lines.append("a value at which jobs can never fit that fit at another misses the goal")
    return lines


def _least(values: Sequence[str]) -> str:
    return min(values, key=float)


def _most(values: Sequence[str]) -> str:
    return max(values, key=float)


def search_json(search: Search, place: int | None) -> str:
    data = {
        "schema": "makeway.dev/simulation-search/v1",
        "goal": str(search.goal),
        "knob": search.knob,
        "figure": search.figure,
        "answer": None if place is None else search.trials[place].value,
        "sentences": answer(search, place),
        "isMonotone": search.is_monotone,
        "runs": len(search.finished),
        "trials": [
            {
                "value": trial.value,
                "isMet": trial.is_met,
                "neverFit": trial.never_fit,
                **(_interval_data(trial.figure) or {}),
            }
            for trial in search.trials.values()
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
