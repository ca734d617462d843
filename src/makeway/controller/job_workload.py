"""The queue Workload that a Job asks for: its name, its spec, and where an existing one differs.

What has nothing of a Job in it, pods without a Job share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from makeway.api.batch import Job, Pod, owner_reference, pod_requests
from makeway.api.codec import encode
from makeway.api.kinds import WORKLOADS
from makeway.api.labels import (
    ACCOUNT,
    DISRUPTION_COSTS,
    HOLD,
    ID,
    IN_USE,
    JOB_UID,
    LAST_CHECKPOINT,
    MAX_EXEC_TIME,
    MIN_PARALLELISM,
    ON_PREEMPTION,
    PREEMPTION_MODE,
    PREEMPTION_PRIORITY_CLASS,
    QUEUE_NAME,
)
from makeway.api.meta import find_condition, is_true
from makeway.api.queueing import PriorityClassRef, Workload
from makeway.api.times import TimeError, parse_time
from makeway.api.validation.queues import MILESTONES_MAX
from makeway.client.client import Document
from makeway.controller.job_priorities import Missing, Priority
from makeway.engine.model import EvictionReason
from makeway.plane.picture import Object
from makeway.translate.words import deactivated_text
from makeway.translate.workloads import TO_DEACTIVATE, constraints_of

POD_SET_NAME = "main"
NAME_MAX = 63
# Annotations that a Job's Workload shares.
COPIED = (PREEMPTION_MODE, PREEMPTION_PRIORITY_CLASS, LAST_CHECKPOINT)
TERMINATE = "Terminate"
PREEMPTED = EvictionReason.PREEMPTED.value
PREEMPTED_IN_PLACEMENT = EvictionReason.PREEMPTED_IN_PLACEMENT.value
_KUBERNETES = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a Job asks of the queues."""

    queue: str  # empty: it has left them
    count: int
    min_count: int | None  # None: all pods or none
    limit_s: int | None  # of its time admitted; None: without limit
    annotations: dict[str, str]
    defects: tuple[str, ...]  # what it asks for and can't be understood
    on_preemption: str | None = None  # None: it is queued again
    milestones: tuple[tuple[int, int], ...] = ()  # seconds since admission, and the cost then


def is_managed_elsewhere(job: Job) -> bool:
    return job.spec.managed_by not in ("", _KUBERNETES)


def name_of(owner: Job | Pod) -> str:
    """Told by the Job or pod alone, so that nobody ever makes two for it; Kueue's tools tell it so.

    But for a point at the end of what is cut off, with which no server would take the name.
    """
    meta, (group, _, _) = owner.metadata, owner.API_VERSION.rpartition("/")
    told = "\n".join((owner.KIND, group, meta.name, meta.uid))
    digest = hashlib.sha1(told.encode(), usedforsecurity=False).hexdigest()[:5]
    # Where several people share a server, others are told of a job by account and number only.
    name = meta.labels.get(ID) if ACCOUNT in meta.annotations else meta.name
    return f"{owner.KIND.lower()}-{name}"[: NAME_MAX - 6].rstrip(".") + f"-{digest}"


def count_of(job: Job) -> int:
    """How many pods it has at once; more than there are completions left it never has."""
    completions = job.spec.completions
    if completions is None:
        return job.spec.parallelism
    return min(job.spec.parallelism, completions)


def wanted_of(job: Job) -> Wanted:
    labels, annotations = job.metadata.labels, job.metadata.annotations
    count, defects = count_of(job), []
    min_count = number_in(annotations.get(MIN_PARALLELISM))
    if MIN_PARALLELISM in annotations and (min_count is None or not 1 <= min_count <= count):
        defects.append(f"{MIN_PARALLELISM}: write a number between 1 and {count}")
        min_count = None
    limit_s = number_in(labels.get(MAX_EXEC_TIME))
    if MAX_EXEC_TIME in labels and (limit_s is None or limit_s < 1):
        defects.append(f"{MAX_EXEC_TIME}: write a number of seconds")
        limit_s = None
    on_preemption = annotations.get(ON_PREEMPTION)
    if on_preemption not in (None, "Requeue", TERMINATE):
        defects.append(f"{ON_PREEMPTION}: write Requeue or {TERMINATE}")
        on_preemption = None
    milestones = milestones_in(annotations.get(DISRUPTION_COSTS, ""))
    if milestones is None:
        example = "seconds=cost, later ones last, such as 0=0,60=100,600=0"
        defects.append(f"{DISRUPTION_COSTS}: write {example}")
    if LAST_CHECKPOINT in annotations and not is_time(annotations[LAST_CHECKPOINT]):
        defects.append(f"{LAST_CHECKPOINT}: write a time such as 2026-01-05T09:03:00Z")
    return Wanted(
        queue=labels.get(QUEUE_NAME, ""),
        count=count,
        min_count=min_count,
        limit_s=limit_s,
        annotations={key: annotations[key] for key in COPIED if key in annotations},
        defects=tuple(defects),
        on_preemption=on_preemption,
        milestones=milestones or (),
    )


