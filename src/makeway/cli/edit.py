"""change a job that waits: its queue, its priority, what it asks for

Change a job that has not begun, or that waits again. One that runs has to be put
back first (`makeway requeue`, or `makeway hold`).

examples:
  makeway edit 12 -q vision
  makeway edit 12 --gpu 1 --memory 16Gi
  makeway edit 14 --priority urgent --time-limit 4h
  makeway edit 14 --array-limit 4

exit codes:
  0  changed     1  no such job, it runs or has ended, the server refused     2  wrong usage
"""

from __future__ import annotations

import argparse

from makeway.api.kinds import JOBS
from makeway.api.labels import ARRAY_LIMIT, NAME, PRIORITY_CLASS, QUEUE_NAME
from makeway.cli import connect
from makeway.cli.chosen_queue import choose_queue
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.new_job import GPU, requests_of
from makeway.cli.priority import look_up_class
from makeway.cli.references import HELP, find_targets
from makeway.cli.spans import span_of
from makeway.client import Client
from makeway.client.client import Document
from makeway.translate.job_state import HELD, PENDING, RESERVED, state_of
from makeway.translate.job_targets import JobTarget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="+", help=HELP)
    add = parser.add_argument
    add("-q", "--queue", help="LocalQueue to wait in")
    add("--name", help="what to call it")
    add("--priority", metavar="CLASS", help="WorkloadPriorityClass")
    add("--cpu", metavar="QTY", help="cores per pod")
    add("--memory", metavar="QTY", help="memory per pod")
    add("--gpu", metavar="N", help="GPUs per pod")
    add("--gpu-resource", metavar="NAME", help=f"what a GPU is called (default: {GPU})")
    add("--request", metavar="RES=QTY", action="append", help="any resource; may be repeated")
    add("--force", action="store_true", help="take an amount that looks mistaken")
    add("--time-limit", metavar="SPAN", help="end it after running so long")
    add("--array-limit", type=int, metavar="N", help="so many of its array at once")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    requests = requests_of(arguments)
    labels = {NAME: arguments.name, PRIORITY_CLASS: arguments.priority, QUEUE_NAME: arguments.queue}
    metadata: Document = {"labels": {k: v for k, v in labels.items() if v}}
    if arguments.array_limit is not None:
        if arguments.array_limit < 1:
            raise UsageError(f"--array-limit {arguments.array_limit}: write 1 or more")
        metadata["annotations"] = {ARRAY_LIMIT: str(arguments.array_limit)}
    spec: Document = {}
    if arguments.time_limit is not None:
        spec["activeDeadlineSeconds"] = int(span_of("--time-limit", arguments.time_limit))
    if not (requests or spec or metadata["labels"] or "annotations" in metadata):
        raise UsageError("say what to change, as --gpu 1 or -q QUEUE")

    async def story(client: Client, namespace: str) -> int:
        if arguments.priority:
            await look_up_class(client, arguments.priority)
        for word in arguments.jobs:
            for target in await find_targets(client, namespace, word):
                if arguments.queue:
                    await choose_queue(client, target.namespace, arguments.queue)
                await _change(client, target, metadata, spec, requests)
        return 0

    return connect.converse(arguments, story)


async def _change(
    client: Client, target: JobTarget, metadata: Document, spec: Document, requests: dict[str, str]
) -> None:
    status = state_of(target, 0.0).status
    if target.job is None or status not in (PENDING, HELD, RESERVED):
        raise RequestRefused(f"{target.text} is {status}; only what waits can be changed")
    document: Document = dict(target.job.document or {})
    if requests:
        spec = {**spec, "template": {"spec": {"containers": _asking(document, requests)}}}
    own = {**metadata, "resourceVersion": target.metadata.resource_version}
    patch = {"metadata": own, "spec": spec}
    await client.patch(JOBS, target.metadata.name, target.namespace, patch=patch)
    print(f"{target.text} changed", flush=True)


def _asking(job: Document, requests: dict[str, str]) -> list[Document]:
    """The containers, of which the first asks for something else."""
    first, *others = job["spec"]["template"]["spec"]["containers"]
    resources = first.get("resources") or {}
    changed = {part: {**(resources.get(part) or {}), **requests} for part in ("requests", "limits")}
    return [{**first, "resources": changed}, *others]
