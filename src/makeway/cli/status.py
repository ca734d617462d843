"""list the jobs: who runs, who waits, and for what

List jobs with their status, how long they have waited and run, and for those that
wait the reason. `makeway` alone does the same. The words are: pending (waits for
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
import asyncio
import sys
import time
from collections.abc import Iterable
from typing import Any

from makeway.api.batch import Job, Pod
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.job_state import (
    ADMITTED,
    ENDED,
    JOB,
    POD,
    STYLES,
    JobState,
    id_of,
    pods_by_job,
    state_of,
    with_pods,
    workloads_by_job,
)
from makeway.cli.references import managed_pods, units_of, user_name
from makeway.cli.spans import span_text
from makeway.cli.tables import Cell, add_output, print_document, print_table
from makeway.cli.views import fetch_all
from makeway.client import Client

REFRESH_S = 2.0
REASON_MAX = 100  # characters, unless -o wide
_CLEAR = "\x1b[H\x1b[2J"
HEAD = ("ID", "NAME", "QUEUE", "STATUS", "PRIO", "AGE", "WAIT", "RUN", "REASON")
WIDE = ("USER", "WORKLOAD")


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
            found = await job_states(client, namespace, arguments)
            shown = [s for s in found if arguments.all or s.status not in ENDED]
            if arguments.watch and sys.stdout.isatty():
                print(_CLEAR, end="")
            _print(shown, namespace, arguments)
            if not arguments.watch:
                return 0
            sys.stdout.flush()
            await asyncio.sleep(REFRESH_S)

    return connect.converse(arguments, story)


async def job_states(
    client: Client, namespace: str, arguments: argparse.Namespace
) -> list[JobState]:
    """All that pass the filters, in the order in which they came."""
    where = "" if arguments.all_namespaces else namespace
    jobs = await fetch_all(client, Job, where)
    workloads = await fetch_all(client, Workload, where)
    by_job = workloads_by_job(workloads)
    now = time.time()
    found = [state_of(job, by_job.get(job.metadata.uid), now) for job in jobs]
    if any(state.status == ADMITTED for state in found):
        pods = pods_by_job(await fetch_all(client, Pod, where))
        found = [with_pods(state, pods.get(state.metadata.uid, ())) for state in found]
    taken = {state.workload.metadata.uid for state in found if state.workload is not None}
    free = [workload for workload in workloads if workload.metadata.uid not in taken]
    units = units_of(await managed_pods(client, where), free)
    alone = [state_of(None, unit.workload, now, unit.pods) for unit in units]
    found += [with_pods(state, state.pods) for state in alone]
    return sorted(
        (state for state in found if _passes(state, arguments)),
        key=lambda s: (s.created_at, id_of(s.metadata) or 0, s.name),
    )


def _passes(state: JobState, arguments: argparse.Namespace) -> bool:
    if arguments.queue and state.queue != arguments.queue:
        return False
    return not arguments.me or state.submitted_by == user_name()


def _print(shown: list[JobState], namespace: str, arguments: argparse.Namespace) -> None:
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, listing(shown))
    elif arguments.output == "name":
        for state in shown:
            print(reference_of(state))
    elif shown:
        head = [*HEAD, *(WIDE if arguments.output == "wide" else ())]
        rows = [_row(state, is_wide=arguments.output == "wide") for state in shown]
        print_table(*with_namespaces(head, rows, shown, arguments))
    else:
        place = "" if arguments.all_namespaces else f" in namespace {namespace}"
        more = "" if arguments.all else " that has not ended"
        print(f"there is no job{place}{more}", file=sys.stderr)


def reference_of(state: JobState) -> str:
    """As kubectl takes it."""
    kinds = {JOB: "job.batch", POD: "pod"}
    return f"{kinds.get(state.kind, 'workload.kueue.x-k8s.io')}/{state.name}"


def listing(shown: Iterable[JobState]) -> dict[str, Any]:
    return {"kind": "JobList", "items": [state.as_row() for state in shown]}


def with_namespaces(
    head: list[str],
    rows: list[list[Cell]],
    shown: list[JobState],
    arguments: argparse.Namespace,
) -> tuple[list[str], list[list[Cell]]]:
    if not arguments.all_namespaces:
        return head, rows
    namespaces = [Cell(state.metadata.namespace) for state in shown]
    return ["NAMESPACE", *head], [[n, *row] for n, row in zip(namespaces, rows, strict=True)]


def cut(reason: str) -> str:
    return reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 1] + "…"


def _row(state: JobState, *, is_wide: bool) -> list[Cell]:
    number, priority = id_of(state.metadata), state.priority
    cells = [
        Cell("-" if number is None else str(number)),
        Cell(state.name),
        Cell(state.queue or "-"),
        Cell(state.status, STYLES.get(state.status, "")),
        Cell("-" if priority is None else str(priority)),
        Cell(span_text(time.time() - state.created_at)),
        Cell(span_text(state.wait_s) or "-"),
        Cell(span_text(state.run_s) or "-"),
        Cell(state.reason if is_wide else cut(state.reason)),
    ]
    if is_wide:
        workload = state.workload
        cells.append(Cell(state.submitted_by or "-"))
        cells.append(Cell("-" if workload is None else workload.metadata.name))
    return cells
