"""Logs: one record is one line of fields, for people or for programs."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway import logs
from makeway.logs import Fields, Limit, TextLines

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


def test_one_place_warns_so_often_and_says_later_how_much_was_kept_back() -> None:
    clock = [100.0]
    limit = Limit(lambda: clock[0])

    def warned(level: int = logging.WARNING, line: int = 7) -> logging.LogRecord | None:
        record = logging.LogRecord("x", level, "/a.py", line, "text", None, None)
        return record if limit.filter(record) else None

    assert sum(warned() is not None for _ in range(100)) == 30
    assert warned(line=8) is not None  # another place has its own
    assert all(warned(logging.INFO) for _ in range(100))  # what we decide is told whole
    clock[0] += 10
    record = warned()
    assert record is not None
    assert "kept_back=70" in TextLines().format(record)


def test_a_log_that_is_long_is_put_aside_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "makeway.log"
    script = (
        "import logging, os, sys\n"
        "from makeway import logs\n"
        "from pathlib import Path\n"
        "logs.FILE_MAX_BYTES, logs.FILES_KEPT = 2000, 2\n"
        f"logs.set_up('info', 'text', path=Path({str(path)!r}))\n"
        "for n in range(200): logging.info('line %d', n)\n"
        "os.write(2, b'last words\\n')\n"
    )
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", script], stdout=file, stderr=file, check=True)

    assert sorted(one.name for one in tmp_path.iterdir()) == [
        *("makeway.log", "makeway.log.1", "makeway.log.2")
    ]
    assert all(one.stat().st_size <= 2000 for one in tmp_path.iterdir())
    assert path.read_text().splitlines()[-2:] == [
        *(line for line in path.read_text().splitlines() if "line 199" in line),
        "last words",
    ]
