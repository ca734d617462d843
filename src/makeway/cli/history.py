"""list jobs that have ended: waits, run times, evictions, exit codes

List jobs that have ended, the latest last: how long they waited and ran, how often
they were evicted, and their exit codes. A cancelled job says by whom; one that was
deleted, by hand or after its --ttl, is listed as long as `makeway up --keep-days`
says, unless `makeway clean` has removed it. With --all those stand between them of
which only the journal of this machine still tells: cleaned, deleted long ago, or pods
and Workloads without a Job; without number, submitter and exit code, as `ended` or
`deleted`. WAIT counts to the last admission, so it includes the runs that were lost to
evictions; of jobs from the journal it is the time in line.

examples:
  makeway history --since 24h
  makeway history -A --me -o wide
  makeway history --all --since 90d -q vision
  makeway history -o json | jq '[.items[].waitSeconds] | add'

exit codes:
  0  printed     1  the server refused     2  no server
"""

from __future__ import annotations

import argparse
import sys
import time

from makeway.api.times import parse_time
from makeway.cli import connect
from makeway.cli.deleted_jobs import gone_rows
from makeway.cli.job_table import Row, print_jobs
from makeway.cli.spans import span_of
from makeway.cli.status import add_filters, job_rows
from makeway.cli.tables import add_output
from makeway.client import Client

HEAD = (
    *("ID", "NAME", "USER", "QUEUE", "GPUS", "STATUS", "EXIT", "ENDED", "WAIT", "RUN"),
    *("EVICTIONS", "REASON"),
)
WIDE = ("NODE", "WORKLOAD", "COMMAND", "MESSAGE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--since", metavar="SPAN", help="only what ended so long ago, as in 24h")
    parser.add_argument(
        "--all", action="store_true", help="also those that are in the journal only"
    )
    add_output(parser)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    since_s = None if arguments.since is None else span_of("--since", arguments.since)

    async def story(client: Client, namespace: str) -> int:
        ended = [
            *await gone_rows(client, namespace, arguments),
            *await job_rows(client, namespace, arguments, ended="only"),
        ]
        earliest = 0.0 if since_s is None else time.time() - since_s
        if arguments.all:
            from makeway.cli.recorded_jobs import recorded_rows  # only what is needed is loaded

            known = {(row["namespace"], row["workload"]) for row in ended}
            ended += recorded_rows(namespace, arguments, earliest, known)
        shown = sorted((row for row in ended if _ended_at(row) >= earliest), key=_ended_at)
        head = (*HEAD, *WIDE) if arguments.output == "wide" else HEAD
        if not print_jobs(shown, head, arguments):
            print("no job has ended", file=sys.stderr)
        return 0

    return connect.converse(arguments, story)


def _ended_at(row: Row) -> float:
    return parse_time(row["endedAt"]) if row["endedAt"] else 0.0
