"""What `makeway top` shows and what its keys do: values in, values out, no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from makeway.api.devices import format_indexes
from makeway.cli.job_table import COLUMNS, HEAD, Row, reason_text
from makeway.cli.tables import NARROW_GAP, Cell, cut_to, fitted, width_of

KEYS = "q quit  / filter  s sort  e explain  l log  c cancel  arrows choose"
TEXT_KEYS = "q back  arrows scroll"
_ORDER = {"running": 0, "evicting": 1, "admitted": 2, "reserved": 3, "pending": 4, "held": 5}

Line = list[Cell]
SORTS: Mapping[str, Callable[[Row], Any]] = {
    "status": lambda row: (_ORDER.get(row["status"], 9), row["createdAt"]),
    "age": lambda row: row["createdAt"],
    "user": lambda row: (row["submittedBy"] or "", row["createdAt"]),
    "gpus": lambda row: (-row["gpus"], row["createdAt"]),
    "priority": lambda row: (-(row["priority"] or 0), row["createdAt"]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What the server said last."""

    rows: Sequence[Row] = ()
    gpus: Sequence[Mapping[str, Any]] = ()
    error: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where the user is: which job is chosen, what is typed, which text is read."""

    news: News = field(default_factory=News)
    chosen: str = ""  # the key of a job; empty: the first
    sort: str = "status"
    filter: str = ""
    is_typing: bool = False  # the filter
    to_cancel: str = ""  # asked about; empty: nothing
    text: tuple[str, ...] | None = None  # read in place of the list
    offset: int = 0  # of the text
    said: str = ""  # what became of the last key


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a key asks to be done outside of the screen."""

    verb: str  # explain, log, cancel or quit
    key: str = ""


def key_of(row: Row) -> str:
    return f"{row['namespace']}/{row['name']}"


def shown_rows(screen: Screen) -> list[Row]:
    wanted = screen.filter.lower()
    rows = [row for row in screen.news.rows if wanted in _searched(row)]
    return sorted(rows, key=SORTS[screen.sort])


def _searched(row: Row) -> str:
    parts = (row["id"], row["name"], row["submittedBy"], row["queue"], row["status"])
    return " ".join(str(part or "") for part in (*parts, reason_text(row))).lower()


def chosen_index(screen: Screen, rows: Sequence[Row]) -> int:
    keys = [key_of(row) for row in rows]
    return keys.index(screen.chosen) if screen.chosen in keys else 0


# --- keys ---


def pressed(screen: Screen, key: str, height: int) -> tuple[Screen, Wish | None]:
    """The screen after a key, and what has to be done for it; keys have names such as `up`."""
    screen = replace(screen, said="")
    if screen.to_cancel:
        wish = Wish(verb="cancel", key=screen.to_cancel) if key == "y" else None
        return replace(screen, to_cancel=""), wish
    if screen.is_typing:
        return _typed(screen, key), None
    if screen.text is not None:
        return _read(screen, key, height), None
    return _in_list(screen, key, height)


def _typed(screen: Screen, key: str) -> Screen:
    if key in ("enter", "escape"):
        kept = screen.filter if key == "enter" else ""
        return replace(screen, is_typing=False, filter=kept)
    if key == "backspace":
        return replace(screen, filter=screen.filter[:-1])
    return replace(screen, filter=screen.filter + key) if len(key) == 1 else screen


def _read(screen: Screen, key: str, height: int) -> Screen:
    assert screen.text is not None
    if key in ("q", "escape", "enter"):
        return replace(screen, text=None, offset=0)
    last = max(0, len(screen.text) - (height - 1))
    steps = {"up": -1, "down": 1, "page up": -(height - 2), "page down": height - 2}
    steps |= {"home": -last, "end": last}
    return replace(screen, offset=min(last, max(0, screen.offset + steps.get(key, 0))))


def _in_list(screen: Screen, key: str, height: int) -> tuple[Screen, Wish | None]:
    rows = shown_rows(screen)
    index = chosen_index(screen, rows)
    own = key_of(rows[index]) if rows else ""
    match key:
        case "q":
            return screen, Wish(verb="quit")
        case "/":
            return replace(screen, is_typing=True, filter=""), None
        case "escape":
            return replace(screen, filter=""), None
        case "s":
            names = list(SORTS)
            return replace(screen, sort=names[(names.index(screen.sort) + 1) % len(names)]), None
        case "e" | "enter" if own:
            return screen, Wish(verb="explain", key=own)
        case "l" if own:
            return screen, Wish(verb="log", key=own)
        case "c" if own:
            return replace(screen, to_cancel=own), None
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -(height - 6)}
    steps |= {"page down": height - 6, "home": -len(rows), "end": len(rows)}
    new = min(len(rows) - 1, max(0, index + steps.get(key, 0)))
    return (replace(screen, chosen=key_of(rows[new])) if rows else screen), None


