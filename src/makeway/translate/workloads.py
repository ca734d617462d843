"""Queue Workloads become engine events: what they ask for, and what became of them so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil

from makeway.api import batch, queueing
from makeway.api.configuration import ResourcesConfiguration
from makeway.api.labels import LAST_CHECKPOINT
from makeway.api.meta import Condition, find_condition, is_true
from makeway.api.pod_rules import NO_RULES, PodRules
from makeway.api.quantity import smallest_units
from makeway.api.times import TimeError, parse_time
from makeway.engine import model
from makeway.engine.matching import Constraints, Term, Toleration
from makeway.placement.model import NAME_FIELD
from makeway.selectors import Requirement

NO_TRANSFORMATIONS = ResourcesConfiguration()
PREEMPTOR = "Preemptor"  # condition: others make way for this workload
# Condition: pods of a group are gone, and whoever created them has to replace them.
LACKS_PODS = "WaitingForReplacementPods"
# Whoever admitted it would hand out devices that no quota counts.
CLAIMS = "DRA resource claims not supported"
TO_DEACTIVATE = "DeactivationTarget"  # condition: whoever looks after it has given it up
DUE_TO = "DeactivatedDueTo"  # in the reason of an eviction, with the cause behind it
PODS_GONE = "pods of its group are gone and have to be created again"  # a defect until they are


def key_of(view: queueing.Workload) -> model.WorkloadKey:
    return model.WorkloadKey(f"{view.metadata.namespace}/{view.metadata.name}")


def workload_of(
    view: queueing.Workload,
    resources: ResourcesConfiguration = NO_TRANSFORMATIONS,
    preemption_priority: int | None = None,
    rules: PodRules = NO_RULES,
) -> model.Workload:
    meta, spec = view.metadata, view.spec
    pods = [rules.completed(pod_set.template.spec) for pod_set in spec.pod_sets]
    return model.Workload(
        key=key_of(view),
        uid=meta.uid,
        local_queue=model.LocalQueueKey(f"{meta.namespace}/{spec.queue_name}"),
        namespace=meta.namespace,
        priority=spec.priority or 0,
        preemption_priority=preemption_priority,
        created_at=meta.creation_timestamp or 0.0,
        pod_sets=tuple(
            pod_set_of(pod_set, pod, resources)
            for pod_set, pod in zip(spec.pod_sets, pods, strict=True)
        ),
        active=spec.active,
        to_deactivate=to_deactivate(view),
        defect=PODS_GONE if lacks_pods(view) else defect_of(pods, rules),
        stands_aside=lacks_pods(view),
        milestones=milestones_of(spec.preemption),
        ends_when_preempted=spec.on_preemption == "Terminate",
        checkpoint_at=checkpoint_of(view),
    )


def milestones_of(view: queueing.WorkloadPreemption | None) -> model.Milestones:
    if view is None:
        return ()
    found = view.disruption_cost_milestones
    return tuple(model.Milestone(milestone.seconds, milestone.cost) for milestone in found)


def checkpoint_of(view: queueing.Workload) -> float | None:
    """When the job has last said that it saved its work; what can't be read says nothing."""
    try:
        return parse_time(view.metadata.annotations.get(LAST_CHECKPOINT, ""))
    except TimeError:
        return None


def to_deactivate(view: queueing.Workload) -> model.Cause | None:
    target = find_condition(view.status.conditions, TO_DEACTIVATE)
    return cause_in(target.reason) if target is not None and target.status == "True" else None


