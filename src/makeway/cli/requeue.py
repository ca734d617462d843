"""stop jobs that run, and have them wait in their queue again

Stop a running job and put it back into its queue, where it waits for its turn like
all others; when that comes, it begins anew as the next attempt. Its processes get
SIGTERM and the time to save their work (`submit --grace`). To keep it from coming
back, use `makeway hold`.

examples:
  makeway requeue 12
  makeway requeue 14_3 14_4

exit codes:
  0  requeued     1  no such job, or it doesn't run     2  no server
"""

from __future__ import annotations

import argparse
import asyncio

from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.command import RequestRefused
from makeway.cli.references import HELP, find_targets
from makeway.cli.views import fetch
from makeway.client import Client
from makeway.client.workloads import set_active
from makeway.translate.job_state import is_true
from makeway.translate.job_targets import JobTarget

POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="+", help=HELP)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        found: list[JobTarget] = []
        for word in arguments.jobs:
            found += await find_targets(client, namespace, word)
        running = [t for t in found if t.workload and is_true(t.workload, "Admitted")]
        if not running:
            raise RequestRefused("none of these jobs runs")
        await asyncio.gather(*(_requeue(client, target) for target in running))
        return 0

    return connect.converse(arguments, story)


async def _requeue(client: Client, target: JobTarget) -> None:
    """Deactivated it lets go of its place; active again, it waits for the next."""
    assert target.workload is not None
    name, where = target.workload.metadata.name, target.namespace
    await set_active(client, name, where, is_active=False)
    while is_true(await fetch(client, Workload, name, where), "QuotaReserved"):
        await asyncio.sleep(POLL_S)
    await set_active(client, name, where, is_active=True)
    print(f"{target.text} waits again", flush=True)
