"""Decisions become what stands in the status of a Workload, and what is said about it.

The words of conditions are Kueue's. Numbers and flavors come from the engine's own account of the
workload, never from the decision alone, so that a status written late is as true as one in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple, assert_never

from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.assignments import amounts_in, assignments_in, is_admission_of
from makeway.controller.check_states import asked, reset
from makeway.controller.conditions import (
    conditions_of,
    true_types,
    with_condition,
    without_condition,
)
from makeway.engine import decisions as dec
from makeway.engine.explain import Obstacle
from makeway.engine.model import (
    CheckName,
    CheckState,
    Claim,
    EvictionReason,
    FlavorTrial,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.plane.writes import EventText, as_seen
from makeway.translate import messages
from makeway.translate.categories import Category, waiting_word
from makeway.translate.words import (
    admitted_text,
    message_of,
    preempted_text,
    reserved_text,
    victim_message,
    waiting_message,
)
from makeway.translate.workloads import PREEMPTOR

RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, PODS_READY, FINISHED = "Requeued", "PodsReady", "Finished"
DEACTIVATION = "DeactivationTarget"


class Condition(NamedTuple):
    """What a condition says, without its time."""

    type: str
    status: str
    reason: str
    message: str


_SAYING_NO = (CheckState.RETRY.value, CheckState.REJECTED.value)
_BY_CHECKS = (EvictionReason.ADMISSION_CHECK.value, dec.DeactivationReason.CHECK_REJECTED.value)


class StatusUpdate(NamedTuple):
    """What a decision means for one workload."""

    conditions: tuple[Condition, ...] = ()
    events: tuple[EventText, ...] = ()
    is_urgent: bool = True  # others act upon it; else it only explains

    def merged_with(self, later: StatusUpdate) -> StatusUpdate:
        """Both; of two conditions of one type the later counts."""
        types = {told.type for told in later.conditions}
        kept = tuple(told for told in self.conditions if told.type not in types)
        return StatusUpdate(
            kept + later.conditions,
            self.events + later.events,
            self.is_urgent or later.is_urgent,
        )


def updates_of(decision: dec.Decision) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
    """What a decision means for each workload that it concerns."""
    match decision:
        case dec.Admit():
            reserved_s = decision.waited_s - decision.checked_s
            reserved = _reserved(reserved_text(decision.queue, reserved_s))
            admitted = _update(admitted_text(decision), ADMITTED, (ADMITTED, "True", ADMITTED))
            yield decision.workload, reserved._replace(events=()).merged_with(admitted)
        case dec.Reserve():
            yield decision.workload, _reserved(reserved_text(decision.queue, decision.waited_s))
        case dec.Preempt():
            yield from _preemption(decision)
        case dec.Wait():
            yield decision.workload, waiting(decision.reasons, decision.is_preemptor)
        case dec.Evict():
            reason = decision.reason.value
            evicted = EVICTED, "True", reason
            yield decision.workload, _update(message_of(decision), f"EvictedDueTo{reason}", evicted)
        case dec.Deactivate():
            reason = decision.reason.value
            conditions = (DEACTIVATION, "True", reason), (EVICTED, "True", reason)
            update = _update(message_of(decision), reason, *conditions, event_type="Warning")
            yield decision.workload, update
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


def _preemption(decision: dec.Preempt) -> Iterator[tuple[WorkloadKey, StatusUpdate]]:
    victims = [victim for victim in decision.victims if victim.is_new]
    for victim in victims:
        conditions = (EVICTED, "True", PREEMPTED), (PREEMPTED, "True", victim.rule.value)
        message = victim_message(victim, decision.preemptor)
        yield victim.workload, _update(message, PREEMPTED, *conditions)
    if victims:
        message = preempted_text([victim.workload for victim in victims])
        yield decision.preemptor, _update(message, "PreemptedWorkload")


def waiting(reasons: Iterable[Obstacle], is_preemptor: bool, text: str = "") -> StatusUpdate:
    """Why a workload has no quota; `text` where it can't be told from reasons alone."""
    known = tuple(reasons)
    word = waiting_word(known)
    event = word if word == Category.PAUSE.word else Category.TURN.word
    message = text or waiting_message(known, _in_whole_seconds)
    update = _update(message, event, (RESERVED, "False", word), event_type="Warning")
    return update._replace(events=() if is_preemptor else update.events, is_urgent=False)


