"""What is kept as it was written, and has no effect on one machine: told to who writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from makeway.api.batch import Job, Pod
from makeway.api.cron import CronJob
from makeway.api.services import Service
from makeway.api.validation.pod_sources import objects_in

_WHY = "has no effect on one machine"


def unheeded(view: object) -> tuple[str, ...]:
    """A sentence for each such part of an object."""
    match view:
        case Service():
            return tuple(_of_service(view))
        case Pod():
            return tuple(_of_pod(view.spec.document or {}, "spec"))
        case Job():
            return tuple(_of_pod(view.spec.template.spec.document or {}, "spec.template.spec"))
        case CronJob():
            path = "spec.jobTemplate.spec.template.spec"
            return tuple(_of_pod(view.spec.job_template.spec.template.spec.document or {}, path))
        case _:
            return ()


def _of_service(service: Service) -> Iterator[str]:
    spec = service.spec
    if spec.type != "ClusterIP":
        yield f"spec.type: {spec.type} {_WHY}: nothing is published, and no name is resolved"
    if spec.session_affinity not in ("", "None"):
        yield f"spec.sessionAffinity: {spec.session_affinity} {_WHY}: there is no proxy"
    for index, port in enumerate(spec.ports):
        if port.target != port.port:
            place = f"spec.ports[{index}].port: {port.port}"
            yield f"{place} {_WHY}: there is no proxy, pods are reached at {port.target}"


def _of_pod(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    for index, volume in objects_in(spec.get("volumes")):
        folder = volume.get("emptyDir")
        for name in ("medium", "sizeLimit"):
            if isinstance(folder, Mapping) and folder.get(name):
                yield f"{path}.volumes[{index}].emptyDir.{name} {_WHY}: it is a folder on the disk"
