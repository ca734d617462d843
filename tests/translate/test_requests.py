"""What pods ask for, as it counts against quota, and which checks which flavors need."""

from __future__ import annotations

from fractions import Fraction

from makeway.api.configuration import ResourcesConfiguration, ResourceTransformation
from makeway.api.queueing import (
    AdmissionCheckRule,
    AdmissionChecksStrategy,
    ClusterQueue,
    ClusterQueueSpec,
)
from makeway.engine.model import CheckName, FlavorName, QueueCheck
from makeway.translate.queues import queue_of
from makeway.translate.workloads import counted

ASKED = {"cpu": 4000, "memory": 2**30, "nvidia.com/gpu": 2, "example.com/token": 7}


def transform(**fields: object) -> ResourcesConfiguration:
    rule = ResourceTransformation(**fields)  # type: ignore[arg-type]
    return ResourcesConfiguration(transformations=(rule,))


def test_resources_with_an_excluded_prefix_do_not_count() -> None:
    without = ResourcesConfiguration(exclude_resource_prefixes=("example.com/", "mem"))

    assert counted(ASKED, without) == {"cpu": 4000, "nvidia.com/gpu": 2}


def test_an_input_may_be_replaced_by_what_it_stands_for() -> None:
    rule = transform(
        input="nvidia.com/gpu", strategy="Replace", outputs={"credits": Fraction(5, 2)}
    )

    found = counted(ASKED, rule)

    assert found["credits"] == 5
    assert "nvidia.com/gpu" not in found


def test_or_stay_beside_it() -> None:
    found = counted(ASKED, transform(input="nvidia.com/gpu", outputs={"credits": Fraction(3)}))

    assert (found["nvidia.com/gpu"], found["credits"]) == (2, 6)


def test_another_request_multiplies_the_input() -> None:
    rule = transform(input="nvidia.com/gpu", multiply_by="cpu", outputs={"credits": Fraction(1, 3)})

    assert counted(ASKED, rule)["credits"] == 3  # 2 x 4 / 3, rounded up


def test_a_check_may_be_for_some_flavors_only() -> None:
    rules = (AdmissionCheckRule(name="all"), AdmissionCheckRule(name="some", on_flavors=("spot",)))
    strategy = AdmissionChecksStrategy(admission_checks=rules)
    spec = ClusterQueueSpec(admission_checks_strategy=strategy)

    assert queue_of(ClusterQueue(spec=spec)).checks == (
        QueueCheck(CheckName("all"), frozenset()),
        QueueCheck(CheckName("some"), frozenset({FlavorName("spot")})),
    )
