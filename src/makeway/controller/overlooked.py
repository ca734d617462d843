"""Who waits in line and was never told why: some of them are told each second.

The engine decides about heads alone, and parks those of equal shape with them. Whoever reads their
conditions still wants a reason. It is told once, late and in small numbers: a line may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from makeway.controller.statuses import StatusUpdate, waiting
from makeway.engine.model import WorkloadKey
from makeway.engine.view import View
from makeway.translate.words import in_line_text

TOLD_AFTER_S = 5.0
TOLD_EVERY_S = 1.0
TOLD_AT_ONCE_MAX = 50
LOOKED_AT_MAX = 500  # most of those who came have quota, or a reason, by the time that they are due


class Overlooked:
    def __init__(self, view: View) -> None:
        self._view = view
        self._due: dict[WorkloadKey, float] = {}  # in the order of time
        self._not_before = 0.0  # for all of them

    def add(self, key: WorkloadKey, now: float) -> None:
        self._due.setdefault(key, now + TOLD_AFTER_S)

    def discard(self, key: WorkloadKey) -> None:
        self._due.pop(key, None)

    def next_at(self) -> float | None:
        due = next(iter(self._due.values()), None)
        return None if due is None else max(due, self._not_before)

    def take(
        self, now: float, is_wanted: Callable[[WorkloadKey], bool]
    ) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
        """Those whose time has come, each once; a bounded number in each second."""
        if now < self._not_before:
            return
        told = 0
        for key, due in list(islice(self._due.items(), LOOKED_AT_MAX)):
            if due > now:
                return
            del self._due[key]
            if is_wanted(key):
                yield key, self.update_for(key)._replace(events=())
                told += 1
            if told == TOLD_AT_ONCE_MAX:
                self._not_before = now + TOLD_EVERY_S
                return

    def update_for(self, key: WorkloadKey) -> StatusUpdate:
        """Why somebody waits who is in line."""
        found = self._view.why_in_line(key)
        if found.reasons:
            return waiting(found.reasons, False)
        return waiting((), False, in_line_text(found.queue, found.behind))
