"""let another account look at your jobs

Where a server serves all accounts of this machine: let another account read what is
in your namespace (jobs with their commands, environment and output, queues, events;
not your Secrets), and take that back. Without a name: who may look now. To let others
run something as you is for admins only.

examples:
  makeway grant bob
  makeway grant
  makeway grant --revoke bob

exit codes:
  0  done     1  the server refused, no such account     2  no such server here
"""

from __future__ import annotations

import argparse
from urllib.parse import quote

from makeway.cli.token import ask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("accounts", metavar="ACCOUNT", nargs="*", help="who may look")
    parser.add_argument("--revoke", action="store_true", help="they may no longer")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.accounts:
        for account in ask("GET", "/grants")["items"]:
            print(account)
    for account in arguments.accounts:
        if arguments.revoke:
            ask("DELETE", f"/grants/{quote(account, safe='')}")
            print(f"{account} may no longer look at what is yours")
        else:
            ask("POST", "/grants", {"account": account})
            print(f"{account} may look at what is yours, not change it")
    return 0
