"""How much is needed: the value of a knob at which a goal is met, next to one at which it isn't.

Bisection, on a lattice of steps. It trusts that the goal is met on one side of some value and
missed on the other; what it saw is told, also where that was otherwise.

With less quota some jobs can never fit, no wait counts them any more, and the rest waits less. So a
value at which more jobs never fit than at another misses every goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from makeway.sim.intervals import Interval, interval_of
from makeway.sim.knobs import LoadKnob, Setup, Turn, knob_named
from makeway.sim.named_figures import NEVER_FIT, Goal, full_name
from makeway.sim.sweep import Finished, Question, Runs, Task
from makeway.sim.trace_jobs import SimulationError

FACTOR_MAX = 64  # how far from where the knob stands a search goes
LOAD_STEP = 0.01
FALL_WITH_LOAD = ("cost of unused quota", "cost per useful hour", "fairness")
RISE_WITH_QUOTA = ("cost", *FALL_WITH_LOAD, "finished", "work done")
STEP_SHARE = 0.01  # of where the knob stands


class Trial(NamedTuple):
    value: str
    figure: Interval | None  # None: nobody was left to have it
    never_fit: float  # jobs, on average over the seeds
    is_met: bool


class Range(NamedTuple):
    low: float
    high: float
    step: float


@dataclass
class Search:
    question: Question
    goal: Goal
    knob: str
    range_: Range | None = None
    seeds: Sequence[int] = (0,)
    trials: dict[int, Trial] = field(default_factory=dict)  # by place on the lattice, as tried
    finished: list[Finished] = field(default_factory=list)
    figure: str = ""  # the full name of the goal's figure
    _missing: SimulationError | None = None  # why a run had no such figure

    def __post_init__(self) -> None:
        knob = knob_named(self.knob)
        start = knob.reading(Setup(self.question.cluster.manifests, self.question.load))
        self.is_load = is_load = isinstance(knob, LoadKnob)
        self.is_better_up = self.goal.wants_low != _rises(self.goal.figure, with_load=is_load)
        if self.range_ is not None:
            self.step, low, high = self.range_.step, self.range_.low, self.range_.high
            self.first, self.last = round(low / self.step), round(high / self.step)
            self.start = (self.first + self.last) // 2
            return
        self.step = LOAD_STEP if is_load else _nice_step(start)
        self.start = max(1, round(start / self.step))
        self.first, self.last = 1, self.start * FACTOR_MAX

    # --- the lattice ---

    def value_at(self, place: int) -> str:
        return f"{place * self.step:.10g}"

    def task(self, place: int, seed: int) -> Task:
        return Task((Turn(self.knob, self.value_at(place)),), seed)

    # --- the search ---

    def run(self, runs: Runs, told: Callable[[Trial], None] = lambda trial: None) -> int | None:
        """The place nearest to the side that misses at which the goal is met; None: nowhere."""
        self._runs, self._told = runs, told
        met, missed = self._bracket()
        if met is None:
            if self._missing is not None and not self.figure:
                raise self._missing  # nowhere is there such a figure
            return None
        if missed is None:
            return met
        self.is_better_up = met > missed
        while abs(met - missed) > 1 and not runs.is_stopped():
            places = self._between(met, missed)
            self._try(places)
            for place in places:
                if place not in self.trials:
                    return met  # it was stopped
                if self.trials[place].is_met:
                    met = place if abs(place - missed) < abs(met - missed) else met
            missed = self._nearest_missed(met, missed)
        return met

    def _nearest_missed(self, met: int, missed: int) -> int:
        between = range(min(met, missed), max(met, missed) + 1)
        misses = [p for p in between if p in self.trials and not self.trials[p].is_met]
        return min(misses, key=lambda place: abs(place - met))

    def _between(self, met: int, missed: int) -> list[int]:
        """As many places as there are cores to spare, evenly."""
        number = max(1, self._runs.workers // len(self.seeds))
        low, high = min(met, missed), max(met, missed)
        parts = min(number, high - low - 1) + 1
        return [low + (high - low) * i // parts for i in range(1, parts)]

    def _bracket(self) -> tuple[int | None, int | None]:
        """A place that meets the goal and one that misses it; None where there is none."""
        if self.range_ is not None:
            ends = [self.first, self.last]
            self._try(ends)
            met = [p for p in ends if p in self.trials and self.trials[p].is_met]
            missed = [p for p in ends if p in self.trials and not self.trials[p].is_met]
            return (met[0] if self.is_better_up else met[-1]) if met else None, (
                missed[0] if missed else None
            )
        place = self.start
        self._try([place])
        if place not in self.trials:
            return None, None
        is_met = self.trials[place].is_met
        goes_up = self.is_better_up != is_met
        before = place
        while self.first <= (place := before * 2 if goes_up else before // 2) <= self.last:
            self._try([place])
            if place not in self.trials:
                return (before if is_met else None), None
            is_met = self.trials[before].is_met  # not if jobs fit at `place` that don't here
            if self.trials[place].is_met != is_met:
                return (before, place) if is_met else (place, before)
            before = place
        return (before, None) if self.trials[before].is_met else (None, before)

    def _try(self, places: Iterable[int]) -> None:
        new = [place for place in places if place not in self.trials]
        tasks = {self.task(place, seed): place for place in new for seed in self.seeds}
        found: dict[int, list[Finished]] = {}
        for finished in self._runs.finish(tasks):
            self.finished.append(finished)
            of_place = found.setdefault(tasks[finished.task], [])
            of_place.append(finished)
            if len(of_place) == len(self.seeds):
                self._note(tasks[finished.task], of_place)

    def _note(self, place: int, finished: Sequence[Finished]) -> None:
        never_fit = sum(run.figures[NEVER_FIT] for run in finished) / len(finished)
        figure = self._figure(finished, is_missed=never_fit > 0)
        self.trials[place] = Trial(self.value_at(place), figure, never_fit, is_met=False)
        for other, trial in self.trials.items():
            self.trials[other] = trial._replace(is_met=self._meets(trial))
        self._told(self.trials[place])

    def _figure(self, finished: Sequence[Finished], *, is_missed: bool) -> Interval | None:
        known = [*dict.fromkeys(name for run in finished for name in run.figures)]
        try:
            self.figure = full_name(self.goal.figure, known)
        except SimulationError as error:
            if is_missed or self.figure:
                self._missing = error
                return None
            raise
        return interval_of(
            [run.figures[self.figure] for run in finished if self.figure in run.figures]
        )

    def _meets(self, trial: Trial) -> bool:
        if trial.figure is None or not self.goal.is_met(trial.figure.mean):
            return False
        return self.is_load or trial.never_fit <= self.never_fit_least

    @property
    def never_fit_least(self) -> float:
        """So many jobs fit nowhere that was tried."""
        return min(trial.never_fit for trial in self.trials.values())

    @property
    def is_monotone(self) -> bool:
        """Did what was seen change sides once?"""
        met = [self.trials[place].is_met for place in sorted(self.trials)]
        return sum(a != b for a, b in pairwise(met)) <= 1


def _rises(figure: str, *, with_load: bool) -> bool:
    """Is there more of it where there is more load, or else more quota? As a rule."""
    if with_load:
        return figure not in FALL_WITH_LOAD  # as waits don't
    return figure in RISE_WITH_QUOTA


def _nice_step(value: float) -> int:
    """A power of two, a hundredth of the value at most: machines come in eights."""
    step = 1
    while 2 * step <= STEP_SHARE * value:
        step *= 2
    return step
