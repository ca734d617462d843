"""Engines that are looked upon: random stories, written down as they happen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

from makeway.engine.decisions import Cycle
from makeway.engine.engine import Engine
from makeway.journal.file import NAME, Journal, JournalFile
from makeway.journal.recorder import Limits, Recorder, Writer
from makeway.journal.replay import Replayed, replay
from tests.engine.worlds import Play, Step
from tests.harness.random_worlds import EVERYTHING, Worldmaker

WHOLE = Limits(segment_bytes=1_000_000_000)
SMALL = Limits(segment_bytes=1_500)  # a few dozen records


def story(seed: int, length: int = 80) -> Play:
    """Anything may happen to a crowded world."""
    play = Play(Worldmaker(Random(seed), EVERYTHING))
    play.fill()
    play.live(length)
    return play


class Recorded:
    """An engine and the journal of what it is told; every step is flushed at once."""

    def __init__(self, folder: Path, engine: Engine, limits: Limits = WHOLE) -> None:
        self.path, self.engine, self.now = folder / NAME, engine, 0.0
        self.file = JournalFile(self.path)
        self.shortage = ""
        self.writer = Writer(self.file, lambda: self.now, limits, lambda: self.shortage)
        self.recorder = Recorder(engine, self.writer, lambda: self.now)

    def step(self, step: Step) -> Cycle | None:
        if not isinstance(step, float):
            self.recorder.heard(step, self.engine.apply(step))
            self.writer.flush()
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
        journal = Journal(self.path)
        try:
            return [replay(journal.records(segment)) for segment in journal.segments()]
        finally:
            journal.close()
