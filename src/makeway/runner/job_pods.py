"""What is read of a Job's pod, and what a new one looks like."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from makeway.api.batch import ENDED_PHASES, ContainerStatus, Job, PodStatus, owner_reference
from makeway.api.labels import ATTEMPT, ID, LAST_END, LET_GO
from makeway.api.meta import ObjectMeta

TRACKING = "batch.kubernetes.io/job-tracking"  # the finalizer of pods that may still be counted
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # spell no words, are not mistaken for one another
_SUFFIX_LENGTH = 5
_PREFIX_MAX = 63 - _SUFFIX_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPod:
    """The little of a pod that its Job depends on; a whole view of each would cost too much."""

    metadata: ObjectMeta
    node_name: str  # empty: it has none
    status: PodStatus

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_tracked(self) -> bool:
        """Whether it may still be counted: it is until its finalizer is taken off."""
        return TRACKING in self.metadata.finalizers

    @property
    def was_let_go(self) -> bool:
        """Whether we stop it, so that its end is neither success nor failure."""
        return LET_GO in self.metadata.annotations

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def has_succeeded(self) -> bool:
        return self.status.phase == "Succeeded"

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs: it ended, or was deleted before or after anything ran."""
        if self.status.phase in ENDED_PHASES:
            return True
        return self.is_leaving and (
            not self.node_name or self.metadata.deletion_grace_period_seconds == 0
        )

    @property
    def is_active(self) -> bool:
        return not self.is_leaving and not self.is_over

    @property
    def is_terminating(self) -> bool:
        return self.is_leaving and not self.is_over

    @property
    def is_ready(self) -> bool:
        return self.is_active and any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions
        )

    @property
    def index(self) -> int | None:
        """The completion index; None if it has none that can be read."""
        return self._number(INDEX)

    @property
    def failures_before(self) -> int:
        """How often its index had failed when it was created."""
        return self._number(INDEX_FAILURES) or 0

    @property
    def ignored_before(self) -> int:
        return self._number(INDEX_IGNORED) or 0

    def _number(self, annotation: str) -> int | None:
        text = self.metadata.annotations.get(annotation, "")
        return int(text) if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else None

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    @property
    def restarts(self) -> int:
        return sum(container.restart_count for container in self.containers)

    @property
    def finished_at(self) -> float | None:
        """When its last container ended; None if none tells."""
        ends = [
            container.state.terminated.finished_at
            for container in self.status.container_statuses
            if container.state.terminated is not None
        ]
        return max((end for end in ends if end is not None), default=None)

    @property
    def ended_at(self) -> float:
        """When it finished; when it was told to end, if no container tells."""
        finished_at, metadata = self.finished_at, self.metadata
        if finished_at is not None:
            return finished_at
        if metadata.deletion_timestamp is not None:
            return metadata.deletion_timestamp - (metadata.deletion_grace_period_seconds or 0)
        return metadata.creation_timestamp or 0.0


@dataclass(frozen=True, slots=True)
class NewPod:
    name: str
    index: int | None = None  # None: the job has no indexes
    failures: int = 0  # of its index so far, where each index has a limit
    ignored: int = 0
    attempt: int = 1  # the how manieth run of its job it belongs to
    last_end: str = ""  # why the run before ended; empty: there was none


def pod_name(job: Job, index: int | None, ordinal: int) -> str:
    """The same for the same job, index and ordinal, so that creating a pod twice collides."""
    digest = hashlib.sha256(f"{job.metadata.uid}/{index}/{ordinal}".encode()).digest()
    number = int.from_bytes(digest[:8])
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        suffix += _LETTERS[place]
    middle = "-" if index is None else f"-{index}-"
    return job.metadata.name[: _PREFIX_MAX - len(middle)] + middle + suffix


def pod_document(job: Job, new: NewPod) -> dict[str, Any]:
    """The pod to create: the job's template, with what tells whose it is and which."""
    template = job.spec.template.document or {}
    written: Any = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": new.name,
        "namespace": job.metadata.namespace,
        "labels": {**(written.get("labels") or {})},
        "annotations": {**(written.get("annotations") or {})},
        "finalizers": [*(written.get("finalizers") or ()), TRACKING],
        "ownerReferences": [owner_reference(job)],
    }
    metadata["annotations"][ATTEMPT] = str(new.attempt)
    if ID in job.metadata.labels:
        metadata["annotations"][ID] = job.metadata.labels[ID]
    if new.last_end:
        metadata["annotations"][LAST_END] = new.last_end
    spec: Any = dict(template.get("spec") or {})  # type: ignore[call-overload]
    if new.index is not None:
        metadata["labels"][INDEX] = metadata["annotations"][INDEX] = str(new.index)
        spec["hostname"] = f"{job.metadata.name}-{new.index}"
        for name in ("initContainers", "containers"):
            if spec.get(name):
                spec[name] = [_with_index(container) for container in spec[name]]
    if new.index is not None and job.spec.backoff_limit_per_index is not None:
        metadata["annotations"][INDEX_FAILURES] = str(new.failures)
        if new.ignored:
            metadata["annotations"][INDEX_IGNORED] = str(new.ignored)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_index(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container that finds its index in the environment, unless its author says otherwise."""
    environment = list(container.get("env") or ())
    name = "JOB_COMPLETION_INDEX"
    if all(variable.get("name") != name for variable in environment):
        path = f"metadata.labels['{INDEX}']"
        environment.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    return {**container, "env": environment}
