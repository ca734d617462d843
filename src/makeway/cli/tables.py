"""Tables for people, documents for programs: what `-o` chooses between."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.cli.terminal import Pen, pen_for

OUTPUTS = ("table", "wide", "json", "yaml", "name")
GAP = "   "
NARROW_GAP = "  "
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
    from wcwidth import wcswidth  # for other letters only

    width = wcswidth(text)
    return width if width >= 0 else len(text)  # what can't be printed has no width


def cut_to(text: str, width: int) -> str:
    """As much of a text as fits, with a mark where it was cut."""
    if width_of(text) <= width:
        return text
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return text + "…" if width > 0 else ""


def terminal_width() -> int | None:
    """How many columns the reader has; None: no terminal, so nothing needs to be cut."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


# --- tables that fit ---


class Column(NamedTuple):
    """A column of a table; in a narrow terminal it may be cut, or go."""

    title: str
    least: int = 0  # so narrow it may become; 0: it is never cut
    goes: int = 0  # who has the lowest goes first; 0: stays
    is_dull: bool = False  # goes before all others where it says the same in every line


Cells = Sequence[Sequence[Cell | str]]


def fitted(columns: Sequence[Column], rows: Cells, width: int | None) -> list[list[Cell | str]]:
    """Head and rows, made to fit: columns that tell nothing go, names are cut, then others go."""
    head: list[Cell | str] = [column.title for column in columns]
    table = [head, *(list(row) for row in rows)]
    shown = list(range(len(columns)))

    def natural(index: int) -> int:
        return max(width_of(_text(row[index])) for row in table)

    widths = {index: natural(index) for index in shown}

    def excess() -> int:
        taken = sum(widths[index] for index in shown) + len(NARROW_GAP) * (len(shown) - 1)
        return 0 if width is None else max(0, taken - width)

    for index in [i for i in shown if columns[i].is_dull and excess()]:
        if excess() and len({_text(row[index]) for row in table[1:]}) == 1:
            shown.remove(index)
    _shrink(columns[:-1], shown, widths, excess)
    for index in sorted((i for i in shown if columns[i].goes), key=lambda i: columns[i].goes):
        if excess() and widths[shown[-1]] - excess() < columns[shown[-1]].least:
            shown.remove(index)
    _shrink(columns, shown, widths, excess)
    return [[_cut(row[index], widths[index]) for index in shown] for row in table]


def _shrink(
    columns: Sequence[Column], shown: list[int], widths: dict[int, int], excess: Callable[[], int]
) -> None:
    """Take from the widest of those that may be cut, as long as there is too much."""
    while excess():
        able = [i for i in shown if i < len(columns) and 0 < columns[i].least < widths[i]]
        if not able:
            return
        widths[max(able, key=lambda i: widths[i])] -= 1


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def _cut(cell: Cell | str, width: int) -> Cell | str:
    if isinstance(cell, str):
        return cut_to(cell, width)
    return cell._replace(text=cut_to(cell.text, width))


def print_fitted(columns: Sequence[Column], rows: Cells) -> None:
    table = fitted(columns, rows, terminal_width())
    for line in aligned(table, gap=NARROW_GAP, pen=pen_of_output()):
        print_safely(line)


def print_document(output: str, document: Mapping[str, Any]) -> None:
    if output == "yaml":
        from makeway.api.manifests import write_yaml

        print(write_yaml(dict(document)), end="")
    else:
        print(json.dumps(document, indent=2, default=str))


def print_sentence(line: str) -> None:
    """As wide as the terminal; a line of a list goes on under its text, not under its mark."""
    width = terminal_width()
    if width is None or width_of(line) <= width:
        print_safely(line)
        return
    from textwrap import wrap  # for long lines only

    indent = line[: len(line) - len(line.lstrip())]
    hanging = indent + ("  " if line.lstrip().startswith("- ") else "")
    for part in wrap(line, max(20, width), subsequent_indent=hanging, break_on_hyphens=False):
        print_safely(part)


def print_safely(text: str) -> None:
    """What others have written may be more than this terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
