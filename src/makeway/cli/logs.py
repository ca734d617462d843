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

from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.plain import HELP, plain_job
from makeway.cli.runs import Out, chosen_runs, is_past, print_runs, query_of, runs_of, to_stdout
from makeway.client import Client
from makeway.translate.job_names import job_text


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
    query_of(arguments)  # what is wrong is told before anybody is asked
    if arguments.follow and arguments.previous:
        raise UsageError("--previous has ended and can't be followed")

    if arguments.follow and is_past(arguments):
        raise UsageError("-f follows the job as it is; leave out --attempt and --all-attempts")

    async def story(client: Client, namespace: str) -> int:
        if arguments.follow:
            from makeway.cli.any_output import follow  # needs a loop; what is there doesn't

            await follow(client, namespace, arguments)
        else:
            await print_output(client, namespace, arguments)
        return 0

    return connect.converse(arguments, story, stays=arguments.follow, is_quick=True)


async def print_output(
    client: Client, namespace: str, arguments: argparse.Namespace, out: Out = to_stdout
) -> None:
    """What is there by now."""
    job = await plain_job(client, namespace, arguments.job)
    runs = None if job is None else await runs_of(client, job)
    if job is not None and runs:
        await print_runs(client, job, chosen_runs(job_text(job), runs, arguments), arguments, out)
        return
    from makeway.cli.any_output import print_any

    await print_any(client, namespace, arguments, out)
