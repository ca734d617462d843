"""How long: as people write it in options, and as tables show it."""

from __future__ import annotations

from makeway.api.times import DurationError, parse_duration
from makeway.cli.command import UsageError

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def span_of(option: str, text: str) -> float:
    """Seconds; `2d` is understood as well, which Go's durations lack."""
    try:
        if text.endswith("d") and text[:-1].isdecimal() and len(text) < 8:
            return int(text[:-1]) * 86400.0
        seconds = parse_duration(f"{text}s" if text.isdecimal() else text)
    except DurationError:
        raise UsageError(f"{option} {text}: write for example 90s, 10m, 1h30m or 2d") from None
    if seconds < 0:
        raise UsageError(f"{option} {text}: is negative")
    return seconds


def span_text(seconds: float | None) -> str:
    """`45s`, `10m5s`, `1h30m`: the two largest units that are not zero; nothing for None."""
    if seconds is None:
        return ""
    left = max(0, int(seconds))
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
