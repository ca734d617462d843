"""Rules for changing an object: what has to stay as it was."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from makeway.api.batch import PriorityClass
from makeway.api.codec import json_name
from makeway.api.errors import ABSENT
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.key_values import ConfigMap, Secret
from makeway.api.kinds import View
from makeway.api.meta import is_true
from makeway.api.queueing import AdmissionCheck, LocalQueue, PodSet, Workload
from makeway.api.validation.findings import Findings
from makeway.api.validation.key_values import check_values_kept

# Attributes that stay as they are.
_FIXED: Mapping[type, tuple[str, ...]] = {
    AdmissionCheck: ("spec.controller_name",),
    Gang: ("spec.priority_class_name",),
    # What users change while a job runs is the annotation makeway.dev/preemption-priority-class.
    GangWorkload: ("spec.priority_class_name", "spec.preemption_priority_class_name"),
    LocalQueue: ("spec.cluster_queue",),
    PodGroup: ("spec.priority_class_name",),
    PriorityClass: ("value", "preemption_policy"),
    Secret: ("type",),
}


def is_compared(kind: type) -> bool:
    """Whether there are rules for changing objects of a kind."""
    return kind in _FIXED or kind in _CHECKS


def check_change(old: View, new: View, found: Findings) -> None:
    if type(old) is not type(new):
        return
    for path in _FIXED.get(type(new), ()):
        value, here = attrgetter(path), found.at(*map(json_name, path.split(".")))
        _check_same(value(old), value(new), here)
    if check := _CHECKS.get(type(new)):
        check(old, new, found)


def _check_gang_workload_change(old: GangWorkload, new: GangWorkload, found: Findings) -> None:
    if old.spec.pod_groups != new.spec.pod_groups:
        found.at("spec", "podGroups").add(ABSENT, "cannot be changed", "create another workload")


def _check_pod_group_change(old: PodGroup | Gang, new: PodGroup | Gang, found: Findings) -> None:
    """Everything stays but for minCount; unset numbers may be filled in from the class."""
    before, after, hint = old.spec, new.spec, "create another one"
    spec = found.at("spec")
    if before.priority is not None:
        _check_same(before.priority, after.priority, spec.at("priority"))
    if before.preemption_policy is not None:
        here = spec.at("preemptionPolicy")
        _check_same(before.preemption_policy, after.preemption_policy, here)
    if before.disruption_mode != after.disruption_mode:
        spec.at("disruptionMode").add(ABSENT, "cannot be changed", hint)
    if before.scheduling_constraints != after.scheduling_constraints:
        spec.at("schedulingConstraints").add(ABSENT, "cannot be changed", hint)
    was_gang, is_gang = (s.scheduling_policy.gang is not None for s in (before, after))
    if was_gang != is_gang:
        spec.at("schedulingPolicy").add(ABSENT, "cannot be switched between gang and basic", hint)


def _check_same(before: object, after: object, found: Findings, while_: str = "") -> None:
    if before != after:
        problem = f"cannot be changed{while_}"
        found.add(after, problem, f"leave it at {before}" if before else "leave it unset")


def _check_workload_change(old: Workload, new: Workload, found: Findings) -> None:
    spec, status = found.at("spec"), found.at("status")
    was_reserved = is_true(old.status.conditions, "QuotaReserved")
    is_reserved = is_true(new.status.conditions, "QuotaReserved")
    reserved = " while quota is reserved"
    if was_reserved and not _same_pod_sets(old.spec.pod_sets, new.spec.pod_sets):
        hint = "wait until the workload has given its quota back"
        spec.at("podSets").add(ABSENT, f"cannot be changed{reserved}", hint)
    if was_reserved and is_reserved:
        _check_same(old.spec.queue_name, new.spec.queue_name, spec.at("queueName"), reserved)
    if was_reserved:
        _check_reference_change(old, new, spec.at("priorityClassRef"))
    admissions = (old.status.admission, new.status.admission)
    if None not in admissions and admissions[0] != admissions[1]:
        hint = "take the admission away first"
        status.at("admission").add(ABSENT, "cannot be changed once set", hint)
    if is_true(old.status.conditions, "Admitted") and is_true(new.status.conditions, "Admitted"):
        before, after = (w.spec.maximum_execution_time_seconds for w in (old, new))
        here = spec.at("maximumExecutionTimeSeconds")
        _check_same(before, after, here, " while the workload is admitted")


def _same_pod_sets(old: Sequence[PodSet], new: Sequence[PodSet]) -> bool:
    """Compare also what the views of pod templates don't show."""
    return tuple(old) == tuple(new) and all(
        before.template.document == after.template.document
        for before, after in zip(old, new, strict=True)
    )


def _check_reference_change(old: Workload, new: Workload, found: Findings) -> None:
    before, after = old.spec.priority_class_ref, new.spec.priority_class_ref
    if before == after:
        return
    if before is not None and after is not None and before.group == after.group == "kueue.x-k8s.io":
        return  # another class of the same kind changes the priority, which is allowed
    hint = "wait until the workload has given its quota back"
    found.add(ABSENT, "cannot be changed while quota is reserved", hint)


_CHECKS: Mapping[type, Callable[[Any, Any, Findings], None]] = {
    ConfigMap: check_values_kept,
    Gang: _check_pod_group_change,
    GangWorkload: _check_gang_workload_change,
    PodGroup: _check_pod_group_change,
    Secret: check_values_kept,
    Workload: _check_workload_change,
}
