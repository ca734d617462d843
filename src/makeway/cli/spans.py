"""How long: as people write it in options, and as tables show it."""

from __future__ import annotations

from makeway.api.times import DurationError, format_span, parse_duration
from makeway.cli.command import UsageError


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
    return "" if seconds is None else format_span(int(seconds)).replace(" ", "")
