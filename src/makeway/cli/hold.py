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
from collections.abc import Mapping

from makeway.api.batch import Job
from makeway.api.kinds import JOBS, LOCAL_QUEUES, QUEUES, Resource
from makeway.api.labels import HELD_BY, HOLD
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.references import HELP, find_targets
from makeway.cli.user import user_name
from makeway.client import ApiError, Client
from makeway.client.workloads import set_active
from makeway.translate.job_state import ended_at, is_true
from makeway.translate.job_targets import JobTarget

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
    if arguments.drain and queues_meant(arguments.words) is None:
        raise UsageError("--drain is for queues; a job that is held stops at once")
    if arguments.drain:
        return hold_or_resume(arguments, "HoldAndDrain", "held and drained")
    return hold_or_resume(arguments, "Hold", "held")


def hold_or_resume(arguments: argparse.Namespace, policy: str, word: str) -> int:
    """Give queues a stop policy, or let jobs be active or not as it says."""
    queues = queues_meant(arguments.words)

    async def change(client: Client, namespace: str, name: str) -> str:
        if queues is None:
            found = await find_targets(client, namespace, name)
            held = [await _set_active(client, one, is_active=policy == "None") for one in found]
            return held[0] if len(held) == 1 else f"{len(held)} jobs of array {name}"
        resource, _ = queues
        where, patch = namespace if resource.is_namespaced else "", {"spec": {"stopPolicy": policy}}
        await client.patch(resource, name, where, patch=patch)
        return f"{resource.kind} {name}"

    async def story(client: Client, namespace: str) -> int:
        code = 0
        for name in arguments.words if queues is None else queues[1]:
            try:
                print(f"{await change(client, namespace, name)} {word}", flush=True)
            except (ApiError, RequestRefused) as error:
                print(f"makeway: {error}", file=sys.stderr)
                code = connect.EXIT_REFUSED
        return code

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


async def _set_active(client: Client, target: JobTarget, *, is_active: bool) -> str:
    if target.workload is None and target.job is not None and ended_at(target.job) is None:
        # It has no Workload yet, as one that waits for others of its array: that begins so.
        held = {HOLD: None, HELD_BY: None} if is_active else {HOLD: "true", HELD_BY: user_name()}
        await _note(client, target.job, held)
        return target.text
    workload = _workload_in(target)
    await set_active(client, workload.metadata.name, target.namespace, is_active=is_active)
    if target.job is not None:
        noted = {HOLD: None, HELD_BY: None} if is_active else {HELD_BY: user_name()}
        await _note(client, target.job, noted)
    return target.text


async def _note(client: Client, job: Job, noted: Mapping[str, str | None]) -> None:
    """Who held it, or nobody any more; what the Job says already is not written again."""
    before = job.metadata.annotations
    if any(before.get(name) != value for name, value in noted.items()):
        patch = {"metadata": {"annotations": dict(noted)}}
        await client.patch(JOBS, job.metadata.name, job.metadata.namespace, patch=patch)


def _workload_in(target: JobTarget) -> Workload:
    if is_true(target.job, "Complete") or is_true(target.job, "Failed"):
        raise RequestRefused(f"{target.text} has ended")
    if target.workload is None:
        raise RequestRefused(f"{target.text} has no Workload, so it is in no queue (yet)")
    return target.workload
