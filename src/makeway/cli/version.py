"""print the version of Makeway and of the Python it runs on

Print the version of Makeway and of the Python it runs on, and whether its engine is compiled
or pure Python.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.metadata import version
from importlib.util import find_spec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="how to print (default: text)",
    )


def run(arguments: argparse.Namespace) -> int:
    makeway, python = version("makeway"), platform.python_version()
    engine = "compiled" if is_engine_compiled() else "pure Python"
    if arguments.output == "json":
        print(json.dumps({"makeway": makeway, "python": python, "engine": engine}, indent=2))
    else:
        print(f"makeway {makeway} (Python {python}, {engine} engine)")
    return 0


def is_engine_compiled() -> bool:
    """Looks where the engine would be loaded from; loading it takes longer than the command."""
    package = find_spec("makeway.engine")
    assert package is not None, "Makeway has no engine"
    cycle = PathFinder.find_spec("makeway.engine.cycle", package.submodule_search_locations)
    assert cycle is not None, "the engine has no cycle"
    return str(cycle.origin).endswith(tuple(EXTENSION_SUFFIXES))
