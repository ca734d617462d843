"""count who used how much, waited how long, lost what: from the journal, objects may be gone

Count what users, queues and flavors have had: resources times hours held, how long
jobs waited, how often they were preempted and how much work that cost. Everything
comes from the journal, so it counts jobs that were deleted long ago. A user is a
namespace. What a job holds is counted from its reservation until its last pod is gone,
also while Makeway is not running; memory and storage in GiB times hours.

examples:
  makeway report --since 7d
  makeway report --by user,queue --since 2026-03-01 --until 2026-04-01
  makeway report --by flavor -o csv > flavors.csv
  makeway report --by user -o json | jq '.items[] | {user, usedHours}'

exit codes:
  0  printed     1  the journal is damaged     2  wrong usage, no journal
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from makeway.api.times import format_time, moment_text
from makeway.cli import connect, past
from makeway.cli.command import UsageError
from makeway.cli.moments import SINCE_HELP, UNTIL_HELP, beginning_of, edge_of
from makeway.cli.spans import span_text
from makeway.cli.tables import add_output, print_document
from makeway.cli.wide_tables import print_wide_table
from makeway.client import Client
from makeway.engine.model import ResourceName
from makeway.journal.ledger import Account, Sums, grouped, ledger_of
from makeway.retelling import sums_in

HOUR_S = 3600.0
DEFAULT_SPAN = "7d"
LEAST_NAME = 8  # columns of a terminal
GIB = 1024**3
_COUNTS = ("arrived", "admitted", "finished", "preempted", "evicted")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    fields = ",".join(Account._fields)
    parser.add_argument(
        "--by", default="queue", metavar="FIELDS", help=f"some of {fields} (default: queue)"
    )
    parser.add_argument(
        "--since",
        default=DEFAULT_SPAN,
        metavar="TIME",
        help=f"{SINCE_HELP} (default: {DEFAULT_SPAN})",
    )
    parser.add_argument("--until", metavar="TIME", help=UNTIL_HELP)
    past.add_arguments(parser)
    add_output(parser, ("table", "csv", "json", "yaml"))


def run(arguments: argparse.Namespace) -> int:
    by = fields_of(arguments.by)
    since, until = _times(arguments, time.time())
    if past.is_of_all(arguments):

        async def story(client: Client, _: str) -> int:
            booked = sums_in(await client.usage(since, until))
            _show(arguments, since, until, by, grouped(booked, by))
            return 0

        return connect.converse(arguments, story)
    with past.open_journal(arguments) as journal:
        booked = ledger_of(journal, since, until).sums
    _show(arguments, since, until, by, grouped(booked, by))
    return 0


def _times(arguments: argparse.Namespace, now: float) -> tuple[float, float]:
    since, until = beginning_of("--since", arguments.since, now), now
    if arguments.until is not None:
        until = min(now, edge_of("--until", arguments.until, now))  # the rest is still to come
    if since > until:
        raise UsageError(f"--since {arguments.since} is after {moment_text(until)}")
    return since, until


def _show(
    arguments: argparse.Namespace,
    since: float,
    until: float,
    by: Sequence[str],
    sums: Mapping[tuple[str, ...], Sums],
) -> None:
    match arguments.output:
        case "table":
            _print(by, sums)
        case "csv":
            _print_csv(by, sums)
        case _:
            items = [_data(by, key, booked) for key, booked in sums.items()]
            times = {"since": format_time(since), "until": format_time(until)}
            print_document(arguments.output, {**times, "items": items})


def fields_of(text: str) -> tuple[str, ...]:
    fields = tuple(word.strip() for word in text.split(","))
    for word in fields:
        if word not in Account._fields:
            known = ", ".join(Account._fields)
            raise UsageError(f"--by {text}: {word!r} is not one of {known}")
    if len(set(fields)) < len(fields):
        raise UsageError(f"--by {text}: name each field once")
    return fields


def unit_hours(resource: str, amount_s: float) -> float:
    """In units that people count in: whole CPUs, GiB, devices; times hours."""
    if resource == "cpu":
        return amount_s / 1000 / HOUR_S
    is_bytes = "memory" in resource or "storage" in resource
    return amount_s / (GIB if is_bytes else 1) / HOUR_S


def _resources(sums: Mapping[tuple[str, ...], Sums]) -> list[ResourceName]:
    return sorted({resource for booked in sums.values() for resource in booked.used})


def _print(by: Sequence[str], sums: Mapping[tuple[str, ...], Sums]) -> None:
    resources = _resources(sums)
    hours = [f"{resource.rpartition('/')[2].upper()}-HOURS" for resource in resources]
    counts = ("JOBS", "STARTS", "WAITED", *hours, "PREEMPTED", "EVICTED", "LOST")
    head = [*(name.upper() for name in by), *counts]
    rows = [[*key, *_cells(booked, resources)] for key, booked in sums.items()]
    if rows:
        print_wide_table(
            head, rows, beside=len(by), beside_least=LEAST_NAME, indent="", are_numbers=False
        )
    else:
        print("nothing was written down in that time", file=sys.stderr)


def _cells(booked: Sums, resources: Sequence[ResourceName]) -> list[str]:
    return [
        str(booked.arrived),
        str(booked.admitted),
        span_text(booked.waited_s),
        *(f"{unit_hours(name, booked.used.get(name, 0.0)):.1f}" for name in resources),
        str(booked.preempted),
        str(booked.evicted),
        span_text(booked.lost_s),
    ]


def _print_csv(by: Sequence[str], sums: Mapping[tuple[str, ...], Sums]) -> None:
    resources = _resources(sums)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    hours = [f"{resource} hours" for resource in resources]
    lost = [f"{resource} hours lost" for resource in resources]
    writer.writerow([*by, *_COUNTS, "waited s", "held s", "lost s", *hours, *lost])
    for key, booked in sums.items():
        times = [booked.waited_s, booked.held_s, booked.lost_s]
        amounts = [
            unit_hours(resource, side.get(resource, 0.0))
            for side in (booked.used, booked.lost)
            for resource in resources
        ]
        counts = [getattr(booked, name) for name in _COUNTS]
        writer.writerow([*key, *counts, *(f"{number:.3f}" for number in (*times, *amounts))])


def _data(by: Sequence[str], key: tuple[str, ...], booked: Sums) -> dict[str, Any]:
    return {
        **dict(zip(by, key, strict=True)),
        **{name: getattr(booked, name) for name in _COUNTS},
        "waitedSeconds": round(booked.waited_s, 3),
        "heldSeconds": round(booked.held_s, 3),
        "lostSeconds": round(booked.lost_s, 3),
        "usedHours": {r: round(unit_hours(r, amount), 4) for r, amount in booked.used.items()},
        "lostHours": {r: round(unit_hours(r, amount), 4) for r, amount in booked.lost.items()},
    }
