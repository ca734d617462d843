"""Schedules of CronJobs: five fields as in crontab(5), `@daily` and the like, `@every 90m`.

They mean what Kubernetes' parser makes of them. Of a day on which clocks are set, an hour that is
left out has no times, and one that comes twice has them twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from makeway.api.times import DurationError, parse_duration

YEARS_MAX = 5  # who has no time within so many years has none
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Name, lowest and highest value, and names of values, the first of which is the lowest.
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _WEEKDAYS),
)
_ZONE_PART = re.compile(r"(?!-)(?!\.{1,2}$)[A-Za-z.\-_0-9+]{1,14}", re.ASCII)


class ScheduleError(ValueError):
    """The text is no schedule; it says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Every:
    """So many seconds after the time before."""

    delay_s: int

    def next_after(self, seconds: float, _zone: ZoneInfo | None) -> float | None:
        return float(int(seconds) + self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    is_any_day: bool  # of the month: then weekdays alone count
    is_any_weekday: bool

    def next_after(self, seconds: float, zone: ZoneInfo | None) -> float | None:
        """The first time after this one; None: there is none. Without a zone, that of the machine.

        Costs a look at each day, and at each minute of those that match, up to the first time.
        """
        try:
            return self._next_after(seconds, zone)
        except (OverflowError, ValueError):  # beyond the years that a calendar has
            return None

    def _next_after(self, seconds: float, zone: ZoneInfo | None) -> float | None:
        minute = int(seconds) // 60 * 60 + 60
        first = _local(minute, zone).date()
        for number in range(366 * YEARS_MAX):
            day = first + timedelta(days=number)
            if not self._has_day(day):
                continue
            minute = max(minute, _midnight(day, zone))
            while (local := _local(minute, zone)).date() == day:
                if local.hour in self.hours and local.minute in self.minutes:
                    return float(minute)
                minute += 60
        return None

    def _has_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.is_any_day or self.is_any_weekday:
            return by_month and by_week
        return by_month or by_week


Schedule = Calendar | Every


def _local(seconds: float, zone: ZoneInfo | None) -> datetime:
    return datetime.fromtimestamp(seconds, zone)


def _midnight(day: date, zone: ZoneInfo | None) -> int:
    """The first minute of a day; where clocks leave midnight out, the one after."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) // 60 * 60


def parse_schedule(text: str) -> Schedule:
    words = text.split()
    if text.startswith("@every "):
        return _parse_every(text.removeprefix("@every ").strip())
    if text.startswith("@"):
        if text not in _WORDS:
            raise ScheduleError(f"{text} is not one of {', '.join(_WORDS)}, @every 1h30m")
        words = _WORDS[text].split()
    if len(words) != len(_FIELDS):
        raise ScheduleError(f"has {len(words)} fields and not 5: minute, hour, day, month, weekday")
    sets = [_parse_field(word, *field) for word, field in zip(words, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = sets
    return Calendar(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        is_any_day=any_day,
        is_any_weekday=any_weekday,
    )


def _parse_every(text: str) -> Every:
    try:
        delay_s = parse_duration(text)
    except DurationError:
        raise ScheduleError(f"{text!r} is not a duration such as 1h30m") from None
    return Every(max(int(delay_s), 1))


def _parse_field(
    text: str, name: str, lowest: int, highest: int, names: tuple[str, ...]
) -> tuple[frozenset[int], bool]:
    """Its values, and whether it says nothing: `*` without a step."""
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, name, ()) if slash else 1
        if not step:
            raise ScheduleError(f"the {name} {text} has a step of 0")
        if span in ("*", "?"):
            first, last = lowest, highest
            is_any = is_any or step == 1
        else:
            first, last = _ends(span, name, lowest, names)
            last = highest if slash and "-" not in span else last
        if not lowest <= first <= last <= highest:
            raise ScheduleError(f"the {name} {text} is not within {lowest} and {highest}")
        values.update(range(first, last + 1, step))
    return frozenset(values), is_any


def _ends(span: str, name: str, lowest: int, names: tuple[str, ...]) -> tuple[int, int]:
    first, dash, last = span.partition("-")
    start = _number(first, name, names, lowest)
    return start, _number(last, name, names, lowest) if dash else start


def _number(text: str, name: str, names: tuple[str, ...], lowest: int = 0) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + lowest
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise ScheduleError(f"the {name} {text!r} is not a number")
    return int(text)


def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of that name; None: there is none."""
    if not all(_ZONE_PART.fullmatch(part) for part in name.split("/")) or name.lower() == "local":
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # there is none, or the file is something else
        return None
