from typing import Any

import pytest

from makeway.api.codec import decode_as, encode
from makeway.api.queueing import ClusterQueue
from makeway.api.versions import from_hub, to_hub
from tests.api.reading import complaints, document, view

OLD_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohort: lab
  admissionChecks: [budget, license]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}
  preemption: {withinCohort: ReclaimFromLowerPriority, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: spot, resources: [{name: cpu, min: 4, max: 6500m}]}
"""

ALPHA_QUEUE = """
apiVersion: kueue.x-k8s.io/v1alpha2
kind: ClusterQueue
metadata: {name: total}
spec:
  cohort: lab
  preemption: {withinCohort: ReclaimFromAny}
  resources:
  - name: cpu
    flavors:
    - {name: spot, quota: {min: 9, max: 12}}
  - name: gpu
    flavors:
    - {name: a100, quota: {min: 4}}
  - name: memory
    flavors:
    - {name: spot, quota: {min: 9Gi, max: 12Gi}}
"""


def test_old_names_of_a_cluster_queue_are_understood() -> None:
    spec = view(OLD_QUEUE).spec

    assert spec.cohort_name == "lab"
    assert spec.preemption.reclaim_within_cohort == "LowerPriority"
    assert spec.flavor_fungibility.when_can_borrow == "MayStopSearch"
    assert spec.flavor_fungibility.when_can_preempt == "MayStopSearch"
    assert [c.name for c in spec.admission_checks_strategy.admission_checks] == [
        "budget",
        "license",
    ]
    (quota,) = spec.resource_groups[0].flavors[0].resources
    assert (quota.nominal_quota, quota.borrowing_limit) == (4000, 2500)


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("whenCanBorrow", "Preempt", "Borrow or TryNextFlavor"),
        ("whenCanPreempt", "Borrow", "Preempt or TryNextFlavor"),
    ],
)
def test_the_word_of_the_other_field_is_none(field: str, value: str, hint: str) -> None:
    right = f"{field}: {'Borrow' if field == 'whenCanBorrow' else 'Preempt'}"

    assert complaints(OLD_QUEUE.replace(right, f"{field}: {value}")) == [
        f'spec.flavorFungibility.{field}: "{value}" is not a value of this field; write {hint}'
    ]


def test_the_first_form_of_a_queue_comes_back_as_it_was_written() -> None:
    hub = to_hub(document(ALPHA_QUEUE)).document
    spec: Any = from_hub(hub, "v1alpha2")["spec"]

    assert spec["preemption"] == {"withinCohort": "ReclaimFromAny"}
    assert spec["resources"] == [
        {"name": "cpu", "flavors": [{"name": "spot", "quota": {"min": 9, "max": "12"}}]},
        {"name": "memory", "flavors": [{"name": "spot", "quota": {"min": "9Gi", "max": "12Gi"}}]},
        {"name": "gpu", "flavors": [{"name": "a100", "quota": {"min": 4}}]},
    ]
    assert to_hub(from_hub(hub, "v1alpha2")).document["spec"] == hub["spec"]


def test_resources_with_the_same_flavors_become_one_group() -> None:
    spec = view(ALPHA_QUEUE).spec

    assert spec.preemption.reclaim_within_cohort == "Any"
    assert [group.covered_resources for group in spec.resource_groups] == [
        ("cpu", "memory"),
        ("gpu",),
    ]
    cpu, memory = spec.resource_groups[0].flavors[0].resources
    assert (cpu.nominal_quota, cpu.borrowing_limit) == (9000, 3000)
    assert (memory.nominal_quota, memory.borrowing_limit) == (9 * 2**30, 3 * 2**30)
    assert spec.resource_groups[1].flavors[0].resources[0].borrowing_limit is None


def test_errors_name_the_fields_as_the_user_wrote_them() -> None:
    text = ALPHA_QUEUE.replace("cohort: lab", "cohort: Lab").replace("min: 9Gi", "min: -9Gi")

    assert [line.partition(";")[0] for line in complaints(text)] == [
        'spec.resources[2].flavors[0].quota.min: "-9Gi" is negative',
        'spec.cohort: "Lab" is not a name',
    ]


def test_a_max_below_min_is_refused() -> None:
    assert complaints(OLD_QUEUE.replace("max: 6500m", "max: 3")) == [
        "spec.resourceGroups[0].flavors[0].resources[0].max: 3 is below min;"
        " write a max that is at least min"
    ]


def test_old_names_are_unknown_in_the_current_version() -> None:
    found = complaints(OLD_QUEUE.replace("v1beta1", "v1beta2"))

    assert "spec.cohort: is not a known field; did you mean cohortName?" in found


def test_old_and_new_name_together_are_refused() -> None:
    assert complaints(OLD_QUEUE.replace("cohort: lab", "cohort: lab\n  cohortName: lab")) == [
        'spec.cohort: "lab" stands beside cohortName, which is the same field; keep only cohortName'
    ]


def test_list_and_strategy_of_checks_together_are_refused() -> None:
    text = OLD_QUEUE.replace(
        "cohort: lab", "cohort: lab\n  admissionChecksStrategy: {admissionChecks: [{name: budget}]}"
    )

    assert complaints(text) == [
        'spec.admissionChecks: ["budget", "license"] stands beside admissionChecksStrategy;'
        " keep only admissionChecksStrategy"
    ]


def test_the_priority_class_of_an_old_workload_becomes_a_reference() -> None:
    workload = view(
        """
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: Workload
        metadata: {name: w}
        spec:
          priority: 10
          priorityClassName: urgent
          priorityClassSource: kueue.x-k8s.io/workloadpriorityclass
          podSets: [{template: {spec: {containers: [{name: c}]}}}]
        status: {accumulatedPastExexcutionTimeSeconds: 7}
        """
    )

    reference = workload.spec.priority_class_ref
    assert (reference.kind, reference.name) == ("WorkloadPriorityClass", "urgent")
    assert workload.status.accumulated_past_execution_time_seconds == 7


def test_the_current_version_can_be_written_as_the_old_one() -> None:
    hub = to_hub(document(OLD_QUEUE)).document

    old = from_hub(hub, "v1beta1")

    assert old["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert decode_as(ClusterQueue, old).object == decode_as(ClusterQueue, hub).object
    spec = old["spec"]
    assert isinstance(spec, dict)
    assert spec["cohort"] == "lab"
    assert spec["flavorFungibility"] == {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}


def test_conversion_leaves_its_input_alone() -> None:
    given = document(ALPHA_QUEUE)

    to_hub(given)

    assert given == document(ALPHA_QUEUE)


def test_the_sections_of_an_old_configuration_count_only_when_enabled() -> None:
    text = """
    apiVersion: config.kueue.x-k8s.io/v1beta1
    kind: Configuration
    waitForPodsReady: {enable: ENABLE, timeout: 7m}
    fairSharing: {enable: ENABLE}
    """

    off, on = view(text.replace("ENABLE", "false")), view(text.replace("ENABLE", "true"))

    assert (off.pods_ready, off.is_sharing_fairly) == (None, False)
    assert (on.pods_ready.timeout, on.pods_ready.block_admission) == (420, True)
    assert on.is_sharing_fairly
    assert encode(on)["waitForPodsReady"]["timeout"] == "7m"
