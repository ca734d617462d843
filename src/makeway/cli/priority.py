"""change the priority of a job

Give a job another priority class: it moves in its queue at once. --preemption sets
the class that counts when others look for victims, so that a job can be queued as
ordinary and still be hard to take away.

examples:
  makeway priority 12 high
  makeway priority train --preemption high

exit codes:
  0  changed     1  no such job or class, the server refused     2  wrong usage, no server
"""

from __future__ import annotations

import argparse

from makeway.api.kinds import JOBS, PRIORITY_CLASSES, WORKLOAD_CLASSES
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS, PRIORITY_CLASS
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.references import HELP, find_job
from makeway.client import ApiError, Client
from makeway.translate.job_names import job_text
from makeway.translate.job_state import ended_at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument("name", metavar="CLASS", nargs="?", help="a WorkloadPriorityClass")
    parser.add_argument(
        "--preemption",
        metavar="CLASS",
        help="class that counts when others want its place; at least as high as its priority",
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is None and arguments.preemption is None:
        raise UsageError("name a class, or one with --preemption")

    async def story(client: Client, namespace: str) -> int:
        job = await find_job(client, namespace, arguments.job)
        if ended_at(job) is not None:
            text = f"{job_text(job.metadata)} has ended; its priority no longer matters"
            raise RequestRefused(text)
        metadata: dict[str, dict[str, str]] = {}
        said = []
        if arguments.name is not None:
            await look_up_class(client, arguments.name)
            metadata["labels"] = {PRIORITY_CLASS: arguments.name}
            said.append(f"priority class {arguments.name}")
        if arguments.preemption is not None:
            await look_up_class(client, arguments.preemption, may_be_of_pods=True)
            metadata["annotations"] = {PREEMPTION_PRIORITY_CLASS: arguments.preemption}
            said.append(f"preemption priority class {arguments.preemption}")
        patch = {"metadata": metadata}
        await client.patch(JOBS, job.metadata.name, job.metadata.namespace, patch=patch)
        print(f"{job_text(job.metadata)} has {' and '.join(said)}")
        return 0

    return connect.converse(arguments, story)


async def look_up_class(client: Client, name: str, *, may_be_of_pods: bool = False) -> None:
    """Refuse a class that is not there: a job with one would never be admitted.

    Not everybody may look into the classes of a cluster; there an event of the job tells.
    """
    kinds = (WORKLOAD_CLASSES, PRIORITY_CLASSES) if may_be_of_pods else (WORKLOAD_CLASSES,)
    try:
        found = [item for kind in kinds for item in (await client.list(kind)).items]
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return
    known = [item["metadata"]["name"] for item in found]
    if name not in known:
        choice = f"there are: {', '.join(known)}" if known else "there is none"
        raise RequestRefused(f"no {' or '.join(kind.kind for kind in kinds)} {name}; {choice}")
