"""Logs: one record is one line of fields, for people or for programs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from makeway import logs
from makeway.logs import Fields

log = logging.getLogger("makeway.test")
HEAD = ("ts", "level", "logger")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def text() -> io.StringIO:
    stream = io.StringIO()
    logs.set_up("info", "text", stream)
    return stream


@pytest.fixture
def lines() -> io.StringIO:
    stream = io.StringIO()
    logs.set_up("debug", "json", stream)
    return stream


def fields(stream: io.StringIO) -> dict[str, object]:
    (line,) = stream.getvalue().splitlines()
    found: dict[str, object] = json.loads(line)
    assert tuple(found)[:3] == HEAD
    return {name: value for name, value in found.items() if name not in HEAD}


def test_a_line_for_people_has_time_level_logger_and_fields(text: io.StringIO) -> None:
    log.info(Fields(workload="lab/a", decision="preempt", victims=2, waited_s=round(41.2)))

    time, rest = text.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert len(time) == len("2026-11-15T11:30:00.250Z")
    assert rest == "INFO makeway.test workload=lab/a decision=preempt victims=2 waited_s=41\n"


def test_a_value_with_spaces_stays_one_value(text: io.StringIO) -> None:
    log.error(Fields(workload="lab/a", error=ValueError('no "such" thing')))

    assert text.getvalue().endswith(' workload=lab/a error="no \\"such\\" thing"\n')


def test_a_value_can_neither_end_the_line_nor_move_the_cursor(text: io.StringIO) -> None:
    log.info(Fields(name="a\nb\x1b[2J\u2028c"))

    assert text.getvalue().endswith('name="a\\nb\\u001b[2J\\u2028c"\n')


def test_numbers_stay_numbers_for_programs(lines: io.StringIO) -> None:
    log.info(Fields(workload="lab/a", victims=2, waited_s=41.3, is_borrowing=True))

    assert fields(lines) == {
        "workload": "lab/a",
        "victims": 2,
        "waited_s": 41.3,
        "is_borrowing": True,
    }


def test_what_others_log_is_shown_as_a_message(lines: io.StringIO) -> None:
    logging.getLogger("asyncio").warning("Executing %s took %.3f seconds", "it", 0.25)

    assert fields(lines) == {"message": "Executing it took 0.250 seconds"}


@pytest.mark.parametrize("format", logs.FORMATS)
def test_a_traceback_stays_in_its_line(format: str) -> None:
    stream = io.StringIO()
    logs.set_up("info", format, stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception(Fields(path="/api"))

    (line,) = stream.getvalue().splitlines()
    assert "Traceback (most recent call last)" in line
    assert "ValueError: two" in line


@pytest.mark.parametrize("message", ["problem=unreadable", "100% of it", "a=%s b=%d"])
def test_a_message_is_not_taken_apart(lines: io.StringIO, message: str) -> None:
    log.warning(message)

    assert fields(lines) == {"message": message}


def test_fields_read_as_text_where_no_line_of_ours_is_written() -> None:
    assert str(Fields(workload="lab/a", why="no room", victims=2, at=None)) == (
        'workload=lab/a why="no room" victims=2 at=null'
    )


def test_a_field_does_not_take_the_place_of_the_head(lines: io.StringIO) -> None:
    log.warning(Fields(level="low"))

    assert json.loads(lines.getvalue())["level"] == "WARNING"


def test_what_is_below_the_level_is_left_out(text: io.StringIO) -> None:
    log.debug(Fields(workload="lab/a", decision="wait"))

    assert text.getvalue() == ""
