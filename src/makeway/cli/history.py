"""list jobs that have ended: waits, run times, evictions, exit codes

List jobs that have ended, the latest last: how long they waited and ran, how often
they were evicted, and their exit codes. Only Jobs that still exist are listed; those
cancelled or past their --ttl are gone, and the journal of this machine knows them
(--gone), without numbers and exit codes. WAIT counts to the last admission, so it
includes the runs that were lost to evictions; with --gone it is the time in line.

examples:
  makeway history --since 24h
  makeway history -A --me -o wide
  makeway history --gone --since 7d
  makeway history -o json | jq '[.items[].waitSeconds] | add'

exit codes:
  0  printed     1  the server refused     2  no server
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from makeway.api.batch import Pod
from makeway.cli import connect
from makeway.cli.following import EXIT_UNKNOWN, end_of, first_failure
from makeway.cli.spans import span_of, span_text
from makeway.cli.status import COLUMNS, add_filters, job_states, print_jobs
from makeway.cli.tables import Cell, add_output
from makeway.cli.views import fetch_all
from makeway.client import Client
from makeway.translate.job_state import ENDED, FAILED, JOB_NAME, SUCCEEDED, JobState, pods_by_job

HEAD = ("ID", "NAME", "QUEUE", "STATUS", "EXIT", "ENDED", "WAIT", "RUN", "EVICTIONS", "REASON")
Pods = dict[str, list[Pod]]  # by uid of the Job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--since", metavar="SPAN", help="only what ended so long ago, as in 24h")
    parser.add_argument("--gone", action="store_true", help="those that are deleted")
    add_output(parser)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.gone:
        from makeway.cli.gone import print_gone  # a command loads only what it needs

        return print_gone(arguments)
    since_s = None if arguments.since is None else span_of("--since", arguments.since)

    async def story(client: Client, namespace: str) -> int:
        now = time.time()
        ended = [
            (at, state)
            for state in await job_states(client, namespace, arguments)
            if state.status in ENDED and (at := state.ended_at) is not None
            if since_s is None or at >= now - since_s
        ]
        shown = [state for _, state in sorted(ended, key=lambda pair: pair[0])]
        where = "" if arguments.all_namespaces else namespace
        pods = pods_by_job(await fetch_all(client, Pod, where, label_selector=JOB_NAME))
        _print(shown, pods, now, arguments)
        return 0

    return connect.converse(arguments, story)


def _print(shown: list[JobState], pods: Pods, now: float, arguments: argparse.Namespace) -> None:
    shown = [_with_message(state, pods) for state in shown]
    items = [{**state.as_row(), "exitCode": exit_code(state, pods)} for state in shown]

    def code_of(state: JobState) -> Cell:
        code = exit_code(state, pods)
        return Cell(str(code), "red" if code else "")

    def ended(state: JobState) -> str:
        return f"{span_text(now - (state.ended_at or now))} ago"

    columns = {**COLUMNS, "EXIT": code_of, "ENDED": ended}
    if not print_jobs(shown, items, HEAD, columns, arguments):
        print("no job has ended", file=sys.stderr)


def exit_code(state: JobState, pods: Pods) -> int:
    own = _pods_of(state, pods)
    if state.target.job is not None:
        return end_of(state.target.job, own).code
    if state.status == SUCCEEDED:
        return 0
    failure = first_failure(own)
    return EXIT_UNKNOWN if failure is None else failure.code


def _pods_of(state: JobState, pods: Pods) -> Sequence[Pod]:
    target = state.target
    return target.pods if target.job is None else pods.get(target.metadata.uid, [])


def _with_message(state: JobState, pods: Pods) -> JobState:
    """What the container that failed says goes before what the Job says of its pods."""
    failure = first_failure(_pods_of(state, pods)) if state.status == FAILED else None
    if failure is None or not failure.message:
        return state
    return replace(state, reason=" ".join(failure.message.split()))
