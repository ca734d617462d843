import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.times import (
    DurationError,
    TimeError,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-15T12:00:00Z", 1768478400.0),
        ("2026-01-15T12:00:00.250000Z", 1768478400.25),
        ("2026-01-15T12:00:00.123456789Z", 1768478400.123456789),
        ("2026-01-15T14:00:00+02:00", 1768478400.0),
        ("2026-01-15T09:30:00-02:30", 1768478400.0),
    ],
)
def test_a_point_in_time_is_seconds_since_1970(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-01-15", "2026-01-15T12:00:00", "2026-02-30T00:00:00Z",
     "2026-01-15T25:00:00Z", "20260115T120000Z", "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_what_is_no_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(TimeError):
        parse_time(text)


@given(st.integers(0, 4 * 10**15))
def test_microseconds_survive_writing_and_reading(microseconds: int) -> None:
    assert round(parse_time(format_time(microseconds / 1e6)) * 1e6) == microseconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("90s", 90), ("300ms", 0.3), ("0", 0),
     ("-5s", -5), ("1h0m0s", 3600), ("2h45m30.5s", 9930.5)],
)  # fmt: skip
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "1d", "ten", "-", "1h-5m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "1m30s"), (600, "10m"), (5400, "1h30m"), (0.25, "0.25s"), (-5, "-5s")],
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**9))
def test_milliseconds_survive_writing_and_reading(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds)
