"""Objects become engine events, and back. No policy in here: only the shape changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from makeway.api import batch, queueing
from makeway.api.configuration import Configuration, ResourcesConfiguration
from makeway.api.meta import LabelSelector, find_condition, is_true
from makeway.engine import events as ev
from makeway.engine.matching import Constraints, Requirement, Taint, Toleration
from makeway.engine.model import (
    Assignment,
    Backoff,
    CheckName,
    CheckState,
    Cohort,
    CohortName,
    Config,
    Eviction,
    EvictionReason,
    FailurePolicy,
    FallbackRule,
    Fallbacks,
    Flavor,
    FlavorName,
    FlavorQuotas,
    FlavorResource,
    FlavorTrial,
    Fungibility,
    Gates,
    LocalQueue,
    LocalQueueKey,
    NamespaceSelector,
    PodSet,
    PodSetAssignment,
    PodSetName,
    PodsReadyPolicy,
    Policy,
    Preemption,
    Preference,
    Queue,
    QueueCheck,
    QueueName,
    Quota,
    RequeueTime,
    ResourceGroup,
    ResourceName,
    Search,
    ShareRule,
    StopPolicy,
    Strategy,
    Trigger,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)

NO_TRANSFORMATIONS = ResourcesConfiguration()
PREEMPTOR = "Preemptor"  # condition: others make way for this workload
QueueObject = (
    queueing.ResourceFlavor
    | queueing.ClusterQueue
    | queueing.Cohort
    | queueing.LocalQueue
    | queueing.AdmissionCheck
    | batch.Namespace
)


# --- objects to events ---


def changed(view: QueueObject) -> ev.Event:
    """The event that tells of a new or edited object."""
    match view:
        case queueing.ResourceFlavor():
            return ev.FlavorChanged(flavor_of(view))
        case queueing.ClusterQueue():
            return ev.QueueChanged(queue_of(view))
        case queueing.Cohort():
            return ev.CohortChanged(cohort_of(view))
        case queueing.LocalQueue():
            return ev.LocalQueueChanged(local_queue_of(view))
        case queueing.AdmissionCheck():
            active = is_true(view.status.conditions, "Active")
            return ev.CheckChanged(CheckName(view.metadata.name), active)
        case batch.Namespace():
            return ev.NamespaceChanged(view.metadata.name, view.metadata.labels)


def removed(view: QueueObject) -> ev.Event:
    name = view.metadata.name
    match view:
        case queueing.ResourceFlavor():
            return ev.FlavorRemoved(FlavorName(name))
        case queueing.ClusterQueue():
            return ev.QueueRemoved(QueueName(name))
        case queueing.Cohort():
            return ev.CohortRemoved(CohortName(name))
        case queueing.LocalQueue():
            return ev.LocalQueueRemoved(LocalQueueKey(f"{view.metadata.namespace}/{name}"))
        case queueing.AdmissionCheck():
            return ev.CheckRemoved(CheckName(name))
        case batch.Namespace():
            return ev.NamespaceRemoved(name)


def flavor_of(view: queueing.ResourceFlavor) -> Flavor:
    return Flavor(
        name=FlavorName(view.metadata.name),
        labels=view.spec.node_labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in view.spec.node_taints),
        tolerations=tolerations_of(view.spec.tolerations),
    )


def cohort_of(view: queueing.Cohort) -> Cohort:
    return Cohort(
        name=CohortName(view.metadata.name),
        parent=CohortName(view.spec.parent_name) if view.spec.parent_name else None,
        quotas={
            FlavorResource(quotas.flavor, resource): quota
            for group in groups_of(view.spec.resource_groups)
            for quotas in group.flavors
            for resource, quota in quotas.quotas.items()
        },
        weight=weight_of(view.spec.fair_sharing),
    )


def local_queue_of(view: queueing.LocalQueue) -> LocalQueue:
    return LocalQueue(
        key=LocalQueueKey(f"{view.metadata.namespace}/{view.metadata.name}"),
        queue=QueueName(view.spec.cluster_queue),
        stop_policy=StopPolicy(view.spec.stop_policy),
    )


def queue_of(view: queueing.ClusterQueue) -> Queue:
    spec = view.spec
    borrowing = spec.preemption.borrow_within_cohort
    checks = spec.admission_checks_strategy
    return Queue(
        name=QueueName(view.metadata.name),
        groups=groups_of(spec.resource_groups),
        cohort=CohortName(spec.cohort_name) if spec.cohort_name else None,
        strategy=Strategy(spec.queueing_strategy),
        namespaces=selector_of(spec.namespace_selector),
        fungibility=fungibility_of(spec.flavor_fungibility),
        preemption=Preemption(
            within_queue=Policy(spec.preemption.within_cluster_queue),
            reclaim=Policy(spec.preemption.reclaim_within_cohort),
            borrow_while_reclaiming=borrowing.policy != "Never",
            borrow_threshold=borrowing.max_priority_threshold,
        ),
        stop_policy=StopPolicy(spec.stop_policy),
        checks=tuple(
            QueueCheck(CheckName(c.name), frozenset(map(FlavorName, c.on_flavors)))
            for c in (checks.admission_checks if checks is not None else ())
        ),
        weight=weight_of(spec.fair_sharing),
    )


def groups_of(groups: Iterable[queueing.ResourceGroup]) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            resources=tuple(map(ResourceName, group.covered_resources)),
            flavors=tuple(
                FlavorQuotas(
                    FlavorName(flavor.name),
                    {
                        ResourceName(quota.name): Quota(
                            quota.nominal_quota, quota.borrowing_limit, quota.lending_limit
                        )
                        for quota in flavor.resources
                    },
                )
                for flavor in group.flavors
            ),
        )
        for group in groups
    )


def weight_of(sharing: queueing.FairSharing | None) -> float:
    return 1.0 if sharing is None else float(sharing.weight)


def fungibility_of(view: queueing.FlavorFungibility) -> Fungibility:
    strategy = view.fallback_strategy
    fallbacks = Fallbacks()
    if strategy is not None:
        fallbacks = Fallbacks(
            rules=tuple(map(fallback_rule_of, strategy.rules)),
            failure_policy=FailurePolicy(strategy.failure_policy),
        )
    return Fungibility(
        when_can_borrow=Search(view.when_can_borrow),
        when_can_preempt=Search(view.when_can_preempt),
        preference=Preference(view.preference) if view.preference is not None else None,
        fallbacks=fallbacks,
    )


def fallback_rule_of(rule: queueing.FallbackRule) -> FallbackRule:
    trigger = Trigger(rule.fires_on) if rule.fires_on is not None else None
    return FallbackRule(rule.name, trigger, rule.timeout)


def selector_of(selector: LabelSelector | None) -> NamespaceSelector | None:
    if selector is None:
        return None
    return NamespaceSelector(
        (
            *(Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()),
            *(
                Requirement(requirement.key, requirement.operator, requirement.values)
                for requirement in selector.match_expressions
            ),
        )
    )


def config_of(view: Configuration) -> Config:
    waiting = view.pods_ready
    pods_ready, backoff = None, Backoff()
    if waiting is not None:
        recovery_s = (
            waiting.timeout if waiting.recovery_timeout is None else waiting.recovery_timeout
        )
        pods_ready = PodsReadyPolicy(
            timeout_s=waiting.timeout, recovery_timeout_s=recovery_s or None
        )
        backoff = Backoff(
            base_s=waiting.requeuing_strategy.backoff_base_seconds,
            max_s=waiting.requeuing_strategy.backoff_max_seconds,
            limit=waiting.requeuing_strategy.backoff_limit_count,
        )
    return Config(
        fair_sharing=view.is_sharing_fairly,
        share_rules=tuple(map(ShareRule, view.fair_preemption_strategies)),
        after_preemption=RequeueTime(view.requeue_after_preemption),
        after_pods_ready_timeout=RequeueTime(view.requeue_after_pods_ready_timeout),
        pods_ready=pods_ready,
        backoff=backoff,
        gates=Gates(
            hold_for_preemptor=view.gate("HoldForPreemptor"),
            partial_admission=view.gate("PartialAdmission"),
            equal_shapes_together=view.gate("SchedulingEquivalenceHashing"),
            keep_scan_progress=view.gate("FlavorFungibilityPreserveScanProgress"),
            implicit_preference=view.gate("FlavorFungibilityImplicitPreferenceDefault"),
            reassign_on_overlap=view.gate("RecomputeAssignmentUponPreemptionTargetsOverlap"),
        ),
    )


# --- workloads ---


def key_of(view: queueing.Workload) -> WorkloadKey:
    return WorkloadKey(f"{view.metadata.namespace}/{view.metadata.name}")


def seen(view: queueing.Workload, resources: ResourcesConfiguration) -> ev.WorkloadSeen:
    return ev.WorkloadSeen(workload_of(view, resources), status_of(view))


def workload_of(
    view: queueing.Workload,
    resources: ResourcesConfiguration = NO_TRANSFORMATIONS,
    preemption_priority: int | None = None,
) -> Workload:
    meta, spec = view.metadata, view.spec
    return Workload(
        key=key_of(view),
        uid=meta.uid,
        local_queue=LocalQueueKey(f"{meta.namespace}/{spec.queue_name}"),
        namespace=meta.namespace,
        priority=spec.priority or 0,
        preemption_priority=preemption_priority,
        created_at=meta.creation_timestamp or 0.0,
        pod_sets=tuple(pod_set_of(pod_set, resources) for pod_set in spec.pod_sets),
        active=spec.active,
        defect=defect_of(view),
    )


def pod_set_of(view: queueing.PodSet, resources: ResourcesConfiguration) -> PodSet:
    spec = view.template.spec
    requests = counted(batch.pod_requests(spec), resources)
    return PodSet(
        name=PodSetName(view.name),
        count=view.count,
        min_count=view.min_count,
        requests=tuple(sorted((ResourceName(r), amount) for r, amount in requests.items())),
        constraints=constraints_of(spec),
    )


def counted(requests: Mapping[str, int], resources: ResourcesConfiguration) -> dict[str, int]:
    """Requests as they count against quota: without excluded ones, with transformed ones."""
    left = {
        name: amount
        for name, amount in requests.items()
        if not name.startswith(resources.exclude_resource_prefixes or ("\0",))
    }
    counted = dict(left)
    for rule in resources.transformations:
        if rule.input not in left:
            continue
        if rule.strategy == "Replace":
            counted.pop(rule.input, None)
        units = Fraction(left[rule.input], _unit(rule.input))
        if rule.multiply_by:
            units *= Fraction(left.get(rule.multiply_by, 0), _unit(rule.multiply_by))
        for name, factor in rule.outputs.items():
            amount = ceil(units * factor * _unit(name))
            counted[name] = counted.get(name, 0) + amount
    return counted


def _unit(resource: str) -> int:
    """How many of the smallest units make one."""
    return 1000 if resource == "cpu" else 1


def defect_of(view: queueing.Workload) -> str | None:
    """A container that asks for more than its own limit can never start."""
    for index, pod_set in enumerate(view.spec.pod_sets):
        spec = pod_set.template.spec
        for field, containers in (
            ("containers", spec.containers),
            ("initContainers", spec.init_containers),
        ):
            for position, container in enumerate(containers):
                limits = container.resources.limits
                for resource, amount in sorted(container.resources.requests.items()):
                    if resource in limits and amount > limits[resource]:
                        return (
                            f"spec.podSets[{index}].template.spec.{field}[{position}]: "
                            f"request for {resource} exceeds its limit"
                        )
    return None


def constraints_of(spec: batch.PodSpec) -> Constraints:
    terms: tuple[tuple[Requirement, ...], ...] = ()
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        terms = tuple(
            tuple(Requirement(e.key, e.operator, e.values) for e in term.match_expressions)
            for term in affinity.required.node_selector_terms
        )
    return Constraints(
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=terms,
        tolerations=tolerations_of(spec.tolerations),
    )


def tolerations_of(views: Iterable[batch.Toleration]) -> tuple[Toleration, ...]:
    return tuple(Toleration(t.key, t.operator, t.value, t.effect or "") for t in views)


def status_of(view: queueing.Workload) -> WorkloadStatus:
    status = view.status
    reserved = find_condition(status.conditions, "QuotaReserved")
    admitted = find_condition(status.conditions, "Admitted")
    holds = status.admission is not None and reserved is not None and reserved.status == "True"
    is_admitted = holds and admitted is not None and admitted.status == "True"
    requeue = status.requeue_state
    return WorkloadStatus(
        assignment=assignment_of(view) if holds else None,
        queue=QueueName(status.admission.cluster_queue) if holds and status.admission else None,
        reserved_at=reserved.last_transition_time if holds and reserved else None,
        admitted_at=admitted.last_transition_time if is_admitted and admitted else None,
        eviction=eviction_of(view),
        finished=is_true(status.conditions, "Finished"),
        pods_ready=is_true(status.conditions, "PodsReady"),
        requeue_count=(requeue.count or 0) if requeue is not None else 0,
        requeue_at=requeue.requeue_at if requeue is not None else None,
        checks={CheckName(c.name): CheckState(c.state) for c in status.admission_checks},
        history=tuple(
            FlavorTrial(
                FlavorName(line.resource_flavor),
                line.assignment_time,
                line.exhausted_time,
                Trigger(line.reason) if line.reason else None,
            )
            for line in status.flavor_assignment_history
            if line.assignment_time is not None
        ),
        preemptor=is_true(status.conditions, PREEMPTOR),
        reclaimable={PodSetName(p.name): p.count for p in status.reclaimable_pods},
    )


def eviction_of(view: queueing.Workload) -> Eviction | None:
    condition = find_condition(view.status.conditions, "Evicted")
    if condition is None or condition.status != "True":
        return None
    try:
        reason = EvictionReason(condition.reason)
    except ValueError:  # DeactivatedDueTo… and words of other controllers
        reason = EvictionReason.DEACTIVATED
    return Eviction(reason, condition.last_transition_time or 0.0)


def assignment_of(view: queueing.Workload) -> Assignment:
    assert view.status.admission is not None
    counts = {pod_set.name: pod_set.count for pod_set in view.spec.pod_sets}
    return Assignment(
        tuple(
            PodSetAssignment(
                name=PodSetName(assigned.name),
                count=counts.get(assigned.name, 0) if assigned.count is None else assigned.count,
                flavors=tuple(
                    sorted((ResourceName(r), FlavorName(f)) for r, f in assigned.flavors.items())
                ),
                usage=tuple(
                    sorted(
                        (ResourceName(r), amount)
                        for r, amount in assigned.resource_usage.items()
                        if r in assigned.flavors
                    )
                ),
            )
            for assigned in view.status.admission.pod_set_assignments
        )
    )