def milestones_in(text: str) -> tuple[tuple[int, int], ...] | None:
    """`0=0,60=100` as pairs of seconds and cost; None if that can't be understood."""
    pairs = [part.strip().partition("=") for part in text.split(",") if text]
    found = [(number_in(seconds.strip()), number_in(cost.strip())) for seconds, _, cost in pairs]
    known = [(seconds, cost) for seconds, cost in found if seconds is not None and cost is not None]
    is_rising = all(before[0] < after[0] for before, after in pairwise(known))
    is_understood = len(known) == len(found) <= MILESTONES_MAX and is_rising
    return tuple(known) if is_understood else None


def is_time(text: str) -> bool:
    try:
        parse_time(text)
    except TimeError:
        return False
    return True


def preemption_changes(workload: Workload, wanted: Wanted) -> Document:
    """What of its spec says how it makes way, where that differs from what its Job asks for."""
    changes: Document = {}
    asked = preemption_spec(wanted)
    shown = workload.spec.preemption.disruption_cost_milestones if workload.spec.preemption else ()
    if tuple((m.seconds, m.cost) for m in shown) != wanted.milestones:
        changes["preemption"] = asked.get("preemption")
    if workload.spec.on_preemption != wanted.on_preemption:
        changes["onPreemption"] = wanted.on_preemption
    return changes


def preemption_spec(wanted: Wanted) -> Document:
    spec: Document = {}
    if wanted.milestones:
        costs = [{"seconds": seconds, "cost": cost} for seconds, cost in wanted.milestones]
        spec["preemption"] = {"disruptionCostMilestones": costs}
    if wanted.on_preemption is not None:
        spec["onPreemption"] = wanted.on_preemption
    return spec


