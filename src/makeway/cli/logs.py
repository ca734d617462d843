"""print what a job has printed; -f stays with it over evictions

Print the output of a job, however it ended: also of one that was cancelled, ran out
of time, was preempted, held or deleted. Of a job that began several times, the last
attempt counts unless others are asked for. With several pods or containers, every
line begins with whose it is. With -f it goes on until the job ends: a job that is
evicted and admitted again goes on as other pods, and standard error tells how it
stands. Ctrl-C ends the following, not the job.

examples:
  makeway logs 12
  makeway logs -f @
  makeway logs 12 --attempt 1
  makeway logs 12 --all-attempts
  makeway logs train --tail 100 --pod train-x7k2p-0

exit codes:
  0  printed     1  no such job, or it has printed nothing yet     2  no server
"""

from __future__ import annotations

import argparse
import sys
import time

from makeway.api.batch import Job, Pod
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.deleted_jobs import Run, find_gone_job, runs_of
from makeway.cli.output import Out, Printer, pods_of, streams_of, to_stdout
from makeway.cli.references import HELP, array_members, find_target
from makeway.cli.spans import span_of
from makeway.client import Client
from makeway.translate.job_state import JobTarget, short_text, state_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job ends, over evictions"
    )
    parser.add_argument("--attempt", type=int, metavar="N", help="of the Nth time that it began")
    parser.add_argument("--all-attempts", action="store_true", help="of all, the first first")
    parser.add_argument("--pod", default="", help="only of this pod")
    parser.add_argument("-c", "--container", default="", help="only of this container")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each")
    parser.add_argument(
        "--previous", action="store_true", help="of the run before the last restart"
    )
    parser.add_argument("--timestamps", action="store_true", help="each line with its time")
    parser.add_argument("--since", metavar="SPAN", help="only of so long ago, for example 10m")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    query = query_of(arguments)
    if arguments.follow and arguments.previous:
        raise UsageError("--previous has ended and can't be followed")

    if arguments.follow and _is_past(arguments):
        raise UsageError("-f follows the job as it is; leave out --attempt and --all-attempts")

    async def story(client: Client, namespace: str) -> int:
        if arguments.follow:
            await _follow(client, namespace, arguments, query)
        else:
            await print_output(client, namespace, arguments)
        return 0

    return connect.converse(arguments, story, stays=arguments.follow, is_quick=True)


def _is_past(arguments: argparse.Namespace) -> bool:
    return arguments.attempt is not None or bool(arguments.all_attempts)


async def _follow(
    client: Client, namespace: str, arguments: argparse.Namespace, query: dict[str, str]
) -> None:
    from makeway.cli.following import Follower  # needs a loop; printing what is there doesn't

    if members := await array_members(client, namespace, arguments.job):
        raise UsageError(f"follow one of them, as {short_text(members[0].metadata)}")
    target = await _target(client, namespace, arguments.job)
    if target.job is None:
        raise UsageError("only a Job is followed; leave -f out, or use `kubectl logs -f`")
    await Follower(client, target.job, query).run(pod=arguments.pod, tells_state=True)


async def print_output(
    client: Client, namespace: str, arguments: argparse.Namespace, out: Out = to_stdout
) -> None:
    """What is there by now."""
    query = query_of(arguments)
    if members := await array_members(client, namespace, arguments.job):
        await _print_array(client, members, arguments, out)
        return
    target = await _target(client, namespace, arguments.job)
    if target.job is None and not target.pods:
        raise RequestRefused(f"{target.text} belongs to no Job, and has no pods")
    runs = None if target.job is None else await runs_of(client, target.job)
    if target.job is not None and runs is not None:
        await _print_runs(client, target, _chosen(target, runs, arguments), query, out)
        return
    if _is_past(arguments):
        raise RequestRefused("this server keeps no output of earlier attempts")
    pods = [*target.pods] if target.job is None else await pods_of(client, target.job)
    chosen = [pod for pod in pods if arguments.pod in ("", pod.metadata.name)]
    if pods and not chosen:
        names = ", ".join(pod.metadata.name for pod in pods)
        raise RequestRefused(f"{target.text} has no pod {arguments.pod}; it has {names}")
    if not any(map(_has_begun, pods)):
        raise _nothing(target, "has printed nothing" if pods else "has no pods")
    await _print(client, [pod for pod in chosen if _has_begun(pod)], query, out)


