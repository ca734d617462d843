"""Logs as lines of fields, for people (`text`) or programs (`json`). One record is one line.

We log with the standard library, and give `Fields` for a message. What others log is shown under
`message`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import gmtime, monotonic, strftime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

FILE_MAX_BYTES, FILES_KEPT = 10 * 1024 * 1024, 4  # besides the one that is written to
PLACE_MAX, PLACE_S = 30, 10.0  # warnings from one line of code, and in which time

Value = str | int | float | bool | None


class Fields:
    """A message made of fields: `log.info(Fields(workload=key, waited_s=41))`."""

    __slots__ = ("values",)

    def __init__(self, **values: object) -> None:
        """What is no text and no number is shown as text."""
        self.values: Mapping[str, Value] = {
            name: value if isinstance(value, Value) else str(value)
            for name, value in values.items()
        }

    def __str__(self) -> str:
        return _line(self.values)


def _line(fields: Mapping[str, Value]) -> str:
    return " ".join([f"{name}={_text(value)}" for name, value in fields.items()])


def set_up(level: str, format: str, stream: TextIO | None = None, path: Path | None = None) -> None:
    """Log everything from this level on to a file or to `stream`; None: standard error."""
    assert level in LEVELS, level
    assert format in FORMATS, format
    handler: logging.Handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    if path is not None:
        handler = RotatedFile(path, maxBytes=FILE_MAX_BYTES, backupCount=FILES_KEPT)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    handler.addFilter(Limit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class RotatedFile(RotatingFileHandler):
    """A log that is put aside when it is long; standard output and error follow, if they go there.

    Whoever ends with an error that nobody has caught says so on standard error.
    """

    def _open(self) -> TextIO:  # type: ignore[override]
        descriptor = os.open(self.baseFilename, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def doRollover(self) -> None:
        before = os.stat(self.baseFilename)
        super().doRollover()
        assert self.stream is not None
        for number in (1, 2):
            if os.path.samestat(os.fstat(number), before):
                os.dup2(self.stream.fileno(), number)


class Limit(logging.Filter):
    """Lets one line of code warn so often in a while, and says afterwards how much it kept back.

    What others cause, they can cause a thousand times a second.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], tuple[float, int]] = {}  # since when, how often

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place, now = (record.pathname, record.lineno), self._clock()
        since, count = self._places.get(place, (now, 0))
        if now - since >= PLACE_S:
            record.kept_back = max(0, count - PLACE_MAX)
            since, count = now, 0
        self._places[place] = since, count + 1
        return count < PLACE_MAX


class TextLines(logging.Formatter):
    """`2026-11-15T11:30:00.250Z INFO makeway.admission workload=lab/a decision=admit`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname, record.name]
        return " ".join([*words, _line(_fields(self, record))])


class JsonLines(logging.Formatter):
    """`{"ts": "2026-11-15T11:30:00.250Z", "level": "INFO", "logger": "makeway.admission", ...}`"""

    def format(self, record: logging.LogRecord) -> str:
        head = {"ts": _time(record), "level": record.levelname, "logger": record.name}
        return json.dumps({**head, **_fields(self, record), **head})


def _time(record: logging.LogRecord) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(record.created))}.{int(record.msecs):03}Z"


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Value]:
    message: object = record.msg
    fields: dict[str, Value] = {"message": record.getMessage()}
    if isinstance(message, Fields):
        fields = dict(message.values)
    if kept_back := getattr(record, "kept_back", 0):
        fields["kept_back"] = kept_back
    if record.exc_info:
        fields["traceback"] = formatter.formatException(record.exc_info)
    if record.stack_info:
        fields["stack"] = formatter.formatStack(record.stack_info)
    return fields


def _text(value: Value) -> str:
    """Quoted where it must be; what could move the cursor or end the line is escaped."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text and text.isprintable() and not any(sign in text for sign in ' "=\\'):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
