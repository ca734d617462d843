"""How far a simulation is, on the terminal, and Ctrl-C that ends it and not its report."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from makeway.api.times import format_span
from makeway.cli.command import EXIT_INTERRUPTED
from makeway.sim import Result
from makeway.sim.circles import Circle, circle_lines, circle_remedy
from makeway.sim.spans import short_span
from makeway.sim.world import Progress

BAR_WIDTH = 24
LOOKS_PER_S = 5
LINE_EVERY_S = 60.0  # where nobody watches a bar
CIRCLES_TOLD = 3


class Bar:
    """A line on the terminal, and Ctrl-C that ends the simulation and not its report."""

    def __init__(self, *, is_shown: bool) -> None:
        self.is_shown = is_shown
        self.is_stopped = False
        self.started = time.monotonic()
        self.looked = self.told = self.started
        self.circles = 0

    def __enter__(self) -> Bar:
        self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def exit_code(self) -> int:
        """After Ctrl-C what is told is not all that was asked for."""
        return EXIT_INTERRUPTED if self.is_stopped else 0

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True

    def look(self, progress: Progress) -> bool:
        now = time.monotonic()
        if self.is_shown and now - self.looked > 1 / LOOKS_PER_S:
            self.looked = now
            print(f"\r\x1b[K{bar_text(progress, now - self.started)}", end="", file=sys.stderr)
            sys.stderr.flush()
        elif not self.is_shown and now - self.told > LINE_EVERY_S:
            self.told = now
            print(f"makeway: {line_text(progress)}", file=sys.stderr, flush=True)
        return not self.is_stopped

    def runs(self, done: int, number: int) -> None:
        """How many runs of many are done."""
        now = time.monotonic()
        text = runs_text(done, number, now - self.started)
        if self.is_shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self.told > LINE_EVERY_S:
            self.told = now
            print(f"makeway: {text}", file=sys.stderr, flush=True)

    def notice(self, circle: Circle) -> None:
        """Warn of a circle while the simulation goes on; of many, of the first few."""
        self.circles += 1
        if self.circles > CIRCLES_TOLD:
            return
        clear = "\r\x1b[K" if self.is_shown else ""
        at = short_span(circle.since)
        lines = [f"{clear}makeway: at {at} jobs displace each other in a circle:"]
        lines += [f"  {line}" for line in (*circle_lines(circle), circle_remedy(circle))]
        if self.circles == CIRCLES_TOLD:
            lines.append("  (further circles are in the report)")
        print("\n".join(lines), file=sys.stderr, flush=True)


def played(sides: Sequence[Callable[[], Result]], bar: Bar) -> list[Result]:
    """What came of each; after Ctrl-C of those that were played to the end, or of the first."""
    results: list[Result] = []
    for side in sides:
        result = side()
        if results and not result.is_as_long_as_asked and not result.is_given_up:
            break  # the same jobs over another time are no comparison
        results.append(result)
        if bar.is_stopped:
            break
    if missing := len(sides) - len(results):
        number = "one side was" if missing == 1 else f"{missing} sides were"
        print(f"makeway: {number} not played to the end, and left out", file=sys.stderr)
    return results


def line_text(progress: Progress) -> str:
    return (
        f"{progress.jobs_ended} of {progress.jobs} jobs have ended,"
        f" {short_span(progress.now)} simulated"
    )


def runs_text(done: int, number: int, elapsed_s: float) -> str:
    full = done * BAR_WIDTH // max(1, number)
    left = format_span(elapsed_s * (number - done) / done) if done else "?"
    return f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {done} of {number} runs  {left} left"


def bar_text(progress: Progress, elapsed_s: float) -> str:
    done = progress.jobs_ended / max(1, progress.jobs)
    full = int(done * BAR_WIDTH)
    left = format_span(elapsed_s * (1 - done) / done) if done > 0.01 else "?"
    speed = progress.steps / elapsed_s if elapsed_s else 0.0
    return (
        f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {100 * done:3.0f} %"
        f"  {short_span(progress.now)} simulated  {progress.jobs_ended} of {progress.jobs} jobs"
        f"  {speed:.0f} events/s  {left} left"
    )
