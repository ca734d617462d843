"""One line per decision and one per cycle that did something: fields, not prose."""

from __future__ import annotations

import logging
from math import ceil
from typing import assert_never

from makeway.api.times import format_time
from makeway.engine import decisions as dec
from makeway.engine.view import View
from makeway.logs import Fields
from makeway.translate.categories import waiting_word

log = logging.getLogger("makeway.admission")


def log_cycle(cycle: dec.Cycle) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    done = [decision for decision in cycle.decisions if _does_something(decision)]
    if done:
        log.info(
            Fields(
                cycle=cycle.number,
                heads=len(cycle.order),
                admitted=sum(isinstance(decision, dec.Admit) for decision in done),
                preempting=sum(isinstance(decision, dec.Preempt) for decision in done),
                evicted=sum(isinstance(decision, dec.Evict | dec.Deactivate) for decision in done),
            )
        )


def _does_something(decision: dec.Decision) -> bool:
    if isinstance(decision, dec.Preempt):  # else it only waits for those who are leaving already
        return any(victim.is_new for victim in decision.victims)
    return not isinstance(decision, dec.Wait)


def log_decision(decision: dec.Decision, view: View, now: float) -> None:
    """Who waits is told at debug level: a queue that is full says so in every cycle."""
    level = logging.INFO if _does_something(decision) else logging.DEBUG
    if log.isEnabledFor(level):
        log.log(level, _fields_of(decision, view, now))


def _fields_of(decision: dec.Decision, view: View, now: float) -> Fields:
    workload = decision.preemptor if isinstance(decision, dec.Preempt) else decision.workload
    details = _details_of(decision, waited_s=round(now - view[workload].queued_at))
    is_fresh_start = isinstance(decision, dec.StartOver)
    word = "start-over" if is_fresh_start else type(decision).__name__.lower()
    return Fields(workload=workload, decision=word, queue=decision.queue, **details)


def _details_of(decision: dec.Decision, *, waited_s: int) -> dict[str, object]:
    match decision:
        case dec.Admit() | dec.Reserve():
            return {
                "flavors": ",".join(decision.assignment.flavors()),
                "borrows": "yes" if decision.is_borrowing else "no",
                "waited_s": round(decision.waited_s),
            }
        case dec.Preempt():
            names = ",".join(victim.workload for victim in decision.victims)
            return {"victims": len(decision.victims), "names": names, "waited_s": waited_s}
        case dec.Wait():
            return _why(decision.reasons) | {"waited_s": waited_s}
        case dec.Evict() | dec.Deactivate():
            return {"reason": decision.reason.value}
        case dec.Requeue():
            return {}
        case dec.StartOver():
            return {"requeues": decision.requeue_count}
        case _:
            assert_never(decision)


def _why(reasons: tuple[dec.Reason, ...]) -> dict[str, object]:
    """In a word; and for whom it waits, or how often it has preempted and until when it pauses."""
    fields: dict[str, object] = {"reason": waiting_word(reasons)}
    for reason in reasons:
        match reason:
            case dec.WaitsForOwner():
                fields |= {"owner": reason.owner, "owner_queue": reason.queue}
            case dec.PreemptionPaused():
                until = format_time(ceil(reason.until))
                fields |= {"preemptions": reason.preemptions.times, "until": until}
    return fields
