"""LimitRanges, RuntimeClasses, resources of whole pods: what is counted is what pods will have."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import LIMIT_RANGES, PODS, RUNTIME_CLASSES, WORKLOADS
from makeway.client.client import ApiError, Document
from makeway.controller.telling import EXPLAINED_AFTER_S
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import template
from tests.harness.queues import QueuePlane

LIMITS = Key("lab", "limits")


def limits(**item: Any) -> Document:
    metadata = {"name": "limits", "namespace": "lab"}
    return {"metadata": metadata, "spec": {"limits": [{"type": "Container", **item}]}}


def container(**resources: Any) -> Document:
    return {"name": "main", "command": ["go"], "resources": resources}


def pod_set(*containers: Document, count: int = 1, **spec: Any) -> Document:
    pods = template(containers=list(containers) or [container()], **spec)
    return {"name": "main", "count": count, "template": pods}


class Lab(QueuePlane):
    """Queue a has 4 cpu."""

    def train(self, *sets: Document) -> None:
        self.submit("train", 0, podSets=list(sets))
        self.settle()

    @property
    def charged(self) -> str:
        """The cpu of an admitted workload; empty: it waits."""
        admission = self.status("train").get("admission")
        return str(admission["podSetAssignments"][0]["resourceUsage"]["cpu"]) if admission else ""

    @property
    def why(self) -> str:
        self.run(EXPLAINED_AFTER_S + 1)
        return self.message("train", "QuotaReserved")


# Defaults of a namespace


def test_pods_that_ask_for_nothing_are_counted_with_what_their_namespace_gives_them() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(defaultRequest={"cpu": "1500m"}))
    lab.train(pod_set(count=2))

    assert lab.charged == "3"


def test_and_wait_if_that_is_more_than_there_is() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(defaultRequest={"cpu": 3}))
    lab.train(pod_set(count=3))  # 9 cpu, and both queues together have 8

    assert lab.charged == ""
    assert "cpu" in lab.why


def test_a_limit_that_is_given_counts_where_no_request_is() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(default={"cpu": 2}))
    lab.train(pod_set())

    assert lab.charged == "2"


@pytest.mark.parametrize(
    ("written", "counted"),
    [({"requests": {"cpu": 1}}, "1"), ({"limits": {"cpu": 2}}, "2")],
    ids=["a request", "a limit"],
)
def test_what_a_container_names_itself_counts_instead(written: Document, counted: str) -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(defaultRequest={"cpu": 3}))
    lab.train(pod_set(container(**written)))

    assert lab.charged == counted


def test_other_namespaces_are_not_concerned() -> None:
    lab = Lab()
    elsewhere = limits(defaultRequest={"cpu": 3})
    elsewhere["metadata"]["namespace"] = "default"
    lab.create(LIMIT_RANGES, elsewhere)
    lab.train(pod_set(container(requests={"cpu": 1})))

    assert lab.charged == "1"


def test_a_limit_range_that_changes_counts_anew_for_who_waits() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(defaultRequest={"cpu": 9}))
    lab.train(pod_set())
    assert lab.charged == ""

    lab.delete(LIMIT_RANGES, LIMITS)
    lab.create(LIMIT_RANGES, limits(defaultRequest={"cpu": 3}))
    lab.settle()

    assert lab.charged == "3"


# Bounds of a namespace


@pytest.mark.parametrize(
    ("bounds", "asked", "words"),
    [
        ({"max": {"cpu": 2}}, {"requests": {"cpu": 3}}, "above the limitRange max (cpu: 3, 2)"),
        ({"min": {"cpu": 2}}, {"requests": {"cpu": 1}}, "below the limitRange min (cpu: 1, 2)"),
        (
            {"maxLimitRequestRatio": {"cpu": 2}},
            {"requests": {"cpu": 1}, "limits": {"cpu": 3}},
            "above the limitRange maxLimitRequestRatio (cpu: 2)",
        ),
    ],
    ids=["max", "min", "ratio"],
)
def test_pods_that_may_not_be_made_are_not_admitted(
    bounds: Document, asked: Document, words: str
) -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(**bounds))
    lab.train(pod_set(container(**asked)))

    assert lab.charged == ""
    assert "resources didn't satisfy LimitRange constraints: spec.podSets[0]" in lab.why
    assert words in lab.why


def test_bounds_for_whole_pods_count_all_containers() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(type="Pod", max={"cpu": 3}))
    two = [{**container(requests={"cpu": 2}), "name": name} for name in ("a", "b")]
    lab.train(pod_set(*two))

    assert "spec: requests must not be above the limitRange max (cpu: 4, 3)" in lab.why


def test_a_bound_that_is_lifted_lets_it_in() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(max={"cpu": 2}))
    lab.train(pod_set(container(requests={"cpu": 3})))
    lab.delete(LIMIT_RANGES, LIMITS)
    lab.settle()

    assert lab.charged == "3"


# Runtime classes


def kata(cpu: int) -> Document:
    return {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": cpu}}}


def test_the_overhead_of_a_runtime_class_is_counted_for_each_pod() -> None:
    lab = Lab()
    lab.create(RUNTIME_CLASSES, kata(1))
    lab.train(pod_set(container(requests={"cpu": 1}), count=2, runtimeClassName="kata"))

    assert lab.charged == "4"


def test_an_overhead_that_is_written_is_not_counted_twice() -> None:
    lab = Lab()
    lab.create(RUNTIME_CLASSES, kata(1))
    pods = pod_set(container(requests={"cpu": 1}), runtimeClassName="kata", overhead={"cpu": 1})
    lab.train(pods)

    assert lab.charged == "2"


def test_a_runtime_class_that_is_made_later_counts_for_who_waits() -> None:
    lab = Lab()
    lab.create(RUNTIME_CLASSES, kata(8))
    lab.train(pod_set(container(requests={"cpu": 1}), runtimeClassName="kata"))
    assert lab.charged == ""

    lab.delete(RUNTIME_CLASSES, "kata")
    lab.create(RUNTIME_CLASSES, kata(2))
    lab.settle()

    assert lab.charged == "3"


# Resources of a whole pod


def test_what_a_whole_pod_asks_for_counts() -> None:
    lab = Lab()
    lab.train(pod_set(container(requests={"cpu": 1}), resources={"requests": {"cpu": 3}}))

    assert lab.charged == "3"


def test_a_whole_pod_that_asks_for_more_than_its_limit_can_never_be_made() -> None:
    lab = Lab()
    resources = {"requests": {"cpu": 3}, "limits": {"cpu": 2}}
    made = lab.create(WORKLOADS, documents_workload())
    made["spec"]["podSets"] = [pod_set(resources=resources)]
    made["metadata"]["generation"] += 1
    lab.put(WORKLOADS, made)  # to a server that doesn't check it
    lab.settle()

    assert lab.charged == ""
    assert "template.spec.resources: request for cpu exceeds its limit" in lab.why


def documents_workload() -> Document:
    made = documents.workload("train", queueName="a", podSets=[pod_set()], active=True)
    made["metadata"]["namespace"] = "lab"
    return made


# Pods that the server makes


def pod(name: str = "p", **spec: Any) -> Document:
    return documents.pod(name, {"namespace": "lab"}, **spec)


def test_a_new_pod_has_the_defaults_of_its_namespace() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(default={"cpu": 2}, defaultRequest={"cpu": "500m"}))

    made = lab.create(PODS, pod(containers=[container()]))

    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}
    note = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert note == (
        "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
    )


def test_a_new_pod_beyond_the_bounds_is_refused() -> None:
    lab = Lab()
    lab.create(LIMIT_RANGES, limits(max={"cpu": 2}))

    with pytest.raises(ApiError, match=r"spec\.containers\[0\]: requests must not be above"):
        lab.create(PODS, pod(containers=[container(requests={"cpu": 3}, limits={"cpu": 3})]))


def test_bounds_are_defaults_too() -> None:
    lab = Lab()
    stored = lab.create(LIMIT_RANGES, limits(max={"cpu": 2}, min={"cpu": "1", "memory": "1Gi"}))

    [item] = stored["spec"]["limits"]
    assert item["default"] == {"cpu": 2}
    assert item["defaultRequest"] == {"cpu": 2, "memory": "1Gi"}


def test_a_new_pod_of_a_runtime_class_has_its_overhead() -> None:
    lab = Lab()
    lab.create(RUNTIME_CLASSES, kata(1))

    made = lab.create(PODS, pod(containers=[container()], runtimeClassName="kata"))

    assert made["spec"]["overhead"] == {"cpu": 1}
    with pytest.raises(ApiError, match='RuntimeClass "gvisor" not found'):
        lab.create(PODS, pod("q", containers=[container()], runtimeClassName="gvisor"))


# Claims of devices


def test_pods_that_claim_devices_are_not_admitted_past_the_quota() -> None:
    lab = Lab()
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    lab.train(pod_set(container(requests={"cpu": 1}), resourceClaims=claims))

    assert lab.charged == ""
    assert "spec.podSets[0].template.spec.resourceClaims: DRA resource claims not" in lab.why
