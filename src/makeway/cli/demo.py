"""`makeway demo`: a morning of two teams, played through the engine on a virtual clock.

This is also the smallest driver there is: it tells the engine what happens and what time it is,
prints what the engine answers, and carries it out (stopping takes half a minute, spot machines
never come).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from importlib.resources import files
from itertools import count
from math import inf
from textwrap import wrap
from typing import NamedTuple, assert_never

from makeway import translate
from makeway.api.batch import Namespace
from makeway.api.intake import take_in
from makeway.api.manifests import read_manifests
from makeway.api.queueing import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from makeway.cli.command import Command
from makeway.cli.terminal import Pen, pen_for
from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Deactivate, Decision, Evict, Preempt, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import FlavorName, FlavorResource, ResourceName, WorkloadKey
from makeway.engine.tree import QueueState
from makeway.translate.explanation import explanation_lines
from makeway.translate.words import decision_text

MINUTE = 60.0
START_OF_DAY_H = 9
STOPPING_S = 0.5 * MINUTE  # from the eviction until the last pod is gone
STARTING_S = 1 * MINUTE  # from the admission until all pods are ready
DRY_FLAVOR = FlavorName("spot")  # machines of this one never come
GPU = ResourceName("nvidia.com/gpu")
WIDTH = 80
MARGIN = 10  # for the time
INDENT = " " * MARGIN
BAR_WIDTHS = {"reserved": 16, "spot": 8}

OPENING = """\
Two teams, vision and speech, share a lab. Each owns 8 reserved GPUs and 4 spot
GPUs, and may borrow what the other one doesn't use. vision wants reserved GPUs
first, speech cheap spot ones. The clock is virtual; the decisions are real.
"""
CLOSING = """\
What to try next:
  .venv/bin/makeway check examples/          every error, with its line
  .venv/bin/python examples/engine_loop.py   the engine driven from Python
  less src/makeway/cli/demo.yaml             the queues of this story
