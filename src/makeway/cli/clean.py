"""remove jobs that have ended, with what they printed

Remove jobs that have succeeded, failed or been cancelled: the Job, its pods, its
place in the history and its output. Of the namespace, or only those that are named.
Without this, output is kept as long as `makeway up --keep-days` and `--keep-size`
say, the oldest goes first. On a terminal it asks before.

examples:
  makeway clean --older-than 7d
  makeway clean --succeeded -y
  makeway clean 12 13
  makeway clean --all --dry-run

exit codes:
  0  removed, or nothing to remove     1  the answer was no     2  wrong usage, no server
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from makeway.api.batch import Job
from makeway.api.kinds import JOBS
from makeway.api.labels import GONE_AT
from makeway.cli import connect
from makeway.cli.cancel import agrees
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.deleted_jobs import find_gone_job, gone_jobs
from makeway.cli.references import HELP, find_job
from makeway.cli.spans import span_of
from makeway.cli.tables import counted
from makeway.cli.views import fetch_all
from makeway.client import ApiError, Client, NotFound
from makeway.translate.job_state import ENDED, SUCCEEDED, JobState, state_of
from makeway.translate.job_targets import JobTarget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help=HELP)
    parser.add_argument("--all", action="store_true", help="all that have ended")
    parser.add_argument("--older-than", metavar="SPAN", help="those that ended so long ago, as 7d")
    parser.add_argument("--succeeded", action="store_true", help="only those that have succeeded")
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    parser.add_argument("--dry-run", action="store_true", help="only say which")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    picks = arguments.all or arguments.succeeded or arguments.older_than is not None
    if bool(arguments.jobs) == bool(picks):
        raise UsageError("name jobs, or write --older-than SPAN, --succeeded or --all")
    age_s = 0.0 if arguments.older_than is None else span_of("--older-than", arguments.older_than)
    may_ask = sys.stdin.isatty()
    if not (arguments.yes or arguments.dry_run or may_ask):
        raise UsageError("it asks first, and nobody is there to answer; write -y to mean it")

    async def story(client: Client, namespace: str) -> int:
        if arguments.jobs:
            found = [await _named(client, namespace, word) for word in arguments.jobs]
        else:
            found = await _ended(client, namespace, age_s, is_picky=arguments.succeeded)
        if not found:
            print("nothing to remove", file=sys.stderr)
            return 0
        if arguments.dry_run:
            for state in found:
                print(f"{state.target.text} {state.status}")
            return 0
        if not arguments.yes and not agrees("Remove", [state.target for state in found]):
            print("nothing was removed", file=sys.stderr)
            return connect.EXIT_REFUSED
        for state in found:
            await _remove(client, state.target.job)
        print(f"{counted(len(found), 'job')} removed")
        return 0

    return connect.converse(arguments, story)


async def _named(client: Client, namespace: str, word: str) -> JobState:
    try:
        job: Job | None = await find_job(client, namespace, word)
    except RequestRefused:
        job = await find_gone_job(client, namespace, word)
        if job is None:
            raise
    state = state_of(JobTarget(job, None), time.time())
    if state.status not in ENDED:
        raise RequestRefused(f"{state.target.text} has not ended; see `makeway cancel`")
    return state


async def _ended(client: Client, namespace: str, age_s: float, *, is_picky: bool) -> list[JobState]:
    now = time.time()
    jobs = [*await gone_jobs(client, namespace), *await fetch_all(client, Job, namespace)]
    states = [state_of(JobTarget(job, None), now) for job in jobs]
    wanted = (SUCCEEDED,) if is_picky else ENDED
    return [s for s in states if s.status in wanted and now - (s.ended_at or now) >= age_s]


async def _remove(client: Client, job: Job | None) -> None:
    assert job is not None
    name, namespace, uid = job.metadata.name, job.metadata.namespace, job.metadata.uid
    try:
        await client.forget_job(name, namespace, uid)
    except ApiError as error:
        if error.code not in (404, 405):  # another server, which keeps nothing
            raise
    if GONE_AT not in job.metadata.annotations:
        with contextlib.suppress(NotFound):
            await client.delete(JOBS, name, namespace, uid=uid)
