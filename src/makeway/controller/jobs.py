"""Keeps Jobs and their queue Workloads in step; the same for our own server and for Kubernetes.

The Job is the user's, the Workload is what the queues see of it. This part makes the Workload,
holds the Job back until the Workload is admitted, starts and stops it as the Workload's conditions
say, and tells the queues through the Workload's status what became of the pods. Above all it says
when the last pod of an evicted Workload is gone: that frees the quota for others.

Everything is decided from the objects as they are, Job by Job. Some choices:

- A Job that no longer asks for what its Workload holds quota for (its user has resized it) is
  stopped, and its Workload is deleted and made anew. A Workload deleted by hand goes the same way.
- What was added to a Job's template for an admission is taken away when it has stopped. Kubernetes
  allows that only once `status.startTime` is cleared, which its Job controller does from 1.36 on.
- What the queues hear of pods counts both: pods that we see, and what the Job's status says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from makeway.api.batch import Job
from makeway.api.codec import decode_as
from makeway.api.errors import Unsupported
from makeway.api.labels import IN_USE, QUEUE_NAME
from makeway.api.meta import find_condition, is_true
from makeway.api.queueing import ResourceFlavor, Workload
from makeway.client.client import ApiError, Document, Resource
from makeway.client.parts import NOTHING, Plan, Reconciler
from makeway.client.picture import Picture
from makeway.client.resources import (
    FLAVORS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.client.writes import Create, Key, ObjectWrite, Patch, Say, Write
from makeway.controller.job_members import Members
from makeway.controller.job_priorities import Classes, Missing, Priority
from makeway.controller.job_status import (
    Draft,
    are_pods_ready,
    ending_of,
    is_at_rest,
    is_time_up,
    reclaimable_count,
)
from makeway.controller.job_template import (
    Clash,
    additions_of,
    flavors_of,
    is_dressed,
    restore_changes,
    start_changes,
)
from makeway.controller.job_workload import (
    POD_SET_NAME,
    Wanted,
    admitted_count,
    annotation_changes,
    asks_for,
    chosen,
    count_of,
    holds_quota,
    is_evicted,
    is_managed_elsewhere,
    may_run,
    new_workload,
    spec_changes,
    wanted_of,
)
from makeway.controller.workload_writes import deletion, without_finalizer, workload_patch


class Pair(NamedTuple):
    """A Job and its Workload, as they are now."""

    key: Key  # namespace and uid of the Job
    job: Job
    workload: Workload
    document: Document  # the Workload's
    wanted: Wanted
    has_pods: bool
    unsupported: tuple[Unsupported, ...]


class Jobs(Reconciler):
    resources: tuple[Resource, ...] = (
        *(JOBS, WORKLOADS, PODS, FLAVORS),
        *(WORKLOAD_CLASSES, PRIORITY_CLASSES),
    )
    contested = (JOBS, WORKLOADS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._members, self._classes = Members(), Classes()
        self._lacking: dict[Key, None] = {}  # Jobs that name a class or flavor that isn't there
        # What was last remarked of a Job, by reason, lest it is repeated.
        self._noted: dict[Key, dict[str, str]] = {}

    def changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        if resource in (JOBS, WORKLOADS, PODS):
            for job in self._members.changed(resource, key, document):
                self.mark(job)
            return
        self._classes.changed(resource, key, document)
        for job in self._lacking:
            self.mark(job)
        self._lacking.clear()

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        job = self._document(key)
        if job is None:
            return ()
        what = f"{type(write).__name__} of {write.resource.kind} {write.key.name}"
        return self._note(key, job, "Refused", f"{what}: {error.message}")

    def reconcile(self, key: Key, now: float) -> Plan:
        document = self._document(key)
        workloads = self._workloads(key)
        if document is None:
            self._noted.pop(key, None)
        if document is None or document["metadata"].get("deletionTimestamp"):
            return Plan([w for found in workloads for w in self._let_go(key, found)])
        if not workloads and QUEUE_NAME not in (document["metadata"].get("labels") or {}):
            return NOTHING
        read = decode_as(Job, document)
        views = [decode_as(Workload, found) for found in workloads]
        for errors in (read.errors, *(view.errors for view in views)):
            if errors:
                return Plan(self._note(key, document, "Unreadable", str(errors[0])))
        job = read.object
        assert job is not None
        if is_managed_elsewhere(job) or self._has_queued_owner(document):
            return NOTHING
        kept = chosen(job, [view.object for view in views if view.object is not None])
        writes: list[Write] = []
        for found, view in zip(workloads, views, strict=True):
            if view.object is not kept:
                writes += self._remove(key, found, view.object)
        wanted = wanted_of(job)
        if wanted.defects:
            writes += self._note(key, document, "Misunderstood", "; ".join(wanted.defects))
        if kept is None:
            return Plan([*writes, *self._first_sight(key, document, job, wanted)])
        place = next(i for i, view in enumerate(views) if view.object is kept)
        lacks = (*read.unsupported, *views[place].unsupported)
        pair = Pair(key, job, kept, workloads[place], wanted, self._members.has_pods(key), lacks)
        plan = self._step(pair, document, now)
        return Plan([*writes, *plan.writes], plan.next_at)

    def _step(self, pair: Pair, job_document: Document, now: float) -> Plan:
        job, workload = pair.job, pair.workload
        ending = ending_of(job)
        if is_true(workload.status.conditions, "Finished"):
            message = "Its Workload was declared finished; it holds no quota"
            stop = self._suspend(job, "Stopped", message) if ending is None else ()
            return Plan([*stop, *without_finalizer(WORKLOADS, pair.document, IN_USE)])
        draft = Draft(pair.document, workload, now)
        if ending is not None:
            return Plan(self._finish(pair, draft, *ending))
        if workload.metadata.deletion_timestamp is not None:
            return Plan(self._leave(pair))
        if not pair.wanted.queue and not holds_quota(workload):
            return Plan([deletion(WORKLOADS, pair.document)])
        draft.note_unsupported(pair.unsupported)
        writes: list[Write] = []
        if not may_run(workload):
            writes += self._stop(pair, draft)
        elif _is_resized(pair):
            message = "The Job no longer asks for what it was admitted with"
            return Plan(
                [*self._suspend(job, "Stopped", message), deletion(WORKLOADS, pair.document)]
            )
        elif job.spec.suspend:
            writes += self._start(pair, draft, job_document)
        return self._tell(pair, draft, writes, job_document)

    def _tell(self, pair: Pair, draft: Draft, writes: list[Write], job_document: Document) -> Plan:
        """Bring the Workload up to date: its status, or if that is right, its spec."""
        job, workload = pair.job, pair.workload
        next_at: float | None = None
        if may_run(workload):
            are_ready = are_pods_ready(job, have_been=draft.have_been_ready())
            draft.note_readiness(are_ready=are_ready)
            next_at = draft.note_time()
        draft.note_reclaimable({POD_SET_NAME: reclaimable_count(job, workload)})
        patch = draft.patch()
        if patch is not None:
            return Plan([*writes, patch], next_at)
        return Plan([*writes, *self._follow(pair, job_document)], next_at)

    # What is done to the Job

    def _first_sight(
        self, key: Key, document: Document, job: Job, wanted: Wanted
    ) -> Sequence[Write]:
        """A Job without a Workload waits, and gets one.

        In this order: were it admitted before it is held back, it would run as it is written.
        """
        if not wanted.queue or ending_of(job) is not None:
            return ()
        if not job.spec.suspend:
            message = f"Held back until LocalQueue {wanted.queue} admits it"
            return self._suspend(job, "Suspended", message)
        priority = self._priority(key, job)
        if isinstance(priority, Missing):
            return self._note(key, document, "PriorityClassNotFound", str(priority))
        create = Create(resource=WORKLOADS, document=new_workload(job, wanted, priority))
        message = f"Created Workload: {create.key}"
        self.say_after(create, Say(about=_about(job), reason="CreatedWorkload", message=message))
        return [create]

    def _suspend(self, job: Job, reason: str, message: str) -> Sequence[Write]:
        if job.spec.suspend:
            return ()
        patch = _job_patch(job, {"suspend": True})
        self.say_after(patch, Say(about=_about(job), reason=reason, message=message))
        return [patch]

    def _stop(self, pair: Pair, draft: Draft) -> Sequence[Write]:
        """Stop it; and when it has stopped, restore it and give its quota back."""
        job, workload = pair.job, pair.workload
        if not job.spec.suspend:
            return self._suspend(job, *_why_not(workload))
        if not is_at_rest(job, has_pods=pair.has_pods):
            return ()
        is_leaving = is_evicted(workload) and holds_quota(workload)
        if is_leaving:
            draft.release()
        return _restore(pair) if is_leaving or is_dressed(job, workload) else ()

    def _start(self, pair: Pair, draft: Draft, document: Document) -> Sequence[Write]:
        job, workload = pair.job, pair.workload
        flavors: list[ResourceFlavor] = []
        for name in flavors_of(workload):
            found = self._picture.get(FLAVORS, Key("", name))
            flavor = decode_as(ResourceFlavor, found).object if found is not None else None
            if flavor is None:
                self._lacking[pair.key] = None
                message = f"Can't start: ResourceFlavor {name} doesn't exist"
                return self._note(pair.key, document, "FlavorNotFound", message)
            flavors.append(flavor)
        additions = additions_of(workload, flavors)
        if isinstance(additions, Clash):
            draft.finish("FailedToStart", additions.message)
            return self._note(pair.key, document, "FailedToStart", additions.message)
        changes = start_changes(job, workload, additions)
        if "template" in changes and job.status.start_time is not None:
            return ()  # heard of again when whoever runs Jobs has cleared it
        patch = _job_patch(job, {**changes, "suspend": False}, is_exact=True)
        queue = workload.status.admission.cluster_queue if workload.status.admission else ""
        message = f"Admitted by ClusterQueue {queue}"
        self.say_after(patch, Say(about=_about(job), reason="Started", message=message))
        return [patch]

    # What is done to the Workload

    def _follow(self, pair: Pair, document: Document) -> Sequence[Write]:
        """Let the Workload ask for what the Job asks for, as far as that may change now."""
        job, workload, wanted = pair.job, pair.workload, pair.wanted
        if workload.spec.active and is_time_up(workload):
            return [workload_patch(pair.document, {"spec": {"active": False}})]
        sayings: Sequence[Write] = ()
        if holds_quota(workload) and wanted.queue != workload.spec.queue_name:
            message = f"It stays in LocalQueue {workload.spec.queue_name} while it holds its quota"
            sayings = self._note(pair.key, document, "QueueChangePending", message)
        if job.spec.suspend and is_dressed(job, workload):
            return sayings  # it isn't yet what its user wrote
        priority = self._priority(pair.key, job)
        known = None if isinstance(priority, Missing) else priority
        annotations = annotation_changes(workload, wanted)
        patch: Document = {"metadata": {"annotations": annotations}} if annotations else {}
        spec = spec_changes(job, workload, wanted, known)
        if spec:
            patch["spec"] = spec
        return [*sayings, workload_patch(pair.document, patch)] if patch else sayings

    def _finish(self, pair: Pair, draft: Draft, reason: str, message: str) -> Sequence[Write]:
        """The Job is over; so is the Workload, when no pod of it is left."""
        if pair.has_pods or pair.job.status.active or pair.job.status.terminating:
            return ()
        draft.finish(reason, message)
        patch = draft.patch()
        assert patch is not None, "it was not finished before"
        name = pair.workload.metadata.name
        said = f"Workload '{pair.key.namespace}/{name}' is declared finished"
        self.say_after(patch, Say(about=_about(pair.job), reason="FinishedWorkload", message=said))
        return [patch, *without_finalizer(WORKLOADS, pair.document, IN_USE)]

    def _leave(self, pair: Pair) -> Sequence[Write]:
        """Somebody has deleted the Workload: stop its Job, and let it go when that has stopped."""
        job = pair.job
        if not job.spec.suspend and holds_quota(pair.workload):
            return self._suspend(job, "Stopped", "Its Workload was deleted")
        if holds_quota(pair.workload) and not is_at_rest(job, has_pods=pair.has_pods):
            return ()
        if job.spec.suspend and is_dressed(job, pair.workload):
            return _restore(pair)
        return without_finalizer(WORKLOADS, pair.document, IN_USE)

    def _remove(self, key: Key, document: Document, view: Workload | None) -> Sequence[Write]:
        """A Workload too many: the Job has another one."""
        if not document["metadata"].get("deletionTimestamp"):
            return [deletion(WORKLOADS, document)]
        holds = view is not None and holds_quota(view)
        return (
            ()
            if holds and self._members.has_pods(key)
            else without_finalizer(WORKLOADS, document, IN_USE)
        )

    def _let_go(self, key: Key, document: Document) -> Sequence[Write]:
        """A Workload whose Job is gone or goes: nothing holds it once its pods are gone.

        Servers delete it with its Job, unless that was deleted without what it owns.
        """
        is_leaving = bool(document["metadata"].get("deletionTimestamp"))
        if self._members.has_pods(key) or not (is_leaving or self._document(key) is None):
            return ()
        free = without_finalizer(WORKLOADS, document, IN_USE)
        return free if is_leaving else [deletion(WORKLOADS, document), *free]

    # What there is

    def _document(self, key: Key) -> Document | None:
        for job in self._members.keys(key, JOBS):
            return self._picture.get(JOBS, job)
        return None

    def _workloads(self, key: Key) -> list[Document]:
        found = (self._picture.get(WORKLOADS, k) for k in self._members.keys(key, WORKLOADS))
        return [document for document in found if document is not None]

    def _has_queued_owner(self, document: Document) -> bool:
        """Whether a Job is a part of another that stands in a queue for both."""
        for reference in document["metadata"].get("ownerReferences") or ():
            if reference.get("controller"):
                key = Key(document["metadata"]["namespace"], reference["uid"])
                owner = self._document(key)
                return owner is not None and QUEUE_NAME in (owner["metadata"].get("labels") or {})
        return False

    def _priority(self, key: Key, job: Job) -> Priority | Missing:
        priority = self._classes.priority_of(job.metadata.labels, job.spec.template.spec)
        if isinstance(priority, Missing):
            self._lacking[key] = None
        return priority

    def _note(self, key: Key, job: Document, reason: str, message: str) -> Sequence[Say]:
        """Say it about the Job, but not again what was said."""
        noted = self._noted.setdefault(key, {})
        if noted.get(reason) == message:
            return ()
        noted[reason] = message
        about = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": job["metadata"]}
        return [Say(about=about, reason=reason, message=message, type="Warning")]


def _is_resized(pair: Pair) -> bool:
    """Whether a Job asks for other pods than its Workload holds quota for."""
    job, workload = pair.job, pair.workload
    if job.spec.suspend:
        return not is_dressed(job, workload) and not asks_for(workload, job, pair.wanted)
    pod_set = workload.spec.pod_sets[0]  # the rest of its shape can't change while it runs
    started = pod_set.count if pod_set.min_count is None else admitted_count(workload)
    return count_of(job) != started


def _why_not(workload: Workload) -> tuple[str, str]:
    """Reason and message for stopping a Job whose Workload may not run."""
    evicted = find_condition(workload.status.conditions, "Evicted")
    if evicted is not None and evicted.status == "True":
        return "Stopped", evicted.message
    if not workload.spec.active:
        return "Stopped", "The workload is deactivated"
    return "Suspended", f"Held back until LocalQueue {workload.spec.queue_name} admits it"


def _restore(pair: Pair) -> Sequence[Write]:
    changes = restore_changes(pair.job, pair.workload)
    if not changes or pair.job.status.start_time is not None:
        return ()
    return [_job_patch(pair.job, changes, is_exact=True)]


def _job_patch(job: Job, spec: Document, *, is_exact: bool = False) -> Patch:
    """Change a Job's spec; `is_exact`: only if it is still as we saw it."""
    metadata = {"uid": job.metadata.uid}
    if is_exact:
        metadata["resourceVersion"] = job.metadata.resource_version
    key = Key(job.metadata.namespace, job.metadata.name)
    return Patch(resource=JOBS, key=key, patch={"metadata": metadata, "spec": spec})


def _about(job: Job) -> Document:
    metadata = {
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "uid": job.metadata.uid,
        "resourceVersion": job.metadata.resource_version,
    }
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata}
