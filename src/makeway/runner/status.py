"""The status of a pod as a kubelet writes it, from what its host knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, assert_never

from makeway.api.batch import ENDED_PHASES
from makeway.api.programs import ContainerProgram, PodOfPrograms
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.runner.containers import CANNOT_RUN_CODE, CANNOT_RUN_REASON
from makeway.runner.environment import ADDRESS, NotYet
from makeway.runner.host import (
    LOST_CODE,
    LOST_REASON,
    REBOOTED_REASON,
    ContainerState,
    Ended,
    PodState,
    Running,
    Waiting,
)

_NOT_FOUND = "The container could not be located when the pod was looked for"
CONFIG_ERROR = "CreateContainerConfigError"
UNSTARTED = ContainerState(now=Waiting(reason="ContainerCreating"))


class _Summary(NamedTuple):
    """What is said about a pod besides its containers."""

    phase: str
    reason: str = ""
    message: str = ""


def is_finished(document: Document) -> bool:
    return (document.get("status") or {}).get("phase") in ENDED_PHASES


def has_begun(document: Document) -> bool:
    """Whether something of the pod was started, as far as its status tells."""
    return bool((document.get("status") or {}).get("startTime"))


def _summary_of(pod: PodOfPrograms, state: PodState) -> _Summary:
    main = [_state(one, state) for one in pod.spec.containers]
    if not state.is_over:
        has_begun = any(not isinstance(one.now, Waiting) or one.before for one in main)
        return _Summary("Running" if has_begun else "Pending")
    if state.reason:
        return _Summary("Failed", state.reason, state.message)
    return _Summary("Succeeded" if all(one.has_succeeded for one in main) else "Failed")


def _state(container: ContainerProgram, state: PodState) -> ContainerState:
    return state.containers.get(container.name, UNSTARTED)


def status_of(
    pod: PodOfPrograms, state: PodState, before: Mapping[str, Any], now: float
) -> Document:
    """The fields of the status that are ours, whole; `before` is the status as it stands."""
    init, main = pod.spec.init_containers, pod.spec.containers
    summary = _summary_of(pod, state)
    status: Document = {
        "phase": summary.phase,
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "containerStatuses": [_container(one, state, is_init=False) for one in main],
        "conditions": _conditions(
            _own_conditions(pod, state, summary.phase), before.get("conditions") or (), now
        ),
    }
    if init:
        status["initContainerStatuses"] = [_container(one, state, is_init=True) for one in init]
    if summary.reason:
        status |= {"reason": summary.reason, "message": summary.message}
    if state.began_at is not None:
        status |= {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
        status["startTime"] = before.get("startTime") or _time(state.began_at)
    return status


def lost_state(pod: PodOfPrograms, now: float, known: PodState | None = None) -> PodState:
    """A pod that once ran, and of which nothing is left; or only that it is over, and why."""
    if known is None:
        return replace(_over(pod, now, LOST_CODE, LOST_REASON, _NOT_FOUND), began_at=now)
    return replace(_over(pod, now, LOST_CODE, known.reason, known.message), began_at=now)


def refused_state(pod: PodOfPrograms, message: str, now: float) -> PodState:
    """A pod that never began, and never will."""
    return _over(pod, now, CANNOT_RUN_CODE, CANNOT_RUN_REASON, message)


def unread_state(pod: PodOfPrograms, missing: NotYet) -> PodState:
    """A pod that waits for what a container, or a volume, is to be made of."""
    unread = ContainerState(now=Waiting(reason=CONFIG_ERROR, message=str(missing)))
    containers = {missing.container: unread} if missing.container else {}
    return PodState(uid=pod.metadata.uid, containers=containers)


def _over(pod: PodOfPrograms, now: float, code: int, reason: str, message: str) -> PodState:
    ended = Ended(exit_code=code, reason=reason, message=message, started_at=now, finished_at=now)
    everybody = (*pod.spec.init_containers, *pod.spec.containers)
    return PodState(
        uid=pod.metadata.uid,
        is_over=True,
        reason=reason,
        message=message,
        containers={one.name: ContainerState(now=ended) for one in everybody},
    )


def _container(container: ContainerProgram, state: PodState, *, is_init: bool) -> Document:
    known = _state(container, state)
    is_to_end = is_init and not container.is_sidecar
    identity = f"makeway://{state.uid}/{container.name}"
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": "" if isinstance(known.now, Waiting) else identity,
        "ready": known.has_succeeded if is_to_end else known.is_ready,
        "started": known.is_started,
        "restartCount": known.restarts,
        "state": _now(known.now, identity),
        "lastState": {} if known.before is None else _now(known.before, identity),
    }


def _now(state: Waiting | Running | Ended, identity: str) -> Document:
    match state:
        case Waiting():
            return {"waiting": _with_message({"reason": state.reason}, state.message)}
        case Running():
            return {"running": {"startedAt": _time(state.started_at)}}
        case Ended():
            ended: Document = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": _time(state.started_at),
                "finishedAt": _time(state.finished_at),
                "containerID": identity,
            }
            if state.signal:
                ended["signal"] = state.signal
            return {"terminated": _with_message(ended, state.message)}
        case _:
            assert_never(state)


def _with_message(document: Document, message: str) -> Document:
    return document | {"message": message} if message else document


def _time(seconds: float) -> str:
    """Whole seconds, as everywhere in a pod's status."""
    return format_time(int(seconds))


# Conditions: ours as they are now, those of others as they stand.


def _conditions(
    found: dict[str, Document], before: Iterable[Document], now: float
) -> list[Document]:
    kept: list[Document] = []
    for condition in before:
        own = found.pop(condition.get("type", ""), None)
        if own is None:
            kept.append(condition)
        else:
            is_same = own["status"] == condition.get("status")
            since = condition.get("lastTransitionTime") if is_same else _time(now)
            kept.append(own | {"lastTransitionTime": since})
    return kept + [own | {"lastTransitionTime": _time(now)} for own in found.values()]


def _own_conditions(pod: PodOfPrograms, state: PodState, phase: str) -> dict[str, Document]:
    disrupted = {"DisruptionTarget": _disruption(state)} if state.reason == REBOOTED_REASON else {}
    unready = [one.name for one in pod.spec.containers if not _state(one, state).is_ready]
    init = pod.spec.init_containers
    unfinished = [one.name for one in init if not _is_through(one, _state(one, state))]
    why_not = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    ready = _condition("ContainersReady", not unready, why_not, "unready", unready)
    return {
        "PodReadyToStartContainers": {
            "type": "PodReadyToStartContainers",
            "status": "True" if state.began_at is not None and not state.is_over else "False",
        },
        "Initialized": _condition(
            "Initialized", not unfinished, "ContainersNotInitialized", "incomplete", unfinished
        ),
        "Ready": ready | {"type": "Ready"},
        "ContainersReady": ready,
        **disrupted,
    }


def _disruption(state: PodState) -> Document:
    """It was no fault of the pod's: its Job doesn't count it."""
    told = {"reason": state.reason, "message": state.message}
    return {"type": "DisruptionTarget", "status": "True", **told}


def _condition(type_: str, holds: bool, reason: str, word: str, names: Sequence[str]) -> Document:
    if holds:
        return {"type": type_, "status": "True"}
    message = f"containers with {word} status: [{' '.join(names)}]"
    return {"type": type_, "status": "False", "reason": reason, "message": message}


def _is_through(container: ContainerProgram, state: ContainerState) -> bool:
    if container.is_sidecar:
        return state.is_started or isinstance(state.now, Ended)
    return state.has_succeeded
