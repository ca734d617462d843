"""How long, and how much of, the past is kept: options of those who write a journal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from makeway.cli.command import UsageError

if TYPE_CHECKING:
    from makeway.journal.recorder import Limits

DAYS, SIZE = 30.0, "1G"


def add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--journal-days",
        type=float,
        default=DAYS,
        metavar="DAYS",
        help=f"how far back the journal goes (default: {DAYS:g})",
    )
    parser.add_argument(
        "--journal-size",
        default=SIZE,
        metavar="SIZE",
        help=f"how large it gets, the oldest goes first (default: {SIZE})",
    )


def limits_of(arguments: argparse.Namespace) -> Limits:
    return limits_from(arguments.journal_days, arguments.journal_size)


def limits_from(days: float, size_text: str) -> Limits:
    from makeway.cli.up import read_size
    from makeway.journal.recorder import Limits

    if not days > 0:
        raise UsageError(f"--journal-days {days:g}: write a number of days above 0")
    size = read_size(size_text, "--journal-size")
    # Whole segments are dropped, so there are to be several of them.
    segment = max(1, min(Limits().segment_bytes, size // 8))
    return Limits(days, size, segment)
