"""Nodes, pods, gangs and budgets become placement events; and what placement and engine hear of
each other.

A gang is written in one of four ways: as a group of a `scheduling.k8s.io` Workload, as a PodGroup,
as a Gang of ours, or as a pod set of a queue Workload. All are one `Gang` to placement. Where the
numbers of the priorities are known already (a pod's `spec.priority`, a Workload's status) they
count; the names of classes are asked otherwise. A name that says nothing valid falls back to what
is left without it: admission refuses such objects, but classes and annotations change later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from makeway.api import batch, queueing
from makeway.api import gangs as written
from makeway.api.batch import ENDED_PHASES
from makeway.api.gangs import PODS_NOT_MATCHING_PRIORITY, GangWorkload, PodGroup
from makeway.api.labels import (
    GANG,
    GROUP_FAST,
    POD_SET,
    PREEMPTION_MODE,
    PREEMPTION_PRIORITY_CLASS,
    WORKLOAD,
)
from makeway.api.meta import Condition, LabelSelector, ObjectMeta, is_true
from makeway.api.priorities import Priorities, resolve_priorities
from makeway.engine.matching import Taint
from makeway.engine.model import PODS, PodSetName, ResourceName, WorkloadKey
from makeway.placement import events as ev
from makeway.placement import model
from makeway.translate.workloads import constraints_of, key_of

_NAMED_MAX = 10  # pods in a condition; the rest are counted
PlacementObject = (
    batch.Node | batch.Pod | batch.PodDisruptionBudget | GangWorkload | PodGroup | written.Gang
)
Classes = Sequence[batch.PriorityClass]


# --- objects to events ---


def seen_in_placement(
    view: PlacementObject,
    classes: Classes,
    *,
    schedulers: Collection[str] | None = None,
    replicas: Iterable[str] | None = None,
    distance_max: int | None = None,
) -> tuple[ev.PlacementEvent, ...]:
    """The events that tell of a new or edited object.

    `schedulers` are the names for which pods are placed; None: all are. `replicas` are the keys by
    which pods name the replicas of a Workload's groups; None: numbers from 0, or none for just one.
    `distance_max` is how far a preemption priority may lie above the scheduling priority.
    """
    match view:
        case batch.Node():
            return (ev.NodeSeen(node_of(view)),)
        case batch.Pod():
            if takes_part(view, schedulers):
                return (ev.PodSeen(pod_of(view, classes, distance_max)),)
            return (ev.PodGone(pod_key_of(view)),)
        case batch.PodDisruptionBudget():
            return (ev.BudgetSeen(budget_of(view)),)
        case GangWorkload():
            return tuple(map(ev.GangSeen, gangs_of(view, classes, replicas, distance_max)))
        case PodGroup() | written.Gang():
            return (ev.GangSeen(gang_of(view, classes, distance_max)),)


def takes_part(view: batch.Pod, schedulers: Collection[str] | None) -> bool:
    """Does the pod take room on a node, or wait for us to give it some?"""
    if view.status.phase in ENDED_PHASES:
        return False
    if view.spec.node_name:
        return True
    is_ours = schedulers is None or view.spec.scheduler_name in schedulers
    return is_ours and not view.spec.scheduling_gates


def node_of(view: batch.Node) -> model.Node:
    amounts = view.status.allocatable or view.status.capacity
    return model.Node(
        name=model.NodeName(view.metadata.name),
        capacity={ResourceName(name): amount for name, amount in amounts.items()},
        labels=view.metadata.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in view.spec.taints),
        unschedulable=view.spec.unschedulable,
    )


def pod_of(view: batch.Pod, classes: Classes, distance_max: int | None = None) -> model.Pod:
    metadata, spec, status = view.metadata, view.spec, view.status
    annotated = metadata.annotations.get(PREEMPTION_PRIORITY_CLASS, "")
    priorities = priorities_of(
        spec.priority_class_name, annotated, classes, spec.priority, distance_max
    )
    # Whoever filled in the priority has filled in the policy of its class as well.
    policy = spec.preemption_policy
    if spec.priority is None and priorities.preemption_policy == "Never":
        policy = "Never"
    workload, nominated = metadata.annotations.get(WORKLOAD), status.nominated_node_name
    return model.Pod(
        key=pod_key_of(view),
        namespace=metadata.namespace,
        shape=shape_of(metadata, spec),
        priority=priorities.scheduling,
        preemption_priority=priorities.preemption,
        may_preempt=policy != "Never",
        gang=gang_key_of(view),
        node=model.NodeName(spec.node_name) if spec.node_name else None,
        nominated=model.NodeName(nominated) if nominated else None,
        terminating=metadata.deletion_timestamp is not None,
        labels=metadata.labels,
        created_at=metadata.creation_timestamp or 0.0,
        started_at=status.start_time,
        workload=WorkloadKey(f"{metadata.namespace}/{workload}") if workload else None,
    )


def pod_key_of(view: batch.Pod) -> model.PodKey:
    return model.PodKey(_key(view.metadata))


def shape_of(metadata: ObjectMeta, spec: batch.PodSpec) -> model.PodShape:
    requests = batch.pod_requests(spec)
    return model.PodShape(
        requests=tuple(
            sorted(
                (ResourceName(name), amount)
                for name, amount in requests.items()
                if amount > 0 and name != PODS
            )
        ),
        constraints=constraints_of(spec),
        apart=_apart_of(metadata, spec),
        spread=_spread_of(metadata, spec),
    )


def _apart_of(metadata: ObjectMeta, spec: batch.PodSpec) -> model.Apart | None:
    """Anti-affinity among the members themselves; of several terms the widest counts.

    Whoever shares no zone shares no node either, so one by zone comes before one by node.
    """
    anti = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    keys = [
        term.topology_key
        for term in (() if anti is None else anti.required)
        if term.label_selector is not None and term.label_selector.matches(metadata.labels)
    ]
    wide = [key for key in keys if key != model.HOSTNAME] or keys
    return model.Apart(wide[0]) if wide else None


def _spread_of(metadata: ObjectMeta, spec: batch.PodSpec) -> model.Spread | None:
    """The first hard constraint on how the pod and those like it are spread."""
    for constraint in spec.topology_spread_constraints:
        selector = constraint.label_selector
        is_hard = constraint.when_unsatisfiable == "DoNotSchedule"
        if is_hard and selector is not None and selector.matches(metadata.labels):
            key, least = constraint.topology_key, constraint.min_domains or 1
            return model.Spread(key, constraint.max_skew, least)
    return None


def gang_key_of(view: batch.Pod) -> model.GangKey | None:
    """The gang that a pod names: a PodGroup, a group of a Workload, its pod set, or a Gang.

    What a queue has admitted together is not taken apart by a label.
    """
    metadata, spec = view.metadata, view.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return model.GangKey(f"{metadata.namespace}/{spec.scheduling_group.pod_group_name}")
    if spec.workload_ref is not None:
        ref = spec.workload_ref
        return _replica(metadata.namespace, ref.name, ref.pod_group, ref.pod_group_replica_key)
    workload, pod_set = metadata.annotations.get(WORKLOAD), metadata.labels.get(POD_SET)
    if workload and pod_set:
        return pod_set_gang(WorkloadKey(f"{metadata.namespace}/{workload}"), PodSetName(pod_set))
    if metadata.labels.get(GANG):
        return _own_gang(metadata.namespace, metadata.labels[GANG])
    return None


def own_gang_of(view: batch.Pod) -> str:
    """The name of the Gang that a pod belongs to; empty if to none, or to another gang first."""
    name = view.metadata.labels.get(GANG, "")
    is_member = name and gang_key_of(view) == _own_gang(view.metadata.namespace, name)
    return name if is_member else ""


def gangs_of(
    view: GangWorkload,
    classes: Classes,
    replicas: Iterable[str] | None = None,
    distance_max: int | None = None,
) -> list[model.Gang]:
    """One gang per group and replica of a Workload."""
    metadata, spec, status = view.metadata, view.spec, view.status
    preemption_class = (
        metadata.annotations.get(PREEMPTION_PRIORITY_CLASS) or spec.preemption_priority_class_name
    )
    priorities = priorities_of(
        spec.priority_class_name, preemption_class, classes, status.priority, distance_max
    )
    keys = None if replicas is None else list(replicas)
    return [
        model.Gang(
            key=_replica(metadata.namespace, metadata.name, group.name, replica),
            min_count=0 if group.policy.gang is None else group.policy.gang.min_count,
            mode=model.DisruptionMode.POD
            if group.policy.gang is None
            else model.DisruptionMode(group.policy.gang.preemption_mode),
            priority=priorities.scheduling,
            preemption_priority=priorities.preemption,
            may_preempt=priorities.preemption_policy != "Never",
            created_at=metadata.creation_timestamp or 0.0,
        )
        for group in spec.pod_groups
        for replica in (_replica_keys(group.replicas) if keys is None else keys)
    ]


def _replica(namespace: str, workload: str, group: str, replica: str) -> model.GangKey:
    return model.GangKey(f"{namespace}/{workload}/{group}/{replica}")


def replicas_of(view: GangWorkload, named: Iterable[str]) -> list[str]:
    """The replicas that a Workload has by its numbers, and those that pods name otherwise."""
    numbered = (key for group in view.spec.pod_groups for key in _replica_keys(group.replicas))
    return sorted({*numbered, *named})


def _replica_keys(replicas: int) -> list[str]:
    return [""] if replicas == 1 else [str(number) for number in range(replicas)]


def gang_of(
    view: PodGroup | written.Gang, classes: Classes, distance_max: int | None = None
) -> model.Gang:
    metadata, spec = view.metadata, view.spec
    gang = spec.scheduling_policy.gang
    goes_together = spec.disruption_mode is not None and spec.disruption_mode.all is not None
    keys = spec.scheduling_constraints.topology
    annotated = metadata.annotations.get(PREEMPTION_PRIORITY_CLASS, "")
    priorities = priorities_of(
        spec.priority_class_name, annotated, classes, spec.priority, distance_max
    )
    return model.Gang(
        key=_gang_key(view),
        min_count=0 if gang is None else gang.min_count,
        mode=model.DisruptionMode.GANG if goes_together else model.DisruptionMode.POD,
        priority=priorities.scheduling,
        preemption_priority=priorities.preemption,
        may_preempt=(spec.preemption_policy or priorities.preemption_policy) != "Never",
        topology_key=keys[0].key if keys else None,
        created_at=metadata.creation_timestamp or 0.0,
    )


def _gang_key(view: PodGroup | written.Gang) -> model.GangKey:
    metadata = view.metadata
    if isinstance(view, PodGroup):
        return model.GangKey(_key(metadata))
    return _own_gang(metadata.namespace, metadata.name)


def _own_gang(namespace: str, name: str) -> model.GangKey:
    """A PodGroup may have the same name."""
    return model.GangKey(f"{namespace}/gangs/{name}")


def gang_text(key: str) -> str:
    """A gang as its users know it."""
    namespace, *rest = key.split("/")
    return f"{namespace}/{rest[1]}" if len(rest) == 2 else key


def priorities_of(
    class_name: str,
    preemption_class_name: str,
    classes: Classes,
    known: int | None,
    distance_max: int | None = None,
) -> Priorities:
    """Numbers for class names; `known` is the scheduling priority where it is settled already."""
    plain = resolve_priorities(class_name, "", classes).priorities
    if plain is None:
        plain = Priorities(0, 0, "PreemptLowerPriority")
    if known is not None:
        plain = plain._replace(scheduling=known, preemption=known)
    if not preemption_class_name:
        return plain
    preemption = resolve_priorities(preemption_class_name, "", classes).priorities
    if preemption is None or preemption.scheduling < plain.scheduling:
        return plain
    if distance_max is not None and preemption.scheduling - plain.scheduling > distance_max:
        return plain
    return plain._replace(preemption=preemption.scheduling)


def budget_of(view: batch.PodDisruptionBudget) -> model.Budget:
    return model.Budget(
        key=model.BudgetKey(_key(view.metadata)),
        namespace=view.metadata.namespace,
        selector=model.Selector((view.spec.selector or LabelSelector()).requirements),
        allowed=view.status.disruptions_allowed,
        disrupted=frozenset(view.status.disrupted_pods),
    )


def _key(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}"


def not_matching_condition(pods: Sequence[model.PodKey], now: float) -> Condition:
    """The condition of a Workload or PodGroup whose priority is not that of all its pods."""
    names = ", ".join(pod.rpartition("/")[2] for pod in pods[:_NAMED_MAX])
    more = f" and {len(pods) - _NAMED_MAX} more" if len(pods) > _NAMED_MAX else ""
    differ = f"The priority of the group counts, not that of these pods: {names}{more}"
    return Condition(
        type=PODS_NOT_MATCHING_PRIORITY,
        status="True" if pods else "False",
        reason="PrioritiesDiffer" if pods else "PrioritiesMatch",
        message=differ if pods else "All pods have the priority of their group",
        last_transition_time=now,
    )


# --- what engine and placement hear of each other ---


def pod_set_gang(workload: WorkloadKey, pod_set: PodSetName) -> model.GangKey:
    return model.GangKey(f"{workload}/pod-sets/{pod_set}")


def mode_of(annotations: Mapping[str, str]) -> model.DisruptionMode:
    """How a Job wants its pods to be preempted; one by one unless it says otherwise."""
    goes_together = annotations.get(PREEMPTION_MODE) == model.DisruptionMode.GANG.value
    return model.DisruptionMode.GANG if goes_together else model.DisruptionMode.POD


def gangs_held(
    view: queueing.Workload, classes: Classes, distance_max: int | None = None
) -> list[model.Gang]:
    """The pod sets of a queue Workload as gangs, as its own status tells; none unless admitted.

    A gang is as many pods as were admitted, less those that ended well and are not replaced, so
    that what is left of it is not held to a number that never comes together again. Pods that run
    count towards it: one that ended before its Job was through is replaced by itself. Pods of a
    group that was admitted before all were there come one by one, and may wait for each other.
    """
    conditions, admission = view.status.conditions, view.status.admission
    is_held = is_true(conditions, "Admitted") and not is_true(conditions, "Evicted")
    if admission is None or not is_held or is_true(conditions, "Finished"):
        return []
    metadata, ref = view.metadata, view.spec.priority_class_ref
    of_pods = ref.name if ref is not None and ref.kind == "PriorityClass" else ""
    annotated = metadata.annotations.get(PREEMPTION_PRIORITY_CLASS, "")
    priorities = priorities_of(of_pods, annotated, classes, view.spec.priority or 0, distance_max)
    asked = {pod_set.name: pod_set.count for pod_set in view.spec.pod_sets}
    given_back = {pods.name: pods.count for pods in view.status.reclaimable_pods}
    is_loose = metadata.annotations.get(GROUP_FAST) == "true"
    return [
        model.Gang(
            key=pod_set_gang(key_of(view), PodSetName(assigned.name)),
            min_count=0 if is_loose else _left(assigned, asked, given_back),
            mode=mode_of(metadata.annotations),
            priority=priorities.scheduling,
            preemption_priority=priorities.preemption,
            may_preempt=priorities.preemption_policy != "Never",
            created_at=metadata.creation_timestamp or 0.0,
        )
        for assigned in admission.pod_set_assignments
    ]


def _left(
    assigned: queueing.PodSetAssignment, asked: Mapping[str, int], given_back: Mapping[str, int]
) -> int:
    """What is given back counts from what was asked for, as the engine counts it."""
    left = max(0, asked.get(assigned.name, 0) - given_back.get(assigned.name, 0))
    return left if assigned.count is None else min(assigned.count, left)
