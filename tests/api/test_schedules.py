"""Schedules of CronJobs: which time comes next, and what is no schedule."""

from zoneinfo import ZoneInfo

import pytest

from makeway.api.schedules import ScheduleError, parse_schedule, zone_of
from makeway.api.times import format_time, parse_time

NEW_YORK = ZoneInfo("America/New_York")


def following(text: str, after: str, zone: ZoneInfo | None = None) -> str:
    found = parse_schedule(text).next_after(parse_time(after), zone or ZoneInfo("UTC"))
    return "never" if found is None else format_time(found)


@pytest.mark.parametrize(
    ("text", "after", "coming"),
    [
        ("* * * * *", "2026-11-16T12:00:00Z", "2026-11-16T12:01:00Z"),
        ("* * * * *", "2026-11-16T12:00:59Z", "2026-11-16T12:01:00Z"),
        ("*/20 * * * *", "2026-11-16T12:40:00Z", "2026-11-16T13:00:00Z"),
        ("5/20 * * * *", "2026-11-16T12:25:00Z", "2026-11-16T12:45:00Z"),
        ("30 2 * * 1-5", "2026-11-13T03:00:00Z", "2026-11-16T02:30:00Z"),  # over a weekend
        ("0 6-16/4 * * mon", "2026-11-16T10:00:00Z", "2026-11-16T14:00:00Z"),
        ("0 0 1 jan,jul *", "2026-11-16T12:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 13 * fri", "2026-11-14T00:00:00Z", "2026-11-20T00:00:00Z"),  # either day
        ("0 0 13 * */2", "2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"),  # a step is no star
        ("0 0 13 * *", "2026-11-14T00:00:00Z", "2026-12-13T00:00:00Z"),
        ("0 0 29 2 ?", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 31 2 *", "2026-11-16T00:00:00Z", "never"),
        ("@hourly", "2026-11-16T12:00:00Z", "2026-11-16T13:00:00Z"),
        ("@weekly", "2026-11-16T12:00:00Z", "2026-11-22T00:00:00Z"),
        ("@every 90m", "2026-11-16T12:00:07Z", "2026-11-16T13:30:07Z"),
    ],
)
def test_the_next_time(text: str, after: str, coming: str) -> None:
    assert following(text, after) == coming


@pytest.mark.parametrize(
    ("text", "after", "coming"),
    [
        ("0 2 * * *", "2026-03-08T05:00:00Z", "2026-03-09T06:00:00Z"),  # 2:00 is left out
        ("0 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z"),  # 1:00 comes twice
        ("0 1 * * *", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
        ("0 1 * * *", "2026-11-01T06:00:00Z", "2026-11-02T06:00:00Z"),
    ],
)
def test_days_on_which_clocks_are_set(text: str, after: str, coming: str) -> None:
    assert following(text, after, NEW_YORK) == coming


def test_a_day_without_midnight_begins_later() -> None:
    """In Beirut clocks went from 0:00 to 1:00 on 28 March 2021, at 22:00 UTC of the day before."""
    beirut = ZoneInfo("Asia/Beirut")
    assert following("* * 28 3 *", "2021-03-26T00:00:00Z", beirut) == "2021-03-27T22:00:00Z"
    assert following("0 0 28 3 *", "2021-03-26T00:00:00Z", beirut) == "2022-03-27T21:00:00Z"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "has 4 fields and not 5"),
        ("60 * * * *", "the minute 60 is not within 0 and 59"),
        ("5-1 * * * *", "the minute 5-1 is not within"),
        ("*/0 * * * *", "a step of 0"),
        ("* * * foo *", "the month 'foo' is not a number"),
        ("* * * * 7", "the day of week 7 is not within 0 and 6"),
        ("@often", "@often is not one of @yearly"),
        ("@every day", "'day' is not a duration"),
    ],
)
def test_what_is_no_schedule(text: str, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        parse_schedule(text)


def test_zones_by_name() -> None:
    assert zone_of("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    for name in ("", "Local", "Nowhere/City", "../etc/passwd", "/UTC"):
        assert zone_of(name) is None, name
