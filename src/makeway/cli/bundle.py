"""write the journal into a file that can be given away: no names, the same decisions

Write a part of the journal into a new file for a bug report. Names, keys and values of
labels, uids and sentences are replaced by codes, the same throughout, and nobody can
turn them back: what stands for what is forgotten. Numbers and times stay as they are:
quotas, requests, priorities. What goes into it is shown first. `makeway replay FILE`
decides the same as the journal does.

examples:
  makeway bundle report.bundle --since 24h
  makeway bundle report.bundle --yes
  makeway replay report.bundle

exit codes:
  0  written     1  not written: nobody said yes     2  wrong usage, no journal, the file exists
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from makeway.api.errors import in_words
from makeway.api.times import moment_text
from makeway.cli import past
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.tables import counted, print_sentence
from makeway.journal.bundle import Contents, look_into, write

EXAMPLES_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="that doesn't exist yet")
    parser.add_argument("--since", metavar="SPAN", help="only segments of so long, as in 24h")
    parser.add_argument("--yes", action="store_true", help="write without asking")
    past.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    to: Path = arguments.file
    if to.exists():
        raise UsageError(f"{to} exists already")
    with past.open_journal(arguments) as journal:
        segments = past.segments_since(journal, arguments.since)
        contents = look_into(journal, segments)
        for line in told(contents):
            print_sentence(line)
        if not arguments.yes and not _is_wanted(to):
            raise RequestRefused(f"{to} was not written; --yes writes it without asking")
        try:
            write(journal, segments, contents.codes, to)
        except OSError as error:
            raise UsageError(f"{to} can't be written: {in_words(error)}") from None
    print(f"{to} is written, {to.stat().st_size} bytes; see `makeway replay {to}`")
    return 0


def told(contents: Contents) -> list[str]:
    """What goes into it, for whoever has to agree."""
    workloads = counted(contents.workloads, "workload")
    names = list(contents.codes.items())
    shown = ", ".join(f"{name} is {code}" for name, code in names[:EXAMPLES_SHOWN])
    more = len(names) - EXAMPLES_SHOWN
    return [
        f"from {moment_text(contents.since)} to {moment_text(contents.until)}: "
        f"{counted(contents.segments, 'segment')}, {counted(contents.events, 'event')}, "
        f"{counted(contents.cycles, 'cycle')}, {workloads}, {counted(contents.queues, 'queue')}",
        f"replaced: {counted(len(names), 'text')}"
        + (f" ({shown}{f', and {more} more' if more > 0 else ''})" if names else ""),
        f"left as they are: numbers, times, words of Makeway's; {', '.join(contents.kept) or '-'}",
        "not in it: templates, commands, environment, annotations, output",
    ]


def _is_wanted(to: Path) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"write {to}? [y/N] ").strip().lower() in ("y", "yes")
