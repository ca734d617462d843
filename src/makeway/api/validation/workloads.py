"""Rules for workloads."""

from makeway.api.errors import ABSENT, one_of
from makeway.api.meta import is_true
from makeway.api.queueing import PodSet, Workload
from makeway.api.validation.findings import Findings, check_count, check_unique
from makeway.api.validation.names import check_name, check_short_name
from makeway.api.validation.pods import check_pod_spec, check_tolerations
from makeway.api.validation.queues import check_milestones

POD_SETS_MAX = 18  # as many as Kueue takes


def check_workload(workload: Workload, found: Findings) -> None:
    spec, here = workload.spec, found.at("spec")
    pod_sets = here.at("podSets")
    check_count(len(spec.pod_sets), POD_SETS_MAX, "pod sets", pod_sets, 1)
    for index, pod_set in enumerate(spec.pod_sets):
        _check_pod_set(pod_set, pod_sets.at(index))
    check_unique(((p.name, pod_sets.at(i, "name")) for i, p in enumerate(spec.pod_sets)), "pod set")
    partial = [i for i, pod_set in enumerate(spec.pod_sets) if pod_set.min_count is not None]
    for index in partial[1:]:
        pod_sets.at(index, "minCount").add(
            spec.pod_sets[index].min_count,
            f"stands in a second pod set (also in podSets[{partial[0]}])",
            "keep minCount in one pod set",
        )
    check_name(spec.queue_name, here.at("queueName"))
    reference = spec.priority_class_ref
    if reference is not None:
        kind = "WorkloadPriorityClass" if reference.group == "kueue.x-k8s.io" else "PriorityClass"
        if reference.kind != kind:
            problem = f"is not a kind of {reference.group}"
            here.at("priorityClassRef", "kind").add(reference.kind, problem, f"write {kind}")
        check_name(reference.name, here.at("priorityClassRef", "name"))
        if spec.priority is None:
            hint = f"write the value of {reference.name}"
            here.at("priority").add(ABSENT, "is needed by priorityClassRef", hint)
    limit_s = spec.maximum_execution_time_seconds
    if limit_s is not None and limit_s < 1:
        here.at("maximumExecutionTimeSeconds").add(limit_s, "is not positive", "write 1 or more")
    check_milestones(spec.preemption, here.at("preemption"))
    _check_workload_status(workload, found.at("status"))


def _check_pod_set(pod_set: PodSet, found: Findings) -> None:
    check_short_name(pod_set.name, "pod set", found.at("name"))
    if pod_set.count < 0:
        found.at("count").add(pod_set.count, "is negative", "write 0 or more")
    if pod_set.min_count is not None and not 1 <= pod_set.min_count <= pod_set.count:
        hint = f"write a number between 1 and count ({pod_set.count})"
        found.at("minCount").add(pod_set.min_count, "is not between 1 and count", hint)
    check_pod_spec(pod_set.template.spec, found.at("template", "spec"), in_workload=True)


def _check_workload_status(workload: Workload, found: Findings) -> None:
    status = workload.status
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    names = tuple(counts)
    is_reserved = is_true(status.conditions, "QuotaReserved")
    if status.admission is not None and is_reserved:
        here = found.at("admission", "podSetAssignments")
        for index, assignment in enumerate(status.admission.pod_set_assignments):
            _check_member(assignment.name, names, here.at(index, "name"))
        given = len(status.admission.pod_set_assignments)
        if given != len(counts):
            problem = f"has {given} entries for {len(counts)} pod sets"
            here.add(ABSENT, problem, "write one for each pod set")
    for index, reclaimable in enumerate(status.reclaimable_pods):
        here = found.at("reclaimablePods", index)
        _check_member(reclaimable.name, names, here.at("name"))
        if not 0 <= reclaimable.count <= counts.get(reclaimable.name, reclaimable.count):
            hint = f"write a number between 0 and {counts.get(reclaimable.name, 0)}"
            here.at("count").add(reclaimable.count, "is not a number of its pods", hint)
    for index, check in enumerate(status.admission_checks):
        for number, update in enumerate(check.pod_set_updates):
            here = found.at("admissionChecks", index, "podSetUpdates", number)
            _check_member(update.name, names, here.at("name"))
            check_tolerations(update.tolerations, here.at("tolerations"))


def _check_member(name: str, names: tuple[str, ...], found: Findings) -> None:
    if name not in names:
        hint = f"write {one_of(names)}" if names else "there is none"
        found.add(name, "is not a pod set of this workload", hint)
