"""Python's look-out for garbage in cycles, which a simulation hardly makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN_LOOKS = 100_000  # that are made and not dropped again; Python's own is 700


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Have Python look seldom: every few looks go through all that the simulation remembers."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], OBJECTS_BETWEEN_LOOKS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
