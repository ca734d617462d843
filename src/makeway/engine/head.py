"""The first of a queue in one cycle."""

from __future__ import annotations

from makeway.engine.decisions import HeadMode, HeadOutcome, HeadResult, Reason
from makeway.engine.entry import NOTHING, Entry
from makeway.engine.flavors import Mode
from makeway.engine.model import Amounts
from makeway.engine.nominate import Found
from makeway.engine.tree import QueueState


class Head:
    """Who it is, what was found for it, and what became of it."""

    __slots__ = (
        "awaits_leaving",
        "entry",
        "has_flavors_left",
        "held_before",
        "mode",
        "nomination",
        "queue",
        "rank",
        "reasons",
        "result",
        "shares_fate",
        "victims",
    )

    def __init__(self, entry: Entry, queue: QueueState, found: Found) -> None:
        self.entry = entry
        self.queue = queue
        self.mode = HeadMode.NO_FIT
        self.result = HeadResult.NO_FIT
        self.has_flavors_left = False  # its search for flavors stopped early
        self.held_before: Amounts = NOTHING  # by its queue, before victims are taken for it
        self.shares_fate = False  # whoever is of its shape would be held back as well
        self.take(found)
        self.rank = (
            found.nomination.borrow_level,
            -entry.workload.priority,
            entry.order_time,
            entry.workload.uid,
            entry.serial,
        )

    def take(self, found: Found) -> None:
        self.nomination, self.victims, self.awaits_leaving = found
        self.reasons: tuple[Reason, ...] = tuple(found.nomination.reasons)

    @property
    def is_free(self) -> bool:
        """Whether all of its place is free, as it was nominated."""
        return self.nomination.mode is Mode.FIT and not self.nomination.contested

    def skip(self, reason: Reason) -> None:
        self.result = HeadResult.SKIPPED
        self.reasons = (reason, *self.reasons)

    def outcome(self) -> HeadOutcome:
        return HeadOutcome(
            self.entry.workload.key,
            self.queue.spec.name,
            self.mode,
            self.result,
            self.nomination.borrow_level,
            self.rank,
        )
