"""show who did what, for admins

Where a server serves all accounts of this machine: print the last lines of what was
written down, one for each write and for each look at Secrets and output: time,
account, verb, object, and the code of the answer.

examples:
  makeway audit
  makeway audit -n 1000 | jq -r 'select(.account == "bob")'

exit codes:
  0  printed     1  you are no admin     2  no such server here
"""

from __future__ import annotations

import argparse

from makeway.cli.token import ask_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--lines", type=int, default=100, help="how many (default: 100)")


def run(arguments: argparse.Namespace) -> int:
    print(ask_text("GET", f"/audit?lines={max(1, arguments.lines)}"), end="")
    return 0
