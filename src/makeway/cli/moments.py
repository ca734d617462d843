"""Points in time: as people write them in options, and as commands print them."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from makeway.api.times import TimeError, parse_time
from makeway.cli.command import UsageError
from makeway.cli.spans import span_of

HELP = (
    "a time such as 14:05, 'yesterday 14:05', '2h ago', '2026-03-01 14:05' or 2026-03-01T14:05:00Z"
)
SINCE_HELP = "so long ago, as in 24h or 7d, or since a time such as yesterday or 2026-03-01"
UNTIL_HELP = (
    "until a time such as 14:05, yesterday or 2026-04-01, when that day begins (default: now)"
)
AGO = " ago"
_DAY = re.compile(r"today|yesterday|\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = re.compile(
    r"(?:(today|yesterday|\d{4}-\d\d-\d\d)[ T])?(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII
)


def beginning_of(option: str, text: str, now: float) -> float:
    """Seconds since 1970 of something that lasts: so long ago, or since a time."""
    if text[:1].isdigit() and not set(text) & set("-:") and not text.endswith(AGO):
        return now - span_of(option, text)
    try:
        return edge_of(option, text, now)
    except UsageError:
        raise UsageError(f"{option} {text}: write {SINCE_HELP}") from None


def edge_of(option: str, text: str, now: float) -> float:
    """A moment; a day is meant from its beginning."""
    return moment_of(option, f"{text} 00:00" if _DAY.fullmatch(text) else text, now)


def moment_of(option: str, text: str, now: float | None = None) -> float:
    """Seconds since 1970. Without a date, the last time that it was so late; by local time."""
    now = time.time() if now is None else now
    try:
        return parse_time(text)
    except TimeError:
        pass
    if text.endswith(AGO):
        return now - span_of(option, text.removesuffix(AGO))
    found = _CLOCK.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        day, hour, minute, second = found.groups()
        today = datetime.fromtimestamp(now)
        at = today.replace(
            hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0
        )
        if day == "yesterday":
            at -= timedelta(days=1)
        elif day and day != "today":
            date = datetime.fromisoformat(day)
            at = at.replace(year=date.year, month=date.month, day=date.day)
        elif not day and at > today:
            at -= timedelta(days=1)
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {text}: write {HELP}") from None
    return at.timestamp()
