"""Virtual time: what will happen, and when."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

HappeningT = TypeVar("HappeningT")


class Agenda(Generic[HappeningT]):
    """Happenings by time; those of the same moment in the order in which they were planned."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HappeningT]] = []
        self._serial = 0

    def plan(self, at: float, happening: HappeningT) -> None:
        self._serial += 1
        heappush(self._heap, (at, self._serial, happening))

    @property
    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    @property
    def first(self) -> HappeningT | None:
        return self._heap[0][2] if self._heap else None

    def drop_first(self) -> None:
        heappop(self._heap)

    def take(self, now: float) -> HappeningT | None:
        """The next happening that is due; None when nothing is."""
        if not self._heap or self._heap[0][0] > now:
            return None
        return heappop(self._heap)[2]
