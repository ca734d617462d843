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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from makeway.api.batch import ENDED_PHASES, Job
from makeway.api.configuration import Configuration
from makeway.api.errors import Unsupported
from makeway.api.kinds import JOBS, NAMESPACES, PODS, WORKLOADS, Resource
from makeway.api.labels import CANCELLED_BY, IN_USE, JOB_UID, LAST_END, STARTS
from makeway.api.meta import controller_of, is_true
from makeway.api.queueing import Workload
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.array_limits import ArrayLimits
from makeway.controller.conditions import conditions_of, true_types, with_condition
from makeway.controller.dependencies import Dependencies, LastOutcome, Never, nobody_knows
from makeway.controller.job_priorities import Missing
from makeway.controller.job_status import (
    Draft,
    are_pods_ready,
    ending_of,
    is_at_rest,
    reclaimable_count,
)
from makeway.controller.job_template import (
    Additions,
    has_injected_fields,
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
    has_shape_of,
    holds_quota,
    is_evicted,
    is_managed_elsewhere,
    is_terminated,
    may_run,
    new_workload,
    number_in,
    pod_sets_of,
    preemption_changes,
    shared_with,
    spec_changes,
    stop_of,
    wanted_of,
)
from makeway.controller.statuses import TERMINATED
from makeway.controller.workload_keeper import (
    DEFAULTS,
    REFERENCED_KINDS,
    WorkloadKeeper,
    admitted_by,
    creation,
    finish,
)
from makeway.controller.workload_writes import deletion, without_finalizer, workload_patch
from makeway.plane.parts import NOTHING, Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, Patch, Say, Write, status_patch
from makeway.translate import messages

FAILURE_TARGET = "FailureTarget"  # condition of a Job: its end is decided
NEVER_SATISFIED = "DependencyNeverSatisfied"  # reason of the end of a Job that waited in vain
CANCELLED = "Cancelled"  # reason of the end of a Job that somebody wanted to end


class Pair(NamedTuple):
    """A Job and its Workload, as they are now."""

    key: Key  # namespace and uid of the Job
    job: Job
    about: Document  # the Job, for events
    workload: Workload
    document: Document  # the Workload's
    wanted: Wanted
    is_queued: bool  # the queues still decide about it
    has_pods: bool
    unsupported: tuple[Unsupported, ...]


