"""What is written into the status of a Workload, so that it tells what the engine knows of it.

Numbers and flavors come from the engine's own account of the workload, never from a decision alone,
so that a status written late is as true as one in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.assignments import amounts_in, assignments_in, is_admission_of
from makeway.controller.check_states import asked, reset
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.statuses import (
    ADMITTED,
    EVICTED,
    PREEMPTED,
    RESERVED,
    Condition,
    Counted,
    StatusUpdate,
)
from makeway.controller.workload_conditions import WorkloadConditions
from makeway.engine.model import (
    CheckName,
    CheckState,
    Claim,
    FlavorTrial,
    Phase,
    PodSet,
    WorkloadStatus,
)
from makeway.engine.view import KnownWorkload
from makeway.plane.writes import as_seen
from makeway.translate.categories import Category

_SAYING_NO = (CheckState.RETRY.value, CheckState.REJECTED.value)


def status_patch(
    document: Document,
    known: KnownWorkload,
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
    old, status = document.get("status") or {}, known.status
    is_leaving = status.eviction is not None and status.assignment is not None
    holds = status.assignment is not None and not (is_leaving and lets_go)
    update = _with_words_of_checks(update, old)
    patch: dict[str, Any] = {
        "conditions": _conditions(document, known, update, now, holds=holds, is_leaving=is_leaving),
        "requeueState": _requeue_state(status),
    }
    patch |= _admission(document, status, holds=holds)
    patch |= _checks(document, checks, now, stays=holds and not is_leaving)
    patch |= _requests(old, known, holds=holds)
    if status.history or old.get("flavorAssignmentHistory"):
        patch["flavorAssignmentHistory"] = [_trial(trial) for trial in status.history]
    preemption = _preemption_state(status)
    if preemption is not None or old.get("preemption"):
        patch["preemption"] = preemption
    is_told = EVICTED in true_types(conditions_of(document))
    if update.eviction is not None and is_leaving and not is_told:
        patch["schedulingStats"] = _counted(old.get("schedulingStats") or {}, update.eviction)
    return {"metadata": as_seen(document), "status": patch}


def _with_words_of_checks(update: StatusUpdate, old: Mapping[str, Any]) -> StatusUpdate:
    """What checks say goes with their states when a workload gives its quota back; keep it."""
    conditions = update.conditions
    for check in old.get("admissionChecks") or ():
        if check.get("state") in _SAYING_NO and check.get("message"):
            name, said = f'"{check["name"]}"', f'"{check["name"]}" ({check["message"]})'
            conditions = tuple(
                told._replace(message=told.message.replace(name, said, 1)) for told in conditions
            )
    return update._replace(conditions=conditions)


def _conditions(
    document: Document,
    known: KnownWorkload,
    update: StatusUpdate,
    now: float,
    *,
    holds: bool,
    is_leaving: bool,
) -> list[Document]:
    status, generation = known.status, document["metadata"].get("generation")
    conditions = WorkloadConditions(conditions_of(document), generation, now)
    was_reserved = conditions.find(RESERVED, "True") is not None
    for told in update.conditions:
        if told.type == RESERVED and told.status == "True" and was_reserved:
            continue  # it was reserved before, and is admitted now
        if told.type == EVICTED and status.assignment is None:
            continue  # nothing was stopped
        if not _is_forgotten(told, status):
            conditions.tell(*told)
    if holds and not is_leaving:
        conditions.begin(is_new=not was_reserved)
    elif holds:
        conditions.leave()
    else:
        backs_off = status.requeue_at is not None
        conditions.release(is_active=known.workload.active, backs_off=backs_off)
        if known.phase is Phase.PENDING and not backs_off and _is_looked_at(update):
            conditions.come_back()
        conditions.note_preemptor(status.claim is not None)
    return conditions.all


def _is_forgotten(told: Condition, status: WorkloadStatus) -> bool:
    """Whether the decision was taken back when its write was refused."""
    if told.type in (EVICTED, PREEMPTED):
        return status.assignment is not None and status.eviction is None
    return told.type == ADMITTED and status.admitted_at is None


def _is_looked_at(update: StatusUpdate) -> bool:
    """Whether a queue has given a reason to wait other than being stopped."""
    told = next((told for told in update.conditions if told.type == RESERVED), None)
    return told is not None and told.reason != Category.STOPPED.word


def _admission(document: Document, status: WorkloadStatus, *, holds: bool) -> Document:
    if not holds:
        return {"admission": None}
    if is_admission_of(document, status):
        return {}
    assert status.assignment is not None
    assigned = assignments_in(status.assignment)
    return {"admission": {"clusterQueue": status.queue, "podSetAssignments": assigned}}


def _checks(
    document: Document, checks: Sequence[CheckName], now: float, *, stays: bool
) -> Document:
    """`stays`: it holds quota, and is not told to give it back."""
    before = (document.get("status") or {}).get("admissionChecks") or []
    was_reserved = RESERVED in true_types(conditions_of(document))
    after = before if stays and was_reserved else reset(before, now)
    if stays:
        after = asked(after, checks, now)
    return {} if after == before else {"admissionChecks": after or None}


def _requests(old: Mapping[str, Any], known: KnownWorkload, *, holds: bool) -> Document:
    """What counts of what it asks for, while it waits; then its admission tells."""
    before = old.get("resourceRequests") or []
    after = before
    if holds:
        after = []
    elif known.phase is Phase.PENDING:
        reclaimable = known.status.reclaimable
        after = [_request(ps, reclaimable.get(ps.name, 0)) for ps in known.workload.pod_sets]
    return {} if after == before else {"resourceRequests": after or None}


def _request(pod_set: PodSet, reclaimable: int) -> Document:
    """Of all its pods together."""
    count = max(0, pod_set.count - reclaimable)
    amounts = amounts_in((resource, amount * count) for resource, amount in pod_set.requests)
    return {"name": pod_set.name, **({"resources": amounts} if amounts else {})}


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
    first = status.first_attempt_at
    state = {
        "claim": None if status.claim is None else _claim(status.claim),
        "count": None if preemptions is None else preemptions.times,
        "lastTime": None if preemptions is None else format_time(preemptions.last_at),
        "preemptedBy": None if eviction is None else eviction.preemptor,
        "firstAttemptTime": None if first is None else format_time(first),
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


def _counted(stats: Mapping[str, Any], eviction: Counted) -> Document:
    """The evictions so far and one more."""
    evictions = [dict(line) for line in stats.get("evictions") or ()]
    for line in evictions:
        if (line["reason"], line.get("underlyingCause") or "") == eviction:
            line["count"] = line.get("count", 0) + 1
            return {"evictions": evictions}
    reason, cause = eviction
    return {"evictions": [*evictions, {"reason": reason, "underlyingCause": cause, "count": 1}]}
