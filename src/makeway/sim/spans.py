"""Spans of time in few characters."""

from __future__ import annotations


def short_span(seconds: float) -> str:
    """`0s`, `450ms`, `45.2s`, `12.5m`, `3.4h`, `2.1d`: three digits, so that columns compare."""
    if seconds == 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    for size, unit, most in ((1, "s", 100), (60, "m", 100), (3600, "h", 100)):
        if seconds / size < most:
            return f"{_one_digit(seconds / size)}{unit}"
    return f"{_one_digit(seconds / 86400)}d"


def _one_digit(value: float) -> str:
    """As the page of a report has it: of all halves that are exact, only this one would go down."""
    return f"{value + 0.01 if value % 1 == 0.25 else value:.1f}"
