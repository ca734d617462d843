"""Sets of completion indexes as a Job writes them: "0,2-4,7"."""

from __future__ import annotations

import re
from collections.abc import Collection

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


def parse_ranges(text: str) -> list[range] | None:
    """Return the runs of indexes in a text; None if it is no such text.

    Nothing is written out: a few letters may name billions.
    """
    ranges: list[range] = []
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        ranges.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return ranges


def parse_indexes(text: str, below: int) -> frozenset[int]:
    """Return the indexes of a status that are below a bound; a shrunken job has left others.

    A status that can't be read has none.
    """
    return frozenset(
        index
        for run in parse_ranges(text) or ()
        for index in range(run.start, min(run.stop, below))
    )


def format_indexes(indexes: Collection[int]) -> str:
    """Write indexes in order, runs of them as first and last; two in a row stay two."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_format_run(run) for run in runs)


def _format_run(run: list[int]) -> str:
    if len(run) > 2:
        return f"{run[0]}-{run[-1]}"
    return ",".join(map(str, run))
