"""open the dashboard in a browser, signed in

Open the pages of `makeway up` in a browser: the machine, queues, jobs, and why each of
them waits. The address has a code that works once, within a minute; the page gets a
session of its own for it, which is good for nothing but the dashboard. With a job, its
page is opened. The server listens on this machine alone; from another one, forward its
port with ssh -L and open the address that --print shows.

examples:
  makeway dashboard
  makeway dashboard 12
  makeway dashboard --print

exit codes:
  0  opened or printed     1  the server has no dashboard, no such job     2  no server
"""

from __future__ import annotations

import argparse
import sys
import webbrowser

from makeway.cli import connect
from makeway.cli.references import HELP, find_target
from makeway.client import Client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help=HELP)
    parser.add_argument(
        "--print", action="store_true", dest="only_prints", help="print the address, open nothing"
    )
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        page = "/"
        if arguments.job is not None:
            target = await find_target(client, namespace, arguments.job)
            page = f"/jobs/{target.kind}/{target.namespace}/{target.name}"
        invitation = await client.invitation()
        address = f"{invitation['address']}{page}#{invitation['code']}"
        print(address, flush=True)
        if not arguments.only_prints and sys.stdout.isatty():
            webbrowser.open(address)
        return 0

    return connect.converse(arguments, story)
