"""check the journal: would the same be decided again?

Tell a fresh engine what stands in the journal, segment by segment, and compare every
decision. The same version of Makeway decides the same; if not, that is a bug of ours,
and a bundle is the best report of it. What another version has written is compared as
well: a difference is then no error, but what has changed between the two.

With -f, ask what other queues would have made of it. Who starts at another time ends at
another time, so the journal can't be replayed event by event: it is turned into a trace
(arrivals, run times, who gave up) and simulated, as `makeway simulate` does.

examples:
  makeway replay
  makeway replay --since 24h
  makeway replay report.bundle
  makeway replay -f other-queues.yaml --since 7d
  makeway replay -o json | jq '.segments[] | select(.differences > 0)'

exit codes:
  0  all decisions are the same, or another version has made them
  1  this version decides otherwise than it did
  2  wrong usage, no journal
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from makeway.api.times import format_time, moment_text
from makeway.cli import connect, past
from makeway.cli.command import UsageError
from makeway.cli.tables import (
    Column,
    add_output,
    counted,
    print_document,
    print_fitted,
    print_safely,
    print_sentence,
)
from makeway.engine.decisions import Decision
from makeway.journal.file import Journal, Segment
from makeway.journal.replay import Difference, Replayed, replay
from makeway.translate.words import decision_text

DIFFERENCES_SHOWN = 5
OBJECTS = (".yaml", ".yml", ".json")
HEAD = ("SEGMENT", "BEGAN", "VERSION", "EVENTS", "CYCLES", "DECISIONS", "DIFFERENT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", nargs="?", type=Path, metavar="BUNDLE", help="of makeway bundle")
    parser.add_argument("--since", metavar="SPAN", help="only segments of so long, as in 24h")
    parser.add_argument(
        "-f",
        "--file",
        dest="files",
        metavar="FILE",
        action="append",
        default=[],
        help="queue objects (YAML): simulate the journal's jobs with these; may be repeated",
    )
    parser.add_argument(
        "--queue", help="with -f: the queue for jobs whose own is not there, as in a bundle"
    )
    past.add_arguments(parser)
    add_output(parser, ("table", "json"))


def run(arguments: argparse.Namespace) -> int:
    if arguments.bundle is not None and arguments.bundle.suffix in OBJECTS:
        raise UsageError(
            f"{arguments.bundle} is no bundle; what other queues would have made of it is asked"
            f" with -f {arguments.bundle}"
        )
    if arguments.queue is not None and not arguments.files:
        raise UsageError("--queue goes with -f")
    arguments.journal = arguments.bundle or arguments.journal
    with past.open_journal(arguments) as journal:
        segments = past.segments_since(journal, arguments.since)
        if arguments.files:
            return _simulate(journal, segments, arguments)
        found = [(segment, replay(journal.records(segment))) for segment in segments]
    if arguments.output != "table":
        rows = [_data(segment, replayed) for segment, replayed in found]
        print_document("json", {"segments": rows})
    else:
        _print(found)
    ours = version("makeway")
    return int(any(r.differences and s.header.version == ours for s, r in found))


def _simulate(journal: Journal, segments: Sequence[Segment], arguments: argparse.Namespace) -> int:
    from makeway.cli.simulation_output import print_tables
    from makeway.sim.cluster import NoQueues
    from makeway.sim.recorded import recorded_trace
    from makeway.sim.report import as_json
    from makeway.sim.simulate import simulate
    from makeway.sim.trace_jobs import SimulationError

    whose = argparse.Namespace(kubeconfig=None, data_dir=past.folder_of(arguments))
    is_live = arguments.journal is None and connect.is_up(whose)
    until = time.time() if is_live else 0.0  # what would have ended by then was written down
    try:
        trace = recorded_trace(journal, segments, until)
        result = simulate(arguments.files, trace, queue=arguments.queue)
    except NoQueues as error:
        hint = "-f takes ClusterQueues and what belongs to them, as `makeway apply` does"
        raise UsageError(f"{error}; {hint}") from None
    except SimulationError as error:
        raise UsageError(str(error)) from None
    if arguments.output == "table":
        print("simulated, not replayed: the journal as a trace of arrivals and run times\n")
        print_tables([result])
    else:
        print(as_json(result), end="")
    return 0


def _print(found: list[tuple[Segment, Replayed]]) -> None:
    print_fitted([*map(Column, HEAD)], [_row(segment, replayed) for segment, replayed in found])
    for segment, replayed in found:
        for difference in replayed.differences[:DIFFERENCES_SHOWN]:
            print_safely(f"segment {segment.number}, {moment_text(difference.at)}:")
            for line in _lines(difference):
                print_sentence(f"  {line}")
    decisions = sum(replayed.decisions for _, replayed in found)
    different = sum(len(replayed.differences) for _, replayed in found)
    cycles = f"{counted(different, 'cycle')} decided otherwise" if different else "all the same"
    print(f"{counted(decisions, 'decision')} replayed: {cycles}")


def _row(segment: Segment, replayed: Replayed) -> list[str]:
    numbers = (replayed.events, replayed.cycles, replayed.decisions, len(replayed.differences))
    began = moment_text(segment.header.began_at)
    return [str(segment.number), began, segment.header.version, *map(str, numbers)]


def _data(segment: Segment, replayed: Replayed) -> dict[str, Any]:
    return {
        "segment": segment.number,
        "began": format_time(segment.header.began_at),
        "version": segment.header.version,
        "events": replayed.events,
        "cycles": replayed.cycles,
        "decisions": replayed.decisions,
        "differences": len(replayed.differences),
        "first": [_lines(difference) for difference in replayed.differences[:DIFFERENCES_SHOWN]],
    }


def _lines(difference: Difference) -> list[str]:
    return [
        *(f"written:  {_text(decision)}" for decision in difference.written),
        *(f"replayed: {_text(decision)}" for decision in difference.replayed),
    ]


def _text(decision: Decision) -> str:
    text = decision_text(decision)
    return f"{text.workload} {text.verb}: {'. '.join(text.details)}"
