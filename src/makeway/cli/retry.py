"""submit jobs again that have ended

Submit a job that has ended once more, as it was: command, directory, variables,
queue and what it asked for. It gets a number of its own; the one before keeps its
output. Of an array, all indexes or (--failed) those that failed or were cancelled
are done again, as an array.

examples:
  makeway retry 12
  makeway retry 14 --failed
  makeway retry 14_3

exit codes:
  0  submitted     1  no such job, it has not ended, or nothing failed     2  no server
"""

from __future__ import annotations

import argparse

from makeway.api.arrays import Indexes
from makeway.api.labels import ARRAY, ARRAY_INDEX, ARRAY_LIMIT
from makeway.cli import connect
from makeway.cli.again import as_submitted
from makeway.cli.command import RequestRefused
from makeway.cli.creating import Creation
from makeway.cli.deleted_jobs import find_gone_job
from makeway.cli.references import HELP, find_targets
from makeway.cli.tables import counted
from makeway.client import Client
from makeway.translate.job_names import short_text
from makeway.translate.job_state import CANCELLED, ENDED, FAILED, state_of
from makeway.translate.job_targets import JobTarget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="+", help=HELP)
    parser.add_argument("--failed", action="store_true", help="only what has not succeeded")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    is_own = connect.is_own(arguments)

    async def story(client: Client, namespace: str) -> int:
        for word in arguments.jobs:
            targets = await _ended(client, namespace, word, only_failed=arguments.failed)
            await _again(client, targets, is_own=is_own)
        return 0

    return connect.converse(arguments, story)


async def _ended(
    client: Client, namespace: str, word: str, *, only_failed: bool
) -> list[JobTarget]:
    try:
        found = await find_targets(client, namespace, word)
    except RequestRefused:
        if await find_gone_job(client, namespace, word) is None:
            raise
        why = "its variables are not kept; submit it again"
        raise RequestRefused(f"job {word} was deleted, and {why}") from None
    states = [state_of(target, 0.0) for target in found]
    if len(states) == 1 and states[0].status not in ENDED:
        raise RequestRefused(f"{found[0].text} is {states[0].status}; see `makeway requeue`")
    wanted = (FAILED, CANCELLED) if only_failed else ENDED
    chosen = [state.target for state in states if state.status in wanted]
    if not chosen:
        raise RequestRefused(f"{word}: there is nothing to do again")
    return chosen


async def _again(client: Client, targets: list[JobTarget], *, is_own: bool) -> None:
    first = targets[0]
    assert first.job is not None
    job = as_submitted(first.job, first.workload)
    labels = first.metadata.labels
    array = None
    if ARRAY in labels:
        limit = first.metadata.annotations.get(ARRAY_LIMIT, "")
        values = tuple(int(target.metadata.labels[ARRAY_INDEX]) for target in targets)
        indexes = Indexes(values, int(limit) if limit.isdecimal() else None)
        text = ",".join(map(str, values)) + (f"%{limit}" if indexes.limit else "")
        array = text, indexes
    made = await Creation(client, first.namespace, job, array).run(is_own=is_own)
    labels = made[0]["metadata"]["labels"]
    what = f"array {labels[ARRAY]}: {counted(len(made), 'job')}" if array else ""
    name = made[0]["metadata"]["name"]
    number = labels.get("makeway.dev/id", name)
    old = first.metadata.labels.get(ARRAY) if len(targets) > 1 else short_text(first.metadata)
    print(f"Submitted {what or f'job {number} ({name})'}, {old} again", flush=True)
