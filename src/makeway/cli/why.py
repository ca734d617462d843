"""tell why a job did not run at a moment of the past, and who took its place

Tell why a job waited at a moment of the past, who held what it needed, and what
happened to it before and after: when it was admitted, for whom it had to make way and
by which rule. The journal has it, so the job and all others may be long gone: name it
as it was called, or by its Workload. Without --at, the moment is now.

examples:
  makeway why train --at 14:05
  makeway why vision/train --at 'yesterday 14:05'
  makeway why job-train-1a2b3 --at 2026-03-01T14:05:00Z -o json

exit codes:
  0  printed     1  nothing is known of it     2  wrong usage, no journal
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from makeway.api.kinds import WORKLOADS
from makeway.cli import connect, past
from makeway.cli.command import RequestRefused
from makeway.cli.deleted_jobs import find_gone_job
from makeway.cli.moments import HELP, moment_of
from makeway.cli.references import find_target
from makeway.cli.tables import add_output, print_document, print_safely
from makeway.client import Client
from makeway.controller.job_workload import name_of
from makeway.journal.past import name_in
from makeway.retelling import why


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="a name, NAMESPACE/NAME, or a Workload's name")
    parser.add_argument("--at", metavar="TIME", help=HELP)
    parser.add_argument(
        "-n", "--namespace", help="(default: default; of a server for all accounts, one's own)"
    )
    past.add_arguments(parser)
    add_output(parser, ("text", "json", "yaml"))


def run(arguments: argparse.Namespace) -> int:
    now = time.time()
    at = now if arguments.at is None else moment_of("--at", arguments.at, now)
    if past.is_of_all(arguments):
        return connect.converse(arguments, lambda *asked: _ask(arguments, at, *asked))
    with past.open_journal(arguments) as journal:
        name = name_in(arguments.job, arguments.namespace or "default")
        _print(why(journal, name, at), arguments)
    return 0


async def _ask(arguments: argparse.Namespace, at: float, client: Client, namespace: str) -> int:
    """The server, where one can't read the journal oneself."""
    named = name_in(arguments.job, namespace)
    where, name = await _workload(client, named.namespace, named.name)
    _print(await client.past_explanation(WORKLOADS, name, where, at), arguments)
    return 0


async def _workload(client: Client, namespace: str, word: str) -> tuple[str, str]:
    """Namespace and name of the Workload that somebody means."""
    try:
        target = await find_target(client, namespace, word)
    except RequestRefused:
        gone = await find_gone_job(client, namespace, word)
        return (namespace, word) if gone is None else (gone.metadata.namespace, name_of(gone))
    if target.workload is not None:
        return target.namespace, target.workload.metadata.name
    return target.namespace, target.name if target.job is None else name_of(target.job)


def _print(document: dict[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, document)
        return
    for line in document["lines"]:
        print_safely(line)
