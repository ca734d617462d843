"""see what a job prints from now on, and type into it if it reads

Join a job that runs: what it prints from now on comes here, and where its container
has `stdin: true` what is typed here goes there; one with `tty: true` has this
terminal. Ctrl-C leaves a job without a terminal, and the job goes on. `makeway logs -f` shows what
it has printed before, too; `makeway exec` opens a shell beside it.

A job of `makeway run` can't be attached to: its terminal is where that was typed.

examples:
  makeway attach 12
  makeway attach pod/console

exit codes:
  0  the job's container has ended     1  no such job, or it doesn't run
  2  wrong usage, no server            130  after Ctrl-C
"""

from __future__ import annotations

import argparse

from makeway.cli import connect, joining
from makeway.cli.command import RequestRefused
from makeway.cli.references import HELP
from makeway.client import Client

HANDOVER = "makeway.cli.handover"  # what `makeway run` begins a job with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    joining.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        chosen = {"pod": arguments.pod, "container": arguments.container}
        place = await joining.find_place(client, namespace, arguments.job, **chosen)
        written = place.written
        if HANDOVER in (written.get("command") or ()):
            raise RequestRefused(
                f"{arguments.job} has the terminal of its `makeway run`; `makeway exec "
                f"{arguments.job}` opens a shell beside it"
            )
        is_terminal = bool(written.get("tty")) and joining.has_terminal()
        has_input = bool(written.get("stdin"))
        pairs = joining.pairs_of(place, is_terminal=is_terminal, has_input=has_input)
        async with joining.joined(arguments, place.call("attach", pairs)) as line:
            pairing = joining.Pairing(line, is_terminal=is_terminal, has_input=has_input)
            return await pairing.until_over()

    return connect.converse(arguments, story)
