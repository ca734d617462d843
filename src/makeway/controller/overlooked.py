"""Who waits in line and was never told why: some of them are told each second.

The engine decides about heads alone, and parks those of equal shape with them. Whoever reads their
conditions still wants a reason. It is told once, late and in small numbers: a line may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from weakref import WeakKeyDictionary

from makeway.controller.statuses import StatusUpdate, waiting
from makeway.engine.decisions import Reason, Wait
from makeway.engine.entry import Entry, Shape
from makeway.engine.model import QueueName, Strategy, WorkloadKey
from makeway.engine.state import ClusterState
from makeway.translate.words import in_line_text

TOLD_AFTER_S = 5.0
TOLD_EVERY_S = 1.0
TOLD_AT_ONCE_MAX = 50
LOOKED_AT_MAX = 500  # most of those who came have quota, or a reason, by the time that they are due


class Overlooked:
    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._due: dict[WorkloadKey, float] = {}  # in the order of time
        self._not_before = 0.0  # for all of them
        self._reasons: WeakKeyDictionary[Shape, tuple[QueueName, tuple[Reason, ...]]]
        self._reasons = WeakKeyDictionary()

    def add(self, key: WorkloadKey, now: float) -> None:
        self._due.setdefault(key, now + TOLD_AFTER_S)

    def discard(self, key: WorkloadKey) -> None:
        self._due.pop(key, None)

    def next_at(self) -> float | None:
        due = next(iter(self._due.values()), None)
        return None if due is None else max(due, self._not_before)

    def take(
        self, now: float, is_wanted: Callable[[Entry], bool]
    ) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
        """Those whose time has come, each once; a bounded number in each second."""
        if now < self._not_before:
            return
        told = 0
        for key, due in list(islice(self._due.items(), LOOKED_AT_MAX)):
            if due > now:
                return
            del self._due[key]
            entry = self._state.entries.get(key)
            if entry is not None and is_wanted(entry):
                yield key, self.update_for(entry)._replace(events=())
                told += 1
            if told == TOLD_AT_ONCE_MAX:
                self._not_before = now + TOLD_EVERY_S
                return

    def remember(self, wait: Wait) -> None:
        """What keeps the head of a class waiting keeps all of it waiting."""
        entry = self._state.entries[wait.workload]
        if entry.shape.is_shared and entry.place is not None and not wait.is_preemptor:
            self._reasons[entry.shape] = wait.queue, wait.reasons

    def update_for(self, entry: Entry) -> StatusUpdate:
        """Why somebody waits who is in line."""
        queue = None if entry.queue is None else self._state.queues.get(entry.queue)
        assert queue is not None, f"{entry.workload.key} is in no line"
        head = queue.pending.head()
        is_behind = head is not None and head is not entry
        if not (is_behind and queue.spec.strategy is Strategy.STRICT_FIFO):
            name, reasons = self._reasons.get(entry.shape, (None, ()))
            if name == entry.queue:
                return waiting(reasons, False)
        before = head.workload.key if head is not None and is_behind else None
        return waiting((), False, in_line_text(queue.spec.name, before))
