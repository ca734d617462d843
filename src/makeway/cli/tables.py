"""Tables for people, documents for programs: what `-o` chooses between."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

from makeway.cli.terminal import Pen, pen_for

OUTPUTS = ("table", "wide", "json", "yaml", "name")
GAP = "   "
PLAIN = Pen()


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


def print_table(head: Sequence[str], rows: Iterable[Sequence[Cell | str]]) -> None:
    for line in aligned([head, *rows], pen=pen_of_output()):
        print_safely(line)


def aligned(
    rows: Sequence[Sequence[Cell | str]],
    *,
    gap: str = GAP,
    are_numbers: bool = False,
    pen: Pen = PLAIN,
) -> Iterator[str]:
    """Rows as lines with columns side by side; numbers are flush right but for the first column."""
    table = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(width_of(cell.text) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        cells = []
        for index, ((text, style), width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - width_of(text))
            painted = pen.paint(text, style) if style else text
            cells.append(space + painted if are_numbers and index else painted + space)
        yield gap.join(cells).rstrip()


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian characters two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text)


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
