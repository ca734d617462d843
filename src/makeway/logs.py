"""Logs as lines of fields, for people (`text`) or programs (`json`). One record is one line.

We log with the standard library, and give `Fields` for a message. What others log is shown under
`message`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from time import gmtime, strftime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

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


def set_up(level: str, format: str, stream: TextIO | None = None) -> None:
    """Log everything from this level on to `stream`; None: standard error."""
    assert level in LEVELS, level
    assert format in FORMATS, format
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


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
