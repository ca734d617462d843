"""One line per decision and one per cycle that did something: fields, not prose."""

from __future__ import annotations

import logging
from typing import assert_never

from makeway.engine.decisions import (
    Admit,
    Cycle,
    Deactivate,
    Decision,
    Evict,
    Preempt,
    Requeue,
    Reserve,
    StartOver,
    Wait,
)
from makeway.engine.model import Assignment
from makeway.engine.view import View
from makeway.translate.categories import waiting_word

log = logging.getLogger("makeway.admission")


def log_cycle(cycle: Cycle) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    done = [decision for decision in cycle.decisions if _does_something(decision)]
    if done:
        log.info(
            "cycle=%d heads=%d admitted=%d preempting=%d evicted=%d",
            cycle.number,
            len(cycle.order),
            sum(isinstance(decision, Admit) for decision in done),
            sum(isinstance(decision, Preempt) for decision in done),
            sum(isinstance(decision, Evict | Deactivate) for decision in done),
        )


def _does_something(decision: Decision) -> bool:
    match decision:
        case Wait():
            return False
        case Preempt():  # else it only goes on waiting for those who are leaving already
            return any(victim.is_new for victim in decision.victims)
        case _:
            return True


def log_decision(decision: Decision, view: View, now: float) -> None:
    """Who waits is told at debug level: a queue that is full says so in every cycle."""
    level = logging.INFO if _does_something(decision) else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    match decision:
        case Admit() | Reserve():
            log.log(
                level,
                "workload=%s decision=%s queue=%s flavors=%s borrows=%s waited_s=%.0f",
                decision.workload,
                "admit" if isinstance(decision, Admit) else "reserve",
                decision.queue,
                _flavors(decision.assignment),
                "yes" if decision.is_borrowing else "no",
                decision.waited_s,
            )
        case Preempt():
            log.log(
                level,
                "workload=%s decision=preempt queue=%s victims=%d names=%s waited_s=%.0f",
                decision.preemptor,
                decision.queue,
                len(decision.victims),
                ",".join(victim.workload for victim in decision.victims),
                now - view[decision.preemptor].queued_at,
            )
        case Wait():
            log.log(
                level,
                "workload=%s decision=wait queue=%s reason=%s waited_s=%.0f",
                decision.workload,
                decision.queue,
                waiting_word(decision.reasons),
                now - view[decision.workload].queued_at,
            )
        case Evict() | Deactivate():
            log.log(
                level,
                "workload=%s decision=%s queue=%s reason=%s",
                decision.workload,
                "evict" if isinstance(decision, Evict) else "deactivate",
                decision.queue,
                decision.reason.value,
            )
        case Requeue():
            log.log(
                level, "workload=%s decision=requeue queue=%s", decision.workload, decision.queue
            )
        case StartOver():
            log.log(
                level,
                "workload=%s decision=start-over queue=%s requeues=%d",
                decision.workload,
                decision.queue,
                decision.requeue_count,
            )
        case _:
            assert_never(decision)


def _flavors(assignment: Assignment) -> str:
    return ",".join(assignment.flavors())
