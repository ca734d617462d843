"""copy the data of this machine's Makeway, consistently, while it runs

Copy everything that Makeway knows into a new folder: the database, as it is at
one moment, and the identity, so that kubeconfigs stay good. It may run meanwhile.
What jobs print and write is not copied. To go back to a backup, stop Makeway and
start it on a copy of that folder.

examples:
  makeway backup /mnt/backups/monday
  makeway check --data-dir /mnt/backups/monday
  makeway down && makeway up --data-dir /mnt/backups/monday

exit codes:
  0  copied     1  refused     2  wrong usage, the folder exists
"""

from __future__ import annotations

import argparse
from pathlib import Path

from makeway.api.errors import in_words
from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.down import holder_of
from makeway.client import Client
from makeway.client.kubeconfig import default_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("to", metavar="DIR", type=Path, help="a folder that doesn't exist yet")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from makeway.embedded import CannotServe, copy_data, copy_identity

    folder: Path = arguments.data_dir or default_folder()
    to: Path = arguments.to.resolve()

    async def ask(client: Client, namespace: str) -> int:
        await client.backup(str(to / "makeway.db"))
        return 0

    try:
        to.mkdir(mode=0o700)
        copy_identity(folder, to)
        if holder_of(folder) is not None:
            code = connect.converse(arguments, ask)
        else:
            copy_data(folder, to)
            code = 0
    except CannotServe as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"can't copy {folder} to {to}: {in_words(error)}") from None
    if code == 0:
        print(f"{folder} is copied to {to}; what jobs printed and wrote is not")
    return code
