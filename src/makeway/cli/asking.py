"""Sweeps and searches of `makeway simulate`: many runs, one answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from makeway.cli.command import UsageError
from makeway.cli.simulation_output import print_table, write_file
from makeway.cli.simulation_progress import Bar
from makeway.cli.tables import counted
from makeway.cli.wide_tables import print_wrapped
from makeway.sim.named_figures import full_name, may_be_figure, parse_goal
from makeway.sim.search import Range, Search
from makeway.sim.sweep import (
    Finished,
    Question,
    Runs,
    SweepResult,
    cores,
    parse_axis,
    points_of,
    tasks_of,
)
from makeway.sim.sweep_page import render_sweep
from makeway.sim.sweep_report import (
    answer,
    columns_of,
    notes_of,
    run_lines,
    search_json,
    search_table,
    sweep_json,
    sweep_table,
)


class Asking:
    def __init__(self, question: Question, arguments: argparse.Namespace) -> None:
        self.question, self.arguments = question, arguments
        if arguments.seeds < 1:
            raise UsageError(f"--seeds {arguments.seeds}: write how many, one at least")
        if arguments.workers is not None and arguments.workers < 1:
            raise UsageError(f"-j {arguments.workers}: write how many, one at least")
        self.seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        self.workers: int = cores() if arguments.workers is None else arguments.workers

    def _runs(self, bar: Bar) -> Runs:
        save = None if self.arguments.save is None else Path(self.arguments.save)
        return Runs(self.question, self.workers, save, lambda: bar.is_stopped)

    def _bar(self) -> Bar:
        return Bar(is_shown=not self.arguments.quiet and sys.stderr.isatty())

    def sweep(self) -> int:
        axes = [parse_axis(text) for text in self.arguments.vary]
        knobs = [axis.knob for axis in axes]
        if twice := [knob for i, knob in enumerate(knobs) if knob in knobs[:i]]:
            raise UsageError(f"--vary {twice[0]}: is there twice; write all its values at once")
        if not axes and len(self.seeds) < 2:
            raise UsageError(
                "sweep over what? --vary 'quota of flavor a100=600..900:100', --seeds 5"
            )
        sweep = SweepResult(self.question, axes, self.seeds)
        tasks = [task for point in points_of(axes) for task in tasks_of(axes, point, self.seeds)]
        with self._bar() as bar:
            for finished in self._runs(bar).finish(tasks):
                sweep.take(finished)
                self._check_shown(finished)
                bar.runs(len(sweep.finished), len(tasks))
        if not sweep.finished:
            raise UsageError("stopped before the first run was done")
        figures = columns_of(sweep, self.arguments.show)
        self._write_csv(knobs, sweep)
        if self.arguments.report:
            write_file(self.arguments.report, render_sweep(sweep, figures))
        if self.arguments.output == "json":
            print(sweep_json(sweep), end="")
            return bar.exit_code
        print_table(sweep_table(sweep, figures))
        for note in notes_of(sweep):
            print_wrapped(note)
        return bar.exit_code

    def _check_shown(self, finished: Finished) -> None:
        """A figure that no run can have is told after the first one."""
        for text in filter(None, self.arguments.show.split(",")):
            if not may_be_figure(text, finished.figures):
                full_name(text.strip(), finished.figures)

    def find(self) -> int:
        if not self.arguments.by:
            raise UsageError("--find what by turning what? add --by 'quota of flavor a100'")
        knob, range_ = _range_of(self.arguments.by)
        goal = parse_goal(self.arguments.find)
        search = Search(self.question, goal, knob, range_, self.seeds)
        with self._bar() as bar:
            place = search.run(self._runs(bar))
        if not search.trials:
            raise UsageError("stopped before the first run was done")
        if self.arguments.csv:
            write_file(self.arguments.csv, "".join(run_lines([knob], search.finished)))
        if self.arguments.output == "json":
            print(search_json(search, place), end="")
        else:
            print_table(search_table(search))
            for line in answer(search, place):
                print_wrapped(line)
            print(counted(len(search.finished), "run"))
        return bar.exit_code or (0 if place is not None else 1)

    def _write_csv(self, knobs: Sequence[str], sweep: SweepResult) -> None:
        if self.arguments.csv:
            runs = [run for point in sweep.points for run in sweep.runs_of(point)]
            write_file(self.arguments.csv, "".join(run_lines(knobs, runs)))


def _range_of(text: str) -> tuple[str, Range | None]:
    """`KNOB`, or `KNOB=LOW..HIGH:STEP`."""
    if ".." not in text:
        return " ".join(text.split()), None
    axis = parse_axis(text, "--by")
    values = [float(value) for value in axis.values]
    step = values[1] - values[0] if len(values) > 1 else 1.0
    return axis.knob, Range(values[0], values[-1], step)