def pod_set_of(
    view: queueing.PodSet, spec: batch.PodSpec, resources: ResourcesConfiguration
) -> model.PodSet:
    """`spec` is that of its pods as they will be made."""
    requests = counted(batch.pod_requests(spec), resources)
    return model.PodSet(
        name=model.PodSetName(view.name),
        count=view.count,
        min_count=view.min_count,
        requests=tuple(sorted((model.ResourceName(r), amount) for r, amount in requests.items())),
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
        units = Fraction(left[rule.input], smallest_units(rule.input))
        if rule.multiply_by:
            units *= Fraction(left.get(rule.multiply_by, 0), smallest_units(rule.multiply_by))
        for name, factor in rule.outputs.items():
            amount = ceil(units * factor * smallest_units(name))
            counted[name] = counted.get(name, 0) + amount
    return counted


def lacks_pods(view: queueing.Workload) -> bool:
    """Whether there are no pods yet that quota could be for."""
    conditions = view.status.conditions
    return is_true(conditions, LACKS_PODS) and not is_true(conditions, "QuotaReserved")


def defect_of(pods: Iterable[batch.PodSpec], rules: PodRules) -> str | None:
    """Pods that ask for more than their own limits, or than their namespace lets them, are never
    made. None: these can be.
    """
    for index, spec in enumerate(pods):
        place = f"spec.podSets[{index}].template.spec"
        if spec.resource_claims:
            return f"{place}.resourceClaims: {CLAIMS}"
        for where, problem in rules.violations(spec) if rules is not NO_RULES else ():
            return f"resources didn't satisfy LimitRange constraints: {place}{where}: {problem}"
        for where, resources in _requirements(spec):
            for resource, amount in sorted(resources.requests.items()):
                if amount > resources.limits.get(resource, amount):
                    return f"{place}{where}: request for {resource} exceeds its limit"
    return None


def _requirements(spec: batch.PodSpec) -> Iterator[tuple[str, batch.ResourceRequirements]]:
    """Of each container, and of the pod as a whole."""
    for place, index, container in batch.all_containers(spec):
        yield f".{place}[{index}]", container.resources
    if spec.resources is not None:
        yield ".resources", spec.resources


def constraints_of(spec: batch.PodSpec) -> Constraints:
    terms: tuple[tuple[Requirement, ...], ...] = ()
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        terms = tuple(map(_term_of, affinity.required.node_selector_terms))
    return Constraints(
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=terms,
        tolerations=tolerations_of(spec.tolerations),
    )


def _term_of(term: batch.NodeSelectorTerm) -> Term:
    labels = (Requirement(e.key, e.operator, e.values) for e in term.match_expressions)
    # The only field is metadata.name. To flavors it is a key that they don't have.
    fields = (Requirement(NAME_FIELD, e.operator, e.values) for e in term.match_fields)
    return (*labels, *fields)


def tolerations_of(views: Iterable[batch.Toleration]) -> tuple[Toleration, ...]:
    return tuple(Toleration(t.key, t.operator, t.value, t.effect or "") for t in views)


def status_of(view: queueing.Workload) -> model.WorkloadStatus:
    status = view.status
    reserved = find_condition(status.conditions, "QuotaReserved")
    admitted = find_condition(status.conditions, "Admitted")
    holds = status.admission is not None and reserved is not None and reserved.status == "True"
    is_admitted = holds and admitted is not None and admitted.status == "True"
    requeue, admission = status.requeue_state, status.admission if holds else None
    return model.WorkloadStatus(
        assignment=assignment_of(view, admission.pod_set_assignments) if admission else None,
        queue=model.QueueName(admission.cluster_queue) if admission else None,
        reserved_at=reserved.last_transition_time if holds and reserved else None,
        admitted_at=admitted.last_transition_time if is_admitted and admitted else None,
        eviction=eviction_of(view),
        finished=is_true(status.conditions, "Finished"),
        pods_ready=is_true(status.conditions, "PodsReady"),
        ready_at=ready_at(view) if holds else None,
        pods_lost_at=pods_lost_at(view),
        requeue_count=(requeue.count or 0) if requeue is not None else 0,
        requeue_at=requeue.requeue_at if requeue is not None else None,
        checks={
            model.CheckName(c.name): model.CheckState(c.state) for c in status.admission_checks
        },
        retry_after_s=max(map(_retry_after_s, status.admission_checks), default=0.0),
        history=tuple(
            model.FlavorTrial(
                model.FlavorName(line.resource_flavor),
                line.assignment_time,
                line.exhausted_time,
                model.Trigger(line.reason) if line.reason else None,
            )
            for line in status.flavor_assignment_history
            if line.assignment_time is not None
        ),
        claim=claim_of(view) if is_true(status.conditions, PREEMPTOR) else None,
        reclaimable={model.PodSetName(p.name): p.count for p in status.reclaimable_pods},
        preemptions=preemptions_of(view),
        first_attempt_at=status.preemption.first_attempt_time if status.preemption else None,
    )


def claim_of(view: queueing.Workload) -> model.Claim:
    """What a preemptor waits for; a mere fact where it was not written down."""
    preemption = view.status.preemption
    if preemption is None or preemption.claim is None:
        return model.Claim()
    claim = preemption.claim
    return model.Claim(
        assignment_of(view, claim.pod_set_assignments),
        {
            model.FlavorResource(model.FlavorName(line.flavor), model.ResourceName(name)): amount
            for line in claim.held_before
            for name, amount in line.resources.items()
        },
    )


def preemptions_of(view: queueing.Workload) -> model.Preemptions | None:
    preemption = view.status.preemption
    if preemption is None or not preemption.count:
        return None
    return model.Preemptions(preemption.count, preemption.last_time or 0.0)


def _retry_after_s(check: queueing.AdmissionCheckState) -> float:
    is_retry = check.state == model.CheckState.RETRY.value
    return float(check.requeue_after_seconds or 0) if is_retry else 0.0


def ready_at(view: queueing.Workload) -> float | None:
    """Since when its pods are ready."""
    condition = find_condition(view.status.conditions, "PodsReady")
    is_ready = condition is not None and condition.status == "True"
    return condition.last_transition_time if condition is not None and is_ready else None


def pods_lost_at(view: queueing.Workload) -> float | None:
    """When pods that had been ready no longer were."""
    condition = find_condition(view.status.conditions, "PodsReady")
    if condition is None or condition.status == "True" or condition.reason != "WaitForRecovery":
        return None
    return condition.last_transition_time


def eviction_of(view: queueing.Workload) -> model.Eviction | None:
    condition = find_condition(view.status.conditions, "Evicted")
    if condition is None or condition.status != "True":
        return None
    try:
        reason = model.EvictionReason(condition.reason)
    except ValueError:  # DeactivatedDueTo… and words of other controllers
        reason = model.EvictionReason.DEACTIVATED
    return _eviction_for(view, condition, reason)


def _eviction_for(
    view: queueing.Workload, condition: Condition, reason: model.EvictionReason
) -> model.Eviction:
    preemption, preemptor = view.status.preemption, None
    if reason is model.EvictionReason.PREEMPTED and preemption is not None:
        preemptor = model.WorkloadKey(preemption.preempted_by) if preemption.preempted_by else None
    is_deactivated = reason is model.EvictionReason.DEACTIVATED
    cause = cause_in(condition.reason.removeprefix(DUE_TO)) if is_deactivated else None
    return model.Eviction(reason, condition.last_transition_time or 0.0, preemptor, cause)


def cause_in(word: str) -> model.Cause | None:
    """What a word says that Kueue or Makeway has written; None: others' words."""
    return next((cause for cause in model.Cause if cause.value == word), None)


def assignment_of(
    view: queueing.Workload, assigned_pod_sets: Iterable[queueing.PodSetAssignment]
) -> model.Assignment:
    counts = {pod_set.name: pod_set.count for pod_set in view.spec.pod_sets}
    return model.Assignment(
        tuple(
            model.PodSetAssignment(
                name=model.PodSetName(assigned.name),
                count=counts.get(assigned.name, 0) if assigned.count is None else assigned.count,
                flavors=tuple(
                    sorted(
                        (model.ResourceName(r), model.FlavorName(f))
                        for r, f in assigned.flavors.items()
                    )
                ),
                usage=tuple(
                    sorted(
                        (model.ResourceName(r), amount)
                        for r, amount in assigned.resource_usage.items()
                        if r in assigned.flavors
                    )
                ),
            )
            for assigned in assigned_pod_sets
        )
    )
