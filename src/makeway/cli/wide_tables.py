"""Tables of many figures, and sentences, as a terminal has room for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from makeway.cli.tables import NARROW_GAP as GAP
from makeway.cli.tables import aligned, cut_to, print_safely, terminal_width, width_of

LEAST_NAME = 8
NAME_MOST = 20  # characters of a name beside a part of a table
WIDEST, USUAL = 100, 80  # of sentences: at most, and where there is no terminal
HYPHENATED = {
    "turnaround": "turn- around",
    "slowdown": "slow- down",
    "PREEMPTED": "PRE- EMPTED",
}
Rows = Sequence[Sequence[str]]


def print_wide_table(
    head: Sequence[str],
    rows: Rows,
    *,
    beside: int = 1,
    together: int = 1,
    beside_least: int = 0,
    indent: str = "  ",
    are_numbers: bool = True,
) -> None:
    """Where it is too wide for the terminal, heads of columns stand in several lines.

    If that does not suffice it is folded: `beside` columns stand beside each part, and `together`
    of the others are not torn apart. Before that those beside are cut, if they are names, which
    `beside_least` characters suffice to tell; else as far as no part would fit beside them. Numbers
    are flush right, but for the first column.
    """

    def lines(rows: Rows) -> list[str]:
        found = aligned(rows, gap=GAP, are_numbers=are_numbers)
        return [f"{indent}{line}".rstrip() for line in found]

    width = terminal_width()
    parts = [lines([head, *rows])]
    if width is not None and _width_of(parts[0]) > width:
        columns, room = _columns_with_stacked_heads(head, rows), width - len(indent)
        names, others = columns[:beside], columns[beside:]
        groups = [others[i : i + together] for i in range(0, len(others), together)]
        if beside_least:
            names = _cut(names, _room_for(columns) - room, beside_least)
        names = _cut(names, max(_room_for([*names, *group]) for group in groups) - room, LEAST_NAME)
        parts = [
            [line for line in lines([*zip(*part, strict=True)]) if line]
            for part in _folded(names, groups, room)
        ]
    print_safely("\n\n".join("\n".join(part) for part in parts))


Columns = list[Sequence[str]]


def _folded(beside: Columns, groups: Sequence[Columns], room: int) -> Iterator[Columns]:
    """As many columns side by side as there is room for."""
    shown = beside
    for more in groups:
        if shown != beside and _room_for([*shown, *more]) > room:
            yield shown
            shown = beside
        shown = [*shown, *more]
    yield shown


def _cut(names: Columns, excess: int, least: int) -> Columns:
    """Take from the widest, as long as there is too much; if all that is in vain, a little."""
    if not names:
        return names
    widths = [max(map(width_of, column)) for column in names]
    spare = sum(max(0, width - least) for width in widths)
    most = least if spare >= excess else NAME_MOST
    while excess > 0 and max(widths) > most:
        widths[widths.index(max(widths))] -= 1
        excess -= 1
    return [
        [cut_to(cell, width) for cell in column]
        for column, width in zip(names, widths, strict=True)
    ]


def _room_for(columns: Columns) -> int:
    return _width_of([*aligned([*zip(*columns, strict=True)], gap=GAP)])


def _width_of(lines: Sequence[str]) -> int:
    return max(map(width_of, lines))


def _columns_with_stacked_heads(head: Sequence[str], rows: Rows) -> Columns:
    stacked = []
    for title, *cells in zip(head, *rows, strict=True):
        words = HYPHENATED.get(title, title.replace("-HOURS", "- HOURS"))
        room = max(map(width_of, (*cells, *words.split())), default=1)
        stacked.append(wrap(words, max(1, room), break_on_hyphens=False))
    height = max(map(len, stacked))
    columns = zip(*rows, strict=True) if rows else ((),) * len(head)
    return [
        (*[""] * (height - len(title)), *title, *cells)
        for title, cells in zip(stacked, columns, strict=True)
    ]


def print_wrapped(text: str, indent: str = "", hanging: str = "") -> None:
    """In lines that are easy to read; those after the first are indented as `hanging` says."""
    width = min(WIDEST, terminal_width() or USUAL)
    for line in wrap(
        text,
        max(20, width),
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
        break_long_words=False,
    ):
        print(line)
