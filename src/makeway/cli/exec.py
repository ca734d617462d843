"""run a command where a job runs, or open a shell there

Run a command beside a job that runs: with its environment, working directory, limits
and GPUs, under the same account. Without a command it is a shell. On a terminal it has
that terminal; else standard input, output and error are passed on, each for itself.
It ends with the job's pod at the latest, and when this terminal goes away.

examples:
  makeway exec 12
  makeway exec 12 -- nvidia-smi
  makeway exec train --pod train-1-x7k2p -- py-spy dump --pid 4711
  makeway exec 12 -- tar cf - results > results.tar

exit codes:
  that of the command; 127 there is no such program, 126 it can't be run,
  1 no such job, or it doesn't run, 2 wrong usage, no server
"""

from __future__ import annotations

import argparse

from makeway.cli import connect, joining
from makeway.cli.references import HELP
from makeway.cli.suggesting import SuggestingParser
from makeway.client import Client

SHELL = ("sh", "-c", 'exec "${SHELL:-sh}"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help="(default: a shell)")
    assert isinstance(parser, SuggestingParser)
    parser.takes_command = True
    joining.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    command = arguments.words or SHELL
    is_terminal = joining.has_terminal()

    async def story(client: Client, namespace: str) -> int:
        chosen = {"pod": arguments.pod, "container": arguments.container}
        place = await joining.find_place(client, namespace, arguments.job, **chosen)
        pairs = joining.pairs_of(place, is_terminal=is_terminal)
        call = place.call("exec", (*pairs, *(("command", word) for word in command)))
        async with joining.joined(arguments, call) as line:
            return await joining.Pairing(line, is_terminal=is_terminal).until_over()

    return connect.converse(arguments, story)
