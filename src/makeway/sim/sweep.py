"""Many runs of one question: every value of every knob, every seed, on all cores.

A finished run is a small line of figures with a key of everything it depends on. Lines that are
in the file already are not run again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from itertools import product
from math import floor
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from makeway.api.errors import in_words
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.intervals import Interval, interval_of
from makeway.sim.knobs import Turn, parse_turn
from makeway.sim.load import Load
from makeway.sim.named_figures import NEVER_FIT, figures_of, full_name
from makeway.sim.result import Result
from makeway.sim.simulate import RECORDED, simulate
from makeway.sim.trace_jobs import SimulationError, Trace
from makeway.sim.world import Progress, Watch

VALUES_MAX = 1000
LOOK_S = 0.5
KEY_LENGTH = 24
LINE_START = '{"key": "'  # of a file that runs were saved in
HOLDS_NO_RUNS = "is there already and holds no runs; name another file"
Point = tuple[str, ...]  # a value for each knob, as written


@dataclass(frozen=True, kw_only=True)
class Question:
    """What all runs have in common."""

    cluster: SimulatedCluster
    trace: Trace
    load: Load = RECORDED
    queue: str | None = None
    until: float | None = None
    measure: str = "all"
    gates: Mapping[str, bool] = field(default_factory=dict)

    def play(self, task: Task, watch: Watch | None = None) -> Result:
        return simulate(
            self.cluster,
            self.trace,
            set=task.turns,
            load=self.load,
            seed=task.seed,
            queue=self.queue,
            until=self.until,
            measure=self.measure,
            gates=self.gates,
            watch=watch,
        )

    @cached_property
    def _digest(self) -> str:
        objects = [manifest.document for manifest in self.cluster.manifests]
        load = (self.load.scale, sorted(self.load.growth.items()), self.load.bootstrap_s)
        others = (version("makeway"), load, self.queue, self.until, self.measure, {**self.gates})
        text = json.dumps([objects, others], sort_keys=True, default=str)
        return sha256(f"{text}{self.trace.jobs!r}".encode()).hexdigest()

    def key_of(self, task: Task) -> str:
        """Equal for runs that must have the same figures."""
        turns = [str(turn) for turn in task.turns]
        text = json.dumps([self._digest, turns, task.seed])
        return sha256(text.encode()).hexdigest()[:KEY_LENGTH]


class Task(NamedTuple):
    turns: tuple[Turn, ...]
    seed: int


class Finished(NamedTuple):
    task: Task
    figures: Mapping[str, float]
    cpu_s: float
    is_complete: bool
    is_old: bool = False  # it was in the file already


# --- what to run ---


class Axis(NamedTuple):
    knob: str
    values: tuple[str, ...]


def parse_axis(text: str, option: str = "--vary") -> Axis:
    """`KNOB=600,700`, `KNOB=600..900:100` or `KNOB=x1..x1.5:0.1`."""
    turn = parse_turn(text)
    found: list[str] = []
    for part in turn.value.split(","):
        found += _range(f"{option} {text}", part.strip()) if ".." in part else [part.strip()]
    if not all(found):
        raise SimulationError(f"{option} {text}: a value is missing")
    return Axis(turn.knob, tuple(dict.fromkeys(found)))


def _range(asked: str, part: str) -> list[str]:
    span, _, step_text = part.partition(":")
    low_text, _, high_text = span.partition("..")
    sign = low_text[:1] if low_text[:1] in ("x", "*") else ""
    try:
        low, high = float(low_text.lstrip("x*")), float(high_text.lstrip("x*"))
        step = float(step_text) if step_text else 1.0
        count = floor((high - low) / step + 1e-9) + 1
    except (ValueError, ZeroDivisionError):
        count = 0
    if count > VALUES_MAX:
        raise SimulationError(f"{asked}: {part} are {count} values; {VALUES_MAX} at most")
    if count < 1:
        raise SimulationError(f"{asked}: {part} is no range; write 600..900:100")
    return [f"{sign}{low + i * step:.10g}" for i in range(count)]


def points_of(axes: Sequence[Axis]) -> list[Point]:
    return [*product(*(axis.values for axis in axes))]


def tasks_of(axes: Sequence[Axis], point: Point, seeds: Sequence[int]) -> list[Task]:
    turns = tuple(Turn(axis.knob, value) for axis, value in zip(axes, point, strict=True))
    return [Task(turns, seed) for seed in seeds]


# --- running ---


def cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Runs:
    """Runs tasks, on several cores if asked to, and remembers them in a file if there is one."""

    def __init__(
        self,
        question: Question,
        workers: int = 1,
        save: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.question, self.workers, self.is_stopped = question, workers, is_stopped
        self._save = save
        self._old = _read_lines(save) if save is not None and save.exists() else {}

    def finish(self, tasks: Iterable[Task]) -> Iterator[Finished]:
        """Every task that is done, as it is done; fewer than asked for when it is stopped."""
        new = []
        for task in tasks:
            line = self._old.get(self.question.key_of(task)) if self._save else None
            if line is None:
                new.append(task)
            else:
                is_complete = line["isComplete"]
                yield Finished(task, line["figures"], line["cpuSeconds"], is_complete, is_old=True)
        many = self.workers > 1 and len(new) > 1
        for finished in self._in_processes(new) if many else self._here(new):
            self._remember(finished)
            yield finished

    def _here(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        for task in tasks:
            finished = _run(self.question, task, self.is_stopped)
            if self.is_stopped():
                return
            yield finished

    def _in_processes(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        stop = context.Event()
        shared = (self.question, stop)
        number = min(self.workers, len(tasks))
        with ProcessPoolExecutor(number, context, _begin_worker, shared) as pool:
            pending: set[Future[Finished]] = {pool.submit(_run_in_worker, task) for task in tasks}
            try:
                while pending and not self.is_stopped():
                    done, pending = wait(pending, timeout=LOOK_S, return_when=FIRST_COMPLETED)
                    for future in sorted(done, key=lambda f: tasks.index(f.result().task)):
                        yield future.result()
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _remember(self, finished: Finished) -> None:
        if self._save is None:
            return
        line = {
            "key": self.question.key_of(finished.task),
            "set": [str(turn) for turn in finished.task.turns],
            "seed": finished.task.seed,
            "cpuSeconds": round(finished.cpu_s, 3),
            "isComplete": finished.is_complete,
            "figures": finished.figures,
        }
        with self._save.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _read_lines(file: Path) -> dict[str, dict[str, Any]]:
    """What was run before, by key; a line that was cut off by a crash is passed over."""
    found = {}
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = in_words(error) if isinstance(error, OSError) else HOLDS_NO_RUNS
        raise SimulationError(f"--save {file}: {problem}") from None
    if not text.startswith(LINE_START) and not LINE_START.startswith(text):
        raise SimulationError(f"--save {file}: {HOLDS_NO_RUNS}")
    if text and not text.endswith("\n"):
        with file.open("a", encoding="utf-8") as end:
            end.write("\n")  # else the next line would be lost with the one that was cut off
    for written in text.splitlines():
        try:
            line = json.loads(written)
            if NEVER_FIT in line["figures"]:  # else it was written before there was this figure
                found[line["key"]] = line
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _run(question: Question, task: Task, is_stopped: Callable[[], bool]) -> Finished:
    start = time.process_time()

    def look(_: Progress) -> bool:
        return not is_stopped()

    result = question.play(task, look)
    figures = {name: round(value, 9) for name, value in figures_of(result).items()}
    return Finished(task, figures, time.process_time() - start, result.is_complete)


_SHARED: list[tuple[Question, Event]] = []  # in a worker: what its runs have in common


def _begin_worker(question: Question, stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us
    _SHARED[:] = [(question, stop)]


def _run_in_worker(task: Task) -> Finished:
    ((question, stop),) = _SHARED
    return _run(question, task, stop.is_set)


# --- what came of it ---


class SweepResult:
    """Figures by point and seed."""

    def __init__(self, question: Question, axes: Sequence[Axis], seeds: Sequence[int]) -> None:
        self.question, self.axes, self.seeds = question, tuple(axes), tuple(seeds)
        self.finished: dict[tuple[Point, int], Finished] = {}

    @property
    def points(self) -> list[Point]:
        """Those with at least one finished run, in the order of the grid."""
        with_runs = {point for point, _ in self.finished}
        return [point for point in points_of(self.axes) if point in with_runs]

    @property
    def is_complete(self) -> bool:
        return len(self.finished) == len(points_of(self.axes)) * len(self.seeds)

    @property
    def cpu_s(self) -> float:
        return sum(run.cpu_s for run in self.finished.values())

    def take(self, finished: Finished) -> None:
        point = tuple(turn.value for turn in finished.task.turns)
        self.finished[point, finished.task.seed] = finished

    def runs_of(self, point: Point) -> list[Finished]:
        return [self.finished[point, seed] for seed in self.seeds if (point, seed) in self.finished]

    def names(self) -> list[str]:
        """All figures that any run has."""
        runs = self.finished.values()
        return [*dict.fromkeys(name for run in runs for name in run.figures)]

    def figure_named(self, text: str) -> str:
        return full_name(text, self.names())

    def interval(self, point: Point, figure: str) -> Interval | None:
        values = [run.figures[figure] for run in self.runs_of(point) if figure in run.figures]
        return interval_of(values) if values else None

    @property
    def is_the_same_for_all_seeds(self) -> bool:
        """Nothing was random, so that several seeds say no more than one."""
        return len(self.seeds) > 1 and all(
            len({tuple(sorted(run.figures.items())) for run in self.runs_of(point)}) == 1
            for point in self.points
        )
