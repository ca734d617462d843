"""end jobs, whether they run or wait

End jobs that run or wait; the processes get SIGTERM and some time to end (`submit
--grace`). On a terminal it asks first. A job that is cancelled stays: `makeway
history` has it with who cancelled it, `makeway logs` what it has printed; `makeway
clean` removes it. A job that has ended is left alone. Jobs in no queue, groups of
pods, and all on servers other than Makeway's own, are deleted instead.

examples:
  makeway cancel 12 13
  makeway cancel 14_3                # one of an array; 14 is all of it
  makeway cancel @ -y
  makeway cancel --me
  makeway cancel --all -n vision

exit codes:
  0  cancelled, or ended already     1  no such job, or the answer was no     2  no server
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from makeway.api.batch import Job
from makeway.api.kinds import JOBS
from makeway.api.labels import CANCELLED_BY, QUEUE_NAME, SUBMITTED_BY
from makeway.api.queueing import Workload
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.references import HELP, find_targets, managed_pods
from makeway.cli.tables import counted
from makeway.cli.user import user_name
from makeway.cli.views import RESOURCE_OF, fetch_all
from makeway.client import Client, NotFound
from makeway.translate.job_state import is_true
from makeway.translate.job_targets import JobTarget, Lead, units_of

AT_ONCE = 50  # of many jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help=HELP)
    parser.add_argument("--me", action="store_true", help="all of yours that run or wait")
    parser.add_argument("--all", action="store_true", help="all of the namespace that run or wait")
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    are_many = arguments.all or arguments.me
    if bool(arguments.jobs) == are_many or (arguments.all and arguments.me):
        raise UsageError("name jobs, or write --me or --all")
    if are_many and not arguments.yes and not sys.stdin.isatty():
        which = "--all" if arguments.all else "--me"
        raise UsageError(f"{which} asks first, and nobody is there to answer; write -y to mean it")

    keeps = connect.is_own(arguments)

    async def story(client: Client, namespace: str) -> int:
        targets, code = await _targets(client, namespace, arguments)
        if not targets:
            if are_many:
                whose = " of yours" if arguments.me else ""
                print(f"no job{whose} runs or waits in namespace {namespace}", file=sys.stderr)
            return code
        others = [target for target in targets if not _is_mine(target)]
        if others and not arguments.all and not arguments.yes and not sys.stdin.isatty():
            owner = others[0].metadata.annotations.get(SUBMITTED_BY)
            raise UsageError(f"{others[0].text} is {owner}'s; write -y to mean it")
        if not arguments.yes and sys.stdin.isatty() and not agrees("Cancel", targets):
            print("nothing was cancelled", file=sys.stderr)
            return connect.EXIT_REFUSED
        for start in range(0, len(targets), AT_ONCE):
            part = targets[start : start + AT_ONCE]
            await asyncio.gather(*(_cancel(client, target, keeps=keeps) for target in part))
        return code

    return connect.converse(arguments, story)


async def _targets(
    client: Client, namespace: str, arguments: argparse.Namespace
) -> tuple[list[JobTarget], int]:
    if arguments.all or arguments.me:
        jobs = [JobTarget(job, None) for job in await fetch_all(client, Job, namespace)]
        workloads = await fetch_all(client, Workload, namespace)
        units = units_of(await managed_pods(client, namespace), workloads)
        pods = [unit for unit in units if unit.pods or unit.group]
        found = [target for target in (*jobs, *pods) if not has_ended(target)]
        return [target for target in found if arguments.all or _is_mine(target, True)], 0
    targets, code = [], 0
    for word in arguments.jobs:
        try:
            found = await find_targets(client, namespace, word)
            target = found[0]
            if target.part:
                raise RequestRefused(
                    f"pod {target.part} belongs to {target.text}; cancel that, or write "
                    f"`makeway delete pod {target.part}`"
                )
        except RequestRefused as error:
            print(f"makeway: {error}", file=sys.stderr)
            code = connect.EXIT_REFUSED
            continue
        for target in found:
            if not has_ended(target):
                targets.append(target)
            elif len(found) == 1:
                print(f"{target.text} has ended already")
    once = {target.metadata.uid: target for target in targets}
    return list(once.values()), code


def _is_mine(target: JobTarget, is_sure: bool = False) -> bool:
    """Whether this user has submitted it; where nobody knows, only if one needn't be sure."""
    owner = target.metadata.annotations.get(SUBMITTED_BY, "")
    return owner == user_name() if owner else not is_sure


def has_ended(target: JobTarget) -> bool:
    if target.job is None:
        return is_true(target.workload, "Finished")
    return is_true(target.job, "Complete") or is_true(target.job, "Failed")


def agrees(verb: str, targets: list[JobTarget]) -> bool:
    """Ask who sits there."""
    names = ", ".join(target.text for target in targets[:5])
    more = ", …" if len(targets) > 5 else ""
    owners = {target.metadata.annotations.get(SUBMITTED_BY, "") for target in targets}
    others = sorted(owners - {user_name(), ""})
    whose = f" (of {', '.join(others)})" if others else ""
    asked = f"{verb} {counted(len(targets), 'job')}: {names}{more}{whose}? [y/N] "
    print(asked, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _cancel(client: Client, target: JobTarget, *, keeps: bool) -> None:
    was_there = await end(client, target, keeps=keeps)
    word = "cancelled" if was_there else "is gone already"
    print(f"{target.text} {word}", flush=True)


async def end(client: Client, target: JobTarget, *, keeps: bool) -> bool:
    """Have it stopped; False if it is gone already. `keeps`: the server keeps cancelled jobs."""
    if keeps and target.job is not None and QUEUE_NAME in target.metadata.labels:
        noted = {"metadata": {"annotations": {CANCELLED_BY: user_name()}}}
        await client.patch(JOBS, target.metadata.name, target.namespace, patch=noted)
        return True
    return any([await _delete(client, part) for part in _parts_of(target)])


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
