"""tell why a job did not run at a moment of the past, and who took its place

Tell why a job waited at a moment of the past, who held what it needed, and what
happened to it before and after: when it was admitted, for whom it had to make way and
by which rule. The journal has it, so the job and all others may be long gone: name it
as it was called, or by its Workload. Without --at, the moment is now.

examples:
  makeway why train --at 14:05
  makeway why vision/train --at 'yesterday 14:05'
  makeway why job-train-1a2b3 --at 2026-03-01T14:05:00Z -o json

exit codes:
  0  printed     1  nothing is known of it     2  wrong usage, no journal
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from makeway.api.times import format_time
from makeway.cli import past
from makeway.cli.moments import HELP, moment_of, moment_text
from makeway.cli.tables import add_output, print_document, print_safely
from makeway.journal.file import Journal
from makeway.journal.past import Happened, Moment, find_workload, life_of, moment, name_in
from makeway.translate.data import as_data, pieces_data
from makeway.translate.explanation import explanation_lines
from makeway.translate.happenings import happened_text
from makeway.translate.words import Line, workload

BEFORE_SHOWN, AFTER_SHOWN = 8, 4
LOOKED_BACK_S = 30 * 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="a name, NAMESPACE/NAME, or a Workload's name")
    parser.add_argument("--at", metavar="TIME", help=HELP)
    parser.add_argument("-n", "--namespace", default="default", help="(default: default)")
    past.add_arguments(parser)
    add_output(parser, ("text", "json", "yaml"))


def run(arguments: argparse.Namespace) -> int:
    now = time.time()
    at = now if arguments.at is None else moment_of("--at", arguments.at, now)
    with past.open_journal(arguments) as journal:
        then = moment(journal, at)
        document = _document(journal, then, arguments)
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, document)
    else:
        for line in document["lines"]:
            print_safely(line)
    return 0


def _document(journal: Journal, then: Moment, arguments: argparse.Namespace) -> dict[str, Any]:
    key = find_workload(journal, then, name_in(arguments.job, arguments.namespace))
    is_there = then.engine.view.workload(key) is not None
    explanation = then.engine.explain(key) if is_there else None
    lines = [Line(workload(key), " was gone")]
    if explanation is not None:
        lines = list(explanation_lines(explanation, then.at, moment_text))
    life = list(life_of(journal, key, then.at - LOOKED_BACK_S, time.time()))
    before = [happened for happened in life if happened.at <= then.at][-BEFORE_SHOWN:]
    after = [happened for happened in life if happened.at > then.at][:AFTER_SHOWN]

    def told(happened: Happened) -> str:
        return f"- {moment_text(happened.at)}  {happened_text(happened.what, key)}"

    heading = f"At {moment_text(then.at)}, as of {moment_text(then.heard_last_at)}:"
    parts = [heading, *map(str, lines)]
    parts += ["What had happened to it:", *map(told, before)] if before else []
    parts += ["What happened to it then:", *map(told, after)] if after else []
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "makeway.dev/v1",
        "kind": "Explanation",
        "metadata": {"name": name, "namespace": namespace},
        "at": format_time(then.at),
        **({} if explanation is None else as_data(explanation)),
        "happened": [
            {"at": format_time(happened.at), "text": happened_text(happened.what, key)}
            for happened in (*before, *after)
        ],
        "pieces": [pieces_data(line) for line in lines],
        "lines": parts,
    }
