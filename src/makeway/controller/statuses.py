"""Decisions become what stands in the status of a Workload, and what is said about it.

The words of conditions are Kueue's. Numbers and flavors come from the engine's own account of the
workload, never from the decision alone, so that a status written late is as true as one in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

from makeway.api.quantity import format_amount
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.conditions import (
    conditions_of,
    true_types,
    with_condition,
    without_condition,
)
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationReason,
    Decision,
    Defective,
    Evict,
    ExceedsCapacity,
    FlavorMismatch,
    HeldForPreemptor,
    LostToOthers,
    NamespaceNotAdmitted,
    NotCovered,
    Preempt,
    Requeue,
    Reserve,
    Shortfall,
    StartOver,
    VictimsTaken,
    Wait,
    WaitingForVictims,
)
from makeway.engine.explain import LocalQueueStopped, Obstacle, QueueInactive
from makeway.engine.model import (
    Assignment,
    CheckName,
    CheckState,
    EvictionReason,
    FlavorTrial,
    Inactive,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.plane.writes import as_seen
from makeway.translate import LACKS_PODS, PODS_GONE, PREEMPTOR
from makeway.translate.words import (
    decision_text,
    format_span,
    names_text,
    victim_message,
    waiting_message,
)

RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, PODS_READY, FINISHED = "Requeued", "PodsReady", "Finished"
DEACTIVATION = "DeactivationTarget"


class Told(NamedTuple):
    """One condition, without its time."""

    type: str
    status: str
    reason: str
    message: str


_SAYING_NO = (CheckState.RETRY.value, CheckState.REJECTED.value)
_BY_CHECKS = (EvictionReason.ADMISSION_CHECK.value, DeactivationReason.CHECK_REJECTED.value)


class Saying(NamedTuple):
    reason: str
    message: str
    type: str = "Normal"


class News(NamedTuple):
    """What a decision means for one workload."""

    told: tuple[Told, ...] = ()
    sayings: tuple[Saying, ...] = ()
    is_urgent: bool = True  # others act upon it; else it only explains
    checks: tuple[CheckName, ...] = ()  # that have to answer before it may start

    def then(self, later: News) -> News:
        """Both, where the later word counts."""
        types = {told.type for told in later.told}
        kept = tuple(told for told in self.told if told.type not in types)
        return News(
            kept + later.told,
            self.sayings + later.sayings,
            self.is_urgent or later.is_urgent,
            later.checks or self.checks,
        )


def news_of(decision: Decision) -> Iterator[tuple[WorkloadKey, News]]:
    """What a decision means for each workload that it concerns."""
    match decision:
        case Admit():
            yield decision.workload, _admission(decision)
        case Reserve():
            told = _reserved(decision.queue, decision.waited_s)
            saying = Saying(RESERVED, told.message)
            yield decision.workload, News((told,), (saying,), checks=decision.checks)
        case Preempt():
            yield from _preemption(decision)
        case Wait():
            yield decision.workload, waiting(decision.reasons, decision.is_preemptor)
        case Evict():
            yield decision.workload, _eviction(decision)
        case Deactivate():
            yield decision.workload, _deactivation(decision)
        case Requeue():
            message = decision_text(decision).details[0]
            told = Told(REQUEUED, "True", "BackoffFinished", message)
            yield decision.workload, News((told,), (Saying(REQUEUED, message),))
        case StartOver():
            message = ". ".join(decision_text(decision).details)
            told = Told(RESERVED, "False", "WaitingForQuota", message)
            yield decision.workload, News((told,), (Saying("FlavorsExhausted", message),))
        case _:
            assert_never(decision)


def _reserved(queue: str, waited_s: float) -> Told:
    waited = format_span(waited_s)
    message = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited}"
    return Told(RESERVED, "True", RESERVED, message)


def _admission(decision: Admit) -> News:
    reserved = _reserved(decision.queue, decision.waited_s - decision.checked_s)
    details = decision_text(decision).details[1:]
    message = ". ".join(
        (
            f"Admitted by ClusterQueue {decision.queue}, wait time since reservation was "
            f"{format_span(decision.checked_s)}",
            *details,
        )
    )
    admitted = Told(ADMITTED, "True", ADMITTED, message)
    return News((reserved, admitted), (Saying(ADMITTED, message),))


def _preemption(decision: Preempt) -> Iterator[tuple[WorkloadKey, News]]:
    victims = []
    for victim in decision.victims:
        if not victim.is_new:
            continue
        victims.append(victim.workload)
        message = victim_message(victim, decision.preemptor)
        told = (
            Told(EVICTED, "True", PREEMPTED, message),
            Told(PREEMPTED, "True", victim.rule.value, message),
        )
        yield victim.workload, News(told, (Saying(PREEMPTED, message),))
    if victims:
        message = f"Preempted {names_text(tuple(victims))} to make room"
        yield decision.preemptor, News(sayings=(Saying("PreemptedWorkload", message),))


def waiting(reasons: Iterable[Obstacle], is_preemptor: bool, text: str = "") -> News:
    """Why a workload has no quota; `text` where it can't be told from reasons alone."""
    known = tuple(reasons)
    message = text or waiting_message(known)  # type: ignore[arg-type]
    word = waiting_word(known)
    told = Told(RESERVED, "False", word, message)
    sayings = () if is_preemptor else (Saying("Pending", message, "Warning"),)
    return News((told,), sayings, is_urgent=False)


