import pytest

from makeway.api.configuration import Configuration
from makeway.api.gates import GATES
from tests.api.reading import complaints, unsupported, view

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def configuration(text: str) -> Configuration:
    read = view(HEAD + text)
    assert isinstance(read, Configuration)
    return read


def test_without_settings_preempted_workloads_keep_their_place_and_others_queue_anew() -> None:
    plain = configuration("")

    assert plain.requeue_after_preemption == "UseCreationTimestamp"
    assert plain.requeue_after_pods_ready_timeout == "UseEvictionTimestamp"
    assert plain.pods_ready is None
    assert not plain.is_sharing_fairly


def test_requeue_strategy_says_which_time_counts() -> None:
    ours = configuration(
        """
requeueStrategy:
  priorityPreemption: UseEvictionTimestamp
  podsReadyTimeout: UseCreationTimestamp
"""
    )

    assert ours.requeue_after_preemption == "UseEvictionTimestamp"
    assert ours.requeue_after_pods_ready_timeout == "UseCreationTimestamp"


def test_kueues_spelling_is_understood() -> None:
    kueues = configuration(
        """
waitForPodsReady:
  timeout: 10m
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 5}
"""
    )

    assert kueues.requeue_after_pods_ready_timeout == "UseCreationTimestamp"
    assert kueues.pods_ready is not None
    assert kueues.pods_ready.timeout == 600
    strategy = kueues.pods_ready.requeuing_strategy
    assert (strategy.backoff_base_seconds, strategy.backoff_max_seconds) == (60, 3600)
    assert strategy.backoff_limit_count == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "requeueStrategy: {podsReadyTimeout: UseEvictionTimestamp}\n"
            "waitForPodsReady: {requeuingStrategy: {timestamp: Creation}}",
            ['waitForPodsReady.requeuingStrategy.timestamp: "Creation" contradicts'
             " requeueStrategy.podsReadyTimeout (UseEvictionTimestamp); keep one of them"],
        ),
        (
            "requeueStrategy: {podsReadyTimeout: UseEvictionTimestamp}\n"
            "waitForPodsReady: {requeuingStrategy: {timestamp: Eviction}}",
            [],
        ),
        (
            "waitForPodsReady: {timeout: 0s}",
            ['waitForPodsReady.timeout: "0s" is not positive; write for example "5m"'],
        ),
        (
            "waitForPodsReady: {timeout: 300}",
            ["waitForPodsReady.timeout: 300 is not a duration;"
             ' write for example "90s", "10m" or "1h30m"'],
        ),
        (
            "featureGates: {PartialAdmision: true}",
            ["featureGates.PartialAdmision: is not a known gate; write"
             " FlavorFungibilityImplicitPreferenceDefault, FlavorFungibilityPreserveScanProgress,"
             " HoldForPreemptor, OwnersFirst, PartialAdmission, PreemptionBackoff,"
             " RecomputeAssignmentUponPreemptionTargetsOverlap, SchedulingEquivalenceHashing"
             " or WorkloadPriorityClassDefaulting"],
        ),
        (
            "fairSharing:\n"
            "  preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]",
            ['fairSharing.preemptionStrategies: ["LessThanInitialShare",'
             ' "LessThanOrEqualToFinalShare"] is not an order of strategies; write'
             " LessThanOrEqualToFinalShare, LessThanInitialShare, or both in this order"],
        ),
        (
            "resources: {transformations: [{input: cpu, outputs: {credits: -1}}]}",
            ["resources.transformations[0].outputs.credits: -1 is negative; write 0 or more"],
        ),
        (
            "requeueStratgy: {}",
            ["requeueStratgy: is not a known field; did you mean requeueStrategy?"],
        ),
    ],
    ids=[
        "spellings-contradict", "spellings-agree", "timeout-zero", "timeout-number",
        "gate-misspelt", "strategies-order", "output-negative", "unknown-field",
    ],
)  # fmt: skip
def test_a_configuration_that_breaks_a_rule(text: str, expected: list[str]) -> None:
    assert complaints(HEAD + text) == expected


def test_gates_have_their_defaults_until_written() -> None:
    written = configuration("featureGates: {HoldForPreemptor: false}")

    assert {name: written.gate(name) for name in GATES} == {**GATES, "HoldForPreemptor": False}


def test_what_makeway_does_not_act_on_is_reported() -> None:
    text = HEAD + "multiKueue: {}\nfeatureGates: {TopologyAwareScheduling: true}"

    assert unsupported(text) == ["multiKueue", "featureGates.TopologyAwareScheduling"]


def test_transformations_have_exact_factors() -> None:
    (transformation,) = configuration(
        "resources: {transformations: [{input: nvidia.com/mig-1g.5gb, strategy: Replace,"
        " outputs: {credits: 200m, memory: 5Gi}}]}"
    ).resources.transformations

    assert transformation.strategy == "Replace"
    assert transformation.outputs == {"credits": pytest.approx(0.2), "memory": 5 * 2**30}
