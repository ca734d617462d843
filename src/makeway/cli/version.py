"""`makeway version`"""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version

from makeway.cli.command import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(arguments: argparse.Namespace) -> int:
    print(f"makeway {version('makeway')} (Python {platform.python_version()})")
    return 0


COMMAND = Command(
    name="version",
    summary="print the version of Makeway and of the Python it runs on",
    description="Print the version of Makeway and of the Python it runs on.",
    examples="",
    add_arguments=add_arguments,
    run=run,
)
