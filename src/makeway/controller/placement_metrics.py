"""Counts what placement does: how often it tries, how long that takes, and at whose expense."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import assert_never

from makeway.controller import metric_families as families
from makeway.controller.series import Counter, Histogram, Readings
from makeway.placement import decisions as dec
from makeway.placement.model import Unit

INCOMPLETE = (dec.WaitReason.GANG_MISSING, dec.WaitReason.MEMBERS_MISSING)


class PlacementMetrics:
    """Looks on as a `Placing` works."""

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self._timer = timer
        self._began_at = 0.0
        self._attempts = Counter(families.PLACEMENT_ATTEMPTS)
        self._duration = Histogram(families.PLACEMENT_DURATION)
        self._victims = Histogram(families.PLACEMENT_VICTIMS)
        self._highest: dict[str, int] = {}  # priority of a victim, in the last preemption

    def begins(self) -> None:
        self._began_at = self._timer()

    def ended(self, decisions: Sequence[dec.PlacementDecision]) -> None:
        self._duration.observe(self._timer() - self._began_at)
        for decision in decisions:
            self._attempts.add(*_attempt(decision))
            if isinstance(decision, dec.PreemptUnits) and decision.victims:
                kind = _kind(decision.preemptor)
                self._victims.observe(len(decision.pods), kind)
                self._highest[kind] = max(victim.priority for victim in decision.victims)

    def text(self) -> str:
        readings = Readings()
        for kind, priority in self._highest.items():
            readings.add(families.HIGHEST_VICTIM, priority, kind)
        series = self._attempts, self._duration, self._victims, readings
        return "".join(one.text() for one in series)


def _kind(unit: Unit) -> str:
    return "gang" if unit.is_gang else "pod"


def _attempt(decision: dec.PlacementDecision) -> tuple[str, str]:
    """What was to be placed, and what became of it."""
    match decision:
        case dec.BindPods():
            return _kind(decision.preemptor), "placed"
        case dec.PreemptUnits():
            return _kind(decision.preemptor), "preempting" if decision.victims else "waiting"
        case dec.WaitForNodes():
            outcome = "incomplete" if decision.reason in INCOMPLETE else "waiting"
            return _kind(decision.preemptor), outcome
        case dec.Unwind():
            return "gang", "unwound"
        case _:
            assert_never(decision)
