"""print what a job has printed; -f stays with it over evictions

Print the output of a job's pods. With several pods or containers, every line
begins with whose it is. With -f it goes on until the job ends: a job that is
evicted and admitted again goes on as other pods, and standard error tells how it
stands. Ctrl-C ends the following, not the job.

examples:
  makeway logs 12
  makeway logs -f @
  makeway logs train --tail 100 --pod train-x7k2p-0

exit codes:
  0  printed     1  no such job, or it has printed nothing yet     2  no server
"""

from __future__ import annotations

import argparse
import time

from makeway.api.batch import Pod
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.following import Follower, Printer, pods_of, streams_of
from makeway.cli.references import HELP, find_target
from makeway.cli.spans import span_of
from makeway.client import Client
from makeway.translate.job_state import state_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job ends, over evictions"
    )
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

    async def story(client: Client, namespace: str) -> int:
        target = await find_target(client, namespace, arguments.job)
        if target.job is None and not target.pods:
            raise RequestRefused(f"{target.text} belongs to no Job, and has no pods")
        if arguments.follow and target.job is not None:
            await Follower(client, target.job, query).run(pod=arguments.pod, tells_state=True)
            return 0
        if arguments.follow:
            raise UsageError("only a Job is followed; leave -f out, or use `kubectl logs -f`")
        pods = [*target.pods] if target.job is None else await pods_of(client, target.job)
        chosen = [pod for pod in pods if arguments.pod in ("", pod.metadata.name)]
        if pods and not chosen:
            names = ", ".join(pod.metadata.name for pod in pods)
            raise RequestRefused(f"{target.text} has no pod {arguments.pod}; it has {names}")
        if not any(map(_has_begun, pods)):
            state = state_of(target, time.time())
            why = f": {state.reason}" if state.reason else ""
            what = "has printed nothing" if pods else "has no pods"
            raise RequestRefused(f"{target.text} {what}, it is {state.status}{why}")
        await _print(client, [pod for pod in chosen if _has_begun(pod)], query)
        return 0

    return connect.converse(arguments, story, stays=arguments.follow, is_quick=True)


def _has_begun(pod: Pod) -> bool:
    return not pod.spec.scheduling_gates


async def _print(client: Client, pods: list[Pod], query: dict[str, str]) -> None:
    named = query.get("container", "")
    streams = [(pod.metadata, *stream) for pod in pods for stream in streams_of(pod, named)]
    printer = Printer(names_streams=len(streams) > 1)
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