class Jobs(WorkloadKeeper):
    resources: tuple[Resource, ...] = (JOBS, WORKLOADS, PODS, NAMESPACES, *REFERENCED_KINDS)
    contested = (JOBS, WORKLOADS)

    def __init__(
        self,
        picture: Picture,
        configuration: Configuration = DEFAULTS,
        last_outcome: LastOutcome = nobody_knows,
    ) -> None:
        """`last_outcome` tells what became of Jobs that are gone."""
        super().__init__(picture, configuration)
        # By namespace and uid of the Job: one made anew under an old name has nothing of the old
        # one. What belongs to a Job stays there when the Job is gone.
        self._jobs = picture.index(JOBS, lambda job: (Key(job.key.namespace, job.uid), None))
        self._workloads = picture.index(WORKLOADS, lambda found: _job_of(found, JOB_UID))
        self._pods = picture.index(PODS, _job_of_pod)
        self._arrays = ArrayLimits(picture, self._workloads.has)
        self._dependencies = Dependencies(picture, last_outcome)

    def changed(self, change: Change) -> None:
        if change.resource in REFERENCED_KINDS:
            self.reference_changed()
        elif change.resource == PODS:  # how a pod fares, the Job's status tells
            self.mark(*self._pods.touched(change))
        elif change.resource == JOBS:
            self.mark(*self._jobs.groups(change), *self._arrays.changed(change))
            self.mark(*self._dependencies.changed(change))
        elif change.resource == NAMESPACES:
            self.namespace_changed(change, JOBS, self._jobs)
        else:
            self.mark(*self._workloads.groups(change))

    def event_target(self, key: Key) -> Document | None:
        found = self._find(key)
        return _about(found.document) if found is not None else None

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._find(key)
        workloads = [self._picture.find(WORKLOADS, k) for k in self._workloads.keys(key)]
        ours = [workload for workload in workloads if workload is not None]
        if found is None:
            self._noted.pop(key, None)
        if found is None or found.document["metadata"].get("deletionTimestamp"):
            return Plan([w for workload in ours for w in self._let_go(key, workload.document)])
        document = found.document
        is_queued = self.is_queued(document)
        if not ours and not is_queued:
            return NOTHING
        about = _about(document)
        for read in (found.read, *(workload.read for workload in ours)):
            if read.errors:
                return Plan(self.note(key, about, "Unreadable", str(read.errors[0])))
        job: Job = found.view
        if is_managed_elsewhere(job) or self._has_queued_owner(document):
            return NOTHING
        kept = chosen(job, ours)
        others = [workload for workload in ours if workload is not kept]
        writes = [write for workload in others for write in self._remove(key, workload)]
        wanted = wanted_of(job)
        if wanted.defects:
            writes += self.note(key, about, "Misunderstood", "; ".join(wanted.defects))
        if CANCELLED_BY in job.metadata.annotations and ending_of(job) is None:
            return Plan([*writes, *_cancel(job, about, now)])
        if kept is None:
            begin = self._first_sight(key, found, job, wanted, now) if is_queued else ()
            return Plan([*writes, *begin])
        lacks = (*found.read.unsupported, *kept.read.unsupported)
        has_pods = self._pods.has(key)
        pair = Pair(key, job, about, kept.view, kept.document, wanted, is_queued, has_pods, lacks)
        plan = self._step(pair, now)
        return Plan([*writes, *plan.writes], plan.next_at)

    def _step(self, pair: Pair, now: float) -> Plan:
        job, workload = pair.job, pair.workload
        ending = ending_of(job)
        if is_true(workload.status.conditions, "Finished"):
            message = messages.WORKLOAD_FINISHED
            stop = _suspend(job, pair.about, "Stopped", message) if ending is None else ()
            return Plan([*stop, *without_finalizer(WORKLOADS, pair.document, IN_USE)])
        draft = Draft(pair.document, workload, now)
        if ending is not None:
            return Plan(_finish(pair, draft, *ending))
        if workload.metadata.deletion_timestamp is not None:
            return Plan(_leave(pair))
        if not pair.is_queued and not holds_quota(workload):
            return Plan([deletion(WORKLOADS, pair.document)])
        draft.note_unsupported(pair.unsupported)
        writes: list[Write] = []
        if is_terminated(workload):
            writes += _terminate(pair, now)
        elif not may_run(workload):
            writes += _stop(pair, draft)
        elif _is_resized(pair):
            stop = _suspend(job, pair.about, "Stopped", messages.JOB_CHANGED)
            return Plan([*stop, deletion(WORKLOADS, pair.document)])
        elif job.spec.suspend:
            writes += self._start(pair, draft)
        return self._tell(pair, draft, writes)

    def _tell(self, pair: Pair, draft: Draft, writes: list[Write]) -> Plan:
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
        return Plan([*writes, *self._follow(pair)], next_at)

    # What is done to the Job

    def _first_sight(
        self, key: Key, found: Object, job: Job, wanted: Wanted, now: float
    ) -> Sequence[Write]:
        """A Job without a Workload waits, and gets one.

        In this order: were it admitted before it is held back, it would run as it is written.
        """
        if ending_of(job) is not None:
            return ()
        about = _about(found.document)
        if not job.spec.suspend:
            return _hold_back(job, about, wanted.queue)
        wishes = job.metadata.annotations
        obstacle = self._dependencies.obstacle(key, job.metadata.namespace, wishes)
        if isinstance(obstacle, Never):
            return _end_as_failed(job, about, NEVER_SATISFIED, obstacle.message, now)
        if obstacle is not None or not self._arrays.lets_in(found):
            return ()
        priority = self.priority_for(key, job.metadata.labels, job.spec.template.spec)
        if isinstance(priority, Missing):
            return self.note_missing(key, about, priority)
        return [creation(new_workload(job, wanted, priority), about)]

    def _start(self, pair: Pair, draft: Draft) -> Sequence[Write]:
        job, workload = pair.job, pair.workload
        additions = self.additions_for(pair.key, workload)
        if not isinstance(additions, Additions):
            return self.fail_to_start(pair.key, pair.about, draft, additions)
        changes = start_changes(job, workload, additions)
        if "template" in changes and job.status.start_time is not None:
            return ()  # heard of again when whoever runs Jobs has cleared it
        spec, then = {**changes, "suspend": False}, (admitted_by(workload, pair.about),)
        starts = (number_in(job.metadata.annotations.get(STARTS)) or 0) + 1
        noted = {STARTS: str(starts)}
        return [_job_patch(job, spec, is_exact=True, then=then, annotations=noted)]

    # What is done to the Workload

    def _follow(self, pair: Pair) -> Sequence[Write]:
        """Let the Workload ask for what the Job asks for, as far as that may change now."""
        job, workload, wanted = pair.job, pair.workload, pair.wanted
        sayings: Sequence[Write] = ()
        if holds_quota(workload) and wanted.queue != workload.spec.queue_name:
            message = messages.STAYS_IN.format(workload.spec.queue_name)
            sayings = self.note(pair.key, pair.about, "QueueChangePending", message)
        is_injected = has_injected_fields(job, workload)  # the Job isn't what its user wrote
        if job.spec.suspend and is_injected:
            return sayings
        priority = self.priority_for(pair.key, job.metadata.labels, job.spec.template.spec)
        if isinstance(priority, Missing):
            sayings = [*sayings, *self.note_missing(pair.key, pair.about, priority)]
        spec = spec_changes(workload, wanted.queue, wanted.limit_s, priority)
        spec |= preemption_changes(workload, wanted)
        if not (holds_quota(workload) or is_injected or has_shape_of(workload, job, wanted)):
            spec["podSets"] = pod_sets_of(job, wanted)
        annotations = annotation_changes(workload, wanted.annotations, shared_with(wanted))
        patch = workload_patch(pair.document, spec=spec, annotations=annotations)
        return [*sayings, patch] if patch is not None else sayings

    def _remove(self, key: Key, workload: Object) -> Sequence[Write]:
        """A Workload too many: the Job has another one."""
        if not workload.document["metadata"].get("deletionTimestamp"):
            return [deletion(WORKLOADS, workload.document)]
        if holds_quota(workload.view) and self._pods.has(key):
            return ()
        return without_finalizer(WORKLOADS, workload.document, IN_USE)

    def _let_go(self, key: Key, document: Document) -> Sequence[Write]:
        """A Workload whose Job is gone or goes: nothing holds it once its pods are gone.

        Servers delete it with its Job, unless that was deleted without what it owns.
        """
        is_leaving = bool(document["metadata"].get("deletionTimestamp"))
        if self._pods.has(key) or not (is_leaving or not self._jobs.has(key)):
            return ()
        free = without_finalizer(WORKLOADS, document, IN_USE)
        return free if is_leaving else [deletion(WORKLOADS, document), *free]

    # What there is

    def _find(self, key: Key) -> Object | None:
        for job in self._jobs.keys(key):
            return self._picture.find(JOBS, job)
        return None

    def _has_queued_owner(self, document: Document) -> bool:
        """Whether a Job is a part of another that stands in a queue for both."""
        controller = controller_of(document)
        if controller is None:
            return False
        owner = self._find(Key(document["metadata"]["namespace"], controller.uid))
        return owner is not None and self.is_queued(owner.document)


