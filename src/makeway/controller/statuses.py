"""What a decision tells of the Workloads that it concerns: conditions and events, in Kueue's words.

`status_patches.py` makes of it, and of what the engine knows, what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, assert_never

from makeway.api.times import in_whole_seconds
from makeway.engine import decisions as dec
from makeway.engine.explain import Obstacle
from makeway.engine.model import EvictionReason, QueueName, WorkloadKey
from makeway.plane.writes import EventText
from makeway.translate import messages
from makeway.translate.categories import Category, waiting_word
from makeway.translate.words import (
    Standing,
    admitted_text,
    deactivated_text,
    due_to,
    is_admitted_text,
    message_of,
    preempted_text,
    reserved_text,
    victim_told,
    waiting_message,
)
from makeway.translate.workloads import DUE_TO, TO_DEACTIVATE

RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, PODS_READY, FINISHED = "Requeued", "PodsReady", "Finished"
PENDING_EVENT = "Pending"
TERMINATED = "TerminatedOnPreemption"
_TOLD_BY_NAME = (Category.PAUSE.word, Category.LATER.word)


class Condition(NamedTuple):
    """What a condition says, without its time."""

    type: str
    status: str
    reason: str
    message: str


class Counted(NamedTuple):
    """An eviction as a Workload counts its own."""

    reason: str
    cause: str = ""  # empty: the reason tells all


class StatusUpdate(NamedTuple):
    """What a decision means for one workload."""

    conditions: tuple[Condition, ...] = ()
    events: tuple[EventText, ...] = ()
    is_urgent: bool = True  # others act upon it; else it only explains
    eviction: Counted | None = None  # that it tells of

    def merged_with(self, later: StatusUpdate) -> StatusUpdate:
        """Both; of two conditions of one type the later counts."""
        types = {told.type for told in later.conditions}
        kept = tuple(told for told in self.conditions if told.type not in types)
        return StatusUpdate(
            kept + later.conditions,
            self.events + later.events,
            self.is_urgent or later.is_urgent,
            later.eviction or self.eviction,
        )


Lookup = Callable[[WorkloadKey, QueueName], Standing]


def updates_of(
    decision: dec.Decision, standing: Lookup
) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
    """What a decision means for each workload that it concerns; `standing` tells who it is."""
    match decision:
        case dec.Admit():
            reserved_s = decision.waited_s - decision.checked_s
            reserved = _reserved(reserved_text(decision.queue, reserved_s))
            told = Condition(ADMITTED, "True", ADMITTED, is_admitted_text(decision))
            admitted = StatusUpdate((told,), (EventText(ADMITTED, admitted_text(decision)),))
            yield decision.workload, reserved._replace(events=()).merged_with(admitted)
        case dec.Reserve():
            yield decision.workload, _reserved(reserved_text(decision.queue, decision.waited_s))
        case dec.Preempt():
            yield from _preemption(decision, standing)
        case dec.Wait():
            yield decision.workload, waiting(decision.reasons, decision.is_preemptor)
        case dec.Evict():
            yield decision.workload, _eviction(decision)
        case dec.Deactivate():
            yield decision.workload, _deactivation(decision)
        case dec.Requeue():
            requeued = REQUEUED, "True", "BackoffFinished"
            yield decision.workload, _update(message_of(decision), REQUEUED, requeued)
        case dec.StartOver():
            waits = RESERVED, "False", Category.QUOTA.word
            yield decision.workload, _update(message_of(decision), "FlavorsExhausted", waits)
        case _:
            assert_never(decision)


def _update(
    message: str,
    event: str,
    *conditions: tuple[str, str, str],  # type, status, reason
    event_type: str = "Normal",
) -> StatusUpdate:
    """Conditions, and an event for this reason, that all say the same."""
    told = tuple(Condition(*condition, message) for condition in conditions)
    return StatusUpdate(told, (EventText(event, message, event_type),))


def _reserved(message: str) -> StatusUpdate:
    return _update(message, RESERVED, (RESERVED, "True", RESERVED))


def _eviction(decision: dec.Evict) -> StatusUpdate:
    reason, cause = decision.reason.value, decision.cause.value if decision.cause else ""
    is_told = cause and decision.reason is EvictionReason.DEACTIVATED
    told = f"{DUE_TO}{cause}" if is_told else reason
    update = _update(message_of(decision), f"EvictedDueTo{told}", (EVICTED, "True", told))
    return update._replace(eviction=Counted(reason, cause))


def _deactivation(decision: dec.Deactivate) -> StatusUpdate:
    """One that waits is switched off, and not stopped by it."""
    reason, cause = decision.reason.value, decision.reason.cause
    event = f"EvictedDueTo{reason}" if decision.is_evicted else reason
    update = _update(message_of(decision), event, (EVICTED, "True", reason), event_type="Warning")
    target = Condition(TO_DEACTIVATE, "True", cause.value, due_to(cause, decision.checks))
    counted = Counted(EvictionReason.DEACTIVATED.value, cause.value)
    return update._replace(conditions=(target, *update.conditions), eviction=counted)


def _preemption(
    decision: dec.Preempt, standing: Lookup
) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
    victims = [victim for victim in decision.victims if victim.is_new]
    preemptor = standing(decision.preemptor, decision.queue)
    for victim in victims:
        conditions = (EVICTED, "True", PREEMPTED), (PREEMPTED, "True", victim.rule.value)
        path = standing(victim.workload, victim.queue).path
        message = victim_told(victim, decision.preemptor, preemptor, path)
        update = _update(message, PREEMPTED, *conditions)
        evicted = EventText(f"EvictedDueTo{PREEMPTED}", message)
        told = update._replace(events=(evicted, *update.events), eviction=Counted(PREEMPTED))
        yield victim.workload, told
    if victims:
        message = preempted_text([victim.workload for victim in victims])
        yield decision.preemptor, _update(message, "PreemptedWorkload")


def terminated() -> StatusUpdate:
    """It had to make way, and nobody runs it who would tell of its end."""
    return _update(messages.TERMINATED, TERMINATED, (FINISHED, "True", TERMINATED))


def waiting(reasons: Iterable[Obstacle], is_preemptor: bool, text: str = "") -> StatusUpdate:
    """Why a workload has no quota; `text` where it can't be told from reasons alone."""
    known = tuple(reasons)
    word = waiting_word(known)
    event = word if word in _TOLD_BY_NAME else PENDING_EVENT
    message = text or waiting_message(known, in_whole_seconds)
    update = _update(message, event, (RESERVED, "False", word), event_type="Warning")
    return update._replace(events=() if is_preemptor else update.events, is_urgent=False)


def switched_off() -> StatusUpdate:
    """That a workload without quota is not wanted to run."""
    reason, message = EvictionReason.DEACTIVATED.value, deactivated_text("")
    told = Condition(RESERVED, "False", reason, message)
    return StatusUpdate((told,), is_urgent=False)
