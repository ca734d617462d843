"""Rules for the configuration."""

from makeway.api.configuration import Configuration, WorkloadRetention
from makeway.api.errors import ABSENT, one_of
from makeway.api.gates import GATES, GATES_OF_KUEUE
from makeway.api.quantity import format_quantity
from makeway.api.times import format_duration
from makeway.api.validation.findings import Findings, check_count, check_unique
from makeway.api.validation.names import check_key, check_selector

TRANSFORMATIONS_MAX = 16


def check_configuration(configuration: Configuration, found: Findings) -> None:
    waiting, here = configuration.wait_for_pods_ready, found.at("waitForPodsReady")
    if waiting is not None:
        if waiting.timeout <= 0:
            value = format_duration(waiting.timeout)
            here.at("timeout").add(value, "is not positive", 'write for example "5m"')
        if waiting.recovery_timeout is not None and waiting.recovery_timeout < 0:
            value = format_duration(waiting.recovery_timeout)
            hint = 'write for example "3m", or "0s" to wait for ever'
            here.at("recoveryTimeout").add(value, "is negative", hint)
        _check_requeuing(configuration, here.at("requeuingStrategy"))
    distance = configuration.preemption_priority.max_distance
    if distance is not None and distance < 0:
        here = found.at("preemptionPriority", "maxDistance")
        here.add(distance, "is negative", "write 0 or more, or leave it out")
    for gate in configuration.feature_gates:
        if gate not in GATES and gate not in GATES_OF_KUEUE:
            hint = f"write {one_of(tuple(sorted(GATES)))}"
            found.at("featureGates", gate).add(ABSENT, "is not a known gate", hint)
    _check_usage_history(configuration, found.at("admissionFairSharing"))
    _check_fair_strategies(configuration, found.at("fairSharing", "preemptionStrategies"))
    transformations = configuration.resources.transformations
    here = found.at("resources", "transformations")
    check_count(len(transformations), TRANSFORMATIONS_MAX, "transformations", here)
    check_unique(
        ((t.input, here.at(i, "input")) for i, t in enumerate(transformations)), "resource"
    )
    for index, transformation in enumerate(transformations):
        check_key(transformation.input, here.at(index, "input"))
        for resource, factor in transformation.outputs.items():
            place = here.at(index, "outputs", resource)
            check_key(resource, place)
            if factor < 0:
                place.add(format_quantity(factor), "is negative", "write 0 or more")
    _check_retention(configuration, found.at("objectRetentionPolicies", "workloads"))
    check_selector(
        configuration.managed_jobs_namespace_selector, found.at("managedJobsNamespaceSelector")
    )


def _check_usage_history(configuration: Configuration, found: Findings) -> None:
    history = configuration.admission_fair_sharing
    if history is None:
        return
    for name, value, example in (
        ("usageHalfLifeTime", history.usage_half_life_time, "168h"),
        ("usageSamplingInterval", history.usage_sampling_interval, "5m"),
    ):
        if value <= 0:
            hint = f'write for example "{example}"'
            found.at(name).add(format_duration(value), "is not positive", hint)
    for resource, weight in history.resource_weights.items():
        here = found.at("resourceWeights", resource)
        check_key(resource, here)
        if weight < 0:
            here.add(format_quantity(weight), "is negative", "write 0 or more")


def _check_requeuing(configuration: Configuration, found: Findings) -> None:
    assert configuration.wait_for_pods_ready is not None
    strategy = configuration.wait_for_pods_ready.requeuing_strategy
    ours = configuration.requeue_strategy.pods_ready_timeout
    if (
        strategy.timestamp is not None
        and ours is not None
        and ours != f"Use{strategy.timestamp}Timestamp"
    ):
        found.at("timestamp").add(
            strategy.timestamp,
            f"contradicts requeueStrategy.podsReadyTimeout ({ours})",
            "keep one of them",
        )
    for name, value in (
        ("backoffLimitCount", strategy.backoff_limit_count),
        ("backoffBaseSeconds", strategy.backoff_base_seconds),
        ("backoffMaxSeconds", strategy.backoff_max_seconds),
    ):
        if value is not None and value < 0:
            found.at(name).add(value, "is negative", "write 0 or more")


def _check_retention(configuration: Configuration, found: Findings) -> None:
    kept = configuration.object_retention_policies.workloads or WorkloadRetention()
    for name, value in (
        ("afterFinished", kept.after_finished),
        ("afterDeactivatedByKueue", kept.after_deactivated_by_kueue),
    ):
        if value is not None and value < 0:
            hint = 'write for example "24h", or "0s" to keep nothing'
            found.at(name).add(format_duration(value), "is negative", hint)


def _check_fair_strategies(configuration: Configuration, found: Findings) -> None:
    strategies = configuration.fair_preemption_strategies
    if len(set(strategies)) < len(strategies) or strategies == (
        "LessThanInitialShare",
        "LessThanOrEqualToFinalShare",
    ):
        found.add(
            list(strategies),
            "is not an order of strategies",
            "write LessThanOrEqualToFinalShare, LessThanInitialShare, or both in this order",
        )