async def _target(client: Client, namespace: str, word: str) -> JobTarget:
    """A job that is there, or else one that was deleted."""
    try:
        return await find_target(client, namespace, word)
    except RequestRefused:
        gone = await find_gone_job(client, namespace, word)
        if gone is None:
            raise
        return JobTarget(gone, None)


def _nothing(target: JobTarget, what: str) -> RequestRefused:
    state = state_of(target, time.time())
    why = f": {state.reason}" if state.reason else ""
    return RequestRefused(f"{target.text} {what}, it is {state.status}{why}")


def _chosen(target: JobTarget, runs: list[Run], arguments: argparse.Namespace) -> list[Run]:
    """The runs that are asked for: of the last attempt, unless others are."""
    if not runs:
        raise _nothing(target, "has printed nothing")
    wanted = runs[-1].attempt if arguments.attempt is None else arguments.attempt
    chosen = [run for run in runs if arguments.all_attempts or run.attempt == wanted]
    if not chosen:
        raise RequestRefused(f"{target.text} has begun {runs[-1].attempt} times, not {wanted}")
    named = [run for run in chosen if arguments.pod in ("", run.pod)]
    if not named:
        names = ", ".join(run.pod for run in chosen)
        raise RequestRefused(f"{target.text} has no pod {arguments.pod}; it has {names}")
    return named


async def _print_array(
    client: Client, members: list[Job], arguments: argparse.Namespace, out: Out
) -> None:
    """What all jobs of an array have printed, each line with whose it is."""
    query = query_of(arguments)
    for job in members:
        target, called = JobTarget(job, None), short_text(job.metadata)
        if runs := await runs_of(client, job):
            chosen = _chosen(target, runs, arguments)
            await _print_runs(client, target, chosen, query, out, called=called)


async def _print_runs(
    client: Client,
    target: JobTarget,
    runs: list[Run],
    query: dict[str, str],
    out: Out,
    *,
    called: str = "",
) -> None:
    """`called`: whose lines these are, where others are printed as well."""
    asked = query.get("container", "")
    attempts = [run.attempt for run in runs]
    several = len(set(attempts)) < len(attempts) or any(len(run.containers) > 1 for run in runs)
    printer, told = Printer(names_streams=several or bool(called), out=out), 0
    for run in runs:
        if len(set(attempts)) > 1 and run.attempt != told:
            print(f"makeway: {run.text}", file=sys.stderr, flush=True)
        told = run.attempt
        for container in [asked] if asked else run.containers:
            whose = run.pod if several or not called else called
            stream = f"{whose}/{container}" if len(run.containers) > 1 else whose
            about = {"uid": target.metadata.uid, "pod": run.pod_uid, "container": container}
            async for piece in client.job_logs(target.name, target.namespace, {**query, **about}):
                printer.write(stream, piece)
            printer.finish(stream)


def _has_begun(pod: Pod) -> bool:
    return not pod.spec.scheduling_gates


async def _print(client: Client, pods: list[Pod], query: dict[str, str], out: Out) -> None:
    named = query.get("container", "")
    streams = [(pod.metadata, *stream) for pod in pods for stream in streams_of(pod, named)]
    printer = Printer(names_streams=len(streams) > 1, out=out)
    for pod, container, stream in streams:
        wanted = {**query, "container": container}
        async for piece in client.logs(pod.name, pod.namespace, wanted):
            printer.write(stream, piece)
        printer.finish(stream)


def query_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What is asked of the server's log."""
    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail {arguments.tail}: write 0 or more")
    asked = {
        "container": arguments.container or None,
        "tailLines": arguments.tail,
        "previous": "true" if arguments.previous else None,
        "timestamps": "true" if arguments.timestamps else None,
        "sinceSeconds": int(span_of("--since", arguments.since)) if arguments.since else None,
    }
    return {name: str(value) for name, value in asked.items() if value is not None}
