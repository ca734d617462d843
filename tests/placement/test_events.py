"""Documents of users and clusters become events of placement."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.batch import PriorityClass
from makeway.api.codec import decode
from makeway.api.meta import ObjectMeta
from makeway.placement.events import (
    BudgetSeen,
    GangSeen,
    NodeSeen,
    PlacementEvent,
    PodGone,
    PodSeen,
)
from makeway.placement.model import (
    NAME_FIELD,
    Apart,
    BudgetKey,
    DisruptionMode,
    GangKey,
    Pod,
    PodKey,
    Spread,
)
from makeway.selectors import Requirement
from makeway.translate.placement import (
    not_matching_condition,
    seen_in_placement,
)

CLASSES = [
    PriorityClass(metadata=ObjectMeta(name="low"), value=10),
    PriorityClass(metadata=ObjectMeta(name="high"), value=100),
    PriorityClass(metadata=ObjectMeta(name="polite"), value=50, preemption_policy="Never"),
]
PREEMPTION_CLASS = "makeway.dev/preemption-priority-class"


def view(kind: str, api_version: str = "v1", **parts: Any) -> Any:
    metadata = {"name": "it", "namespace": "lab", **parts.pop("metadata", {})}
    if kind == "Node":
        del metadata["namespace"]
    found = decode({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})
    assert found.object is not None, [str(error) for error in found.errors]
    return found.object


def pod_view(*, status: Any = None, metadata: Any = None, **spec: Any) -> Any:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    spec = {"containers": [container], **spec}
    return view("Pod", spec=spec, status=status or {}, metadata=metadata or {})


def seen(view: Any, **options: Any) -> tuple[PlacementEvent, ...]:
    return seen_in_placement(view, CLASSES, **options)


def pod_seen(**parts: Any) -> Pod:
    (event,) = seen(pod_view(**parts))
    assert isinstance(event, PodSeen)
    return event.pod


def test_a_node_is_its_allocatable_amounts_labels_and_taints() -> None:
    (event,) = seen(
        view(
            "Node",
            metadata={"labels": {"zone": "a"}},
            spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}], "unschedulable": True},
            status={"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m", "pods": "110"}},
        )
    )
    assert isinstance(event, NodeSeen)
    assert event.node.capacity == {"cpu": 7500, "pods": 110}
    assert event.node.labels == {"zone": "a"}
    assert event.node.taints[0].key == "gpu"
    assert event.node.unschedulable


def test_a_pod_is_its_shape_and_its_priorities() -> None:
    pod = pod_seen(priorityClassName="low", metadata={"annotations": {PREEMPTION_CLASS: "high"}})
    assert pod.shape.requests == (("cpu", 500), ("memory", 2**30))
    assert (pod.priority, pod.preemption_priority) == (10, 100)


@pytest.mark.parametrize(
    ("spec", "annotation", "numbers"),
    [
        pytest.param({"priority": 70, "priorityClassName": "low"}, "", (70, 70), id="settled"),
        pytest.param({"priorityClassName": "high"}, "low", (100, 100), id="annotation too low"),
        pytest.param({"priorityClassName": "low"}, "gone", (10, 10), id="annotation unknown"),
        pytest.param({"priorityClassName": "gone"}, "", (0, 0), id="class unknown"),
    ],
)
def test_names_that_say_nothing_valid_fall_back(
    spec: dict[str, Any], annotation: str, numbers: tuple[int, int]
) -> None:
    annotations = {PREEMPTION_CLASS: annotation} if annotation else {}
    pod = pod_seen(metadata={"annotations": annotations}, **spec)
    assert (pod.priority, pod.preemption_priority) == numbers


def test_a_preemption_priority_too_far_above_does_not_count() -> None:
    pod = pod_view(priorityClassName="low", metadata={"annotations": {PREEMPTION_CLASS: "high"}})
    for distance_max, number in ((90, 100), (89, 10)):
        (event,) = seen(pod, distance_max=distance_max)
        assert isinstance(event, PodSeen)
        assert event.pod.preemption_priority == number


def test_a_class_may_forbid_preemption() -> None:
    assert pod_seen(priorityClassName="low").may_preempt
    assert not pod_seen(priorityClassName="polite").may_preempt
    assert not pod_seen(priority=10, preemptionPolicy="Never").may_preempt


def test_an_affinity_by_field_is_one_by_name() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    terms = pod_seen(affinity=affinity).shape.constraints.affinity
    assert terms == ((Requirement(NAME_FIELD, "In", ("n1",)),),)


def test_distance_is_kept_from_those_that_the_pod_is_one_of() -> None:
    def term(app: str) -> dict[str, Any]:
        return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}

    spread = {"maxSkew": 2, "minDomains": 3, "whenUnsatisfiable": "DoNotSchedule", **term("train")}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term("other"), term("train")]}
    shape = pod_seen(
        metadata={"labels": {"app": "train"}},
        affinity={"podAntiAffinity": anti},
        topologySpreadConstraints=[spread],
    ).shape
    assert (shape.apart, shape.spread) == (Apart("zone"), Spread("zone", 2, 3))


@pytest.mark.parametrize(
    ("parts", "takes_part"),
    [
        pytest.param({}, True, id="waits"),
        pytest.param({"status": {"phase": "Succeeded"}, "nodeName": "n1"}, False, id="has ended"),
        pytest.param({"schedulingGates": [{"name": "wait"}]}, False, id="is gated"),
        pytest.param({"schedulerName": "other"}, False, id="waits for another scheduler"),
        pytest.param({"schedulerName": "other", "nodeName": "n1"}, True, id="runs all the same"),
    ],
)
def test_who_takes_part(parts: dict[str, Any], takes_part: bool) -> None:
    (event,) = seen(pod_view(**parts), schedulers=["default-scheduler"])
    assert isinstance(event, PodSeen if takes_part else PodGone)


def test_every_replica_of_a_group_is_a_gang() -> None:
    groups = [
        {"name": "leader", "policy": {"basic": {}}},
        {
            "name": "workers",
            "replicas": 2,
            "policy": {"gang": {"minCount": 4, "preemptionMode": "PodGroup"}},
        },
    ]
    workload = view("Workload", "scheduling.k8s.io/v1alpha1", spec={"podGroups": groups})
    gangs = [event.gang for event in seen(workload) if isinstance(event, GangSeen)]
    assert [(gang.key, gang.min_count, gang.mode) for gang in gangs] == [
        ("lab/it/leader/", 0, DisruptionMode.POD),
        ("lab/it/workers/0", 4, DisruptionMode.GANG),
        ("lab/it/workers/1", 4, DisruptionMode.GANG),
    ]


def test_a_pod_of_a_queued_job_is_of_the_gang_of_its_pod_set() -> None:
    pod = pod_seen(
        metadata={
            "annotations": {"kueue.x-k8s.io/workload": "job-train"},
            "labels": {"kueue.x-k8s.io/podset": "main"},
        }
    )
    assert pod.workload == "lab/job-train"
    assert pod.gang == GangKey("lab/job-train/pod-sets/main")


def test_a_budget_says_how_many_may_go() -> None:
    (event,) = seen(
        view(
            "PodDisruptionBudget",
            "policy/v1",
            spec={"selector": {"matchLabels": {"app": "db"}}},
            status={"disruptionsAllowed": 2},
        )
    )
    assert isinstance(event, BudgetSeen)
    assert (event.budget.key, event.budget.allowed) == (BudgetKey("lab/it"), 2)
    assert event.budget.selector.matches({"app": "db"})


def test_pods_of_another_priority_are_named_in_a_condition() -> None:
    condition = not_matching_condition([PodKey("lab/a"), PodKey("lab/b")], now=5.0)
    assert (condition.type, condition.status) == ("PodsNotMatchingPriority", "True")
    assert condition.message.endswith("not that of these pods: a, b")
    assert not_matching_condition([], now=5.0).status == "False"
