"""Rules for gangs: the Workload and the PodGroup of scheduling.k8s.io, and our own kind."""

from makeway.api.errors import ABSENT
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.validation.findings import Findings, check_count, check_unique
from makeway.api.validation.names import check_key, check_name, check_short_name

GROUPS_MAX = 8  # as in Kubernetes
TOPOLOGIES_MAX = 1
MEMBERS_MAX = 100_000
LABEL_MAX = 63


def check_gang_workload(workload: GangWorkload, found: Findings) -> None:
    spec, here = workload.spec, found.at("spec")
    groups = here.at("podGroups")
    check_count(len(spec.pod_groups), GROUPS_MAX, "pod groups", groups, lowest=1)
    check_unique(
        ((group.name, groups.at(i, "name")) for i, group in enumerate(spec.pod_groups)),
        "pod group",
    )
    for index, group in enumerate(spec.pod_groups):
        place = groups.at(index)
        check_short_name(group.name, "pod group", place.at("name"))
        if group.replicas < 1:
            place.at("replicas").add(group.replicas, "is not positive", "write 1 or more")
        policy = group.policy
        _check_one_of(policy.gang, policy.basic, "gang", "basic", place.at("policy"))
        if policy.gang is not None:
            _check_min_count(policy.gang.min_count, place.at("policy", "gang", "minCount"))
    _check_class_name(spec.priority_class_name, here.at("priorityClassName"))
    _check_class_name(spec.preemption_priority_class_name, here.at("preemptionPriorityClassName"))
    _check_order(workload.status.priority, workload.status.preemption_priority, found.at("status"))


def check_own_gang(gang: Gang, found: Findings) -> None:
    name = gang.metadata.name
    if len(name) > LABEL_MAX:
        hint = f"write at most {LABEL_MAX} characters: pods name it by a label"
        found.at("metadata", "name").add(name, f"has {len(name)} characters", hint)
    check_pod_group(gang, found)


def check_pod_group(group: PodGroup | Gang, found: Findings) -> None:
    spec, here = group.spec, found.at("spec")
    policy, place = spec.scheduling_policy, here.at("schedulingPolicy")
    _check_one_of(policy.gang, policy.basic, "gang", "basic", place)
    if policy.gang is not None:
        _check_min_count(policy.gang.min_count, place.at("gang", "minCount"))
    if spec.disruption_mode is not None:
        mode = spec.disruption_mode
        _check_one_of(mode.single, mode.all, "single", "all", here.at("disruptionMode"))
    _check_class_name(spec.priority_class_name, here.at("priorityClassName"))
    topology = here.at("schedulingConstraints", "topology")
    keys = spec.scheduling_constraints.topology
    check_count(len(keys), TOPOLOGIES_MAX, "topology keys", topology)
    for index, constraint in enumerate(keys):
        check_key(constraint.key, topology.at(index, "key"))


def _check_one_of(
    first: object, second: object, first_name: str, second_name: str, found: Findings
) -> None:
    if first is None and second is None:
        found.add(ABSENT, "is empty", f"write {first_name} or {second_name}")
    if first is not None and second is not None:
        problem = f"has both {first_name} and {second_name}"
        found.add(ABSENT, problem, "keep one of them")


def _check_min_count(count: int, found: Findings) -> None:
    if count < 1:
        found.add(count, "is not positive", "write 1 or more")
    if count > MEMBERS_MAX:
        found.add(count, "is more than a gang can have", f"write at most {MEMBERS_MAX}")


def _check_class_name(name: str, found: Findings) -> None:
    if name:
        check_name(name, found)


def _check_order(priority: int | None, preemption: int | None, found: Findings) -> None:
    if priority is not None and preemption is not None and preemption < priority:
        found.at("preemptionPriority").add(
            preemption,
            f"is below the scheduling priority ({priority})",
            f"write {priority} or more; else two workloads could preempt each other in turn",
        )
