"""print the version of Makeway and of the Python it runs on

Print the version of Makeway and of the Python it runs on.
"""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(arguments: argparse.Namespace) -> int:
    print(f"makeway {version('makeway')} (Python {platform.python_version()})")
    return 0
