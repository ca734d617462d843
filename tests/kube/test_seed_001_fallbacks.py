"""Flavors that fail are left for others (seed 001), on a real API server.

A flavor fails here because its machines are out of stock: pods are made, and never start.
"""

from makeway.api.kinds import WORKLOADS
from tests.kube.seeds import Lab, story

TIMEOUT = "TimeoutForPodsReadyExceeded"
REJECTED = "AdmissionCheckRejected"
SOON = "1s"
QUICKLY = {  # timeouts are the rules' own; only back-offs are short
    "waitForPodsReady": {
        "timeout": "5m",
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 1},
    }
}


def rule(flavor: str, timeout: str = SOON) -> dict[str, str]:
    return {"name": flavor, "trigger": TIMEOUT, "timeout": timeout}


@story(QUICKLY)
async def test_a_job_that_does_not_start_goes_to_the_next_flavor(lab: Lab) -> None:
    quotas = {"spot": 1, "standard": 1}
    await lab.queue_with("team", quotas, **lab.fallback(rule("spot")))
    lab.dry.add("spot")
    await lab.work("train")
    await lab.until_assigned("train", "spot")

    await lab.until_runs_on("train", "standard")
    history = await lab.histories("train")
    assert history["spot"]["reason"] == TIMEOUT
    assert "exhaustedTime" in history["spot"]
    assert "exhaustedTime" not in history["standard"]


@story(QUICKLY)
async def test_an_earlier_flavor_that_was_only_full_is_tried_again_before_a_later_one(
    lab: Lab,
) -> None:
    """Story 1: reservation is full, spot out of stock; then reservation has room again."""
    quotas = {"reservation": 1, "spot": 9, "on-demand": 9}
    await lab.queue_with("team", quotas, **lab.fallback(rule("spot")))
    lab.dry.add("spot")
    await lab.work("first")
    await lab.until_runs_on("first", "reservation")
    await lab.work("train")
    await lab.until_assigned("train", "spot")

    await lab.until_finished("first")
    await lab.until_runs_on("train", "reservation")
    assert await lab.exhausted("train") == ["spot"]


@story(QUICKLY)
async def test_while_the_first_flavor_stays_full_the_third_takes_over_from_the_second(
    lab: Lab,
) -> None:
    quotas = {"reservation": 1, "spot": 9, "on-demand": 9}
    await lab.queue_with("team", quotas, **lab.fallback(rule("spot")))
    lab.dry.add("spot")
    await lab.work("first")
    await lab.until_runs_on("first", "reservation")
    await lab.work("train")
    await lab.until_assigned("train", "spot")

    await lab.until_runs_on("train", "on-demand")
    await lab.until_runs_on("first", "reservation")


@story(QUICKLY)
async def test_when_every_flavor_has_failed_the_workload_is_deactivated(lab: Lab) -> None:
    quotas = {"spot": 1, "standard": 1}
    await lab.queue_with("team", quotas, **lab.fallback(rule("*")))
    lab.dry |= {"spot", "standard"}
    await lab.work("train")

    message = await lab.until_told("train", "Evicted", "DeactivatedDueToFlavorsExhausted")
    assert lab.full("spot") in message
    assert lab.full("standard") in message
    await lab.until_suspended("train")
    assert (await lab.workload("train"))["spec"]["active"] is False
    assert await lab.exhausted("train") == ["spot", "standard"]


@story(QUICKLY)
async def test_who_is_activated_by_hand_begins_with_the_first_flavor_again(lab: Lab) -> None:
    await lab.queue_with("team", {"spot": 1}, **lab.fallback(rule("spot")))
    lab.dry.add("spot")
    await lab.work("train")
    await lab.until_told("train", "Evicted", "DeactivatedDueToFlavorsExhausted")
    await lab.until_suspended("train")

    lab.dry.clear()
    name = (await lab.workload("train"))["metadata"]["name"]
    again = {"spec": {"active": True}}
    await lab.client.patch(WORKLOADS, name, lab.namespace, patch=again)
    await lab.until_runs_on("train", "spot")
    assert await lab.exhausted("train") == []


@story(QUICKLY)
async def test_all_flavors_can_be_tried_again_after_a_while(lab: Lab) -> None:
    quotas = {"spot": 1, "standard": 1}
    policy = lab.fallback(rule("*"), policy="RetryAllFlavors")
    await lab.queue_with("team", quotas, **policy)
    lab.dry |= {"spot", "standard"}
    await lab.work("train")
    await lab.until_assigned("train", "spot")
    await lab.until_assigned("train", "standard")

    await lab.until_assigned("train", "spot")
    assert await lab.exhausted("train") == []
    lab.dry.clear()
    await lab.until_runs_on("train", "spot")


@story(QUICKLY)
async def test_a_flavor_with_nothing_but_its_name_in_a_rule_never_fails(lab: Lab) -> None:
    quotas = {"spot": 1, "standard": 1}
    rules = lab.fallback(rule("*"), {"name": "standard"})
    await lab.queue_with("team", quotas, **rules)
    lab.dry |= {"spot", "standard"}
    await lab.work("train")
    await lab.until_assigned("train", "standard")

    await lab.stay_for(3)
    assert await lab.flavor_of("train") == "standard"
    lab.dry.clear()
    await lab.until_runs_on("train", "standard")


@story(QUICKLY)
async def test_a_check_that_says_no_to_a_flavor_sends_the_job_to_the_next(lab: Lab) -> None:
    await lab.check("capacity")
    rules = lab.fallback({"name": "*", "trigger": REJECTED})
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": lab.full("capacity")}]}}
    await lab.queue_with("team", {"spot": 1, "standard": 1}, **rules, **checks)
    await lab.work("train")
    await lab.until_assigned("train", "spot")
    await lab.answer("train", "capacity", "Rejected")

    await lab.until_assigned("train", "standard")
    await lab.answer("train", "capacity", "Ready")
    await lab.until_runs_on("train", "standard")
    assert (await lab.histories("train"))["spot"]["reason"] == REJECTED


@story(QUICKLY)
async def test_time_without_the_flavor_does_not_exhaust_it(lab: Lab) -> None:
    rules = lab.fallback(rule("spot", "4s"))
    lower = {"withinClusterQueue": "LowerPriority"}
    await lab.queue_with("team", {"spot": 1}, preemption=lower, **rules)
    lab.dry.add("minor")
    await lab.work("minor", priority="low")
    await lab.until_assigned("minor", "spot")
    await lab.work("major", priority="high")
    await lab.until_runs_on("major", "spot")

    await lab.stay_for(4)
    assert await lab.exhausted("minor") == []
    lab.dry.clear()
    await lab.until_finished("major")
    await lab.until_runs_on("minor", "spot")


@story(QUICKLY)
async def test_what_a_job_has_tried_is_remembered_over_a_restart(lab: Lab) -> None:
    await lab.queue_with("team", {"standard": 1, "spot": 1}, **lab.fallback(rule("spot")))
    lab.dry.add("spot")
    await lab.work("first")
    await lab.until_runs_on("first", "standard")
    await lab.work("train")
    await lab.until_told("train", "Evicted", "FlavorFallback")
    await lab.until_suspended("train")

    lab.restart()
    await lab.until_finished("first")
    await lab.until_runs_on("train", "standard")
    assert await lab.exhausted("train") == ["spot"]
