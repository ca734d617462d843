"""What stands in the status of a Workload while it waits, leaves and comes back."""

from __future__ import annotations

from fractions import Fraction

import pytest

from makeway.api.configuration import (
    Configuration,
    RequeuingStrategy,
    ResourcesConfiguration,
    ResourceTransformation,
    WaitForPodsReady,
)
from makeway.api.kinds import LOCAL_QUEUES, QUEUES, WORKLOADS, Resource
from makeway.client.client import Document
from makeway.controller.admission import PODS_TRUSTED_AFTER_S
from makeway.controller.telling import EXPLAINED_AFTER_S
from makeway.engine.model import WorkloadKey
from makeway.plane.writes import Key
from makeway.translate.explanation import explanation_lines
from tests.harness.queues import QueuePlane

HOLD, GO_ON = {"stopPolicy": "HoldAndDrain"}, {"stopPolicy": "None"}


def impatient(limit: int | None = None, recovery_s: float = 20.0) -> QueuePlane:
    """Pods have to be ready within 10 s; the first back-off takes 30 s."""
    strategy = RequeuingStrategy(backoff_base_seconds=30, backoff_limit_count=limit)
    wait = WaitForPodsReady(timeout=10.0, recovery_timeout=recovery_s, requeuing_strategy=strategy)
    plane = QueuePlane(configuration=Configuration(wait_for_pods_ready=wait))
    plane.settle(plane.now + PODS_TRUSTED_AFTER_S)
    return plane


def time_out(plane: QueuePlane, name: str = "slow") -> None:
    """Its pods were not ready in time; whoever runs it has let go."""
    plane.settle(plane.now + 10.0)
    plane.let_go(name, keeping=("Evicted", "Requeued"))
    plane.settle()


def explain(plane: QueuePlane) -> None:
    """Let those who wait wait until they are told why."""
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)


def evictions(plane: QueuePlane, name: str) -> list[tuple[str, str, int]]:
    stats = plane.status(name)["schedulingStats"]["evictions"]
    return [(line["reason"], line["underlyingCause"], line["count"]) for line in stats]


def edit(plane: QueuePlane, name: str, **spec: object) -> None:
    plane.edit(WORKLOADS, Key("lab", name), {"spec": spec})
    plane.settle()


# --- in line or not ---


def test_who_is_evicted_is_not_requeued_until_its_back_off_is_over() -> None:
    plane = impatient()
    plane.submit("slow", 2, owned=True)
    plane.settle()

    plane.settle(plane.now + 10.0)
    assert plane.condition_of("slow", "Evicted") == ("True", "PodsReadyTimeout")
    assert plane.condition_of("slow", "Requeued") == ("False", "PodsReadyTimeout")
    assert plane.message("slow", "Requeued").startswith("Exceeded the PodsReady timeout lab/slow")

    plane.let_go("slow", keeping=("Evicted", "Requeued"))
    plane.settle()
    assert plane.condition_of("slow", "Requeued") == ("False", "PodsReadyTimeout")

    plane.settle(plane.now + 30.0)
    assert plane.condition_of("slow", "Requeued") == ("True", "BackoffFinished")


def test_the_second_time_it_is_not_requeued_either() -> None:
    plane = impatient()
    plane.submit("slow", 2, owned=True)
    plane.settle()
    time_out(plane)
    plane.settle(plane.now + 30.0)
    assert plane.admitted() == {"slow"}

    plane.settle(plane.now + 10.0)

    assert plane.condition_of("slow", "Requeued") == ("False", "PodsReadyTimeout")


def test_a_victim_is_requeued_as_soon_as_it_has_let_go() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6)
    plane.settle()
    plane.submit("owner", 4, queue="b")
    plane.settle()

    assert plane.condition_of("borrower", "QuotaReserved") == ("False", "PendingEvaluation")
    assert plane.condition_of("borrower", "Requeued") == ("True", "Preempted")


@pytest.mark.parametrize(
    ("resource", "key", "evicted", "returned"),
    [
        (QUEUES, Key("", "a"), "ClusterQueueStopped", "ClusterQueueRestarted"),
        (LOCAL_QUEUES, Key("lab", "a"), "LocalQueueStopped", "LocalQueueRestarted"),
    ],
    ids=["ClusterQueue", "LocalQueue"],
)
def test_who_was_evicted_by_a_stop_is_requeued_when_the_queue_goes_on(
    resource: Resource, key: Key, evicted: str, returned: str
) -> None:
    plane = QueuePlane()
    plane.submit("train", 2)
    plane.settle()

    plane.edit(resource, key, {"spec": HOLD})
    explain(plane)
    assert plane.condition_of("train", "Evicted") == ("True", evicted)
    assert plane.condition_of("train", "Requeued") == ("False", evicted)

    plane.edit(resource, key, {"spec": GO_ON})
    plane.settle()
    assert plane.admitted() == {"train"}
    assert plane.condition_of("train", "Requeued") == ("True", returned)


def test_who_is_switched_off_is_told_so_and_comes_back_when_it_is_switched_on() -> None:
    plane = QueuePlane()
    plane.submit("train", 2)
    plane.settle()

    edit(plane, "train", active=False)
    assert plane.condition_of("train", "QuotaReserved") == ("False", "Deactivated")
    assert plane.message("train", "QuotaReserved") == "The workload is deactivated"
    assert plane.condition_of("train", "Requeued") == ("False", "Deactivated")

    edit(plane, "train", active=True)
    assert plane.admitted() == {"train"}
    assert plane.condition_of("train", "Requeued") == ("True", "Reactivated")