# --- drawing ---


def drawn(screen: Screen, width: int, height: int) -> list[Line]:
    """As many lines as the terminal has, none wider than it."""
    if screen.text is not None:
        body = [[Cell(line)] for line in screen.text[screen.offset : screen.offset + height - 1]]
        lines, foot = body, TEXT_KEYS
    else:
        lines, foot = [*_header(screen), *_table(screen, width, height - 4)], _foot(screen)
    empty: list[Line] = [[] for _ in range(height - 1 - len(lines))]
    return [_within(line, width) for line in [*lines[: height - 1], *empty, [Cell(foot, "bold")]]]


def _header(screen: Screen) -> list[Line]:
    news = screen.news
    counts: dict[str, int] = {}
    for row in news.rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    told = "  ".join(f"{count} {status}" for status, count in counts.items()) or "no jobs"
    clock = time.strftime("%H:%M:%S", time.localtime(news.at)) if news.at else ""
    narrowed = f"  filter: {screen.filter}" if screen.filter else ""
    first = f"makeway {clock}  {told}  by {screen.sort}{narrowed}"
    second = Cell(news.error, "red") if news.error else Cell(_gpu_line(news.gpus))
    return [[Cell(first, "bold")], [second], []]


def _gpu_line(gpus: Sequence[Mapping[str, Any]]) -> str:
    """`GPUs 0-2 ann, 3 drained, 4-7 free`: neighbours of one holder together."""
    if not gpus:
        return ""
    groups: list[tuple[tuple[str, str], list[Any]]] = []
    for gpu in gpus:
        who = gpu["user"] or gpu["name"] or gpu["why"] or "free"
        if not groups or groups[-1][0] != (gpu["node"], who):
            groups.append(((gpu["node"], who), []))
        groups[-1][1].append(gpu["id"])
    nodes = {gpu["node"] for gpu in gpus}
    texts = [
        f"{f'{node}:' if len(nodes) > 1 else ''}{format_indexes(ids)} {who}"
        for (node, who), ids in groups
    ]
    used = sum(gpu["state"] == "held" for gpu in gpus)
    return f"GPUs {used} of {len(gpus)}: {', '.join(texts)}"


def _table(screen: Screen, width: int, height: int) -> list[Line]:
    rows = shown_rows(screen)
    named = [COLUMNS[title] for title in HEAD]
    table = fitted(
        [column for column, _ in named], [[cell(row) for _, cell in named] for row in rows], width
    )
    widths = [max(width_of(_text(cell)) for cell in column) for column in zip(*table, strict=True)]
    index = chosen_index(screen, rows)
    first = max(0, index - (height - 2))
    lines: list[Line] = [_padded(table[0], widths, "dim")]
    for number, cells in enumerate(table[1:][first : first + height - 1], first):
        style = "reverse" if number == index else ""
        lines.append(_padded(cells, widths, style))
    return lines


def _padded(cells: Sequence[Cell | str], widths: Sequence[int], style: str) -> Line:
    line: Line = []
    for cell, width in zip(cells, widths, strict=True):
        text = _text(cell) + " " * (width - width_of(_text(cell)))
        own = "" if isinstance(cell, str) else cell.style
        line += [Cell(NARROW_GAP, style)] * bool(line) + [Cell(text, style or own)]
    return line


def _foot(screen: Screen) -> str:
    if screen.to_cancel:
        return f"cancel {screen.to_cancel}? y: yes, any other key: no"
    if screen.is_typing:
        return f"filter: {screen.filter}_  (Enter keeps it, Esc drops it)"
    return screen.said or KEYS


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def _within(line: Line, width: int) -> Line:
    cut: Line = []
    for cell in line:
        if width <= 0:
            break
        cut.append(cell._replace(text=cut_to(cell.text, width)))
        width -= width_of(cut[-1].text)
    return cut
