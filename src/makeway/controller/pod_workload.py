"""The queue Workload that pods without a Job ask for: its name, its pod sets, and what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.api.batch import Pod, owner_reference
from makeway.api.codec import encode
from makeway.api.labels import (
    GROUP_FAST,
    IS_GROUP,
    JOB_UID,
    MAX_EXEC_TIME,
    PREEMPTION_MODE,
    PREEMPTION_PRIORITY_CLASS,
    QUEUE_NAME,
)
from makeway.api.queueing import PodSetAssignment, Workload
from makeway.api.validation.workloads import POD_SETS_MAX
from makeway.client.client import Document
from makeway.controller.job_priorities import Priority
from makeway.controller.job_workload import (
    POD_SET_NAME,
    name_of,
    number_in,
    workload_document,
)
from makeway.controller.pod_members import Member, role_of

COPIED = (PREEMPTION_MODE, PREEMPTION_PRIORITY_CLASS, GROUP_FAST)  # annotations of the first pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """How many pods of which role a unit has, or what keeps it from having them."""

    counts: Mapping[str, int] = field(default_factory=dict)  # by the name of the pod set
    models: Mapping[str, Member] = field(default_factory=dict)  # a pod of each, waiting if any is
    excess: tuple[Member, ...] = ()  # more than there should be
    problem: str = ""  # empty: none

    @property
    def is_whole(self) -> bool:
        return bool(self.counts) and not self.problem


def composed(members: Sequence[Member], group: str) -> Composition:
    """What pods ask for that nobody has admitted yet."""
    present = [member for member in members if member.is_present]
    if group:
        return _composed_group(present, group)
    if not present:
        return Composition()
    counts, models = {POD_SET_NAME: 1}, {POD_SET_NAME: present[0]}
    return Composition(counts=counts, models=models, problem=present[0].defect)


def _composed_group(present: Sequence[Member], group: str) -> Composition:
    """Where there are too many pods, the newest are too many; too few are none, unless one is
    to speak for all.
    """
    problem, total = problem_of(present, group), present[0].total if present else None
    if problem or total is None:
        return Composition(problem=problem)
    in_order = sorted(present, key=lambda member: member.rank)
    kept, excess = in_order[:total], tuple(in_order[total:])
    counts = Counter(member.role for member in kept)
    if kept[0].is_fast:
        counts[kept[0].role] += total - len(kept)
    elif len(kept) < total:
        return Composition(excess=excess)
    if len(counts) > POD_SETS_MAX:
        problem = f"group {group} has pods of {len(counts)} kinds, more than {POD_SETS_MAX}"
    models = {member.role: member for member in sorted(kept, key=lambda m: m.is_gated)}
    return Composition(counts=dict(counts), models=models, excess=excess, problem=problem)


def problem_of(present: Sequence[Member], group: str) -> str:
    """What of a group can't be understood; empty if all of it can."""
    for member in present:
        if member.defect:
            return f"pod {member.key.name}: {member.defect}"
    if any(member.total is None for member in present):
        return f"a pod of group {group} doesn't say how many pods the group has"
    for what, values in (
        ("numbers of pods", {member.total for member in present}),
        ("queues", {member.queue for member in present}),
    ):
        if len(values) > 1:
            texts = ", ".join(sorted(map(str, values)))
            return f"the pods of group {group} name different {what}: {texts}"
    return ""


def new_workload(
    pod: Pod, group: str, pod_sets: Sequence[Document], priority: Priority
) -> Document:
    """`pod` is the one of a group that speaks for all.

    The Workload of a group has no owner: pods come and go, and it stays for those that replace
    them. Whoever keeps it in step deletes it when the last one is gone for good.
    """
    meta = pod.metadata
    metadata: Document = {"name": group or name_of(pod), "namespace": meta.namespace}
    annotations = annotations_of(pod)
    if group:
        annotations[IS_GROUP] = "true"
    else:
        metadata["labels"] = {JOB_UID: meta.uid}
        metadata["ownerReferences"] = [owner_reference(pod)]
    if annotations:
        metadata["annotations"] = annotations
    spec = {"queueName": queue_of(pod), "podSets": list(pod_sets), "active": True}
    return workload_document(metadata, spec, priority, limit_of(pod))


def queue_of(pod: Pod) -> str:
    return pod.metadata.labels.get(QUEUE_NAME, "")


def annotations_of(pod: Pod) -> dict[str, str]:
    there = pod.metadata.annotations
    return {key: there[key] for key in COPIED if key in there}


def limit_of(pod: Pod) -> int | None:
    """Seconds that it may be admitted for; None: without limit."""
    return number_in(pod.metadata.labels.get(MAX_EXEC_TIME)) or None


def pod_set_of(name: str, count: int, pod: Pod) -> Document:
    """As a pod set shows its pods: without what only one pod has, or only while it waits."""
    own = ("schedulingGates", "nodeName", "hostname", "subdomain")
    spec = {key: value for key, value in encode(pod.spec).items() if key not in own}
    template: Document = {"spec": spec}
    if pod.metadata.labels:
        template["metadata"] = {"labels": dict(pod.metadata.labels)}
    return {"name": name, "count": count, "template": template}


def named_by(workload: Workload, members: Sequence[Member]) -> tuple[Member, ...]:
    """Members of a group by the names that its Workload has for what they ask for.

    Kueue names pod sets otherwise than we do. A group that it has admitted keeps those names, and a
    pod that takes the place of another is known by its shape.
    """
    pod_sets = workload.spec.pod_sets
    names = {pod_set.name for pod_set in pod_sets}
    if all(member.role in names for member in members):
        return tuple(members)
    by_shape = {role_of(pod_set.template.spec): pod_set.name for pod_set in reversed(pod_sets)}
    return tuple(
        member
        if member.role in names
        else replace(member, role=by_shape.get(member.role, member.role))
        for member in members
    )


def has_shape_of(workload: Workload, composition: Composition) -> bool:
    """Whether a Workload shows these pods as they are."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    if {name: pod_set.count for name, pod_set in pod_sets.items()} != composition.counts:
        return False
    return all(
        model.role in (name, role_of(pod_sets[name].template.spec))
        for name, model in composition.models.items()
    )


def narrowed(workload: Workload, pod_set: str) -> Workload:
    """The Workload as if this pod set were all of it."""
    status, admission = workload.status, workload.status.admission
    assigned: tuple[PodSetAssignment, ...] = ()
    if admission is not None:
        assigned = tuple(a for a in admission.pod_set_assignments if a.name == pod_set)
        admission = replace(admission, pod_set_assignments=assigned)
    checks = tuple(
        replace(check, pod_set_updates=tuple(u for u in check.pod_set_updates if u.name == pod_set))
        for check in status.admission_checks
    )
    own = tuple(found for found in workload.spec.pod_sets if found.name == pod_set)
    return replace(
        workload,
        spec=replace(workload.spec, pod_sets=own),
        status=replace(status, admission=admission, admission_checks=checks),
    )
