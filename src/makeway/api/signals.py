"""Signals that a job wants before SIGTERM, as people write them: `USR1@120`."""

from __future__ import annotations

import signal
from typing import NamedTuple

_NOBODY_CATCHES = (signal.SIGKILL, signal.SIGSTOP)


class Warning(NamedTuple):
    number: int
    lead_s: int  # so long before SIGTERM


def parse_warning(text: str) -> Warning | None:
    """None if it is not understood, or names a signal that no program can wait for."""
    name, _, seconds = text.partition("@")
    found = signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    if found is None or found in _NOBODY_CATCHES:
        return None
    if not seconds.isdecimal() or not seconds.isascii() or len(seconds) > 6:
        return None
    return Warning(int(found), int(seconds))
