"""tell when jobs will start and end, and how sure that is

Tell when jobs that wait will start, and when all that have not ended will end. The
server runs its own scheduler ahead, many times, with run times of like jobs in the
past and with jobs that come as they came before: START and END are what comes out in
the middle, the times beside them hold in eight of ten runs. `never` is a job that
would wait even if nobody else were there; `unknown` waits for somebody's doing, or for
jobs of which nothing is known.

examples:
  makeway forecast
  makeway forecast 12
  makeway forecast -A -o json | jq '.items[] | select(.verdict == "Never")'

exit codes:
  0  printed     1  no such job, or nobody makes forecasts there     2  no server
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from makeway.cli import connect
from makeway.cli.command import RequestRefused
from makeway.cli.deleted_jobs import find_present
from makeway.cli.expectations import (
    COMING,
    FORECASTS,
    Forecasts,
    brief,
    by_workload,
    forecast_for,
    forecast_of,
    lines,
    span,
)
from makeway.cli.job_table import Row, or_dash
from makeway.cli.references import HELP
from makeway.cli.status import add_filters, job_rows
from makeway.cli.tables import (
    Column,
    add_output,
    print_document,
    print_fitted,
    print_sentence,
)
from makeway.client import ApiError, Client
from makeway.client.client import Document
from makeway.translate.job_state import ENDED, NOT_BEGUN, state_of

LEAST_NAME = 8  # columns of a terminal
HEAD = (
    Column("ID"),
    Column("NAME", LEAST_NAME),
    Column("QUEUE", LEAST_NAME),
    *map(Column, ("STATUS", "START", "8 OF 10", "END", "8 OF 10")),
)
LOOK_EVERY_S = 0.3

NONE_MADE = (
    "the server makes no forecasts; those of a cluster are on its pages, see `makeway dashboard`"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=HELP)
    parser.add_argument(
        "--patience",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for a forecast of the present state; then the last one is shown"
        " (default: 30)",
    )
    add_filters(parser)
    add_output(parser, ("table", "json", "yaml"))
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        if arguments.job is None:
            return await _all(client, namespace, arguments)
        target = await find_present(client, namespace, arguments.job)
        state = state_of(target, time.time())
        if state.workload is None or state.status in ENDED:
            raise RequestRefused(f"{target.name} is {state.status}: nothing is expected of it")
        key = state.workload.metadata
        found = await _current(client, key.namespace, key.name, arguments.patience)
        if arguments.output in ("json", "yaml"):
            print_document(arguments.output, found)
            return 0
        for line in lines(found, has_started=state.status not in NOT_BEGUN):
            print_sentence(line)
        return 0

    return connect.converse(arguments, story)


async def _current(client: Client, namespace: str, name: str, patience_s: float) -> Document:
    """A forecast of the state as it is, or the last one when patience is at its end."""
    until = time.monotonic() + patience_s
    while True:
        found = await forecast_of(client, namespace, name)
        if found is None:
            raise RequestRefused(NONE_MADE)
        is_there = found["verdict"] != COMING
        if is_there and (found.get("isCurrent") or time.monotonic() > until):
            return found
        if time.monotonic() > until:
            raise RequestRefused(f"there is no forecast yet after {patience_s:g} s; ask again")
        await asyncio.sleep(LOOK_EVERY_S)


async def _all(client: Client, namespace: str, arguments: argparse.Namespace) -> int:
    where = "" if arguments.all_namespaces else namespace
    found = await _current_list(client, where, arguments.patience)
    rows = await job_rows(client, namespace, arguments, ended="false")
    shown = [row for row in rows if forecast_for(row, found) is not None]
    if arguments.output in ("json", "yaml"):
        items = [forecast_for(row, found) for row in shown]
        listing = {"apiVersion": "makeway.dev/v1", "kind": "ForecastList", "items": items}
        print_document(arguments.output, listing)
        return 0
    if not shown:
        print("nobody waits or runs of whom a forecast tells", file=sys.stderr)
        return 0
    print_fitted(HEAD, [_cells(row, found) for row in shown])
    for assumption in next(iter(found.values())).get("assumptions", ()):
        print_sentence(assumption)
    return 0


async def _current_list(client: Client, where: str, patience_s: float) -> Forecasts:
    until = time.monotonic() + patience_s
    while True:
        try:
            document = await client.get(FORECASTS, "", where)
        except ApiError:
            raise RequestRefused(NONE_MADE) from None
        if document.get("isCurrent") or time.monotonic() > until:
            return by_workload(document)
        await asyncio.sleep(LOOK_EVERY_S)


def _cells(row: Row, forecasts: Forecasts) -> list[str]:
    forecast = forecast_for(row, forecasts)
    has_started = row["status"] not in NOT_BEGUN
    cells = (
        or_dash(row["id"]),
        row["name"],
        or_dash(row["queue"]),
        row["status"],
        "" if has_started else brief(forecast, "start"),
        "" if has_started else span(forecast, "start"),
        brief(forecast, "end"),
        span(forecast, "end"),
    )
    return [cell or "-" for cell in cells]
