"""Tables for people, documents for programs: what `-o` chooses between."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.cli.terminal import Pen, pen_for

OUTPUTS = ("table", "wide", "json", "yaml", "name")
GAP = "   "


class Cell(NamedTuple):
    text: str
    style: str = ""  # a colour of the terminal's; empty for none


def add_output(parser: argparse.ArgumentParser, outputs: Sequence[str] = OUTPUTS) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=outputs,
        default=outputs[0],
        help=f"how to print (default: {outputs[0]})",
    )


def pen_of_output() -> Pen:
    return pen_for(sys.stdout.isatty(), sys.stdout.encoding, os.environ)


def print_table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Columns side by side; the last one is as wide as it likes."""
    pen = pen_of_output()
    lines = [[Cell(title) for title in head], *rows]
    widths = [max(len(line[column].text) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = zip(line, widths, strict=True)
        painted = [
            (pen.paint(text, style) if style else text) + " " * (width - len(text))
            for (text, style), width in cells
        ]
        print_safely(GAP.join(painted).rstrip())


def print_document(output: str, document: Mapping[str, Any]) -> None:
    if output == "yaml":
        from makeway.api.manifests import write_yaml

        print(write_yaml(dict(document)), end="")
    else:
        print(json.dumps(document, indent=2, default=str))


def print_safely(text: str) -> None:
    """What others have written may be more than this terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
