"""Jobs of which the server knows nothing any more, as rows: what its journal tells of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Container

from makeway.api.devices import gpu_count
from makeway.api.quantity import format_amount
from makeway.api.times import format_time
from makeway.cli import past
from makeway.cli.command import UsageError
from makeway.cli.job_table import Row
from makeway.engine.model import Workload
from makeway.journal.ledger import Life, ledger_of
from makeway.journal.past import job_name
from makeway.translate.job_state import DELETED

FINISHED = "ended"  # how, the journal does not know
Known = Container[tuple[str, str]]  # namespace and name of Workloads


def recorded_rows(
    namespace: str, arguments: argparse.Namespace, since: float, known: Known
) -> list[Row]:
    """Who was deleted and is not known otherwise."""
    if arguments.me:
        raise UsageError("--me with --all: the journal does not know who has submitted a job")
    where = "" if arguments.all_namespaces else namespace
    with past.open_journal(arguments) as journal:
        lives = ledger_of(journal, 0.0, time.time()).gone  # with what they waited before
    return [
        _row(life)
        for life in lives
        if _end_of(life) >= since
        and where in ("", life.workload.namespace)
        and arguments.queue in ("", _queue_of(life.workload))
        and _key(life.workload) not in known
    ]


def _key(workload: Workload) -> tuple[str, str]:
    namespace, _, name = workload.key.partition("/")
    return namespace, name


def _queue_of(workload: Workload) -> str:
    return workload.local_queue.rpartition("/")[2]


def _end_of(life: Life) -> float:
    """When it finished; of one that did not, when it was deleted."""
    return life.at if life.ended_at is None else life.ended_at


def _row(life: Life) -> Row:
    """As rows of other jobs are; what the journal does not know is empty."""
    workload, total = life.workload, life.total
    requests = _requests(workload)
    return {
        "id": None,
        "name": job_name(workload.key),
        "kind": "Workload",
        "namespace": workload.namespace,
        "queue": _queue_of(workload),
        "status": DELETED if life.ended_at is None else FINISHED,
        "reason": None,
        "message": "its objects are gone; the journal tells of it",
        "priority": workload.priority,
        "submittedBy": None,
        "createdAt": format_time(workload.created_at),
        "startedAt": None,
        "endedAt": format_time(_end_of(life)),
        "waitSeconds": round(total.waited_s, 3),
        "runSeconds": round(total.held_s, 3) if total.admitted else None,
        "evictions": total.preempted + total.evicted,
        "exitCode": None,
        "requests": {name: format_amount(name, n) for name, n in requests.items()},
        "gpus": gpu_count(requests),
        "gpuIndexes": [],
        "nodes": [],
        "command": [],
        "workload": _key(workload)[1],
    }


def _requests(workload: Workload) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests:
            found[resource] = found.get(resource, 0) + amount * pod_set.count
    return found
