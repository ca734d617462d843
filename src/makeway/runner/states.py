"""The state of a pod as JSON, as a supervisor notes it and the starter tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from makeway.runner.host import ContainerState, Ended, PodState, Running, Waiting

_TOLD = ("began_at", "is_over", "reason", "message")  # of a pod, by its supervisor
_PHASES: Mapping[str, type[Waiting | Running | Ended]] = {
    "waiting": Waiting,
    "running": Running,
    "ended": Ended,
}
_NAMES = {kind: name for name, kind in _PHASES.items()}

Phase = TypeVar("Phase", bound=Waiting | Running | Ended)


def document_of(state: PodState) -> dict[str, Any]:
    containers = {
        name: asdict(container.now)
        | {
            "phase": _NAMES[type(container.now)],
            "restarts": container.restarts,
            "is_started": container.is_started,
            "is_ready": container.is_ready,
            "last": asdict(container.before) if container.before else None,
        }
        for name, container in state.containers.items()
    }
    return {"containers": containers, **{name: getattr(state, name) for name in _TOLD}}


def state_of(known: PodState, document: Mapping[str, Any], shift_s: float) -> PodState:
    """What is known of a pod, with what a document tells; its times are moved by a shift."""
    began_at = document["began_at"]
    told = {name: document[name] for name in _TOLD}
    if began_at is not None:
        told["began_at"] = began_at + shift_s
    containers = {name: _container_of(one, shift_s) for name, one in document["containers"].items()}
    return replace(known, **told, containers=containers)


def _container_of(document: Mapping[str, Any], shift_s: float) -> ContainerState:
    last = document["last"]
    return ContainerState(
        now=_read_as(_PHASES[document["phase"]], document, shift_s),
        before=_read_as(Ended, last, shift_s) if last else None,
        restarts=document["restarts"],
        is_started=document["is_started"],
        is_ready=document["is_ready"],
    )


def _read_as(kind: type[Phase], document: Mapping[str, Any], shift_s: float) -> Phase:
    found = {field.name: document[field.name] for field in fields(kind)}
    return kind(**found | {name: found[name] + shift_s for name in found if name.endswith("_at")})
