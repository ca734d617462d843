"""list the examples that come along, or print one

Print an example of queues and workloads, to read, to change, or to apply as it is.
Name it by its number or by any part of its name.

examples:
  makeway examples
  makeway examples one-machine > queues.yaml
  makeway examples 21 | makeway apply -f -

exit codes:
  0  printed     2  no such example
"""

from __future__ import annotations

import argparse
from importlib.resources import files

from makeway.cli.command import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="which one; none: list them")


def run(arguments: argparse.Namespace) -> int:
    texts = _texts()
    if arguments.name is None:
        width = max(map(len, texts))
        for name, text in texts.items():
            print(f"{name:{width}}  {text.splitlines()[0].removeprefix('# ')}")
        return 0
    found = [name for name in texts if arguments.name.removesuffix(".yaml") in name]
    if len(found) != 1:
        choice = ", ".join(found or texts)
        raise UsageError(f"{'which' if found else 'no'} example {arguments.name}: {choice}")
    print(texts[found[0]], end="")
    return 0


def _texts() -> dict[str, str]:
    """By name, without the ending."""
    found = (path for path in files("makeway").joinpath("examples").iterdir())
    texts = {path.name.removesuffix(".yaml"): path.read_text(encoding="utf-8") for path in found}
    return dict(sorted(texts.items()))