def _in_whole_seconds(at: float) -> str:
    return format_time(ceil(at))


# --- patches ---


def status_patch(
    document: Document,
    status: WorkloadStatus,
    update: StatusUpdate,
    now: float,
    *,
    lets_go: bool,
    checks: Sequence[CheckName] = (),
) -> Document:
    """What brings the status of a Workload to what the engine knows of it.

    `lets_go`: nobody runs it, so what it is told to give back is back at once. `checks` have to
    answer before it may start, if it holds quota.
    """
    old, before = document.get("status") or {}, conditions_of(document)
    true = true_types(before)
    update = _with_words_of_checks(update, old)
    is_leaving = status.eviction is not None and status.assignment is not None
    holds = status.assignment is not None and not (is_leaving and lets_go)
    patch: dict[str, Any] = {
        "conditions": _conditions(before, status, update, now, holds=holds, is_leaving=is_leaving),
        "requeueState": _requeue_state(status),
    }
    if not holds:
        patch["admission"] = None
    elif not is_admission_of(document, status):
        assert status.assignment is not None
        patch["admission"] = {
            "clusterQueue": status.queue,
            "podSetAssignments": assignments_in(status.assignment),
        }
    stays = holds and not is_leaving and RESERVED in true
    states = old.get("admissionChecks") or []
    states_after = states if stays else reset(states, now)
    if holds and not is_leaving:
        states_after = asked(states_after, checks, now)
    if states_after != states:
        patch["admissionChecks"] = states_after or None
    if status.history or old.get("flavorAssignmentHistory"):
        patch["flavorAssignmentHistory"] = [_trial(trial) for trial in status.history]
    preemption = _preemption_state(status)
    if preemption is not None or old.get("preemption"):
        patch["preemption"] = preemption
    evicted = next((told for told in update.conditions if told.type == EVICTED), None)
    if evicted is not None and not (EVICTED in true or _is_forgotten(evicted, status)):
        patch["schedulingStats"] = _counted(old.get("schedulingStats") or {}, evicted.reason)
    return {"metadata": as_seen(document), "status": patch}


def _with_words_of_checks(update: StatusUpdate, old: Mapping[str, Any]) -> StatusUpdate:
    """What checks say goes with their states when a workload gives its quota back; keep it."""
    words = [
        f"{check.get('name')}: {check['message']}"
        for check in old.get("admissionChecks") or ()
        if check.get("state") in _SAYING_NO and check.get("message")
    ]
    if not words:
        return update
    told = (
        t._replace(message=f"{t.message}. {'; '.join(words)}") if t.reason in _BY_CHECKS else t
        for t in update.conditions
    )
    return update._replace(conditions=tuple(told))


def _conditions(
    before: Sequence[Document],
    status: WorkloadStatus,
    update: StatusUpdate,
    now: float,
    *,
    holds: bool,
    is_leaving: bool,
) -> list[Document]:
    conditions, was_reserved = list(before), RESERVED in true_types(before)
    for told in update.conditions:
        if told.type == RESERVED and told.status == "True" and was_reserved:
            continue  # it was reserved before, and is admitted now
        if told.type == EVICTED and status.assignment is None:
            continue  # nothing was stopped
        if _is_forgotten(told, status):
            continue
        conditions = with_condition(conditions, *told, now=now)
    if holds and not is_leaving:
        conditions = _begun(conditions, is_new=not was_reserved, now=now)
    elif not holds:
        conditions = _with_preemptor(released(conditions, now), status.claim is not None, now)
    return conditions


def _is_forgotten(told: Condition, status: WorkloadStatus) -> bool:
    """Whether the decision was taken back when its write was refused."""
    if told.type in (EVICTED, PREEMPTED):
        return status.assignment is not None and status.eviction is None
    return told.type == ADMITTED and status.admitted_at is None


