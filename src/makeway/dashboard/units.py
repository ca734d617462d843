"""What a page shows as one job: a Job, a pod or group of pods without a Job, or a bare Workload."""

from __future__ import annotations

from typing import NamedTuple

from makeway.api.batch import Job, Pod
from makeway.api.codec import KindT
from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.api.labels import GROUP_NAME, IS_GROUP, MANAGED
from makeway.api.meta import controller_of
from makeway.api.queueing import Workload
from makeway.client.client import Document
from makeway.plane.picture import Change, Index, Object, Picture
from makeway.plane.writes import Key
from makeway.translate.job_targets import JOB, POD, POD_GROUP, WORKLOAD, JobTarget


class Unit(NamedTuple):
    kind: str  # of JobTarget: Job, Pod, PodGroup or Workload
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class Units:
    """Finds the objects of each unit in a picture."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._workloads = picture.index(WORKLOADS, _of_workload)
        self._pods = picture.index(PODS, _of_pod)

    def touched(self, change: Change) -> list[Unit]:
        """The units that a change of a Job, Workload or pod may make look different."""
        if change.resource is JOBS:
            return [Unit(JOB, *change.key)]
        index: Index[Unit, None] = self._workloads if change.resource is WORKLOADS else self._pods
        return [*index.groups(change)]

    def has(self, unit: Unit) -> bool:
        """Whether any object of it is there."""
        is_job = self._picture.has(JOBS, Key(unit.namespace, unit.name)) and unit.kind == JOB
        return is_job or self._workloads.has(unit) or self._pods.has(unit)

    def target(self, unit: Unit) -> JobTarget | None:
        """Its objects as views; None if it is gone, or nothing of it can be read."""
        workload = self._workload(unit)
        if unit.kind == JOB:
            job = seen(self._picture, JOBS, Key(unit.namespace, unit.name), Job)
            return None if job is None else JobTarget(job, workload)
        pods = tuple(self.pods(unit)) if unit.kind in (POD, POD_GROUP) else ()
        return JobTarget(None, workload, pods) if pods or workload is not None else None

    def pods(self, unit: Unit) -> list[Pod]:
        """The oldest first."""
        found = [seen(self._picture, PODS, key, Pod) for key in self._pods.keys(unit)]
        pods = [pod for pod in found if pod is not None]
        return sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or 0.0)

    def _workload(self, unit: Unit) -> Workload | None:
        """Of several, the one made last."""
        keys = self._workloads.keys(unit)
        found = [seen(self._picture, WORKLOADS, key, Workload) for key in keys]
        workloads = [workload for workload in found if workload is not None]
        return max(workloads, key=lambda w: w.metadata.creation_timestamp or 0.0, default=None)


def seen(picture: Picture, resource: Resource, key: Key, kind: type[KindT]) -> KindT | None:
    """The view of an object; None if it is not there, or can't be read."""
    found = picture.find(resource, key)
    view = None if found is None else found.view
    return view if isinstance(view, kind) else None


def _of_workload(workload: Object) -> tuple[Unit, None]:
    key, document = workload.key, workload.document
    if _annotations(document).get(IS_GROUP) == "true":
        return Unit(POD_GROUP, *key), None
    owner = controller_of(document)
    if owner is not None and owner.kind in (JOB, POD):
        return Unit(owner.kind, key.namespace, owner.name), None
    return Unit(WORKLOAD, *key), None


def _of_pod(pod: Object) -> tuple[Unit, None] | None:
    unit = unit_of_pod(pod)
    return None if unit is None else (unit, None)


def unit_of_pod(pod: Object) -> Unit | None:
    """None: the pod has nothing to do with queues."""
    key, document = pod.key, pod.document
    owner = controller_of(document)
    if owner is not None and owner.kind == JOB:
        return Unit(JOB, key.namespace, owner.name)
    labels = document["metadata"].get("labels") or {}
    if not labels.get(MANAGED):
        return None
    group = labels.get(GROUP_NAME) or _annotations(document).get(GROUP_NAME)
    return Unit(POD_GROUP, key.namespace, group) if group else Unit(POD, *key)


def _annotations(document: Document) -> Document:
    return document["metadata"].get("annotations") or {}
