"""Colour and bars, where the output can show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_VERB_COLOURS = {
    "admitted": "green",
    "reserved": "green",
    "preempts": "yellow",
    "waits": "blue",
    "evicted": "red",
    "deactivated": "red",
    "requeued": "blue",
    "starts over": "blue",
    "submitted": "dim",
    "runs": "green",
    "finished": "green",
}


class Pen(NamedTuple):
    """How to write on this terminal, or file."""

    has_colour: bool = False
    has_blocks: bool = True  # False: plain ASCII for the bars

    def paint(self, text: str, *styles: str) -> str:
        if not self.has_colour:
            return text
        codes = ";".join(_CODES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def verb(self, verb: str) -> str:
        return self.paint(f"{verb:<12}", "bold", _VERB_COLOURS[verb])

    @property
    def glyphs(self) -> tuple[str, str, str]:
        """Of a bar: used of the own quota, borrowed, free of the own quota."""
        return ("█", "▒", "·") if self.has_blocks else ("#", "+", ".")

    def bar(self, own: int, borrowed: int, free: int) -> str:
        """One character per unit."""
        full, lent, empty = self.glyphs
        return (
            self.paint(full * own, "green") + self.paint(lent * borrowed, "yellow") + empty * free
        )


def pen_for(is_terminal: bool, encoding: str | None, environment: Mapping[str, str]) -> Pen:
    """Colour only on a terminal that wants it (see no-color.org)."""
    wants_colour = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    try:
        "█▒·".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return Pen(has_colour=is_terminal and wants_colour, has_blocks=False)
    return Pen(has_colour=is_terminal and wants_colour)
