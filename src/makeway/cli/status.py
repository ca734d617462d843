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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from makeway.api.batch import Job, Pod
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.expectations import Forecasts, brief, forecast_for, forecasts_in, span
from makeway.cli.references import managed_pods, units_of, user_name
from makeway.cli.spans import span_text
from makeway.cli.tables import Cell, add_output, print_document, print_table
from makeway.cli.views import fetch_all
from makeway.client import Client
from makeway.client.client import Document
from makeway.translate.job_state import (
    ADMITTED,
    ENDED,
    JOB,
    NOT_BEGUN,
    POD,
    STYLES,
    JobState,
    JobTarget,
    id_of,
    pods_by_job,
    state_of,
    with_pods,
    workloads_by_job,
)

REFRESH_S = 2.0
REASON_MAX = 100  # characters, unless -o wide
_CLEAR = "\x1b[H\x1b[2J"
HEAD = ("ID", "NAME", "QUEUE", "STATUS", "PRIO", "AGE", "WAIT", "RUN", "REASON")
WIDE = (*HEAD[:-1], "START", "8 OF 10", "REASON", "USER", "WORKLOAD")


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
            forecasts: Forecasts = {}
            if arguments.output in ("wide", "json", "yaml"):
                where = "" if arguments.all_namespaces else namespace
                forecasts = await forecasts_in(client, where)
            if arguments.watch and sys.stdout.isatty():
                print(_CLEAR, end="")
            _print(shown, namespace, arguments, forecasts)
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
    targets = [JobTarget(job, by_job.get(job.metadata.uid)) for job in jobs]
    found = [state_of(target, now) for target in targets]
    if any(state.status == ADMITTED for state in found):
        pods = pods_by_job(await fetch_all(client, Pod, where))
        found = [with_pods(state, pods.get(state.metadata.uid, ())) for state in found]
    taken = {state.workload.metadata.uid for state in found if state.workload is not None}
    free = [workload for workload in workloads if workload.metadata.uid not in taken]
    units = units_of(await managed_pods(client, where), free)
    found += [with_pods(state_of(unit, now), unit.pods) for unit in units]
    return sorted(
        (state for state in found if _passes(state, arguments)),
        key=lambda s: (s.created_at, id_of(s.metadata) or 0, s.target.name),
    )


def _passes(state: JobState, arguments: argparse.Namespace) -> bool:
    if arguments.queue and state.queue != arguments.queue:
        return False
    return not arguments.me or state.submitted_by == user_name()


def _print(
    shown: list[JobState],
    namespace: str,
    arguments: argparse.Namespace,
    forecasts: Forecasts,
) -> None:
    place = "" if arguments.all_namespaces else f" in namespace {namespace}"
    more = "" if arguments.all else " that has not ended"
    head = WIDE if arguments.output == "wide" else HEAD
    items = [{**state.as_row(), "forecast": forecast_for(state, forecasts)} for state in shown]
    columns = {**COLUMNS, **_expected(forecasts)}
    if not print_jobs(shown, items, head, columns, arguments):
        print(f"there is no job{place}{more}", file=sys.stderr)


def _expected(forecasts: Forecasts) -> Mapping[str, Column]:
    """When those that wait will start."""

    def show(text: Callable[[Document | None, str], str]) -> Column:
        return lambda state: (
            _or_dash(text(forecast_for(state, forecasts), "start"))
            if state.status in NOT_BEGUN
            else "-"
        )

    return {"START": show(brief), "8 OF 10": show(span)}


def print_jobs(
    shown: Sequence[JobState],
    items: list[dict[str, Any]],
    head: Sequence[str],
    columns: Mapping[str, Column],
    arguments: argparse.Namespace,
) -> bool:
    """Print jobs in the form asked for, `items` to programs; False where a table would be empty."""
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, {"kind": "JobList", "items": items})
        return True
    if arguments.output == "name":
        for state in shown:
            print(reference_of(state))
        return True
    if arguments.output == "wide":
        columns = {**columns, "REASON": lambda state: state.reason}
    if arguments.all_namespaces:
        head = ("NAMESPACE", *head)
    if shown:
        print_table(head, [[columns[name](state) for name in head] for state in shown])
    return bool(shown)


def reference_of(state: JobState) -> str:
    """As kubectl takes it."""
    kinds = {JOB: "job.batch", POD: "pod"}
    return f"{kinds.get(state.target.kind, 'workload.kueue.x-k8s.io')}/{state.target.name}"


def _cut(reason: str) -> str:
    return reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 1] + "…"


def _or_dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


Column = Callable[[JobState], Cell | str]
COLUMNS: Mapping[str, Column] = {
    "NAMESPACE": lambda state: state.metadata.namespace,
    "ID": lambda state: _or_dash(id_of(state.metadata)),
    "NAME": lambda state: state.target.name,
    "QUEUE": lambda state: _or_dash(state.queue),
    "STATUS": lambda state: Cell(state.status, STYLES.get(state.status, "")),
    "PRIO": lambda state: _or_dash(state.priority),
    "AGE": lambda state: span_text(time.time() - state.created_at),
    "WAIT": lambda state: _or_dash(span_text(state.wait_s)),
    "RUN": lambda state: _or_dash(span_text(state.run_s)),
    "EVICTIONS": lambda state: str(state.evictions),
    "REASON": lambda state: _cut(state.reason),
    "USER": lambda state: _or_dash(state.submitted_by),
    "WORKLOAD": lambda state: _or_dash(state.workload and state.workload.metadata.name),
}
