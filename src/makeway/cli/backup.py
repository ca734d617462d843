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
import shutil
from pathlib import Path

from makeway.api.errors import in_words
from makeway.cli import connect
from makeway.cli.command import UsageError
from makeway.cli.down import holder_of
from makeway.client import Client
from makeway.client.folder import default_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("to", metavar="DIR", type=Path, help="a folder that doesn't exist yet")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.data_dir or default_folder()
    try:
        to: Path = arguments.to.resolve()
        to.mkdir(mode=0o700)
    except (OSError, ValueError) as error:  # a name with a null byte
        why = in_words(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"can't make {str(arguments.to)!r}: {why}") from None
    is_copied = False
    try:
        code = _copy(arguments, folder, to)
        is_copied = code == 0
    except OSError as error:
        raise UsageError(f"can't copy {folder} to {to}: {in_words(error)}") from None
    finally:
        if not is_copied:  # half a backup is none
            shutil.rmtree(to, ignore_errors=True)
    if is_copied:
        print(f"{folder} is copied to {to}; what jobs printed and wrote is not")
    return code


def _copy(arguments: argparse.Namespace, folder: Path, to: Path) -> int:
    from makeway.embedded.copies import copy_data, copy_identity
    from makeway.embedded.settings import CannotServe

    async def ask(client: Client, namespace: str) -> int:
        await client.backup(str(to / "makeway.db"))
        return 0

    copy_identity(folder, to)
    if holder_of(folder) is not None:
        return connect.converse(arguments, ask)
    try:
        copy_data(folder, to)
    except CannotServe as error:
        raise UsageError(str(error)) from None
    return 0
