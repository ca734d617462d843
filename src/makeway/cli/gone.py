"""Jobs that are not there any more: what the journal of the data folder knows of them."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from makeway.api.times import format_time
from makeway.cli import past
from makeway.cli.command import UsageError
from makeway.cli.spans import span_of, span_text
from makeway.cli.tables import print_document, print_table
from makeway.journal.ledger import Life, ledger_of
from makeway.journal.past import job_name

HEAD = ("NAMESPACE", "NAME", "QUEUE", "STATUS", "ENDED", "WAIT", "RUN", "EVICTIONS")


def print_gone(arguments: argparse.Namespace) -> int:
    if arguments.me:
        raise UsageError("--me: the journal does not know who has submitted a job")
    now = time.time()
    since = 0.0 if arguments.since is None else now - span_of("--since", arguments.since)
    with past.open_journal(arguments) as journal:
        lives = ledger_of(journal, 0.0, now).gone
    shown = [life for life in lives if end_of(life) >= since and _is_asked_for(life, arguments)]
    shown.sort(key=end_of)
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, {"items": [_data(life) for life in shown]})
    elif arguments.output == "name":
        for life in shown:
            print(job_name(life.workload.key))
    elif shown:
        print_table(HEAD, [_row(life, now) for life in shown])
    else:
        print("no job is gone", file=sys.stderr)
    return 0


def end_of(life: Life) -> float:
    """When it finished; of one that did not, when it was deleted."""
    return life.at if life.ended_at is None else life.ended_at


def _is_asked_for(life: Life, arguments: argparse.Namespace) -> bool:
    workload = life.workload
    if arguments.queue and workload.local_queue.rpartition("/")[2] != arguments.queue:
        return False
    return arguments.all_namespaces or workload.namespace == (arguments.namespace or "default")


def _status(life: Life) -> str:
    return "cancelled" if life.ended_at is None else "ended"


def _row(life: Life, now: float) -> list[str]:
    workload, total = life.workload, life.total
    return [
        workload.namespace,
        job_name(workload.key),
        workload.local_queue.rpartition("/")[2],
        _status(life),
        f"{span_text(now - end_of(life))} ago",
        span_text(total.waited_s),
        span_text(total.held_s),
        str(total.preempted + total.evicted),
    ]


def _data(life: Life) -> dict[str, Any]:
    workload, total = life.workload, life.total
    return {
        "namespace": workload.namespace,
        "name": job_name(workload.key),
        "workload": workload.key.partition("/")[2],
        "queue": workload.local_queue.rpartition("/")[2],
        "status": _status(life),
        "createdAt": format_time(workload.created_at),
        "endedAt": format_time(end_of(life)),
        "waitSeconds": round(total.waited_s, 3),
        "runSeconds": round(total.held_s, 3),
        "evictions": total.preempted + total.evicted,
    }
