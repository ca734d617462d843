"""Points in time (RFC 3339) and durations (Go's "1h30m") to seconds and back."""

import re
from calendar import timegm
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,12})?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_DURATION_PART = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(ns|us|µs|μs|ms|s|m|h)", re.ASCII
)
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeError(ValueError):
    """The text is not a point in time."""


class DurationError(ValueError):
    """The text is not a duration."""


@lru_cache(maxsize=4096)  # conditions of many objects name the same seconds
def parse_time(text: str) -> float:
    """Return seconds since 1970; a float keeps microseconds until long after our time."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise TimeError(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        datetime(year, month, day, hour, minute, second)
    except ValueError as error:
        raise TimeError(text) from error
    seconds = float(timegm((year, month, day, hour, minute, second)))
    if match[7]:
        seconds += float("0" + match[7])
    if match[8]:
        offset_s = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= offset_s if match[8] == "+" else -offset_s
    return seconds


def format_time(seconds: float) -> str:
    """Write a point in time as Kubernetes does: whole seconds if they are, else microseconds."""
    moment = _EPOCH + timedelta(microseconds=round(seconds * 1e6))
    timespec = "microseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def in_whole_seconds(seconds: float) -> str:
    """The same for something that is still to come: no sooner than it says."""
    return format_time(ceil(seconds))


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as "10m", "1h30m", "1.5h" or "-5s"."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in "+-" else text
    if rest == "0":
        return 0.0
    if not rest:
        raise DurationError(text)
    seconds, position = 0.0, 0
    while position < len(rest):
        match = _DURATION_PART.match(rest, position)
        if match is None:
            raise DurationError(text)
        seconds += float(match[1]) * _UNIT_S[match[2]]
        position = match.end()
    return sign * round(seconds, 9)


def format_duration(seconds: float) -> str:
    """Write seconds as `1h30m`, leaving out what is zero."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    hours, rest = divmod(round(rest, 9), 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{hours:.0f}h" if hours else ""
    text += f"{minutes:.0f}m" if minutes else ""
    if rest or not text:
        text += f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    return sign + text


def format_span(seconds: float) -> str:
    """`45s`, `10m`, `1h 30m`: the two largest units that are not zero."""
    left = max(0, round(seconds))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def moment_text(at: float) -> str:
    """For people: by local time, to the second."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
