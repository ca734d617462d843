from makeway.api.codec import decode
from makeway.api.defaults import with_defaults
from tests.api.reading import document


def test_the_defaults_of_a_cluster_queue() -> None:
    given = document("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, spec: {}}")

    assert with_defaults(given)["spec"] == {
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "withinClusterQueue": "Never",
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
        "stopPolicy": "None",
    }


def test_the_defaults_of_a_workload() -> None:
    given = document(
        """
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Workload
        spec: {podSets: [{template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}]}
        """
    )

    spec = with_defaults(given)["spec"]

    assert isinstance(spec, dict)
    assert spec["active"] is True
    assert spec["podSets"][0]["name"] == "main"
    assert spec["podSets"][0]["count"] == 1
    assert "priority" not in spec  # a class may still give it one
    assert spec["podSets"][0]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_fallback_strategy_gives_up_by_default() -> None:
    given = document(
        """
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        spec: {flavorFungibility: {fallbackStrategy: {rules: [{name: "*", timeout: 5m}]}}}
        """
    )

    spec = with_defaults(given)["spec"]

    assert isinstance(spec, dict)
    strategy = spec["flavorFungibility"]["fallbackStrategy"]
    assert strategy["failurePolicy"] == "DeactivateWorkload"
    assert strategy["rules"] == [{"name": "*", "timeout": "5m"}]


def test_what_is_written_stays_and_the_input_is_left_alone() -> None:
    text = "{apiVersion: batch/v1, kind: Job, spec: {parallelism: 3, suspend: true, template: {}}}"
    given = document(text)

    completed = with_defaults(given)["spec"]

    assert isinstance(completed, dict)
    assert (completed["parallelism"], completed["suspend"], completed["backoffLimit"]) == (
        3,
        True,
        6,
    )
    assert given == document(text)


def test_defaults_mean_what_their_absence_means() -> None:
    given = document(
        """
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: q}
        spec: {fairSharing: {}, preemption: {withinClusterQueue: LowerPriority}}
        """
    )

    assert decode(with_defaults(given)).object == decode(given).object


def test_metadata_and_status_get_no_defaults() -> None:
    given = document("{apiVersion: v1, kind: Pod, metadata: {}, spec: {}, status: {}}")

    completed = with_defaults(given)

    assert (completed["metadata"], completed["status"]) == ({}, {})


def test_parts_of_the_wrong_type_are_left_for_the_codec() -> None:
    given = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "spec": [1]}

    assert with_defaults(given) == given