def _job_of_pod(pod: Object) -> tuple[Key, None] | None:
    """Only pods that may run or are on their way out count: asking costs the same for ten thousand
    that have ended.
    """
    document = pod.document
    is_over = (document.get("status") or {}).get("phase") in ENDED_PHASES
    if is_over and not document["metadata"].get("deletionTimestamp"):
        return None
    return _job_of(pod, "batch.kubernetes.io/controller-uid")


def _job_of(found: Object, label: str) -> tuple[Key, None] | None:
    """Objects whose owner let go of them when it was deleted are told by their label."""
    owner = controller_of(found.document)
    if owner is None:
        uid = (found.document["metadata"].get("labels") or {}).get(label)
    else:
        is_job = owner.kind == JOBS.kind and owner.api_version.startswith("batch/")
        uid = owner.uid if is_job else ""
    return (Key(found.key.namespace, uid), None) if uid else None


def _is_resized(pair: Pair) -> bool:
    """Whether a Job asks for other pods than its Workload holds quota for."""
    job, workload = pair.job, pair.workload
    if job.spec.suspend:
        return not has_injected_fields(job, workload) and not asks_for(workload, job, pair.wanted)
    pod_set = workload.spec.pod_sets[0]  # the rest of its shape can't change while it runs
    started = pod_set.count if pod_set.min_count is None else admitted_count(workload)
    return count_of(job) != started


