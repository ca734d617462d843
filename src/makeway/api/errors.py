"""What is wrong with a document, as data: where, what was written, and what would be right."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

VALUE_SHOWN_MAX = 60
_PATH_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


class _Absent:
    """Stands for "nothing was written", where null would be something."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with a field, in the order in which it is told."""

    path: str  # spec.resourceGroups[0].flavors[1].name; empty for the document as a whole
    value: object  # as written; ABSENT where nothing was
    problem: str  # goes on after the value: "is not a quantity"
    hint: str = ""  # what would be right: 'write a number such as 4, "500m" or "16Gi"'

    def __str__(self) -> str:
        value = "" if self.value is ABSENT else show(self.value) + " "
        head = f"{self.path}: " if self.path else ""
        tail = f"; {self.hint}" if self.hint else ""
        text = f"{head}{value}{self.problem}{tail}"
        # JSON may hold half of a surrogate pair, which no terminal can print.
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Something Makeway accepts and does not act on; silence about it would be a lie."""

    path: str  # empty when the kind itself is not supported
    what: str  # the ability that Makeway lacks: "topology-aware scheduling"

    @property
    def reason(self) -> str:
        """The word for conditions and answers."""
        return "UnsupportedField" if self.path else "UnsupportedKind"

    def __str__(self) -> str:
        head = f"{self.path}: " if self.path else ""
        return f"{head}accepted, but Makeway does not act on it ({self.what})"


def step_to(key: str) -> str:
    """The step of a path to a field or key; one with dots would read like several fields."""
    return f"[{key}]" if "." in key or "/" in key else f".{key}"


def steps_of(path: str) -> Iterator[tuple[str, int]]:
    """The keys and indexes on the way to a field, and where in the path each of them ends."""
    for step in _PATH_STEP.finditer(path):
        yield step[1] or step[2], step.end()


def show(value: object) -> str:
    """Render `value` as JSON, short enough for one line."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        text = f"<{type(value).__name__}>"
    if len(text) <= VALUE_SHOWN_MAX:
        return text
    return text[: VALUE_SHOWN_MAX - 1] + "…"


def one_of(choices: tuple[str, ...]) -> str:
    """`A, B or C`."""
    if len(choices) < 2:
        return "".join(choices)
    return ", ".join(choices[:-1]) + " or " + choices[-1]


def in_words(error: OSError | UnicodeDecodeError) -> str:
    """What went wrong with a file or a port, as the system calls it."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return (os.strerror(error.errno) if error.errno else str(error)).lower()
