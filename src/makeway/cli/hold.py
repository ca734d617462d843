"""let a job or a whole queue wait until `makeway resume`

Hold jobs: one that waits is passed over, one that runs is stopped and goes back to
its queue. Hold a LocalQueue (`queue NAME`) or a ClusterQueue (`clusterqueue NAME`):
nothing is admitted from it any more; what runs goes on, unless --drain is given.

examples:
  makeway hold 12
  makeway hold queue vision
  makeway hold clusterqueue lab --drain

exit codes:
  0  held     1  no such job or queue     2  wrong usage, no server
"""

from __future__ import annotations

import argparse
import sys

from makeway.api.kinds import JOBS, LOCAL_QUEUES, QUEUES, WORKLOADS, Resource
from makeway.api.labels import HOLD
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.job_state import is_true
from makeway.cli.references import HELP, JobTarget, find_target
from makeway.client import ApiError, Client

QUEUE_WORDS = {
    "queue": LOCAL_QUEUES,
    "localqueue": LOCAL_QUEUES,
    "lq": LOCAL_QUEUES,
    "clusterqueue": QUEUES,
    "cq": QUEUES,
}
WORDS_HELP = f"jobs, or `queue NAME`, or `clusterqueue NAME`; a job is {HELP}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="JOB", nargs="+", help=WORDS_HELP)
    parser.add_argument(
        "--drain", action="store_true", help="of a queue: stop what runs there, too"
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    queues = queues_meant(arguments.words)
    if arguments.drain and queues is None:
        raise UsageError("--drain is for queues; a job that is held stops at once")

    async def story(client: Client, namespace: str) -> int:
        if queues is not None:
            policy = "HoldAndDrain" if arguments.drain else "Hold"
            word = "held and drained" if arguments.drain else "held"
            return await set_stop_policy(client, namespace, *queues, policy, word)
        return await set_active(client, namespace, arguments.words, is_active=False, word="held")

    return connect.converse(arguments, story)


def queues_meant(words: list[str]) -> tuple[Resource, list[str]] | None:
    """Of `queue NAME...` and `queue/NAME`: the kind and the names; None if jobs are meant."""
    kind, slash, name = words[0].lower().partition("/")
    resource = QUEUE_WORDS.get(kind)
    if resource is None:
        return None
    names = [name, *words[1:]] if slash else words[1:]
    names = [word.rpartition("/")[2] for word in names]
    if not names or not all(map(connect.is_name, names)):
        raise UsageError(f"name a queue: makeway hold {kind} NAME")
    return resource, names


async def set_stop_policy(
    client: Client, namespace: str, resource: Resource, names: list[str], policy: str, word: str
) -> int:
    code = 0
    for name in names:
        patch = {"spec": {"stopPolicy": policy}}
        where = namespace if resource.is_namespaced else ""
        try:
            await client.patch(resource, name, where, patch=patch)
            print(f"{resource.kind} {name} {word}", flush=True)
        except ApiError as error:
            print(f"makeway: {error}", file=sys.stderr)
            code = connect.EXIT_REFUSED
    return code


async def set_active(
    client: Client, namespace: str, words: list[str], *, is_active: bool, word: str
) -> int:
    code = 0
    for name in words:
        try:
            target = await find_target(client, namespace, name)
            workload = _workload_in(target)
            where, patch = target.namespace, {"spec": {"active": is_active}}
            await client.patch(WORKLOADS, workload.metadata.name, where, patch=patch)
            if is_active and target.job is not None and target.job.metadata.annotations.get(HOLD):
                lifted = {"metadata": {"annotations": {HOLD: None}}}
                await client.patch(JOBS, target.job.metadata.name, where, patch=lifted)
            print(f"{target.text} {word}", flush=True)
        except (ApiError, RequestRefused) as error:
            print(f"makeway: {error}", file=sys.stderr)
            code = connect.EXIT_REFUSED
    return code


def _workload_in(target: JobTarget) -> Workload:
    if is_true(target.job, "Complete") or is_true(target.job, "Failed"):
        raise RequestRefused(f"{target.text} has ended")
    if target.workload is None:
        raise RequestRefused(f"{target.text} has no Workload, so it is in no queue (yet)")
    return target.workload