def _with_preemptor(conditions: list[Document], is_preemptor: bool, now: float) -> list[Document]:
    """Who finds this after a restart keeps the place for it that its victims free, or doesn't."""
    if (PREEMPTOR in true_types(conditions)) == is_preemptor:
        return conditions
    word = next((c.get("reason", "") for c in conditions if c.get("type") == RESERVED), "Pending")
    message = messages.OTHERS_MAKE_WAY if is_preemptor else messages.NOBODY_MAKES_WAY
    return with_condition(conditions, PREEMPTOR, str(is_preemptor), word, message, now)


def _begun(conditions: list[Document], *, is_new: bool, now: float) -> list[Document]:
    """What was true of an earlier stay is not true of this one."""
    past = {EVICTED, PREEMPTED, PREEMPTOR}
    for condition in list(conditions):
        if condition.get("type") in past and condition.get("status") == "True":
            message = messages.PREVIOUSLY.format(condition.get("message", ""))
            told = condition["type"], "False", RESERVED, message
            conditions = with_condition(conditions, *told, now)
        if condition.get("type") == PODS_READY and is_new:
            conditions = without_condition(conditions, PODS_READY)
            told = PODS_READY, "False", "WaitForStart", messages.NOT_READY
            conditions = with_condition(conditions, *told, now)
    return without_condition(conditions, DEACTIVATION)


def released(conditions: list[Document], now: float) -> list[Document]:
    """The conditions of a workload that holds no quota any more."""
    for condition in list(conditions):
        if condition.get("status") != "True":
            continue
        if condition.get("type") == RESERVED:
            why = next((c.get("message", "") for c in conditions if c.get("type") == EVICTED), "")
            conditions = with_condition(conditions, RESERVED, "False", "Pending", why, now=now)
        if condition.get("type") == ADMITTED:
            told = ADMITTED, "False", "NoReservation", messages.NO_RESERVATION
            conditions = with_condition(conditions, *told, now)
    return conditions


def _requeue_state(status: WorkloadStatus) -> Document | None:
    state: dict[str, Any] = {}
    if status.requeue_count:
        state["count"] = status.requeue_count
    if status.requeue_at is not None:
        state["requeueAt"] = format_time(status.requeue_at)
    elif state:
        state["requeueAt"] = None
    return state or None


def _preemption_state(status: WorkloadStatus) -> Document | None:
    """What a restart needs to know, so that it chooses the same place and no further victims."""
    eviction, preemptions = status.eviction, status.preemptions
    state = {
        "claim": None if status.claim is None else _claim(status.claim),
        "count": None if preemptions is None else preemptions.times,
        "lastTime": None if preemptions is None else format_time(preemptions.last_at),
        "preemptedBy": None if eviction is None else eviction.preemptor,
    }
    return state if any(state.values()) else None


def _claim(claim: Claim) -> Document | None:
    if claim.assignment is None:
        return None
    amounts: dict[str, list[tuple[str, int]]] = {}
    for cell, amount in sorted(claim.held_before.items()):
        amounts.setdefault(cell.flavor, []).append((cell.resource, amount))
    held_before = [{"flavor": f, "resources": amounts_in(found)} for f, found in amounts.items()]
    return {
        "podSetAssignments": assignments_in(claim.assignment),
        "heldBefore": held_before or None,
    }


def _trial(trial: FlavorTrial) -> Document:
    record = {
        "resourceFlavor": trial.flavor,
        "assignmentTime": format_time(trial.assigned_at),
    }
    if trial.exhausted_at is not None and trial.reason is not None:
        record["exhaustedTime"] = format_time(trial.exhausted_at)
        record["reason"] = trial.reason.value
    return record


def _counted(stats: Mapping[str, Any], reason: str) -> Document:
    """The evictions so far and one more."""
    evictions = [dict(line) for line in stats.get("evictions") or ()]
    for line in evictions:
        if line["reason"] == reason and not line.get("underlyingCause"):
            line["count"] = line.get("count", 0) + 1
            return {"evictions": evictions}
    return {"evictions": [*evictions, {"reason": reason, "underlyingCause": "", "count": 1}]}
