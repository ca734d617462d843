"""Logs as lines of fields, for people (`text`) or programs (`json`). One record is one line.

A call like `log.info("workload=%s waited_s=%.0f", key, seconds)` is taken apart into its fields
before the values are put in, so a value with spaces stays one value. What is not written like
this, as by libraries, is shown under `message`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from time import gmtime, strftime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_FIELD = re.compile(r"(\w+)=(%[-#0-9.]*[a-zA-Z]|[^\s%]+)")
_NEEDS_QUOTES = re.compile(r"""[\s"=\\]|^$""")  # in a line of text

Value = str | int | float | bool | None


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
        words += [f"{name}={_text(value)}" for name, value in _fields(self, record)]
        return " ".join(words)


class JsonLines(logging.Formatter):
    """`{"ts": "2026-11-15T11:30:00.250Z", "level": "INFO", "logger": "makeway.admission", ...}`"""

    def format(self, record: logging.LogRecord) -> str:
        head = {"ts": _time(record), "level": record.levelname, "logger": record.name}
        return json.dumps({**head, **dict(_fields(self, record)), **head})


def _time(record: logging.LogRecord) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(record.created))}.{int(record.msecs):03}Z"


def _text(value: Value) -> str:
    """Quoted where it must be; what could move the cursor or end the line is escaped."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text.isprintable() and not _NEEDS_QUOTES.search(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> Iterator[tuple[str, Value]]:
    template = _template(record.msg) if isinstance(record.msg, str) else ()
    arguments = record.args if isinstance(record.args, tuple) else None
    if not template or arguments is None or len(arguments) != sum(f[1][0] == "%" for f in template):
        yield "message", record.getMessage()
    else:
        coming = iter(arguments)
        for name, shown in template:
            yield name, _value(shown, next(coming)) if shown[0] == "%" else shown
    if record.exc_info:
        yield "traceback", formatter.formatException(record.exc_info)
    if record.stack_info:
        yield "stack", formatter.formatStack(record.stack_info)


@lru_cache(maxsize=512)
def _template(message: str) -> tuple[tuple[str, str], ...]:
    """The fields of a message; none if it is not made of fields alone."""
    if _FIELD.sub("", message).strip():
        return ()
    return tuple((found[1], found[2]) for found in _FIELD.finditer(message))


def _value(conversion: str, argument: object) -> Value:
    """Numbers stay numbers, as exact as the conversion shows them."""
    text = conversion % (argument,)
    if isinstance(argument, float):
        return int(text) if text.lstrip("-").isdigit() else float(text)
    return argument if isinstance(argument, bool | int) else text
