"""let a held job or queue go on

Let jobs, a LocalQueue (`queue NAME`) or a ClusterQueue (`clusterqueue NAME`) go on
that `makeway hold` has stopped. A job that was deactivated for another reason, such
as too many requeues, gets another chance.

examples:
  makeway resume 12
  makeway resume queue vision

exit codes:
  0  resumed     1  no such job or queue     2  wrong usage, no server
"""

from __future__ import annotations

import argparse

from makeway.cli import connect
from makeway.cli.hold import WORDS_HELP, hold_or_resume


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="JOB", nargs="+", help=WORDS_HELP)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    return hold_or_resume(arguments, "None", "resumed")
