"""end jobs, whether they run or wait

Delete jobs that run or wait, with their pods; the processes get SIGTERM and some time
to end. On a terminal it asks first. A job that has ended is left alone, so that
`makeway history` still has it; `makeway delete job` removes that, too. A group of
pods is cancelled as a whole.

examples:
  makeway cancel 12 13
  makeway cancel @ -y
  makeway cancel --all -n vision

exit codes:
  0  cancelled, or ended already     1  no such job, or the answer was no     2  no server
"""

from __future__ import annotations

import argparse
import sys

from makeway.api.batch import Job
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.references import HELP, find_target, managed_pods
from makeway.cli.tables import counted
from makeway.cli.views import RESOURCE_OF, fetch_all
from makeway.client import Client, NotFound
from makeway.translate.job_state import JobTarget, Lead, is_true, units_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help=HELP)
    parser.add_argument("--all", action="store_true", help="all of the namespace that run or wait")
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if bool(arguments.jobs) == arguments.all:
        raise UsageError("name jobs, or write --all")
    if arguments.all and not arguments.yes and not sys.stdin.isatty():
        raise UsageError("--all asks first, and nobody is there to answer; write -y to mean it")

    async def story(client: Client, namespace: str) -> int:
        targets, code = await _targets(client, namespace, arguments)
        if not targets:
            if arguments.all:
                print(f"no job runs or waits in namespace {namespace}", file=sys.stderr)
            return code
        if not arguments.yes and sys.stdin.isatty() and not _agrees(targets):
            print("nothing was cancelled", file=sys.stderr)
            return connect.EXIT_REFUSED
        for target in targets:
            await _cancel(client, target)
        return code

    return connect.converse(arguments, story)


async def _targets(
    client: Client, namespace: str, arguments: argparse.Namespace
) -> tuple[list[JobTarget], int]:
    if arguments.all:
        jobs = [JobTarget(job, None) for job in await fetch_all(client, Job, namespace)]
        workloads = await fetch_all(client, Workload, namespace)
        units = units_of(await managed_pods(client, namespace), workloads)
        pods = [unit for unit in units if unit.pods or unit.group]
        return [target for target in (*jobs, *pods) if not _has_ended(target)], 0
    targets, code = [], 0
    for word in arguments.jobs:
        try:
            target = await find_target(client, namespace, word)
            if target.part:
                raise RequestRefused(
                    f"pod {target.part} belongs to {target.text}; cancel that, or write "
                    f"`makeway delete pod {target.part}`"
                )
        except RequestRefused as error:
            print(f"makeway: {error}", file=sys.stderr)
            code = connect.EXIT_REFUSED
            continue
        if _has_ended(target):
            print(f"{target.text} has ended already")
        elif target not in targets:
            targets.append(target)
    return targets, code


def _has_ended(target: JobTarget) -> bool:
    if target.job is None:
        return is_true(target.workload, "Finished")
    return is_true(target.job, "Complete") or is_true(target.job, "Failed")


def _agrees(targets: list[JobTarget]) -> bool:
    names = ", ".join(target.text for target in targets[:5])
    more = ", …" if len(targets) > 5 else ""
    print(f"Cancel {counted(len(targets), 'job')}: {names}{more}? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _cancel(client: Client, target: JobTarget) -> None:
    were_there = [await _delete(client, part) for part in _parts_of(target)]
    word = "cancelled" if any(were_there) else "is gone already"
    print(f"{target.text} {word}", flush=True)


def _parts_of(target: JobTarget) -> list[Lead]:
    """What to delete. A pod's Workload goes with it; a group's would wait for other pods."""
    if target.job is not None:
        return [target.job]
    if target.workload is not None and (target.group or not target.pods):
        return [*target.pods, target.workload]
    return [*target.pods]


async def _delete(client: Client, part: Lead) -> bool:
    """False if the object is gone already."""
    try:
        await client.delete(RESOURCE_OF[type(part)], part.metadata.name, part.metadata.namespace)
    except NotFound:
        return False
    return True
