"""What stands in the fields of a trace: times, spans, counts, in the spellings people have."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil, isfinite

from makeway.api.quantity import QuantityError, parse_nanos
from makeway.api.times import DurationError, parse_duration
from makeway.sim.trace_jobs import CPUS, MEMORY

_DAYS = re.compile(r"([0-9.]+)d(.*)", re.ASCII)
ABSENT_WORDS = frozenset(
    {"", "-1", "unknown", "none", "null", "nan", "n/a", "na", "unlimited", "partition_limit"}
)
LAST_S = 253_402_300_800.0  # the year 10000
_SEPARATORS = re.compile(r"[|;,:\s]+")


class Unreadable(ValueError):
    """The text is not what the field should hold; its words go on after the value."""


def is_absent(text: str) -> bool:
    return text.strip().lower() in ABSENT_WORDS


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unreadable("is not a number") from None
    if not isfinite(value):
        raise Unreadable("is not a number")
    return value


def moment(text: str) -> tuple[float, bool]:
    """Seconds, and whether they are a date (True) or a number, perhaps from some start."""
    try:
        value = float(text)
    except ValueError:
        pass
    else:
        if not isfinite(value):
            raise Unreadable("is not a time")
        return value, False
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = "is not a time; write seconds or 2024-05-01T12:00:00"
        raise Unreadable(problem) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return found.timestamp(), True


def span_s(text: str) -> float:
    """`90`, `1m30s`, `2d12h`, `00:01:30` or `2-00:01:30` (days first, as Slurm has it)."""
    try:
        return number(text)
    except Unreadable:
        pass
    if with_days := _DAYS.fullmatch(text.strip()):
        return number(with_days[1]) * 86_400 + (span_s(with_days[2]) if with_days[2] else 0.0)
    if ":" in text:
        days, _, clock = text.rpartition("-")
        parts = [number(part) for part in clock.split(":")]
        seconds = 0.0
        for part in parts:
            seconds = seconds * 60 + part
        return seconds + (number(days) * 86_400 if days else 0.0)
    try:
        return parse_duration(text.strip())
    except DurationError:
        raise Unreadable("is not a span of time; write seconds, 1h30m or 01:30:00") from None


def amount(word: str, text: str, factor: float = 1.0) -> int:
    """In the smallest unit: thousandths of CPUs, bytes of memory, whole GPUs (rounded up)."""
    if word == MEMORY:
        return ceil(_memory_bytes(text) * factor)
    value = number(text) * factor
    if word in (CPUS, "cpu"):
        return round(value * 1000)
    return ceil(value - 1e-9)


def _memory_bytes(text: str) -> float:
    """Bytes, a Kubernetes quantity, or Slurm's `16G`, `4000Mn`, `2Gc`."""
    try:
        return parse_nanos(text.strip().rstrip("nc")) / 10**9
    except QuantityError:
        raise Unreadable("is not an amount of memory; write bytes, 16Gi or 4000M") from None


def names(text: str) -> tuple[str, ...]:
    """`a|b`, `a;b`, `a b`; of Slurm's `afterok:12:13` the numbers."""
    words = _SEPARATORS.split(text.strip())
    return tuple(w for w in words if w and not w.startswith("after") and w != "singleton")


def flavor_names(text: str) -> tuple[str, ...]:
    """`V100M16|V100M32`; of Slurm's `cpu=8,gres/gpu:a100=2` the type."""
    if "=" not in text:
        return names(text)
    parts = (part.partition("=")[0] for part in text.split(","))
    typed = (part.removeprefix("gres/gpu:") for part in parts if part.startswith("gres/gpu:"))
    return tuple(dict.fromkeys(typed))


def gpus_in_tres(text: str) -> int:
    """`billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2`: the total, else the sum of the types.

    `gpu:2` and `gpu:tesla:2`, as Slurm's database has it, are read as well.
    """
    total, typed = 0, 0
    for part in text.split(","):
        if part.startswith("gpu:"):
            typed += int(number(part.rpartition(":")[2].partition("(")[0]))
            continue
        name, _, value = part.partition("=")
        if name == "gres/gpu":
            total = int(number(value))
        elif name.startswith("gres/gpu:"):
            typed += int(number(value))
    return total or typed
