"""What a job has printed, whatever it is: an array, pods without a Job, a Job that is gone."""

from __future__ import annotations

import argparse
import time

from makeway.api.batch import Job, Pod
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.deleted_jobs import find_even_gone
from makeway.cli.following import Follower
from makeway.cli.output import pods_of, streams_of
from makeway.cli.references import array_members
from makeway.cli.runs import Out, Printer, chosen_runs, is_past, print_runs, query_of, runs_of
from makeway.client import Client
from makeway.translate.job_names import job_text, short_text
from makeway.translate.job_state import state_of
from makeway.translate.job_targets import JobTarget


async def follow(client: Client, namespace: str, arguments: argparse.Namespace) -> None:
    """A Job, with all that it prints until its end."""
    if members := await array_members(client, namespace, arguments.job):
        raise UsageError(f"follow one of them, as {short_text(members[0].metadata)}")
    target = await find_even_gone(client, namespace, arguments.job)
    if target.job is None:
        raise UsageError("only a Job is followed; leave -f out, or use `kubectl logs -f`")
    follower = Follower(client, target.job, query_of(arguments))
    await follower.run(pod=arguments.pod, tells_state=True)


async def print_any(
    client: Client, namespace: str, arguments: argparse.Namespace, out: Out
) -> None:
    """What there is by now of an array, of pods without a Job, of a Job that is gone."""
    if members := await array_members(client, namespace, arguments.job):
        await _print_array(client, members, arguments, out)
        return
    target = await find_even_gone(client, namespace, arguments.job)
    if target.job is None and not target.pods:
        raise RequestRefused(f"{target.text} belongs to no Job, and has no pods")
    runs = None if target.job is None else await runs_of(client, target.metadata)
    if runs is not None:
        if not runs:
            raise _nothing(target, "has printed nothing")
        chosen = chosen_runs(target.text, runs, arguments)
        await print_runs(client, target.metadata, chosen, arguments, out)
        return
    if is_past(arguments):
        raise RequestRefused("this server keeps no output of earlier attempts")
    pods = [*target.pods] if target.job is None else await pods_of(client, target.job)
    named = [pod for pod in pods if arguments.pod in ("", pod.metadata.name)]
    if pods and not named:
        names = ", ".join(pod.metadata.name for pod in pods)
        raise RequestRefused(f"{target.text} has no pod {arguments.pod}; it has {names}")
    if not any(map(_has_begun, pods)):
        raise _nothing(target, "has printed nothing" if pods else "has no pods")
    await _print(client, [pod for pod in named if _has_begun(pod)], query_of(arguments), out)


def _nothing(target: JobTarget, what: str) -> RequestRefused:
    state = state_of(target, time.time())
    why = f": {state.reason}" if state.reason else ""
    return RequestRefused(f"{target.text} {what}, it is {state.status}{why}")


async def _print_array(
    client: Client, members: list[Job], arguments: argparse.Namespace, out: Out
) -> None:
    """What all jobs of an array have printed, each line with whose it is."""
    for job in members:
        called = short_text(job.metadata)
        if runs := await runs_of(client, job.metadata):
            chosen = chosen_runs(job_text(job.metadata), runs, arguments)
            await print_runs(client, job.metadata, chosen, arguments, out, called=called)


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