"""


class Submitted(NamedTuple):
    workload: WorkloadKey


class Finished(NamedTuple):
    workload: WorkloadKey


class Started(NamedTuple):
    workload: WorkloadKey


class Stopped(NamedTuple):
    workload: WorkloadKey


class Asked(NamedTuple):
    """Somebody wants to know why a workload does not run."""

    workload: WorkloadKey


Happening = Submitted | Finished | Started | Stopped | Asked

TRAIN_ASR = WorkloadKey("speech/train-asr")
TUNE_TTS = WorkloadKey("speech/tune-tts")
TRAIN_SEG = WorkloadKey("vision/train-seg")
STORY: tuple[tuple[float, Happening, str], ...] = (
    (0, Submitted(TRAIN_ASR), "speech submits train-asr: 12 GPUs. Nobody else is here."),
    (5, Submitted(TRAIN_SEG), "vision submits train-seg: 8 GPUs. 4 of its own are lent out."),
    (7, Asked(TRAIN_ASR), "speech asks why train-asr does not run."),
    (10, Submitted(TUNE_TTS), "speech submits tune-tts: 4 GPUs. It may pass train-asr."),
    (40, Finished(TUNE_TTS), "tune-tts has finished."),
    (90, Finished(TRAIN_SEG), "train-seg has finished."),
    (150, Finished(TRAIN_ASR), "train-asr has finished."),
)


class Demo:
    def __init__(self, pen: Pen, write: Callable[[str], None]) -> None:
        self.pen = pen
        self.write = write
        self.engine = Engine()
        self.now = 0.0
        self.workloads: dict[WorkloadKey, Workload] = {}
        self._agenda: list[tuple[float, int, Happening, str]] = []
        self._serial = count()
        self._said: dict[WorkloadKey, tuple[str, ...]] = {}  # why a workload waits, said last
        self._bars: list[str] = []  # drawn last
        self._read_objects()
        for minute, happening, line in STORY:
            self.plan(minute * MINUTE, happening, line)

    def _read_objects(self) -> None:
        text = files("makeway.cli").joinpath("demo.yaml").read_text(encoding="utf-8")
        for manifest in read_manifests(text, "demo.yaml").manifests:
            taken_in = take_in(manifest.document)
            match taken_in.object:
                case Workload() as view:
                    self.workloads[translate.key_of(view)] = view
                case ResourceFlavor() | ClusterQueue() | LocalQueue() | Namespace() as view:
                    self.engine.apply(translate.changed(view))
                case other:
                    raise AssertionError((other, [str(error) for error in taken_in.errors]))

    def plan(self, at: float, happening: Happening, line: str) -> None:
        heappush(self._agenda, (at, next(self._serial), happening, line))

    # --- the driver ---

    def play(self) -> None:
        """Go from one moment to the next at which something happens or a clock runs out."""
        deadline: float | None = None
        while self._agenda or deadline is not None:
            on_agenda = self._agenda[0][0] if self._agenda else inf
            self.now = min(on_agenda, inf if deadline is None else deadline)
            if not self._let_happen():
                self.say("No spot machine has come for 10 minutes.")
            deadline = self._decide()
            self._draw_bars()

    def _let_happen(self) -> bool:
        """Tell the engine what is on the agenda for now; False if nothing is."""
        has_happened = False
        while self._agenda and self._agenda[0][0] <= self.now:
            _, _, happening, line = heappop(self._agenda)
            has_happened = True
            if line:
                self.say(line)
            if isinstance(happening, Asked):
                self._explain(happening.workload)
            else:
                self.engine.apply(self._event(happening))
        return has_happened

    def _event(self, happening: Submitted | Finished | Started | Stopped) -> ev.Event:
        key = happening.workload
        match happening:
            case Submitted():
                view = self.workloads[key]
                metadata = replace(view.metadata, creation_timestamp=self.now)
                return translate.seen(
                    replace(view, metadata=metadata), translate.NO_TRANSFORMATIONS
                )
            case Finished():
                return ev.WorkloadFinished(key)
            case Started():
                return ev.PodsChanged(key, are_ready=True, at=self.now)
            case Stopped():
                return ev.PodsGone(key)
            case _:
                assert_never(happening)

    def _decide(self) -> float | None:
        """Run cycles until they bring nothing new; returns when the engine wants to be called."""
        decisions: list[Decision] = []
        while True:
            cycle = self.engine.run_cycle(self.now)
            decisions += cycle.decisions
            for decision in cycle.decisions:
                self._carry_out(decision)
            if cycle.next_at is None or cycle.next_at > self.now:
                break
        waits = {d.workload: d for d in decisions if isinstance(d, Wait)}  # the last one counts
        for decision in decisions:
            if not isinstance(decision, Wait) or decision is waits[decision.workload]:
                self._tell(decision)
        return cycle.next_at

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Admit():
                if DRY_FLAVOR not in decision.assignment.flavors():
                    self.plan(self.now + STARTING_S, Started(decision.workload), "")
            case Preempt():
                for victim in decision.victims:
                    if victim.is_new:
                        self._stop(victim.workload)
            case Evict() | Deactivate():
                self._stop(decision.workload)
            case _:
                pass

    def _stop(self, key: WorkloadKey) -> None:
        name = key.partition("/")[2]
        self.plan(self.now + STOPPING_S, Stopped(key), f"The pods of {name} are gone.")

    # --- what the reader sees ---

    def say(self, line: str) -> None:
        seconds = int(self.now)
        hours, minutes = START_OF_DAY_H + seconds // 3600, seconds // 60 % 60
        clock = f"{hours:02}:{minutes:02}:{seconds % 60:02}"
        self.write("")
        self.write(self.pen.paint(f"{clock:<{MARGIN}}{line}", "bold"))

    def _tell(self, decision: Decision) -> None:
        text = decision_text(decision)
        if isinstance(decision, Wait):
            if decision.is_preemptor or self._said.get(text.workload) == text.details:
                return  # the preemption has been told, or this very reason
            self._said[text.workload] = text.details
        self.write(f"{INDENT}{self.pen.verb(text.verb)}{text.workload}")
        self._write_details(text.details)

    def _explain(self, key: WorkloadKey) -> None:
        self._write_details(explanation_lines(self.engine.explain(key, self.now), self.now))

    def _write_details(self, details: Iterable[str]) -> None:
        width = WIDTH - MARGIN - 2
        for detail in details:
            for line in wrap(detail, width, subsequent_indent="  ", break_on_hyphens=False):
                self.write(f"{INDENT}  {self.pen.paint(line, 'dim')}")

    def _draw_bars(self) -> None:
        bars = [
            f"{INDENT}{queue.spec.name:<8}" + "  ".join(self._bars_of(queue))
            for queue in self.engine.state.queues.values()
        ]
        if bars != self._bars:
            self._bars = bars
            self.write("")
            for line in bars:
                self.write(line.rstrip())

    def _bars_of(self, queue: QueueState) -> Iterator[str]:
        for flavor, width in BAR_WIDTHS.items():
            cell = FlavorResource(FlavorName(flavor), GPU)
            used, nominal = queue.used.get(cell, 0), queue.node.nominal(cell)
            borrowed = max(0, used - nominal)
            bar = self.pen.bar(used - borrowed, borrowed, max(0, nominal - used))
            padding = " " * (width - max(used, nominal))
            yield f"{flavor} {bar}{padding} {used:>2} of {nominal}"


# --- the command ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(arguments: argparse.Namespace) -> int:
    pen = pen_for(sys.stdout.isatty(), sys.stdout.encoding, os.environ)
    full, lent, empty = pen.glyphs
    print(OPENING)
    print(f"Bars: {full} in use   {lent} borrowed from the other team   {empty} own and free")
    Demo(pen, print).play()
    print()
    print(CLOSING, end="")
    return 0


COMMAND = Command(
    name="demo",
    summary="play a story of two teams through the engine",
    description="""\
Play a short story through the engine, on a virtual clock: a workload borrows,
the owner takes back what it lent, the victim waits and comes back, and a
workload falls back from spot machines that never come. Every decision is
printed with its reason. Nothing is installed, started or changed.
""",
    examples="""\
examples:
  makeway demo
  NO_COLOR=1 makeway demo | less
""",
    add_arguments=add_arguments,
    run=run,
)