def test_who_waits_and_is_switched_off_is_told_so() -> None:
    plane = QueuePlane()
    plane.submit("big", 8)
    plane.submit("next", 2)
    explain(plane)
    assert plane.condition_of("next", "QuotaReserved") == ("False", "WaitingForQuota")

    edit(plane, "next", active=False)

    assert plane.condition_of("next", "QuotaReserved") == ("False", "Deactivated")
    assert plane.condition_of("next", "Evicted") == ("", "")


# --- why it had to stop ---


def test_pods_that_never_were_ready_and_pods_that_were_lost_are_counted_apart() -> None:
    plane = impatient()
    plane.submit("slow", 2, owned=True)
    plane.settle()
    time_out(plane)
    assert evictions(plane, "slow") == [("PodsReadyTimeout", "WaitForStart", 1)]

    plane.settle(plane.now + 60.0)
    plane.add_condition("slow", "PodsReady", "True", "Started")
    plane.settle()
    plane.add_condition("slow", "PodsReady", "False", "WaitForRecovery")
    plane.settle(plane.now + 200.0)

    assert evictions(plane, "slow") == [
        ("PodsReadyTimeout", "WaitForStart", 1),
        ("PodsReadyTimeout", "WaitForRecovery", 1),
    ]
    assert plane.message("slow", "Evicted").startswith("Exceeded the PodsReady timeout lab/slow: ")


def test_who_is_given_up_has_the_cause_in_its_count_and_begins_anew() -> None:
    plane = impatient(limit=1)
    plane.submit("slow", 2, owned=True)
    plane.settle()
    time_out(plane)
    assert plane.status("slow")["requeueState"]["count"] == 1
    plane.settle(plane.now + 30.0)

    plane.settle(plane.now + 10.0)

    why = "exceeding the maximum number of re-queuing retries"
    assert plane.condition_of("slow", "DeactivationTarget") == ("True", "RequeuingLimitExceeded")
    assert plane.message("slow", "DeactivationTarget") == why
    evicted = "DeactivatedDueToRequeuingLimitExceeded"
    assert plane.condition_of("slow", "Evicted") == ("True", evicted)
    assert plane.message("slow", "Evicted").startswith(f"The workload is deactivated due to {why}")
    assert plane.condition_of("slow", "Requeued") == ("False", evicted)
    assert f"EvictedDueTo{evicted}" in plane.reasons_said()
    assert evictions(plane, "slow")[-1] == ("Deactivated", "RequeuingLimitExceeded", 1)
    assert "requeueState" not in plane.status("slow")


def test_whose_time_is_up_is_told_so_wherever_one_looks() -> None:
    """The part that looks after Jobs notes it, and switches the Workload off."""
    plane = QueuePlane()
    plane.submit("long", 2, owned=True, maximumExecutionTimeSeconds=60)
    plane.settle()
    plane.add_condition("long", "DeactivationTarget", "True", "MaximumExecutionTimeExceeded")
    plane.settle()

    edit(plane, "long", active=False)

    evicted = "DeactivatedDueToMaximumExecutionTimeExceeded"
    why = "The workload is deactivated due to exceeding the maximum execution time"
    assert plane.condition_of("long", "Evicted") == ("True", evicted)
    assert plane.message("long", "Evicted") == why
    assert f"EvictedDueTo{evicted}" in plane.reasons_said()
    assert evictions(plane, "long") == [("Deactivated", "MaximumExecutionTimeExceeded", 1)]
    plane.let_go("long")
    plane.settle()
    assert "due to exceeding the maximum execution time" in explained(plane, "long")

    plane.restart()
    plane.settle()
    assert "due to exceeding the maximum execution time" in explained(plane, "long")


def explained(plane: QueuePlane, name: str) -> str:
    explanation = plane.admission.engine.explain(WorkloadKey(f"lab/{name}"))
    return "\n".join(map(str, explanation_lines(explanation, plane.now)))


# --- what it asks for, and when that was seen ---


def test_a_waiting_workload_shows_what_counts_of_its_request_and_an_admitted_one_does_not() -> None:
    twice = ResourceTransformation(
        input="cpu", strategy="Replace", outputs={"credits": Fraction(2)}
    )
    resources = ResourcesConfiguration(transformations=(twice,))
    plane = QueuePlane(configuration=Configuration(resources=resources))
    plane.submit("odd", 2)

    explain(plane)
    requests = [{"name": "main", "resources": {"credits": "4"}}]
    assert plane.status("odd")["resourceRequests"] == requests

    groups: list[Document] = [
        {
            "coveredResources": ["credits"],
            "flavors": [{"name": "any", "resources": [{"name": "credits", "nominalQuota": "9"}]}],
        }
    ]
    plane.edit(QUEUES, Key("", "a"), {"spec": {"resourceGroups": groups}})
    plane.settle()
    assert plane.admitted() == {"odd"}
    assert "resourceRequests" not in plane.status("odd")


def test_conditions_tell_of_which_spec_they_speak() -> None:
    plane = QueuePlane()
    plane.submit("train", 2)
    plane.settle()
    assert plane.told("train", "QuotaReserved")["observedGeneration"] == 1
    assert plane.told("train", "Admitted")["observedGeneration"] == 1

    edit(plane, "train", active=False)

    assert plane.told("train", "Evicted")["observedGeneration"] == 2
    assert plane.told("train", "QuotaReserved")["observedGeneration"] == 2
