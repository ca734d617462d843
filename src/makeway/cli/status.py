"""list the jobs: who runs, who waits, and for what

List jobs: who submitted each, how many GPUs it asks for and which it holds, for how
long it has run or waited (SINCE), until when it runs at most, and for those that wait
the reason. Columns that say nothing go where the terminal is narrow; -o wide shows
all, -o json everything. `makeway` alone does the same. The words are: pending (waits for
quota), held (waits for `makeway resume`), reserved (holds quota, may not start yet),
admitted (may start), running, evicting (is being stopped), ending (is being
deleted), succeeded, failed; suspended is a Job in no queue that does not run.
Pods, groups of pods and Workloads that stand in a queue without a Job are listed too.

examples:
  makeway
  makeway status --me -w
  makeway status -A --all -o wide
  makeway status -q vision -o json | jq '.items[] | select(.status == "pending")'

exit codes:
  0  printed     1  the server refused     2  no server
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from makeway.cli import connect
from makeway.cli.job_table import ENDED, HEAD, Row, print_jobs
from makeway.cli.tables import add_output
from makeway.client import ApiError, Client

REFRESH_S = 2.0
_CLEAR = "\x1b[H\x1b[2J"
WIDE = (
    *(
        "START",
        "START WITHIN",
        "END",
        "END WITHIN",
        "RUN TIME FROM",
        "AGE",
        "WAIT",
        "RUN",
        "EVICTIONS",
        "NODE",
        "WORKLOAD",
        "COMMAND",
    ),
    "MESSAGE",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--all", action="store_true", help="with those that have ended")
    parser.add_argument("-w", "--watch", action="store_true", help="again every two seconds")
    add_output(parser)
    connect.add_arguments(parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument("-q", "--queue", default="", help="only of this LocalQueue")
    parser.add_argument("--me", action="store_true", help="only what you have submitted")


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        while True:
            shown = await job_rows(client, namespace, arguments, ended=_ended(arguments))
            if arguments.output in ("wide", "json", "yaml"):
                shown = await _with_forecasts(client, namespace, shown, arguments)
            if arguments.watch and sys.stdout.isatty():
                print(_CLEAR, end="")
            _print(shown, namespace, arguments)
            if not arguments.watch:
                return 0
            import asyncio

            sys.stdout.flush()
            await asyncio.sleep(REFRESH_S)

    return connect.converse(arguments, story, stays=arguments.watch, is_quick=True)


def _ended(arguments: argparse.Namespace) -> str:
    return "true" if arguments.all else "false"


async def _with_forecasts(
    client: Client, namespace: str, rows: list[Row], arguments: argparse.Namespace
) -> list[Row]:
    """When those that wait will start; None where nobody says so."""
    from makeway.cli.expectations import forecast_for, forecasts_in

    found = await forecasts_in(client, "" if arguments.all_namespaces else namespace)
    return [{**row, "forecast": forecast_for(row, found)} for row in rows]


async def job_rows(
    client: Client, namespace: str, arguments: argparse.Namespace, *, ended: str
) -> list[Row]:
    """All that pass the filters, in the order in which they came.

    `ended` is true, false, or only: those that have ended, too, not at all, or no others.
    """
    where = "" if arguments.all_namespaces else namespace
    asked = {"queue": arguments.queue, "user": _user(arguments), "ended": ended}
    try:
        answer = await client.jobs(where, {name: value for name, value in asked.items() if value})
    except ApiError as error:
        if not error.may_lack_path:
            raise
        from makeway.cli.gathering import gathered_rows

        return [row for row in await gathered_rows(client, where) if _passes(row, asked)]
    _tell_of_others(answer["metadata"])
    rows: list[Row] = answer["items"]
    return rows


def _user(arguments: argparse.Namespace) -> str:
    if not arguments.me:
        return ""
    from makeway.cli.user import user_name

    return user_name()


def _passes(row: Row, asked: Mapping[str, str]) -> bool:
    wanted = (asked["queue"], row["queue"]), (asked["user"], row["submittedBy"])
    has_ended = row["status"] in ENDED
    is_its_time = asked["ended"] == "true" or has_ended == (asked["ended"] == "only")
    return is_its_time and all(not one or one == other for one, other in wanted)


def _tell_of_others(metadata: Mapping[str, Any]) -> None:
    for text in metadata.get("unreadable") or ():
        print(f"makeway: can't read {text}", file=sys.stderr)
    if more := metadata.get("remainingItemCount"):
        print(f"makeway: {more} more are not shown; -q, --me and -n narrow it", file=sys.stderr)


def _print(shown: list[Row], namespace: str, arguments: argparse.Namespace) -> None:
    place = "" if arguments.all_namespaces else f" in namespace {namespace}"
    more = "" if arguments.all else " that has not ended; `makeway history` lists those that have"
    head = (*HEAD, *WIDE) if arguments.output == "wide" else HEAD
    if not print_jobs(shown, head, arguments):
        print(f"there is no job{place}{more}", file=sys.stderr)
