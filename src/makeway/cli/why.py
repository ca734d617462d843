"""tell why a job did not run at a moment of the past, and who took its place

Tell why a job waited at a moment of the past, who held what it needed, and what
happened to it before and after: when it was admitted, for whom it had to make way and
by which rule. The journal has it, so the job and all others may be long gone. Of
several jobs of a name, the latest that had come by then is meant. Without --at, the
moment is now. Numbers of jobs are known to the server: while it is down, and for other
journals (--journal), name the job as it was called, or its Workload.

examples:
  makeway why 12 --at 14:05
  makeway why vision/train --at 'yesterday 14:05'
  makeway why train --at '2h ago'
  makeway why job-train-1a2b3 --at 2026-03-01T14:05:00Z -o json

exit codes:
  0  printed     1  nothing is known of it     2  wrong usage, no journal
"""

from __future__ import annotations

import argparse
import time

from makeway.api.kinds import WORKLOADS
from makeway.cli import connect, past
from makeway.cli.jobs_then import workload_then
from makeway.cli.moments import HELP, moment_of
from makeway.cli.naming import Spoken, spoken_of
from makeway.cli.references import HELP as JOB_HELP
from makeway.cli.tables import add_output, print_document, print_sentence
from makeway.client import Client
from makeway.client.client import Document
from makeway.journal.past import Name, name_in
from makeway.retelling import why

A_SECOND = 1 - 1e-6  # but for what is next


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    parser.add_argument("--at", metavar="TIME", help=HELP)
    parser.add_argument(
        "-n", "--namespace", help="(default: default; of a server for all accounts, one's own)"
    )
    past.add_arguments(parser)
    add_output(parser, ("text", "json", "yaml"))


def run(arguments: argparse.Namespace) -> int:
    now = time.time()
    at = now if arguments.at is None else _moment(arguments.at, now)
    is_of_all = past.is_of_all(arguments)
    if not is_of_all and (arguments.journal is not None or not connect.is_up(arguments)):
        name = name_in(arguments.job, arguments.namespace or "default")
        _print(_read(arguments, name, at), Spoken({}), arguments)
        return 0

    async def story(client: Client, namespace: str) -> int:
        """The server knows which job is meant; where it serves all accounts, it reads for us."""
        name = await workload_then(client, namespace, arguments.job, at)
        if is_of_all:
            found = await client.past_explanation(WORKLOADS, name.name, name.namespace, at)
        else:
            found = _read(arguments, name, at)
        about = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
        _print(found, await spoken_of(client, found, about), arguments)
        return 0

    return connect.converse(arguments, story)


def _moment(text: str, now: float) -> float:
    """A second is meant whole: who names one that was printed means what happened in it."""
    at = moment_of("--at", text, now)
    return min(at + A_SECOND, max(now, at)) if at.is_integer() else at


def _read(arguments: argparse.Namespace, name: Name, at: float) -> Document:
    with past.open_journal(arguments) as journal:
        return why(journal, name, at)


def _print(document: Document, spoken: Spoken, arguments: argparse.Namespace) -> None:
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, document)
        return
    for pieces in document["pieces"]:
        print_sentence(spoken.line(pieces))
