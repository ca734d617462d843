"""Two transcripts of one story side by side, and which of their differences are meant."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import fill
from typing import Any

import orjson

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "api-server.md"
BEGIN = "<!-- Made from tests/kube/differences.toml by `python -m tests.kube document`. -->"
END = "<!-- end -->"
WIDTH = 100
GOLDEN = HERE / "golden"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberate:
    """A difference that is meant: what it is called, why, and where it shows."""

    name: str
    reason: str
    places: tuple[str, ...]  # patterns of "story/step/path"

    def covers(self, place: str, *patterns: str) -> bool:
        """Whether a difference is at one of its places, or at those of `patterns` if given."""
        return any(fnmatchcase(place, pattern) for pattern in patterns or self.places)


@dataclass(frozen=True, slots=True)
class Difference:
    place: str
    real: Any
    embedded: Any

    def __str__(self) -> str:
        return f"{self.place}\n    real:     {self.real!r}\n    embedded: {self.embedded!r}"


ABSENT = "(absent)"


def read_deliberate() -> tuple[Deliberate, ...]:
    found = tomllib.loads((HERE / "differences.toml").read_text())["difference"]
    return tuple(
        Deliberate(name=d["name"], reason=" ".join(d["reason"].split()), places=tuple(d["places"]))
        for d in found
    )


def document_differences() -> str:
    """The list for docs/api-server.md."""
    texts = (f"- **{d.name}.** {d.reason}" for d in read_deliberate())
    return "\n".join(
        fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in texts
    )


def documented(page: str) -> str:
    """The page with the list between its marks as it has to be."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{document_differences()}\n{END}{tail}"


def read_golden(story: str) -> list[Document]:
    """The transcript recorded from a real server."""
    found: list[Document] = orjson.loads((GOLDEN / f"{story}.json").read_bytes())
    return found


def write_golden(story: str, transcript: Sequence[Document]) -> None:
    (GOLDEN / f"{story}.json").write_text(_laid_out(list(transcript)) + "\n")


def _laid_out(value: Any, depth: int = 0, lead: int = 0) -> str:
    """JSON in which everything that fits on a line is on one; `lead` is what stands before it."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if depth + lead + len(line) < WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        heads = [f"{json.dumps(key)}: " for key in sorted(value)]
        inner = [value[key] for key in sorted(value)]
    else:
        heads, inner = [""] * len(value), value
    pad = "\n" + " " * (depth + 1)
    items = [
        head + _laid_out(item, depth + 1, len(head))
        for head, item in zip(heads, inner, strict=True)
    ]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{pad}{f',{pad}'.join(items)}{pad[:-1]}{closing}"


def compare(story: str, real: Sequence[Document], embedded: Sequence[Document]) -> list[Difference]:
    found: list[Difference] = []
    steps = {step["step"]: step for step in embedded}
    for step in real:
        name = step["step"]
        other = steps.pop(name, None)
        place = f"{story}/{name}"
        if other is None:
            found.append(Difference(place, step, ABSENT))
        elif step.get("code") != other.get("code"):
            found.append(Difference(f"{place}/code", _outcome(step), _outcome(other)))
        else:
            found += _differing(place + "/", step, other)
    return found + [Difference(f"{story}/{name}", ABSENT, steps[name]) for name in steps]


def _outcome(step: Document) -> str:
    """An answer in one line, where all of it differs."""
    refused = step.get("refused") or {}
    words = [str(step.get("code")), refused.get("reason"), refused.get("message")]
    causes = (refused.get("details") or {}).get("causes") or ()
    return " ".join([*(str(word) for word in words if word), *map(str, causes)])


def _differing(place: str, real: Any, embedded: Any) -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(embedded, dict):
        for key in sorted({*real, *embedded}):
            inner = f"{place}.{key}" if not place.endswith("/") else f"{place}{key}"
            yield from _differing(inner, real.get(key, ABSENT), embedded.get(key, ABSENT))
    elif place.endswith(".details.causes") and _same_causes(real, embedded):
        return
    elif isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        for index, (one, other) in enumerate(zip(real, embedded, strict=True)):
            yield from _differing(f"{place}.{index}", one, other)
    elif real != embedded or type(real) is not type(embedded):
        yield Difference(place, real, embedded)


def _same_causes(real: Any, embedded: Any) -> bool:
    """Whether both blame the same fields, one of them perhaps the object around a field.

    The embedded server need not find all that is wrong, but nothing that isn't.
    """
    if not isinstance(real, list) or not isinstance(embedded, list) or not embedded:
        return False
    if not all(isinstance(cause, str) for cause in (*real, *embedded)):
        return False
    blamed = [_steps(cause) for cause in real]
    return all(
        any(one.startswith(other) or other.startswith(one) for other in blamed)
        for one in map(_steps, embedded)
    )


def _steps(path: str) -> str:
    """A path with dots only; empty for an object as a whole."""
    return path.replace("<nil>", "").replace("[", ".").replace("]", "")


def not_meant(
    differences: Sequence[Difference], deliberate: Sequence[Deliberate]
) -> list[Difference]:
    return [d for d in differences if not any(meant.covers(d.place) for meant in deliberate)]
