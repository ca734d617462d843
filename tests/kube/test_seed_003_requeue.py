"""Where in the queue the evicted stand (seed 003), on a real API server.

Times of creation are whole seconds, so those who are to stand in order are made a second apart.
"""

from typing import Any

from makeway.api.kinds import WORKLOADS
from makeway.api.labels import HOLD
from tests.kube.seeds import Lab, condition_of, story

LOWER = {"withinClusterQueue": "LowerPriority"}
APART_S = 1.1


def configuration(
    preempted: str, timed_out: str, *, timeout: str = "4s", limit: int = 5
) -> dict[str, Any]:
    strategy = {"priorityPreemption": preempted, "podsReadyTimeout": timed_out}
    again = {"backoffBaseSeconds": 1, "backoffLimitCount": limit}
    return {
        "requeueStrategy": strategy,
        "waitForPodsReady": {"timeout": timeout, "requeuingStrategy": again},
    }


CREATION, EVICTION = "UseCreationTimestamp", "UseEvictionTimestamp"
VICTIMS_LAST = configuration(EVICTION, CREATION)
VICTIMS_FIRST = configuration(CREATION, EVICTION)
IMPATIENT = configuration(CREATION, EVICTION, timeout="2s", limit=1)


async def preempt_the_elder(lab: Lab) -> None:
    """`elder` ran and had to go; `younger` waited all the time; now `major` has finished."""
    await lab.queue_with("team", {"cpu": 1}, preemption=LOWER)
    await lab.work("elder", priority="low")
    await lab.until_running("elder", 1)
    await lab.stay_for(APART_S)
    await lab.work("younger", priority="low")
    await lab.stay_for(APART_S)
    await lab.work("major", priority="high")
    await lab.until_running("major", 1)
    await lab.until_suspended("elder")
    await lab.until_finished("major")


async def time_out_the_elder(lab: Lab) -> None:
    """`elder` found no machine and had to go; `younger` came before that, and both wait."""
    await lab.queue_with("team", {"cpu": 1})
    lab.dry.add("elder")
    await lab.work("elder")
    await lab.until_assigned("elder", "cpu")
    await lab.stay_for(APART_S)
    await lab.work("between", priority="high")
    await lab.work("younger")
    await lab.until_told("elder", "Evicted", "PodsReadyTimeout")
    await lab.until_running("between", 1)
    await lab.until_requeued("elder")
    lab.dry.clear()
    await lab.until_finished("between")


async def expect_the_place_to_be_kept(lab: Lab) -> None:
    """Two victims; the first to go is small enough for what it left, and the elder."""
    await lab.queue_with("team", {"cpu": 2}, preemption=LOWER)
    await lab.node("one", cpu=2)
    lab.slow.add("second")
    for name in ("first", "second"):
        await lab.work(name, priority="low", node="one")
        await lab.until_running(name, 1)
    await lab.work("major", pods=2, priority="high")
    await lab.until_suspended("first")
    await lab.stay_for(1)
    assert await lab.pods("first") == []
    assert condition_of(await lab.workload("first"), "QuotaReserved")["status"] == "False"

    lab.slow.clear()
    await lab.until_running("major", 2)


@story(VICTIMS_LAST)
async def test_by_the_time_of_eviction_a_victim_stands_behind_who_waited(lab: Lab) -> None:
    await preempt_the_elder(lab)
    await lab.until_running("younger", 1)
    assert await lab.pods("elder") == []
    await lab.until_finished("younger")
    await lab.until_running("elder", 1)


@story(VICTIMS_LAST)
async def test_by_the_time_of_creation_who_found_no_machine_is_next_again(lab: Lab) -> None:
    await time_out_the_elder(lab)
    await lab.until_running("elder", 1)
    assert await lab.pods("younger") == []


@story(VICTIMS_LAST)
async def test_who_found_no_machine_takes_the_flavor_that_has_become_free(lab: Lab) -> None:
    """Story 1: out of stock in the second flavor, while room appears in the first."""
    await lab.queue_with("team", {"first": 1, "second": 1})
    lab.dry.add("second")
    await lab.work("running")
    await lab.until_runs_on("running", "first")
    await lab.work("evicted")
    await lab.until_assigned("evicted", "second")
    await lab.until_finished("running")
    await lab.until_told("evicted", "Evicted", "PodsReadyTimeout")
    await lab.until_runs_on("evicted", "first")


@story(VICTIMS_LAST)
async def test_nor_does_it_where_victims_stand_behind_who_waited(lab: Lab) -> None:
    await expect_the_place_to_be_kept(lab)


@story(VICTIMS_FIRST)
async def test_by_the_time_of_creation_a_victim_stands_where_it_stood(lab: Lab) -> None:
    await preempt_the_elder(lab)
    await lab.until_running("elder", 1)
    assert await lab.pods("younger") == []


@story(VICTIMS_FIRST)
async def test_by_the_time_of_eviction_who_found_no_machine_stands_behind_who_waited(
    lab: Lab,
) -> None:
    await time_out_the_elder(lab)
    await lab.until_running("younger", 1)
    assert await lab.pods("elder") == []


@story(VICTIMS_FIRST)
async def test_a_victim_does_not_take_the_place_that_was_cleared_at_its_expense(lab: Lab) -> None:
    await expect_the_place_to_be_kept(lab)


@story(VICTIMS_FIRST)
async def test_an_elder_that_comes_back_does_not_take_what_was_cleared_for_another(
    lab: Lab,
) -> None:
    """It stands first in line and would fit; but then the preemptor would not."""
    reclaim = {"reclaimWithinCohort": "Any"}
    spec = {"cohortName": "lab", "preemption": reclaim, "queueingStrategy": "StrictFIFO"}
    await lab.queue_with("owner", {"cpu": 2}, **spec)
    await lab.queue_with("neighbour", {"cpu": 0}, cohortName="lab")
    await lab.node("one", cpu=2)
    lab.slow.add("second")
    for name in ("first", "second"):
        await lab.work(name, queue="neighbour", node="one")
        await lab.until_running(name, 1)
    await lab.work("elder", queue="owner", annotations={HOLD: "true"})
    await lab.stay_for(APART_S)
    await lab.work("preemptor", queue="owner", pods=2)
    await lab.until_suspended("first")

    name = (await lab.workload("elder"))["metadata"]["name"]
    await lab.client.patch(WORKLOADS, name, lab.namespace, patch={"spec": {"active": True}})
    await lab.stay_for(1)
    assert await lab.pods("elder") == []
    lab.slow.clear()
    await lab.until_running("preemptor", 2)


@story(IMPATIENT)
async def test_who_never_starts_is_tried_again_and_then_no_more(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1})
    lab.dry.add("hopeless")
    await lab.work("hopeless")
    await lab.until_told("hopeless", "Evicted", "PodsReadyTimeout")
    assert (await lab.workload("hopeless"))["status"]["requeueState"]["count"] == 1

    await lab.until_told("hopeless", "Evicted", "DeactivatedDueToRequeuingLimitExceeded")
    await lab.until_suspended("hopeless")
    assert (await lab.workload("hopeless"))["spec"]["active"] is False
    await lab.work("next")
    await lab.until_running("next", 1)
