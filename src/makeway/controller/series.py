"""Numbers over time, and Prometheus' text form (version 0.0.4) of them.

By hand: a scrape of a hundred queues has some twenty thousand lines, and what stands before the
number in each of them never changes. It is made once, so that a line costs little more than its
number.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, chain
from math import isinf, isnan
from typing import Generic, NamedTuple, TypeVar

Values = tuple[str, ...]  # of the labels, in their order


class Family(NamedTuple):
    """What is measured: a name, and the labels that tell one series of it from another."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, for a histogram

    @property
    def type(self) -> str:
        """Told by the name, as Prometheus wants names to be."""
        if self.buckets:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    def header(self) -> str:
        text = self.help.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {self.name} {text}\n# TYPE {self.name} {self.type}\n"

    def line(self, values: Values, suffix: str = "", *more: str) -> str:
        """A template of a line that lacks only its number, for the operator %."""
        pairs = zip(self.labels, values, strict=True)
        labels = ",".join((*(f'{name}="{_escaped(value)}"' for name, value in pairs), *more))
        head = f"{self.name}{suffix}{{{labels}}}" if labels else f"{self.name}{suffix}"
        return head.replace("%", "%%") + " %s\n"


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def number_text(number: float) -> str:
    if isinstance(number, int):
        return str(int(number))
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() else repr(number)


class _Count:
    """One series of a counter."""

    __slots__ = ("_line", "number")

    def __init__(self, family: Family, values: Values) -> None:
        self._line, self.number = family.line(values), 0

    def text(self) -> str:
        return self._line % self.number


class _Spread:
    """One series of a histogram."""

    __slots__ = ("_lines", "counts", "total")

    def __init__(self, family: Family, values: Values) -> None:
        self.counts = [0] * (len(family.buckets) + 1)  # between one bound and the next
        self.total = 0.0
        bounds = (*map(number_text, family.buckets), "+Inf")
        lines = [family.line(values, "_bucket", f'le="{bound}"') for bound in bounds]
        self._lines = "".join((*lines, family.line(values, "_sum"), family.line(values, "_count")))

    def text(self) -> str:
        below = tuple(accumulate(self.counts))
        return self._lines % (*below, number_text(self.total), below[-1])


One = TypeVar("One", _Count, _Spread)


class Series(Generic[One]):
    """All series of a family. `always` are the values of the last labels, the same for each."""

    _one: type[One]

    def __init__(self, family: Family, always: Values = ()) -> None:
        self.family, self._always = family, always
        self._series: dict[Values, One] = {}

    def _of(self, values: Values) -> One:
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = self._one(self.family, values + self._always)
        return found

    def forget(self, first: Values) -> None:
        """Drop every series whose values begin like this."""
        for values in [v for v in self._series if v[: len(first)] == first]:
            del self._series[values]

    def text(self) -> str:
        lines = "".join(one.text() for one in self._series.values())
        return self.family.header() + lines if lines else ""


class Counter(Series[_Count]):
    """Only grows."""

    _one = _Count

    def add(self, *values: str) -> None:
        self._of(values).number += 1


class Histogram(Series[_Spread]):
    """Counts values by size."""

    _one = _Spread

    def observe(self, value: float, *values: str) -> None:
        """A time below zero, as after a step of the wall clock, counts as none."""
        spread, value = self._of(values), max(value, 0.0)
        spread.counts[bisect_left(self.family.buckets, value)] += 1
        spread.total += value


class Readings:
    """Numbers read just now: gauges, and counters that somebody else keeps."""

    def __init__(self, always: Values = ()) -> None:
        self._always = always
        self._lines: dict[str, list[str]] = {}  # by family's name; the first is its header
        self._templates: dict[str, str] = {}

    def add(self, family: Family, number: float, *values: str) -> None:
        lines = self._lines.get(family.name)
        if lines is None:
            lines = self._lines[family.name] = [family.header()]
            always = dict(zip(reversed(family.labels), reversed(self._always), strict=False))
            pairs = (f'{name}="{always.get(name, "%s")}"' for name in family.labels)
            self._templates[family.name] = f"{family.name}{{{','.join(pairs)}}} %s\n"
        template = self._templates[family.name]
        lines.append(template % (*map(_escaped, values), number_text(number)))

    def text(self) -> str:
        return "".join(chain.from_iterable(self._lines.values()))
