"""A Job's status as it should be, and what to write so that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from makeway.api.batch import Job
from makeway.api.indexes import format_indexes
from makeway.api.times import format_time
from makeway.runner.job_tally import Tally, true_condition

Conditions = Sequence[Mapping[str, Any]]


def written_conditions(job: Job) -> Conditions:
    """As they stand in the document: what we don't read stays."""
    document: Any = job.status.document or {}
    return tuple(document.get("conditions") or ())


def was_suspended(job: Job) -> bool:
    """By its status, that is when we last looked."""
    return true_condition(job, "Suspended") is not None


def with_condition(
    conditions: Conditions, type_: str, status: str, reason: str, message: str, *, now: float
) -> Conditions:
    """The conditions with one set; untouched if it says so already."""
    if any(known["type"] == type_ and known["status"] == status for known in conditions):
        return conditions
    times = {"lastProbeTime": written(now), "lastTransitionTime": written(now)}
    new = {"type": type_, "status": status, **times, "reason": reason, "message": message}
    return (*(known for known in conditions if known["type"] != type_), new)


def start_time_of(job: Job, now: float) -> str | None:
    """When the job began: now, if it hasn't yet or was held back until now."""
    if job.spec.suspend:
        return None
    if job.status.start_time is None or was_suspended(job):
        return written(now)
    return format_time(job.status.start_time)


def written(at: float) -> str:
    return format_time(int(at))


def status_patch(
    job: Job,
    counted: Tally,
    conditions: Conditions,
    start_time: str | None,
    *,
    created: int = 0,
    completion_time: str | None = None,
) -> dict[str, Any]:
    """What differs from the status as it is; nothing, zero and absent are the same.

    That nobody is ready or terminating is told along with the rest, as zero: clients ask for it.
    `created` pods are on their way and count as active, which saves a write when they are there.
    """
    wanted = {
        "active": len(counted.active) + created,
        "ready": sum(pod.is_ready for pod in counted.active),
        "terminating": len(counted.terminating),
        "succeeded": counted.counter_succeeded,
        "failed": counted.counter_failed,
        "startTime": start_time,
        "completionTime": completion_time,
        "completedIndexes": format_indexes(counted.completed),
        "failedIndexes": format_indexes(counted.failed_indexes),
        "conditions": list(conditions),
    }
    notes = {"succeeded": list(counted.noted_succeeded), "failed": list(counted.noted_failed)}
    document: Any = job.status.document or {}
    patch = _difference(document, wanted)
    noted = _difference(document.get("uncountedTerminatedPods") or {}, notes)
    if noted:
        patch["uncountedTerminatedPods"] = noted
    return {**patch, **_zeros(document, wanted)} if patch else {}


def _zeros(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, int]:
    return {n: 0 for n in ("ready", "terminating") if not wanted[n] and known.get(n) != 0}


def _difference(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value or None
        for name, value in wanted.items()
        if (known.get(name) or None) != (value or None)
    }
