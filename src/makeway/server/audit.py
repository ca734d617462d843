"""Who did what: a line for each write, and for each look at what is private.

No bodies and no tokens: time, account, verb, object and the code of the answer.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from makeway.api.times import format_time
from makeway.logs import RotatedFile
from makeway.server.access import Ask
from makeway.server.people import Person

FILE_MAX_BYTES, FILES_KEPT = 64 * 1024 * 1024, 4  # besides the one that is written to
LINES_MAX = 10_000  # in one answer
TOO_MANY = 429
_LOOKS = ("get", "list", "watch")
_PRIVATE = ("secrets", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "jobs/log")
_QUESTIONS = ("authentication.k8s.io", "authorization.k8s.io")  # which one asks about oneself


class Audit:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._file = RotatedFile(path, maxBytes=FILE_MAX_BYTES, backupCount=FILES_KEPT)

    def close(self) -> None:
        self._file.close()

    def note(self, person: Person, ask: Ask, code: int, name: str = "") -> None:
        """`name` where the request itself names no object."""
        if not is_noted(ask) or code == TOO_MANY:
            return  # who is refused for asking too much can't drown what others did
        line = {
            "time": format_time(int(self._clock())),
            "account": person.name,
            "uid": person.uid,
            "verb": ask.verb,
            "object": object_text(ask, name),
            "code": code,
        }
        self._file.handle(
            logging.LogRecord("makeway.audit", logging.INFO, "", 0, json.dumps(line), None, None)
        )

    def last(self, count: int) -> str:
        """The last so many lines, of the file before as well."""
        lines: deque[str] = deque(maxlen=min(count, LINES_MAX))
        for path in (self._path.with_name(f"{self._path.name}.1"), self._path):
            if path.exists():
                lines.extend(path.read_text(encoding="utf-8").splitlines(keepends=True))
        return "".join(lines)


def is_noted(ask: Ask) -> bool:
    if ask.group in _QUESTIONS:
        return False
    return ask.verb not in _LOOKS or ask.resource in _PRIVATE


def object_text(ask: Ask, name: str = "") -> str:
    """`jobs.batch ada/train`, or a path."""
    if ask.path:
        return ask.path
    kind = f"{ask.resource}.{ask.group}" if ask.group else ask.resource
    where = f"{ask.namespace}/" if ask.namespace else ""
    return f"{kind} {where}{ask.name or name}".rstrip()
