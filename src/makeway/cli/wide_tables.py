"""Tables of many figures, and sentences, as a terminal has room for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from makeway.cli.tables import aligned, terminal_width, width_of
from makeway.sim.report_tables import Table

WIDEST, USUAL = 100, 80  # of sentences: at most, and where there is no terminal
HYPHENATED = {"turnaround": "turn- around", "slowdown": "slow- down"}


def print_table(table: Table) -> None:
    """Where it is too wide for the terminal, heads of columns stand in several lines.

    If that does not suffice, columns go on below.
    """
    print_wrapped(table.title)
    width = terminal_width()
    parts = [_lines([table.columns, *table.rows])]
    if width is not None and _width_of(parts[0]) > width:
        parts = [*_folded(table, width)]
    print("\n\n".join("\n".join(lines) for lines in parts))


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"  {line}".rstrip() for line in aligned(rows, gap="  ", are_numbers=True)]


def _width_of(lines: Sequence[str]) -> int:
    return max(map(width_of, lines))


def _folded(table: Table, width: int) -> Iterator[list[str]]:
    """As many columns side by side as there is room for."""
    columns = _columns_with_stacked_heads(table)
    beside, others = columns[: table.beside], columns[table.beside :]
    shown = beside
    for start in range(0, len(others), table.together):
        more = others[start : start + table.together]
        if shown != beside and _width_of(_side_by_side([*shown, *more])) > width:
            yield _side_by_side(shown)
            shown = beside
        shown = [*shown, *more]
    yield _side_by_side(shown)


def _side_by_side(columns: Sequence[Sequence[str]]) -> list[str]:
    return _lines([*zip(*columns, strict=True)])


def _columns_with_stacked_heads(table: Table) -> list[Sequence[str]]:
    heads = []
    for head, *cells in zip(table.columns, *table.rows, strict=True):
        words = HYPHENATED.get(head, head)
        room = max(map(width_of, (*cells, *words.split())), default=1)
        heads.append(wrap(words, max(1, room), break_on_hyphens=False))
    height = max(map(len, heads))
    rows = zip(*table.rows, strict=True) if table.rows else ((),) * len(heads)
    return [
        (*[""] * (height - len(head)), *head, *cells)
        for head, cells in zip(heads, rows, strict=True)
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
