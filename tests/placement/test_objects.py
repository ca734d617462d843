"""The kinds that describe gangs: what is accepted, and what it means."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.api.batch import Pod as PodView
from makeway.api.batch import PriorityClass
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.intake import take_in
from makeway.api.labels import POD_SET, WORKLOAD
from makeway.api.meta import ObjectMeta
from makeway.api.priorities import resolve_priorities
from makeway.api.validation import validate_set
from makeway.placement.model import DisruptionMode
from makeway.translate.placement import gang_key_of, gang_of, gangs_of


def workload(**spec: Any) -> dict[str, Any]:
    groups = [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"podGroups": groups, **spec},
    }


def pod_group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train-workers", "namespace": "lab"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, **spec},
    }


def own_gang(**spec: Any) -> dict[str, Any]:
    return {**pod_group(**spec), "apiVersion": "makeway.dev/v1", "kind": "Gang"}


def complaints(document: dict[str, Any], old: Any = None) -> list[str]:
    return [str(error) for error in take_in(document, old).errors]


def accepted(document: dict[str, Any]) -> Any:
    intake = take_in(document)
    assert not intake.errors, [str(error) for error in intake.errors]
    return intake.object


def test_all_spellings_mean_the_same_gang() -> None:
    together = {"name": "workers", "policy": {"gang": {"minCount": 4}}}
    together["policy"]["gang"]["preemptionMode"] = "PodGroup"  # type: ignore[index]
    named = {"priorityClassName": "high"}
    seed: GangWorkload = accepted(workload(podGroups=[together], **named))
    today: PodGroup = accepted(pod_group(disruptionMode={"all": {}}, **named))
    ours: Gang = accepted(own_gang(disruptionMode={"all": {}}, **named))

    (first,) = gangs_of(seed, classes(high=100))
    second = gang_of(today, classes(high=100))
    assert (first.priority, first.min_count) == (100, 4)
    assert first.mode is DisruptionMode.GANG
    assert replace(first, key=second.key) == second
    third = gang_of(ours, classes(high=100))
    assert replace(first, key=third.key) == third


def test_a_pod_names_its_gang_either_way() -> None:
    def pod(labels: dict[str, str] | None = None, **spec: Any) -> PodView:
        container = {"name": "main"}
        view = accepted(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "lab", "labels": labels or {}},
                "spec": {"containers": [container], **spec},
            }
        )
        assert isinstance(view, PodView)
        return view

    reference = {"name": "train", "podGroup": "workers", "podGroupReplicaKey": "2"}
    assert gang_key_of(pod(workloadRef=reference)) == "lab/train/workers/2"
    group = {"podGroupName": "train-workers"}
    assert gang_key_of(pod(schedulingGroup=group)) == "lab/train-workers"
    label = {"makeway.dev/gang": "train"}
    assert gang_key_of(pod(label)) == "lab/gangs/train"
    assert gang_key_of(pod(label, schedulingGroup=group)) == "lab/train-workers"
    queued = pod({**label, POD_SET: "main"})
    queued = replace(queued, metadata=replace(queued.metadata, annotations={WORKLOAD: "job-a"}))
    assert gang_key_of(queued) == "lab/job-a/pod-sets/main"  # what a queue admitted stays together
    assert gang_key_of(pod()) is None


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        pytest.param(
            workload(podGroups=[{"name": "w", "policy": {"gang": {"minCount": 0}}}]),
            "spec.podGroups[0].policy.gang.minCount: 0 is not positive; write 1 or more",
            id="minCount 0",
        ),
        pytest.param(
            workload(podGroups=[{"name": "w", "policy": {}}]),
            "spec.podGroups[0].policy: is empty; write gang or basic",
            id="no policy",
        ),
        pytest.param(
            workload(podGroups=[]),
            "spec.podGroups: has 0 pod groups; list at least 1",
            id="no groups",
        ),
        pytest.param(
            workload(podGroups=[{"name": "w", "replicas": 0, "policy": {"gang": {"minCount": 1}}}]),
            "spec.podGroups[0].replicas: 0 is not positive; write 1 or more",
            id="replicas 0",
        ),
        pytest.param(
            pod_group(disruptionMode={"all": {}, "single": {}}),
            "spec.disruptionMode: has both single and all; keep one of them",
            id="two modes",
        ),
        pytest.param(
            own_gang(schedulingPolicy={"gang": {"minCount": 2}, "basic": {}}),
            "spec.schedulingPolicy: has both gang and basic; keep one of them",
            id="two policies",
        ),
        pytest.param(
            {**own_gang(), "metadata": {"name": "g" * 64, "namespace": "lab"}},
            f'metadata.name: "{"g" * 58}… has 64 characters; write at most 63 characters: '
            "pods name it by a label",
            id="too long for a label",
        ),
        pytest.param(
            own_gang(schedulingPolicy={"basic": {"minCount": 3}}),
            "spec.schedulingPolicy.basic.minCount: is not a known field; remove it",
            id="basic with a number",
        ),
        pytest.param(
            own_gang(priority=7),
            "spec.priority: is not a known field; did you mean priorityClassName?",
            id="a priority without a class",
        ),
        pytest.param(
            {**workload(), "status": {"priority": 100, "preemptionPriority": 50}},
            "status.preemptionPriority: 50 is below the scheduling priority (100); "
            "write 100 or more; else two workloads could preempt each other in turn",
            id="preemption below scheduling",
        ),
    ],
)
def test_what_is_refused(document: dict[str, Any], complaint: str) -> None:
    assert complaints(document) == [complaint]


def test_class_names_stay_as_they_are() -> None:
    old = accepted(workload(priorityClassName="low", preemptionPriorityClassName="high"))
    changed = workload(priorityClassName="mid", preemptionPriorityClassName="mid")
    assert complaints(changed, old) == [
        'spec.priorityClassName: "mid" cannot be changed; leave it at low',
        'spec.preemptionPriorityClassName: "mid" cannot be changed; leave it at high',
    ]


def test_min_count_of_a_pod_group_may_change_and_nothing_else() -> None:
    old = accepted(pod_group(disruptionMode={"single": {}}))
    more = pod_group(disruptionMode={"single": {}}, schedulingPolicy={"gang": {"minCount": 8}})
    assert complaints(more, old) == []
    assert complaints(pod_group(disruptionMode={"all": {}}), old) == [
        "spec.disruptionMode: cannot be changed; create another one"
    ]


def classes(**values: int) -> list[PriorityClass]:
    return [
        PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=name == "std")
        for name, value in values.items()
    ]


@pytest.mark.parametrize(
    ("names", "known", "numbers"),
    [
        (("low", ""), {"low": 10}, (10, 10)),
        (("low", "high"), {"low": 10, "high": 100}, (10, 100)),
        (("", ""), {"std": 40}, (40, 40)),
        (("", ""), {"low": 10}, (0, 0)),
        (("system-node-critical", ""), {}, (2_000_001_000, 2_000_001_000)),
    ],
)
def test_class_names_become_numbers(
    names: tuple[str, str], known: dict[str, int], numbers: tuple[int, int]
) -> None:
    resolved = resolve_priorities(*names, classes(**known))
    assert resolved.priorities is not None
    assert resolved.priorities[:2] == numbers


@pytest.mark.parametrize(
    ("names", "distance_max", "complaint"),
    [
        (
            ("none", ""),
            None,
            'spec.priorityClassName: "none" is not a priority class; '
            "create it first, or name one that exists (high, low)",
        ),
        (
            ("high", "low"),
            None,
            'spec.preemptionPriorityClassName: "low" has value 10, below the scheduling priority '
            "100; name a class of 100 or more; else preemptions could go round in circles",
        ),
        (
            ("low", "high"),
            50,
            'spec.preemptionPriorityClassName: "high" has value 100, too far above 10; '
            "name a class of at most 60",
        ),
    ],
)
def test_classes_that_do_not_go_together(
    names: tuple[str, str], distance_max: int | None, complaint: str
) -> None:
    known = classes(low=10, high=100)
    resolved = resolve_priorities(*names, known, distance_max=distance_max)
    assert [str(error) for error in resolved.errors] == [complaint]


def test_the_annotation_of_a_pod_group_is_held_against_its_class() -> None:
    document = pod_group(priorityClassName="high")
    document["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": "low"}
    views = [*classes(low=10, high=100), accepted(document)]
    (error,) = validate_set(views)
    assert error.index == 2
    assert str(error.error).startswith(
        'metadata.annotations[makeway.dev/preemption-priority-class]: "low" has value 10, below'
    )
