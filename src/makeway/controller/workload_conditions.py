"""The conditions of a Workload while they are brought up to date; words and reasons are Kueue's."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.client.client import Document
from makeway.controller.conditions import with_condition, without_condition
from makeway.controller.statuses import (
    ADMITTED,
    EVICTED,
    PODS_READY,
    PREEMPTED,
    REQUEUED,
    RESERVED,
)
from makeway.engine.model import EvictionReason
from makeway.translate import messages
from makeway.translate.categories import Category
from makeway.translate.words import deactivated_text
from makeway.translate.workloads import PREEMPTOR, TO_DEACTIVATE

_DEACTIVATED = EvictionReason.DEACTIVATED.value
# How somebody comes back into line that waited for more than its pods to be gone.
_RETURNS = {
    EvictionReason.QUEUE_STOPPED.value: ("ClusterQueueRestarted", messages.QUEUE_RESTARTED),
    EvictionReason.LOCAL_QUEUE_STOPPED.value: (
        "LocalQueueRestarted",
        messages.LOCAL_QUEUE_RESTARTED,
    ),
}
_BACKED_OFF = "BackoffFinished", messages.BACKOFF_FINISHED


class WorkloadConditions:
    def __init__(self, conditions: Iterable[Document], generation: int | None, now: float) -> None:
        self.all = list(conditions)
        self._generation, self._now = generation, now

    def tell(self, type: str, status: str, reason: str, message: str) -> None:
        told = status, reason, message
        self.all = with_condition(self.all, type, *told, self._now, self._generation)

    def find(self, type: str, status: str) -> Document | None:
        """The condition of a type, if it has this status."""
        found = (c for c in self.all if c.get("type") == type and c.get("status") == status)
        return next(found, None)

    # What follows

    def begin(self, *, is_new: bool) -> None:
        """It holds quota: what was true of an earlier stay is not true of this one."""
        self.come_back()
        for type in (EVICTED, PREEMPTED, PREEMPTOR):
            past = self.find(type, "True")
            if past is not None:
                message = messages.PREVIOUSLY.format(past.get("message", ""))
                self.tell(type, "False", RESERVED, message)
        if is_new and any(c.get("type") == PODS_READY for c in self.all):
            self.all = without_condition(self.all, PODS_READY)
            self.tell(PODS_READY, "False", "WaitForStart", messages.NOT_READY)
        self.all = without_condition(self.all, TO_DEACTIVATE)

    def leave(self) -> None:
        """It is told to stop, and is not in line."""
        evicted = self.find(EVICTED, "True")
        if evicted is not None:
            self.tell(REQUEUED, "False", evicted["reason"], evicted.get("message", ""))

    def release(self, *, is_active: bool, backs_off: bool) -> None:
        """It has given its quota back."""
        evicted = self.find(EVICTED, "True")
        if self.find(RESERVED, "True") is not None:
            why = "" if evicted is None else evicted.get("message", "")
            if is_active:
                self.tell(RESERVED, "False", Category.TURN.word, why)
            else:
                self.tell(RESERVED, "False", _DEACTIVATED, deactivated_text(""))
            if evicted is not None:
                self._tell_requeued(evicted, is_active and not backs_off)
        if self.find(ADMITTED, "True") is not None:
            self.tell(ADMITTED, "False", "NoReservation", messages.NO_RESERVATION)

    def _tell_requeued(self, evicted: Document, may_be_in_line: bool) -> None:
        reason, message = evicted["reason"], evicted.get("message", "")
        if not may_be_in_line or reason in _RETURNS:
            self.tell(REQUEUED, "False", reason, message)
        elif reason == PREEMPTED:
            self.tell(REQUEUED, "True", reason, message)
        else:
            self.tell(REQUEUED, "True", *_BACKED_OFF)

    def come_back(self) -> None:
        """It is in line, if it was not before."""
        away = self.find(REQUEUED, "False")
        if away is None:
            return
        if away["reason"].startswith(_DEACTIVATED):
            self.tell(REQUEUED, "True", "Reactivated", messages.REACTIVATED)
        else:
            self.tell(REQUEUED, "True", *_RETURNS.get(away["reason"], _BACKED_OFF))

    def note_preemptor(self, is_preemptor: bool) -> None:
        """Who finds this after a restart keeps the place for it that its victims free, or not."""
        if (self.find(PREEMPTOR, "True") is not None) == is_preemptor:
            return
        waits = self.find(RESERVED, "False")
        word = Category.TURN.word if waits is None else waits["reason"]
        message = messages.OTHERS_MAKE_WAY if is_preemptor else messages.NOBODY_MAKES_WAY
        self.tell(PREEMPTOR, str(is_preemptor), word, message)
