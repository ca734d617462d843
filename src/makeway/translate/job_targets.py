"""What belongs to one job: the Job, its Workload, its pods; or pods and Workloads without a Job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from makeway.api.batch import Job, Pod
from makeway.api.labels import GROUP_NAME, IS_GROUP, JOB_UID
from makeway.api.meta import ObjectMeta
from makeway.api.queueing import Workload
from makeway.translate.job_names import job_text

JOB, POD, POD_GROUP, WORKLOAD = "Job", "Pod", "PodGroup", "Workload"  # what may be in a queue

Lead = Job | Pod | Workload


class JobTarget(NamedTuple):
    """A Job, its Workload, or both; or pods without a Job. At least one of them is there."""

    job: Job | None
    workload: Workload | None  # None: no Workload was made
    pods: tuple[Pod, ...] = ()  # pods without a Job, the oldest first
    part: str = ""  # the pod that was named, where its whole group is meant

    @property
    def lead(self) -> Lead:
        """The Job; without one, the first of the pods, or else the Workload."""
        lead = self.job or (self.pods[0] if self.pods else self.workload)
        assert lead is not None
        return lead

    @property
    def metadata(self) -> ObjectMeta:
        return self.lead.metadata

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def group(self) -> str:
        """The name of a group of pods; empty: a group is not meant."""
        if self.pods:
            return group_of(self.pods[0].metadata)
        own = None if self.workload is None else self.workload.metadata
        return own.name if own is not None and own.annotations.get(IS_GROUP) == "true" else ""

    @property
    def kind(self) -> str:
        if self.job is not None:
            return JOB
        return POD_GROUP if self.group else POD if self.pods else WORKLOAD

    @property
    def name(self) -> str:
        return self.group if self.kind == POD_GROUP else self.metadata.name

    @property
    def text(self) -> str:
        words = {POD_GROUP: "group", POD: "pod", WORKLOAD: "workload"}
        return f"{words[self.kind]} {self.name}" if self.job is None else job_text(self.metadata)


def group_of(pod: ObjectMeta) -> str:
    """The group that a pod is admitted with; empty: none."""
    return pod.labels.get(GROUP_NAME) or pod.annotations.get(GROUP_NAME, "")


def units_of(pods: Iterable[Pod], workloads: Iterable[Workload]) -> list[JobTarget]:
    """What is in queues without a Job: pods, groups of pods, and Workloads for themselves."""
    members: dict[tuple[str, str], list[Pod]] = {}
    for pod in sorted(pods, key=age_key):
        metadata = pod.metadata
        key = group_of(metadata) or metadata.uid
        members.setdefault((metadata.namespace, key), []).append(pod)
    found: list[JobTarget] = []
    for workload in workloads:
        metadata = workload.metadata
        owner = metadata.controller
        key = "" if owner is None else owner.uid
        if metadata.annotations.get(IS_GROUP) == "true":
            key = metadata.name
        elif owner is not None and owner.kind != "Pod":
            continue
        own = members.pop((metadata.namespace, key), [])
        found.append(JobTarget(None, workload, tuple(own)))
    return [*found, *(JobTarget(None, None, tuple(own)) for own in members.values())]


def age_key(pod: Pod) -> tuple[float, str]:
    """Sorts the oldest pod first."""
    return pod.metadata.creation_timestamp or 0.0, pod.metadata.name


def owners_of(metadata: ObjectMeta) -> list[str]:
    """The uids of the objects that own this one."""
    return [owner.uid for owner in metadata.owner_references]


def is_of(workload: Workload, job: Job) -> bool:
    uid, metadata = job.metadata.uid, workload.metadata
    return bool(uid) and uid in (metadata.labels.get(JOB_UID), *owners_of(metadata))


def workloads_by_job(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """By the uid of the Job; of several, the Workload made last."""
    found: dict[str, Workload] = {}
    for workload in sorted(workloads, key=lambda w: w.metadata.creation_timestamp or 0.0):
        metadata = workload.metadata
        for uid in filter(None, (*owners_of(metadata), metadata.labels.get(JOB_UID))):
            found[uid] = workload
    return found


def pods_by_job(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """By the uid of the Job."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        for uid in owners_of(pod.metadata):
            found.setdefault(uid, []).append(pod)
    return found
