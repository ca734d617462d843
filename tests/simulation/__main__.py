"""Play worlds from the command line: one seed in detail, or many until one fails.

python -m tests.simulation --seed 17
python -m tests.simulation --seeds 0:5000 --size small
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from math import inf

from tests.simulation.play import QUIET, Chaos, play
from tests.simulation.worlds import SIZES

COLLECT_EVERY = 20  # worlds between two collections of garbage


def main() -> int:
    options = _options()
    logging.disable(logging.CRITICAL if options.seed is None else logging.NOTSET)
    seeds = _seeds(options.seeds) if options.seed is None else range(options.seed, options.seed + 1)
    started, failed, count = time.process_time(), [], 0
    ends_at = time.monotonic() + 60 * options.minutes
    for number, seed in enumerate(seeds):
        if time.monotonic() > ends_at:
            break
        count = number + 1
        played = play(
            seed,
            size=SIZES[options.size],
            chaos=QUIET if options.quiet else Chaos(),
        )
        if played.violations:
            failed.append(seed)
            print(played.report(), _again(options), sep=" ", flush=True)
            if len(failed) >= options.failures:
                break
        elif options.seed is not None:
            print(f"seed {seed}: well, {played.changes} changes, history {played.history}")
        if number % COLLECT_EVERY == 0:
            gc.collect()
    each_ms = 1000 * (time.process_time() - started) / max(1, count)
    print(f"{count} worlds, {len(failed)} failed {failed}, {each_ms:.0f} ms each")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, in detail")
    parser.add_argument("--seeds", default="0:100", help="worlds from A to B, without B")
    parser.add_argument("--size", choices=SIZES, default="middle")
    parser.add_argument("--quiet", action="store_true", help="nothing goes wrong")
    parser.add_argument("--minutes", type=float, default=inf, help="begin no world after that")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many")
    return parser.parse_args()


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def _again(options: argparse.Namespace) -> str:
    """What else to say on the command line, to see a failure again."""
    quiet = " --quiet" if options.quiet else ""
    return f"--size {options.size}{quiet}"


if __name__ == "__main__":
    sys.exit(main())
