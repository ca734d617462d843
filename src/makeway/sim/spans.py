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
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds / 86400:.1f}d"
