"""The laws over time, judged over many worlds.

python -m tests.laws played                          all small worlds: X1, X2, X3
python -m tests.laws random --seeds 0:20000          invented ones
python -m tests.laws random --seeds 17:18 --size large
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context

from tests.laws.examining import Finding, examine
from tests.laws.figures import Failure, Figures, told
from tests.laws.gates import BACKSTOP, KEEPERS
from tests.laws.invented import examine_seeds
from tests.laws.judging import JudgedPlayer
from tests.laws.played_out import SETS, parts_of, play_out
from tests.laws.playing import Law
from tests.laws.random_worlds import STORIES
from tests.laws.shrinking import shrink
from tests.laws.story import Story

CHUNK = 200


def main() -> int:
    options = _options()
    started = time.monotonic()
    figures = _random(options) if options.command == "random" else _played(options)
    print(*figures.lines(), sep="\n")
    shown = figures.failures[: options.failures] + figures.circles[: options.circles]
    for failure in shown:
        print(told(failure, _smallest(failure)), flush=True)
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if figures.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.laws", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    played = commands.add_parser("played", help="all worlds of small sizes")
    played.add_argument("--only", choices=SETS, action="append", help="not all of X1, X2, X3")
    played.add_argument("--stride", type=int, default=1, help="every n-th part")
    invented = commands.add_parser("random", help="invented worlds")
    invented.add_argument("--seeds", default="0:2000", help="from A to B, without B")
    invented.add_argument("--size", choices=STORIES, default="small")
    for command in (played, invented):
        command.add_argument("--gates-off", action="store_true", help="without what keeps the laws")
        command.add_argument("--backstop-off", action="store_true", help="every circle is found")
        command.add_argument("--failures", type=int, default=6, help="show so many")
        command.add_argument("--circles", type=int, default=2, help="that the backstop stops, idem")
        command.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _switched_off(options: argparse.Namespace) -> tuple[str, ...]:
    if options.gates_off:
        return KEEPERS
    return BACKSTOP if options.backstop_off else ()


# --- random ---


def _random(options: argparse.Namespace) -> Figures:
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last))
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    examine_chunk = partial(examine_seeds, options.size, _switched_off(options))
    return _gathered(_mapped(examine_chunk, chunks, options.processes), len(chunks))


def _mapped(work: partial[Figures], parts: Sequence[object], processes: int) -> Iterator[Figures]:
    if processes == 1:
        yield from map(work, parts)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(work, parts)


def _gathered(parts: Iterator[Figures], count: int) -> Figures:
    total, shown = Figures(), time.monotonic()
    for number, figures in enumerate(parts, start=1):
        total.merge(figures)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            broken = sum(total.found.values())
            print(f"{number}/{count}: {total.stories} stories, {broken} broken", flush=True)
    return total


# --- played out ---


def _played(options: argparse.Namespace) -> Figures:
    total = Figures()
    for name in options.only or SETS:
        parts = parts_of(name)[:: options.stride]
        work = partial(play_out, _switched_off(options))
        print(f"{name}: {len(parts)} parts", flush=True)
        total.merge(_gathered(_mapped(work, parts, options.processes), len(parts)))
    return total


# --- failures ---


def _smallest(failure: Failure) -> Story:
    """The smallest story that breaks the same law; of a circle, one that goes round as often."""

    def fails(story: Story) -> bool:
        try:
            verdict = examine(JudgedPlayer(story))
        except Exception:
            return False  # another trouble: not this story
        found = verdict.finding or verdict.backstopped
        return found is not None and _kind(found) == _kind(failure.finding)

    return shrink(failure.story, fails)


def _kind(finding: Finding) -> tuple[str, str]:
    return finding.law, finding.what if finding.law == Law.CIRCLE else ""


if __name__ == "__main__":
    sys.exit(main())
