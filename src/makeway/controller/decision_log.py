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
from makeway.logs import Fields
from makeway.translate.categories import waiting_word

log = logging.getLogger("makeway.admission")


def log_cycle(cycle: Cycle) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    done = [decision for decision in cycle.decisions if _does_something(decision)]
    if done:
        log.info(
            Fields(
                cycle=cycle.number,
                heads=len(cycle.order),
                admitted=sum(isinstance(decision, Admit) for decision in done),
                preempting=sum(isinstance(decision, Preempt) for decision in done),
                evicted=sum(isinstance(decision, Evict | Deactivate) for decision in done),
            )
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
    log.log(level, _fields_of(decision, view, now))


def _fields_of(decision: Decision, view: View, now: float) -> Fields:
    match decision:
        case Admit() | Reserve():
            return Fields(
                workload=decision.workload,
                decision="admit" if isinstance(decision, Admit) else "reserve",
                queue=decision.queue,
                flavors=_flavors(decision.assignment),
                borrows="yes" if decision.is_borrowing else "no",
                waited_s=round(decision.waited_s),
            )
        case Preempt():
            return Fields(
                workload=decision.preemptor,
                decision="preempt",
                queue=decision.queue,
                victims=len(decision.victims),
                names=",".join(victim.workload for victim in decision.victims),
                waited_s=round(now - view[decision.preemptor].queued_at),
            )
        case Wait():
            return Fields(
                workload=decision.workload,
                decision="wait",
                queue=decision.queue,
                reason=waiting_word(decision.reasons),
                waited_s=round(now - view[decision.workload].queued_at),
            )
        case Evict() | Deactivate():
            return Fields(
                workload=decision.workload,
                decision="evict" if isinstance(decision, Evict) else "deactivate",
                queue=decision.queue,
                reason=decision.reason.value,
            )
        case Requeue():
            return Fields(workload=decision.workload, decision="requeue", queue=decision.queue)
        case StartOver():
            return Fields(
                workload=decision.workload,
                decision="start-over",
                queue=decision.queue,
                requeues=decision.requeue_count,
            )
        case _:
            assert_never(decision)


def _flavors(assignment: Assignment) -> str:
    return ",".join(assignment.flavors())
