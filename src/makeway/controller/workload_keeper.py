"""What the parts share that keep users' objects and their queue Workloads in step.

Who asks for a Workload, a Job or a unit of pods, names priority classes and is admitted with
flavors. Where one of these is missing it waits, and is looked at again when one comes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from makeway.api.batch import PodSpec
from makeway.api.configuration import Configuration
from makeway.api.kinds import (
    FLAVORS,
    NAMESPACES,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import IN_USE, QUEUE_NAME
from makeway.api.queueing import ResourceFlavor, Workload
from makeway.client.client import ApiError, Document
from makeway.controller.job_priorities import Classes, Missing, Priority
from makeway.controller.job_status import Draft
from makeway.controller.job_template import Additions, Clash, additions_of, flavors_of
from makeway.controller.workload_writes import without_finalizer
from makeway.plane.parts import Reconciler
from makeway.plane.picture import Change, Index, Object, Picture
from makeway.plane.writes import Create, Key, ObjectWrite, Say, Write, key_of
from makeway.translate import messages

DEFAULTS = Configuration()
REFERENCED_KINDS = (FLAVORS, WORKLOAD_CLASSES, PRIORITY_CLASSES)  # a named object may be missing


class WorkloadKeeper(Reconciler):
    """Its keys are those who ask for a Workload."""

    def __init__(self, picture: Picture, configuration: Configuration) -> None:
        super().__init__()
        self._picture, self._configuration = picture, configuration
        managed = configuration.managed_namespaces
        self._managed = picture.index(
            NAMESPACES, lambda found: (found.key.name, managed.matches(_labels_of(found)))
        )
        self._classes = Classes(picture)
        self._lacking: dict[Key, None] = {}  # keys that name a class or flavor that isn't there
        # What was last remarked about each key, by reason, lest it is repeated.
        self._noted: dict[Key, dict[str, str]] = {}

    @abstractmethod
    def event_target(self, key: Key) -> Document | None:
        """The object that has the events; None: there is none any more."""

    def is_queued(self, document: Document) -> bool:
        """Whether a queue decides about an object: it names one, or has to; and its namespace is
        one of those where anything is queued.
        """
        metadata = document["metadata"]
        names_queue = QUEUE_NAME in (metadata.get("labels") or {})
        if not names_queue and not self._configuration.manage_jobs_without_queue_name:
            return False
        return any(self._managed.values(metadata["namespace"]))

    def namespace_changed(self, change: Change, kind: Resource, index: Index[Key, Any]) -> None:
        """Mark the objects of a kind about which queues may decide from now on, or no longer."""
        if not any(True for _ in self._managed.touched(change)):
            return
        keys = [key for key in self._picture.keys(kind) if key.namespace == change.key.name]
        found = [index.entry(self._picture.find(kind, key)) for key in keys]
        self.mark(*(entry[0] for entry in found if entry is not None))

    def reference_changed(self) -> None:
        """An object of one of the kinds in `REFERENCED_KINDS` has changed."""
        self.mark(*self._lacking)
        self._lacking.clear()

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        about = self.event_target(key)
        if about is None:
            return ()
        what = f"{type(write).__name__} of {write.resource.kind} {write.key.name}"
        return self.note(key, about, "Refused", f"{what}: {error.message}")

    def note(
        self, key: Key, about: Document, reason: str, message: str, type: str = "Warning"
    ) -> Sequence[Say]:
        """Say it, but not again what was said."""
        noted = self._noted.setdefault(key, {})
        if noted.get(reason) == message:
            return ()
        noted[reason] = message
        return [Say(about=about, reason=reason, message=message, type=type)]

    def priority_for(
        self, key: Key, labels: Mapping[str, str], pods: PodSpec
    ) -> Priority | Missing:
        priority = self._classes.priority_of(labels, pods)
        if isinstance(priority, Missing):
            self._lacking[key] = None
        return priority

    def note_missing(self, key: Key, about: Document, missing: Missing) -> Sequence[Say]:
        """Say under Kueue's name that a priority class is not there."""
        return self.note(key, about, f"{missing.kind}NotFound", str(missing))

    def additions_for(self, key: Key, workload: Workload) -> Additions | Missing | Clash:
        """What the admission of a Workload adds to its pods, or what is in the way of that."""
        flavors: list[ResourceFlavor] = []
        for name in flavors_of(workload):
            found = self._picture.find(FLAVORS, Key("", name))
            if found is None or found.view is None:
                self._lacking[key] = None
                return Missing(FLAVORS.kind, name)
            flavors.append(found.view)
        return additions_of(workload, flavors)

    def fail_to_start(
        self, key: Key, about: Document, draft: Draft, obstacle: Missing | Clash
    ) -> Sequence[Say]:
        """A flavor may still come; a clash stays what it is, and ends the Workload."""
        if isinstance(obstacle, Missing):
            return self.note(key, about, "FlavorNotFound", messages.CANNOT_START.format(obstacle))
        draft.finish("FailedToStart", obstacle.message)
        return self.note(key, about, "FailedToStart", obstacle.message)


def _labels_of(found: Object) -> Mapping[str, str]:
    return found.document["metadata"].get("labels") or {}


def creation(document: Document, about: Document) -> Create:
    message = messages.CREATED_WORKLOAD.format(key_of(document))
    said = Say(about=about, reason="CreatedWorkload", message=message)
    return Create(resource=WORKLOADS, document=document, then=(said,))


def admitted_by(workload: Workload, about: Document) -> Say:
    admission = workload.status.admission
    queue = admission.cluster_queue if admission is not None else ""
    return Say(about=about, reason="Started", message=messages.ADMITTED_BY.format(queue))


def finish(draft: Draft, about: Document, reason: str, message: str) -> Sequence[Write]:
    """Declare a Workload finished, and hold it no longer."""
    draft.finish(reason, message)
    patch = draft.patch()
    assert patch is not None, "it was not finished before"
    text = messages.FINISHED_WORKLOAD.format(patch.key)
    said = Say(about=about, reason="FinishedWorkload", message=text)
    freed = without_finalizer(WORKLOADS, draft.document, IN_USE)
    return [replace(patch, then=(said,)), *freed]
