"""A job in a line: everything that tables show of it and programs want to know, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from makeway.api.batch import StatusCondition
from makeway.api.labels import EXIT_CODE, GIT_REVISION, PRIORITY_CLASS, SUBMITTED_FROM
from makeway.api.meta import Condition
from makeway.api.quantity import format_amount
from makeway.api.times import format_time
from makeway.translate.brief import cut, message_in_brief, no_node_in_brief
from makeway.translate.job_end import EXIT_UNKNOWN, end_of, first_failure
from makeway.translate.job_names import array_of, id_of, number_of
from makeway.translate.job_state import (
    DELETED,
    ENDED,
    FAILED,
    NO_NODE,
    SUCCEEDED,
    JobState,
    condition,
    is_true,
)

Row = dict[str, Any]
_STOPPED = {  # by the reason of the condition Evicted
    "Preempted": "makes way for another job",
    "PodsReadyTimeout": "its pods were not ready in time",
    "NodeFailures": "its node failed",
    "ClusterQueueStopped": "its queue is held",
    "LocalQueueStopped": "its queue is held",
    "FlavorFallback": "falls back to another flavor",
    "AdmissionCheck": "an admission check asked for it",
}
_GIVEN_UP = {  # by what such a reason has after `DeactivatedDueTo`
    "RequeuingLimitExceeded": "gave up: too many requeues",
    "MaximumExecutionTimeExceeded": "gave up: out of time",
    "AdmissionCheck": "gave up: a check rejected it",
    "FlavorsExhausted": "gave up: every flavor failed",
}


def row_of(state: JobState, reason: str | None = None, position: int | None = None) -> Row:
    """The row of a job; `reason` where somebody knows better than the objects why it waits."""
    metadata, target = state.metadata, state.target
    by_node = state.devices
    devices = [device for held in by_node.values() for device in held]
    return {
        "id": id_of(metadata),
        "number": number_of(metadata) or None,
        "array": array_of(metadata),
        "name": target.name,
        "kind": target.kind,
        "namespace": metadata.namespace,
        "queue": state.queue or None,
        "clusterQueue": _cluster_queue(state),
        "status": state.status,
        "reason": (brief_reason(state) if reason is None else reason) or None,
        "message": state.reason or None,
        "position": position,
        "priority": state.priority,
        "priorityClass": metadata.labels.get(PRIORITY_CLASS) or None,
        "submittedBy": state.submitted_by or None,
        "heldBy": state.held_by or None,
        "createdAt": format_time(state.created_at),
        "startedAt": _time(state.started_at),
        "until": _time(state.until),
        "endedAt": _time(state.ended_at),
        "waitSeconds": state.wait_s,
        "runSeconds": state.run_s,
        "limitSeconds": state.limit_s,
        "evictions": state.evictions,
        "exitCode": exit_code(state),
        "requests": {name: format_amount(name, n) for name, n in state.requests.items()},
        "gpus": state.gpus,
        "gpuIndexes": devices,
        "gpusByNode": {node: list(held) for node, held in by_node.items()},
        "nodes": list(
            dict.fromkeys(p.spec.node_name for p in state.present_pods if p.spec.node_name)
        ),
        "pods": [pod.metadata.name for pod in state.pods],
        "command": list(_command(state)),
        "directory": metadata.annotations.get(SUBMITTED_FROM) or None,
        "gitRevision": metadata.annotations.get(GIT_REVISION) or None,
        "workload": None if state.workload is None else state.workload.metadata.name,
    }


def exit_code(state: JobState) -> int | None:
    """None as long as it has not ended."""
    if state.status not in ENDED:
        return None
    noted = state.metadata.annotations.get(EXIT_CODE, "")
    if noted.isdecimal() and state.status in (FAILED, DELETED):
        return int(noted)
    if state.status == DELETED:
        return EXIT_UNKNOWN
    if state.target.job is not None:
        return end_of(state.target.job, state.pods).code
    if state.status == SUCCEEDED:
        return 0
    failure = first_failure(state.pods)
    return EXIT_UNKNOWN if failure is None else failure.code


def brief_reason(state: JobState) -> str:
    """Why it does not run in at most forty characters, as far as its objects tell."""
    match state.status:
        case "pending" if state.reason.startswith(NO_NODE):
            return no_node_in_brief(state.reason, state.requests)
        case "pending":
            reserved = condition(state.workload, "QuotaReserved")
            word = "" if reserved is None else reserved.reason
            return message_in_brief(word, state.reason, state.requests)
        case "admitted":
            has_none = state.reason.startswith(NO_NODE)
            return no_node_in_brief(state.reason, state.requests) if has_none else cut(state.reason)
        case "held":
            return _held(state)
        case "evicting":
            evicted = condition(state.workload, "Evicted")
            return _STOPPED.get("" if evicted is None else evicted.reason, "is being stopped")
        case "failed":
            return _failed(state)
        case _:
            return cut(state.reason)


def _held(state: JobState) -> str:
    evicted = condition(state.workload, "Evicted")
    cause = "" if evicted is None else evicted.reason.removeprefix("DeactivatedDueTo")
    if cause in _GIVEN_UP:
        return _GIVEN_UP[cause]
    return cut(f"held by {state.held_by}") if state.held_by else "held"


def _failed(state: JobState) -> str:
    failure = first_failure(state.pods)
    if is_true(state.target.job, "Failed") and _reason(state) == "DeadlineExceeded":
        return "out of time"
    if failure is None:
        return cut(state.reason)
    return cut(" ".join(failure.message.split()) or f"exit code {failure.code}")


def _reason(state: JobState) -> str:
    found: Condition | StatusCondition | None = condition(state.target.job, "Failed")
    return "" if found is None else found.reason


def _cluster_queue(state: JobState) -> str | None:
    admission = None if state.workload is None else state.workload.status.admission
    return None if admission is None else admission.cluster_queue


def _command(state: JobState) -> Iterator[str]:
    """Of the first container, as it was written."""
    job = state.target.job
    spec = job.spec.template.spec if job is not None else next((p.spec for p in state.pods), None)
    for container in () if spec is None else spec.containers[:1]:
        document: Any = container.document or {}
        yield from (*(document.get("command") or ()), *(document.get("args") or ()))


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else format_time(int(seconds))
