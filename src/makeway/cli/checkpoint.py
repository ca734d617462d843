"""say from within a job that its work is saved

Note at a job that its work is saved up to now. Queues with `workloadSorting:
ByLeastWorkLost` then prefer it as a victim over one that would lose more, and
`makeway explain`, the accounting and simulations count what a preemption costs from
there. Meant to be called by the job itself, right after it has saved; it then needs
no argument.

examples:
  makeway checkpoint                     # in a job's script
  makeway checkpoint 12                  # from outside

exit codes:
  0  noted     1  no such job, or it has ended     2  not in a job, no server
"""

from __future__ import annotations

import argparse
import os
import time

from makeway.api.kinds import JOBS
from makeway.api.labels import LAST_CHECKPOINT
from makeway.api.times import format_time
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.references import HELP, find_job
from makeway.client import Client
from makeway.translate.job_names import job_text
from makeway.translate.job_state import ended_at

VARIABLE = "MAKEWAY_JOB_ID"  # which every job of `makeway submit` has


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", nargs="?", help=f"{HELP} (default: the job that this is part of)"
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    word = arguments.job or os.environ.get(VARIABLE, "")
    if not word:
        raise UsageError(f"this is no job of `makeway submit` ({VARIABLE} is not set); name one")

    async def story(client: Client, namespace: str) -> int:
        job = await find_job(client, namespace, word)
        if ended_at(job) is not None:
            raise RequestRefused(f"{job_text(job.metadata)} has ended")
        now = format_time(int(time.time()))
        noted = {"metadata": {"annotations": {LAST_CHECKPOINT: now}}}
        await client.patch(JOBS, job.metadata.name, job.metadata.namespace, patch=noted)
        print(f"{job_text(job.metadata)} is saved as of {now}")
        return 0

    return connect.converse(arguments, story)
