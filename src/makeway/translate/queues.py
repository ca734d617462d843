"""Flavors, queues, cohorts, checks and namespaces become engine events; settings its config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from makeway.api import batch, queueing
from makeway.api.configuration import AdmissionFairSharing, Configuration
from makeway.api.meta import LabelSelector, is_true
from makeway.api.quantity import smallest_units
from makeway.engine import events as ev
from makeway.engine import model
from makeway.engine.matching import Taint
from makeway.translate.workloads import milestones_of, tolerations_of

QueueObject = (
    queueing.ResourceFlavor
    | queueing.ClusterQueue
    | queueing.Cohort
    | queueing.LocalQueue
    | queueing.AdmissionCheck
    | batch.Namespace
)


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
            return ev.CheckChanged(model.CheckName(view.metadata.name), active)
        case batch.Namespace():
            return ev.NamespaceChanged(view.metadata.name, view.metadata.labels)


def recalled(view: QueueObject) -> Iterator[ev.Event]:
    """What was written down in the status of a queue for whoever comes after us."""
    match view:
        case queueing.LocalQueue() if view.status.fair_sharing is not None:
            past = view.status.fair_sharing.admission_fair_sharing_status
            if past is not None and past.last_update is not None:
                key = local_queue_of(view).key
                used = {model.ResourceName(r): float(n) for r, n in past.consumed_resources.items()}
                used = {r: amount * smallest_units(r) for r, amount in used.items()}
                yield ev.UsageRecalled(key, used, past.last_update)
        case queueing.ClusterQueue() if view.status.preemption is not None:
            caused = view.status.preemption.evictions
            times = tuple(line.time for line in caused for _ in range(line.count))
            yield ev.EvictionsCaused(model.QueueName(view.metadata.name), times)
        case _:
            pass


def flavor_of(view: queueing.ResourceFlavor) -> model.Flavor:
    return model.Flavor(
        name=model.FlavorName(view.metadata.name),
        labels=view.spec.node_labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in view.spec.node_taints),
        tolerations=tolerations_of(view.spec.tolerations),
    )


def cohort_of(view: queueing.Cohort) -> model.Cohort:
    return model.Cohort(
        name=model.CohortName(view.metadata.name),
        parent=model.CohortName(view.spec.parent_name) if view.spec.parent_name else None,
        quotas={
            model.FlavorResource(quotas.flavor, resource): quota
            for group in groups_of(view.spec.resource_groups)
            for quotas in group.flavors
            for resource, quota in quotas.quotas.items()
        },
        weight=weight_of(view.spec.fair_sharing),
    )


def local_queue_of(view: queueing.LocalQueue) -> model.LocalQueue:
    return model.LocalQueue(
        key=model.LocalQueueKey(f"{view.metadata.namespace}/{view.metadata.name}"),
        queue=model.QueueName(view.spec.cluster_queue),
        stop_policy=model.StopPolicy(view.spec.stop_policy),
        milestones=milestones_of(view.spec.preemption),
        weight=weight_of(view.spec.fair_sharing),
    )


def queue_of(view: queueing.ClusterQueue) -> model.Queue:
    spec = view.spec
    checks, scope = spec.admission_checks_strategy, spec.admission_scope
    return model.Queue(
        name=model.QueueName(view.metadata.name),
        groups=groups_of(spec.resource_groups),
        cohort=model.CohortName(spec.cohort_name) if spec.cohort_name else None,
        strategy=model.Strategy(spec.queueing_strategy),
        namespaces=selector_of(spec.namespace_selector),
        fungibility=fungibility_of(spec.flavor_fungibility),
        preemption=preemption_of(spec.preemption),
        stop_policy=model.StopPolicy(spec.stop_policy),
        checks=tuple(
            model.QueueCheck(
                model.CheckName(c.name), frozenset(map(model.FlavorName, c.on_flavors))
            )
            for c in (checks.admission_checks if checks is not None else ())
        ),
        weight=weight_of(spec.fair_sharing),
        is_leaving=view.metadata.deletion_timestamp is not None,
        aging=aging_of(spec.aging),
        counts_history=scope is not None
        and scope.admission_mode == "UsageBasedAdmissionFairSharing",
    )


def preemption_of(view: queueing.ClusterQueuePreemption) -> model.Preemption:
    borrowing, budget = view.borrow_within_cohort, view.budget
    return model.Preemption(
        within_queue=model.Policy(view.within_cluster_queue),
        reclaim=model.Policy(view.reclaim_within_cohort),
        borrow_while_reclaiming=borrowing.policy != "Never",
        borrow_threshold=borrowing.max_priority_threshold,
        after_waiting_s=float(view.trigger_after_workload_waiting_seconds or 0),
        sorting=tuple(map(model.Sorting, view.workload_sorting)),
        min_runtime_s=float(view.min_runtime_seconds or 0),
        evictions_per_hour=None if budget is None else budget.evictions_per_hour,
    )


def aging_of(view: queueing.Aging | None) -> model.Aging | None:
    return None if view is None else model.Aging(view.every_seconds, view.priority, view.maximum)


def groups_of(groups: Iterable[queueing.ResourceGroup]) -> tuple[model.ResourceGroup, ...]:
    return tuple(
        model.ResourceGroup(
            resources=tuple(map(model.ResourceName, group.covered_resources)),
            flavors=tuple(
                model.FlavorQuotas(
                    model.FlavorName(flavor.name),
                    {
                        model.ResourceName(quota.name): model.Quota(
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


def fungibility_of(view: queueing.FlavorFungibility) -> model.Fungibility:
    strategy = view.fallback_strategy
    fallbacks = model.Fallbacks()
    if strategy is not None:
        fallbacks = model.Fallbacks(
            rules=tuple(map(fallback_rule_of, strategy.rules)),
            failure_policy=model.FailurePolicy(strategy.failure_policy),
        )
    return model.Fungibility(
        when_can_borrow=model.Search(view.when_can_borrow),
        when_can_preempt=model.Search(view.when_can_preempt),
        preference=model.Preference(view.preference) if view.preference is not None else None,
        fallbacks=fallbacks,
    )


def fallback_rule_of(rule: queueing.FallbackRule) -> model.FallbackRule:
    trigger = model.Trigger(rule.fires_on) if rule.fires_on is not None else None
    return model.FallbackRule(rule.name, trigger, rule.timeout)


def selector_of(selector: LabelSelector | None) -> model.NamespaceSelector | None:
    return None if selector is None else model.NamespaceSelector(selector.requirements)


def history_of(view: AdmissionFairSharing | None) -> model.HistoryPolicy | None:
    if view is None:
        return None
    return model.HistoryPolicy(
        half_life_s=view.usage_half_life_time,
        sampling_s=view.usage_sampling_interval,
        weights={model.ResourceName(r): float(w) for r, w in view.resource_weights.items()},
    )


def config_of(view: Configuration) -> model.Config:
    waiting = view.pods_ready
    pods_ready, backoff = None, model.Backoff()
    if waiting is not None:
        recovery_s = (
            waiting.timeout if waiting.recovery_timeout is None else waiting.recovery_timeout
        )
        pods_ready = model.PodsReadyPolicy(
            timeout_s=waiting.timeout,
            recovery_timeout_s=recovery_s or None,
            blocks_admission=waiting.block_admission,
        )
        backoff = model.Backoff(
            base_s=waiting.requeuing_strategy.backoff_base_seconds,
            max_s=waiting.requeuing_strategy.backoff_max_seconds,
            limit=waiting.requeuing_strategy.backoff_limit_count,
        )
    return model.Config(
        fair_sharing=view.is_sharing_fairly,
        history=history_of(view.admission_fair_sharing),
        share_rules=tuple(map(model.ShareRule, view.fair_preemption_strategies)),
        after_preemption=model.RequeueTime(view.requeue_after_preemption),
        after_pods_ready_timeout=model.RequeueTime(view.requeue_after_pods_ready_timeout),
        pods_ready=pods_ready,
        backoff=backoff,
        gates=model.Gates(
            hold_for_preemptor=view.gate("HoldForPreemptor"),
            owners_first=view.gate("OwnersFirst"),
            preemption_backoff=view.gate("PreemptionBackoff"),
            partial_admission=view.gate("PartialAdmission"),
            equal_shapes_together=view.gate("SchedulingEquivalenceHashing"),
            keep_scan_progress=view.gate("FlavorFungibilityPreserveScanProgress"),
            implicit_preference=view.gate("FlavorFungibilityImplicitPreferenceDefault"),
            reassign_on_overlap=view.gate("RecomputeAssignmentUponPreemptionTargetsOverlap"),
        ),
    )