def number_in(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def new_workload(job: Job, wanted: Wanted, priority: Priority) -> Document:
    meta = job.metadata
    metadata: Document = {
        "name": name_of(job),
        "namespace": meta.namespace,
        "labels": {JOB_UID: meta.uid},
        "ownerReferences": [owner_reference(job)],
    }
    if wanted.annotations:
        metadata["annotations"] = wanted.annotations
    spec: Document = {
        "queueName": wanted.queue,
        "podSets": pod_sets_of(job, wanted),
        "active": meta.annotations.get(HOLD) != "true",
        **preemption_spec(wanted),
    }
    return workload_document(metadata, spec, priority, wanted.limit_s)


def workload_document(
    metadata: Document, spec: Document, priority: Priority, limit_s: int | None
) -> Document:
    """A Workload that stays until whoever asks for it has let go of it."""
    spec = {**spec, "priority": priority.value}
    if priority.reference is not None:
        spec["priorityClassRef"] = encode(priority.reference)
    if limit_s is not None:
        spec["maximumExecutionTimeSeconds"] = limit_s
    kind = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    return {**kind, "metadata": {**metadata, "finalizers": [IN_USE]}, "spec": spec}


def pod_sets_of(job: Job, wanted: Wanted) -> list[Document]:
    pod_set: Document = {
        "name": POD_SET_NAME,
        "count": wanted.count,
        "template": job.spec.template.document,
    }
    if wanted.min_count is not None:
        pod_set["minCount"] = wanted.min_count
    return [pod_set]


def chosen(job: Job, workloads: Iterable[Object]) -> Object | None:
    """The Workload that counts for a Job, of whatever name; None if it has none.

    One that holds quota comes first, lest a running Job is stopped for the sake of a name.
    """
    name = name_of(job)
    return min(
        workloads,
        key=lambda workload: (
            not holds_quota(workload.view),
            workload.key.name != name,
            workload.view.metadata.creation_timestamp or 0.0,
            workload.key.name,
        ),
        default=None,
    )


def holds_quota(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return is_true(conditions, "QuotaReserved") and not is_true(conditions, "Finished")


def is_evicted(workload: Workload) -> bool:
    return is_true(workload.status.conditions, "Evicted")


def may_run(workload: Workload) -> bool:
    """Admitted, and nothing has been said since that takes it back."""
    conditions = workload.status.conditions
    return (
        workload.spec.active
        and workload.status.admission is not None
        and is_true(conditions, "QuotaReserved")
        and is_true(conditions, "Admitted")
        and not is_true(conditions, "Evicted")
    )


def stop_of(workload: Workload) -> tuple[str, str] | None:
    """Reason and message of what stops a Workload; None: it may run, or isn't admitted yet."""
    evicted = find_condition(workload.status.conditions, "Evicted")
    if evicted is not None and evicted.status == "True":
        return f"WorkloadEvictedDueTo{evicted.reason}", evicted.message
    if not workload.spec.active:
        target = find_condition(workload.status.conditions, TO_DEACTIVATE)
        why = target.message if target is not None and target.status == "True" else ""
        return "WorkloadDeactivated", deactivated_text(why)
    return None


def is_terminated(workload: Workload) -> bool:
    """Whether it had to make way and is not to be queued again."""
    evicted = find_condition(workload.status.conditions, "Evicted")
    return (
        workload.spec.on_preemption == TERMINATE
        and evicted is not None
        and evicted.status == "True"
        and evicted.reason in (PREEMPTED, PREEMPTED_IN_PLACEMENT)
    )


def admitted_count(workload: Workload) -> int | None:
    """How many pods it may have at once; None: no admission says so.

    Fewer than it accepts are admitted only when no more are left to do, and then no more come.
    """
    if workload.status.admission is None:
        return None
    for assigned in workload.status.admission.pod_set_assignments:
        if assigned.count is not None:
            return max(assigned.count, workload.spec.pod_sets[0].min_count or 0)
    return sum(pod_set.count for pod_set in workload.spec.pod_sets)


def has_shape_of(workload: Workload, job: Job, wanted: Wanted) -> bool:
    """Whether it shows the pods of a Job that is as its user wrote it."""
    shown, template = workload.spec.pod_sets[0].template, job.spec.template
    return (
        _has_counts_of(workload, wanted)
        and shown.spec == template.spec
        and shown.metadata.labels == template.metadata.labels
        and shown.metadata.annotations == template.metadata.annotations
    )


def asks_for(workload: Workload, job: Job, wanted: Wanted) -> bool:
    """Whether what counts for queues is the same: a server may keep less of the rest."""
    shown, spec = workload.spec.pod_sets[0].template.spec, job.spec.template.spec
    return (
        _has_counts_of(workload, wanted)
        and pod_requests(shown) == pod_requests(spec)
        and constraints_of(shown) == constraints_of(spec)
    )


def _has_counts_of(workload: Workload, wanted: Wanted) -> bool:
    counts = [(pod_set.count, pod_set.min_count) for pod_set in workload.spec.pod_sets]
    return counts == [(wanted.count, wanted.min_count)]


def spec_changes(
    workload: Workload, queue: str, limit_s: int | None, priority: Priority | Missing
) -> Document:
    """What of a Workload's spec, but for its pod sets, has to follow whoever asks for it.

    Who holds quota keeps its queue until it has given the quota back. Its priority follows at
    once, but only from one WorkloadPriorityClass to another: servers refuse the rest.
    """
    changes: Document = {}
    if not holds_quota(workload):
        if queue and queue != workload.spec.queue_name:
            changes["queueName"] = queue
        if limit_s != workload.spec.maximum_execution_time_seconds:
            changes["maximumExecutionTimeSeconds"] = limit_s
    return changes | _priority_changes(workload, priority)


def _priority_changes(workload: Workload, priority: Priority | Missing) -> Document:
    changes: Document = {}
    if isinstance(priority, Missing):
        return changes
    if holds_quota(workload) and not _may_follow(workload, priority.reference):
        return changes
    if priority.value != workload.spec.priority:
        changes["priority"] = priority.value
    if priority.reference != workload.spec.priority_class_ref:
        reference = priority.reference
        changes["priorityClassRef"] = encode(reference) if reference is not None else None
    return changes


def _may_follow(workload: Workload, reference: PriorityClassRef | None) -> bool:
    before = workload.spec.priority_class_ref
    return before == reference or (
        before is not None
        and reference is not None
        and before.group == reference.group == "kueue.x-k8s.io"
    )


def shared_with(wanted: Wanted) -> Sequence[str]:
    """The annotations to keep the same; a checkpoint may be noted at the Workload itself, too."""
    return [key for key in COPIED if key != LAST_CHECKPOINT or key in wanted.annotations]


def annotation_changes(
    workload: Workload, wanted: Mapping[str, str], shared: Sequence[str]
) -> Document:
    """What of the annotations that it shares with who asks for it differs; None: to be removed."""
    there = workload.metadata.annotations
    return {key: wanted.get(key) for key in shared if there.get(key) != wanted.get(key)}