def waiting_word(reasons: Iterable[Obstacle]) -> str:
    """One word for many reasons: that of the one nearest to being overcome."""
    words = {_word(reason) for reason in reasons}
    return next((word for word in _NEAREST_FIRST if word in words), "Pending")


_NEAREST_FIRST = (
    "WaitingForPreemptedWorkloads",
    "Suspended",
    "WaitingForQuota",
    "ExceedsMaxQuota",
    "NoMatchingFlavor",
    LACKS_PODS,
    "Misconfigured",
)


def _word(reason: Obstacle) -> str:
    match reason:
        case WaitingForVictims():
            return "WaitingForPreemptedWorkloads"
        case Shortfall() | LostToOthers() | VictimsTaken() | HeldForPreemptor():
            return "WaitingForQuota"
        case ExceedsCapacity():
            return "ExceedsMaxQuota"
        case FlavorMismatch():
            return "NoMatchingFlavor"
        case LocalQueueStopped() | QueueInactive(why=Inactive.STOPPED | Inactive.TERMINATING):
            return "Suspended"
        case Defective(problem=problem) if problem == PODS_GONE:
            return LACKS_PODS
        case NotCovered() | NamespaceNotAdmitted() | Defective():
            return "Misconfigured"
        case _:
            return "Misconfigured"


def _eviction(decision: Evict) -> News:
    message = ". ".join(decision_text(decision).details)
    reason = decision.reason.value
    told = Told(EVICTED, "True", reason, message)
    return News((told,), (Saying(f"EvictedDueTo{reason}", message),))


def _deactivation(decision: Deactivate) -> News:
    message = ". ".join(decision_text(decision).details)
    reason = decision.reason.value
    told = (
        Told(DEACTIVATION, "True", reason, message),
        Told(EVICTED, "True", reason, message),
    )
    return News(told, (Saying(reason, message, "Warning"),))


# --- patches ---


def status_patch(
    document: Document,
    status: WorkloadStatus,
    news: News,
    now: float,
    *,
    lets_go: bool,
) -> Document:
    """What brings the status of a Workload to what the engine knows of it.

    `lets_go`: nobody runs it, so what it is told to give back is back at once.
    """
    old, before = document.get("status") or {}, conditions_of(document)
    true = true_types(before)
    news = _with_words_of_checks(news, old)
    is_leaving = status.eviction is not None and status.assignment is not None
    holds = status.assignment is not None and not (is_leaving and lets_go)
    patch: dict[str, Any] = {
        "conditions": _conditions(before, status, news, now, holds=holds, is_leaving=is_leaving),
        "admission": None,
        "requeueState": _requeue_state(status),
    }
    if holds:
        assert status.assignment is not None
        patch["admission"] = {
            "clusterQueue": status.queue,
            "podSetAssignments": _assignments(status.assignment),
        }
    is_new = holds and RESERVED not in true
    if (is_new and news.checks) or ((is_new or not holds) and old.get("admissionChecks")):
        patch["admissionChecks"] = [_open_check(name, now) for name in news.checks if holds]
    if status.history or old.get("flavorAssignmentHistory"):
        patch["flavorAssignmentHistory"] = [_trial(trial) for trial in status.history]
    evicted = next((told for told in news.told if told.type == EVICTED), None)
    if evicted is not None and not (EVICTED in true or _is_forgotten(evicted, status)):
        patch["schedulingStats"] = _counted(old.get("schedulingStats") or {}, evicted.reason)
    return {"metadata": as_seen(document), "status": patch}


