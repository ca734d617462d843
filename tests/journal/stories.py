"""Engines that are looked upon: random stories, written down as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from makeway.engine.decisions import Cycle
from makeway.engine.engine import Engine
from makeway.engine.events import Event
from makeway.engine.model import Changes, Cohort, Flavor, Queue
from makeway.journal.file import NAME, Journal, JournalFile
from makeway.journal.recorder import Limits, Recorder, Writer
from makeway.journal.replay import Replayed, replay
from tests.engine.worlds import Play, Step, changed_by
from tests.harness.engine import Scenario
from tests.harness.random_worlds import EVERYTHING, Worldmaker

WHOLE = Limits(segment_bytes=1_000_000_000)
SMALL = Limits(segment_bytes=1_500)  # a few dozen records


class QuickPlay(Play):
    """Without looking at the whole state after every step, which others do."""

    def apply(self, event: Event) -> None:
        self.steps.append(event)
        self.engine.apply(event)

    def cycle(self) -> Cycle:
        self.steps.append(self.now)
        cycle = self.engine.run_cycle(self.now)
        self.cycles.append(cycle)
        self.fresh = {key for decision in cycle.decisions for key in changed_by(decision)}
        return cycle


def story(seed: int, length: int = 80) -> Play:
    """Anything may happen to a crowded world."""
    play = QuickPlay(Worldmaker(Random(seed), EVERYTHING))
    play.fill()
    play.live(length)
    return play


class Recorded:
    """An engine and the journal of what it is told; every cycle is flushed at once."""

    def __init__(self, folder: Path, engine: Engine, limits: Limits = WHOLE) -> None:
        self.path, self.engine, self.now = folder / NAME, engine, 0.0
        self.file = JournalFile(self.path)
        self.shortage = ""
        self.writer = Writer(self.file, limits, lambda: self.shortage)
        self.recorder = Recorder(engine, self.writer, lambda: self.now)

    def step(self, step: Step) -> Cycle | None:
        if not isinstance(step, float):
            self.recorder.heard(step, self.engine.apply(step))
            return None
        self.now = step
        self.recorder.begins(step)
        cycle = self.engine.run_cycle(step)
        self.recorder.ended(cycle, step)
        self.writer.flush()
        return cycle

    def steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.step(step)

    def replayed(self) -> list[Replayed]:
        """Segment by segment."""
        self.writer.flush()
        journal = Journal(self.path)
        try:
            return [replay(journal.records(segment)) for segment in journal.segments()]
        finally:
            journal.close()


class RecordedEngine(Engine):
    """Writes down, as `Admission` has it written down, what it is told and what it decides."""

    def __init__(self, engine: Engine, path: Path, clock: Callable[[], float]) -> None:
        self.state, self.view = engine.state, engine.view
        self.writer = Writer(JournalFile(path), WHOLE)
        self.recorder = Recorder(engine, self.writer, clock)

    def apply(self, event: Event) -> Changes:
        changes = super().apply(event)
        self.recorder.heard(event, changes)
        return changes

    def run_cycle(self, now: float) -> Cycle:
        cycle = super().run_cycle(now)
        self.recorder.ended(cycle, now)
        return cycle


class RecordedScenario(Scenario):
    """A scenario with a journal, from the moment on when its queues are there."""

    def __init__(
        self, folder: Path, *parts: Queue | Cohort | Flavor, cohort: str, now: float = 0.0
    ) -> None:
        super().__init__(*parts, cohort=cohort)
        self.now = now
        self.path = folder / NAME
        self.recorded = RecordedEngine(self.engine, self.path, lambda: self.now)
        self.engine = self.recorded

    def journal(self) -> Journal:
        self.recorded.writer.flush()
        return Journal(self.path)