def _stop(pair: Pair, draft: Draft) -> Sequence[Write]:
    """Stop it; and when it has stopped, restore it and give its quota back."""
    job, workload = pair.job, pair.workload
    if not job.spec.suspend:
        stop = stop_of(workload)
        if stop is None:
            return _hold_back(job, pair.about, workload.spec.queue_name)
        reason, message = stop
        return _suspend(job, pair.about, "Stopped", message, last_end=_end_in_a_word(reason))
    if not is_at_rest(job, has_pods=pair.has_pods):
        return ()
    is_leaving = is_evicted(workload) and holds_quota(workload)
    if is_leaving:
        draft.release()
    return _restore(pair) if is_leaving or has_injected_fields(job, workload) else ()


def _terminate(pair: Pair, now: float) -> Sequence[Write]:
    """It had to make way and is not to come back: whoever runs Jobs ends it as failed."""
    stop = stop_of(pair.workload)
    message = messages.TERMINATED if stop is None else f"{messages.TERMINATED}. {stop[1]}"
    return _end_as_failed(pair.job, pair.about, TERMINATED, message, now)


def _cancel(job: Job, about: Document, now: float) -> Sequence[Write]:
    """Somebody wants it to end: it ends as failed, and stays to be looked at."""
    message = messages.CANCELLED.format(job.metadata.annotations[CANCELLED_BY] or "somebody")
    return _end_as_failed(job, about, CANCELLED, message, now)


def _end_as_failed(
    job: Job, about: Document, reason: str, message: str, now: float
) -> Sequence[Write]:
    document = dict(job.document or {})
    before = conditions_of(document)
    if FAILURE_TARGET in true_types(before):
        return ()
    told = FAILURE_TARGET, "True", reason, message
    said = Say(about=about, reason=reason, message=message)
    status: Document = {"conditions": with_condition(before, *told, now)}
    if job.status.start_time is None:
        status["startTime"] = format_time(int(now))  # without it, Kubernetes ends no Job
    return [replace(status_patch(JOBS, document, status), then=(said,))]


def _finish(pair: Pair, draft: Draft, reason: str, message: str) -> Sequence[Write]:
    """The Job is over; so is the Workload, when no pod of it is left."""
    if pair.has_pods or pair.job.status.active or pair.job.status.terminating:
        return ()
    return finish(draft, pair.about, reason, message)


def _leave(pair: Pair) -> Sequence[Write]:
    """Somebody has deleted the Workload: stop its Job, and let it go when that has stopped."""
    job = pair.job
    if not job.spec.suspend and holds_quota(pair.workload):
        return _suspend(job, pair.about, "Stopped", messages.WORKLOAD_DELETED)
    if holds_quota(pair.workload) and not is_at_rest(job, has_pods=pair.has_pods):
        return ()
    if job.spec.suspend and has_injected_fields(job, pair.workload):
        return _restore(pair)
    return without_finalizer(WORKLOADS, pair.document, IN_USE)


def _hold_back(job: Job, about: Document, queue: str) -> Sequence[Write]:
    message = messages.HELD_BACK.format(queue) if queue else messages.HELD_BACK_WITHOUT_QUEUE
    return _suspend(job, about, "Suspended", message)


def _suspend(
    job: Job, about: Document, reason: str, message: str, *, last_end: str = ""
) -> Sequence[Write]:
    if job.spec.suspend:
        return ()
    said = Say(about=about, reason=reason, message=message)
    noted = {LAST_END: last_end} if last_end else {}
    return [_job_patch(job, {"suspend": True}, then=(said,), annotations=noted)]


def _end_in_a_word(reason: str) -> str:
    """`Preempted`, for the next attempt to read."""
    return reason.removeprefix("WorkloadEvictedDueTo").removeprefix("Workload")


def _restore(pair: Pair) -> Sequence[Write]:
    changes = restore_changes(pair.job, pair.workload)
    if not changes or pair.job.status.start_time is not None:
        return ()
    return [_job_patch(pair.job, changes, is_exact=True)]


def _job_patch(
    job: Job,
    spec: Document,
    *,
    is_exact: bool = False,
    then: tuple[Say, ...] = (),
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Patch:
    """Change a Job's spec; `is_exact`: only if it is still as we saw it."""
    metadata: Document = {"uid": job.metadata.uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if is_exact:
        metadata["resourceVersion"] = job.metadata.resource_version
    key = Key(job.metadata.namespace, job.metadata.name)
    return Patch(resource=JOBS, key=key, patch={"metadata": metadata, "spec": spec}, then=then)


def _about(job: Document) -> Document:
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": job["metadata"]}