def _with_words_of_checks(news: News, old: Mapping[str, Any]) -> News:
    """What checks say goes with their states when a workload gives its quota back; keep it."""
    words = [
        f"{check.get('name')}: {check['message']}"
        for check in old.get("admissionChecks") or ()
        if check.get("state") in _SAYING_NO and check.get("message")
    ]
    if not words:
        return news
    told = (
        t._replace(message=f"{t.message}. {'; '.join(words)}") if t.reason in _BY_CHECKS else t
        for t in news.told
    )
    return news._replace(told=tuple(told))


def _conditions(
    before: Sequence[Document],
    status: WorkloadStatus,
    news: News,
    now: float,
    *,
    holds: bool,
    is_leaving: bool,
) -> list[Document]:
    conditions, was_reserved = list(before), RESERVED in true_types(before)
    for told in news.told:
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


def _is_forgotten(told: Told, status: WorkloadStatus) -> bool:
    """Whether the decision was taken back when its write was refused."""
    if told.type in (EVICTED, PREEMPTED):
        return status.assignment is not None and status.eviction is None
    return told.type == ADMITTED and status.admitted_at is None


def _with_preemptor(conditions: list[Document], is_preemptor: bool, now: float) -> list[Document]:
    """Who finds this after a restart keeps the place for it that its victims free, or doesn't."""
    if (PREEMPTOR in true_types(conditions)) == is_preemptor:
        return conditions
    word = next((c.get("reason", "") for c in conditions if c.get("type") == RESERVED), "Pending")
    if is_preemptor:
        told = Told(PREEMPTOR, "True", word, "Others make way for this workload")
    else:
        told = Told(PREEMPTOR, "False", word, "Nobody makes way for this workload")
    return with_condition(conditions, *told, now=now)


def _begun(conditions: list[Document], *, is_new: bool, now: float) -> list[Document]:
    """What was true of an earlier stay is not true of this one."""
    past = {EVICTED, PREEMPTED, PREEMPTOR}
    for condition in list(conditions):
        if condition.get("type") in past and condition.get("status") == "True":
            message = f"Previously: {condition.get('message', '')}"
            conditions = with_condition(
                conditions, condition["type"], "False", RESERVED, message, now=now
            )
        if condition.get("type") == PODS_READY and is_new:
            message = "Not all pods are ready or succeeded"
            conditions = without_condition(conditions, PODS_READY)
            conditions = with_condition(
                conditions, PODS_READY, "False", "WaitForStart", message, now=now
            )
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
            message = "The workload has no reservation"
            conditions = with_condition(
                conditions, ADMITTED, "False", "NoReservation", message, now=now
            )
    return conditions


def _assignments(assignment: Assignment) -> list[Document]:
    return [
        {
            "name": pod_set.name,
            "count": pod_set.count,
            "flavors": dict(pod_set.flavors),
            "resourceUsage": {
                resource: format_amount(resource, amount) for resource, amount in pod_set.usage
            },
        }
        for pod_set in assignment.pod_sets
    ]


def _requeue_state(status: WorkloadStatus) -> Document | None:
    state: dict[str, Any] = {}
    if status.requeue_count:
        state["count"] = status.requeue_count
    if status.requeue_at is not None:
        state["requeueAt"] = format_time(status.requeue_at)
    elif state:
        state["requeueAt"] = None
    return state or None


def _open_check(name: CheckName, now: float) -> Document:
    return {
        "name": name,
        "state": CheckState.PENDING.value,
        "message": "",
        "lastTransitionTime": format_time(now),
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
