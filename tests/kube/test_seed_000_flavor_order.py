"""Preempt or borrow in a flavor before the next one is tried (seed 000), on a real API server."""

from tests.kube.seeds import Lab, story

LOWER = {"withinClusterQueue": "LowerPriority"}
STOP, NEXT = "MayStopSearch", "TryNextFlavor"
TWO = {"standard": 1, "spot": 1}


@story()
async def test_an_important_job_takes_the_standard_machines_before_it_would_go_to_spot(
    lab: Lab,
) -> None:
    order = {"whenCanPreempt": STOP}
    await lab.queue_with("team", TWO, preemption=LOWER, flavorFungibility=order)
    await lab.work("minor", priority="low")
    await lab.until_runs_on("minor", "standard")

    await lab.work("major", priority="high")
    await lab.until_runs_on("major", "standard")
    await lab.until_runs_on("minor", "spot")


@story()
async def test_unless_told_otherwise_the_next_flavor_comes_before_preemption(lab: Lab) -> None:
    await lab.queue_with("team", TWO, preemption=LOWER)
    await lab.work("minor", priority="low")
    await lab.until_runs_on("minor", "standard")
    before = await lab.uids("minor")

    await lab.work("major", priority="high")
    await lab.until_runs_on("major", "spot")
    assert await lab.uids("minor") == before


@story()
async def test_unless_told_otherwise_a_flavor_is_borrowed_before_the_next_is_tried(
    lab: Lab,
) -> None:
    await lab.queue_with("team", TWO, cohortName="lab")
    await lab.queue_with("lender", {"standard": 1}, cohortName="lab")
    await lab.work("wide", pods=2)
    await lab.until_runs_on("wide", "standard", pods=2)


@story()
async def test_who_may_not_stop_at_borrowing_gets_its_own_quota_of_the_next_flavor(
    lab: Lab,
) -> None:
    order = {"whenCanBorrow": NEXT}
    quotas = {"standard": 1, "spot": 2}
    await lab.queue_with("team", quotas, cohortName="lab", flavorFungibility=order)
    await lab.queue_with("lender", {"standard": 1}, cohortName="lab")
    await lab.work("wide", pods=2)
    await lab.until_runs_on("wide", "spot", pods=2)


@story()
async def test_a_borrower_goes_back_to_the_first_flavor_where_no_other_has_room(lab: Lab) -> None:
    order = {"whenCanBorrow": NEXT}
    await lab.queue_with("team", TWO, cohortName="lab", flavorFungibility=order)
    await lab.queue_with("lender", {"standard": 1}, cohortName="lab")
    await lab.work("wide", pods=2)
    await lab.until_runs_on("wide", "standard", pods=2)


async def expect_preemption_rather_than_borrowing(lab: Lab, **order: str) -> None:
    await lab.queue_with(
        "team",
        {"standard": 1, "spot": 0},
        cohortName="lab",
        preemption=LOWER,
        flavorFungibility=order,
    )
    await lab.queue_with("lender", {"spot": 1}, cohortName="lab")
    await lab.work("minor", priority="low")
    await lab.until_runs_on("minor", "standard")

    await lab.work("major", priority="high")
    await lab.until_runs_on("major", "standard")
    await lab.until_runs_on("minor", "spot")


@story()
async def test_who_stops_at_preemption_never_comes_to_borrow(lab: Lab) -> None:
    """Story 2: who borrows may have to give back; who preempts in its own quota need not."""
    await expect_preemption_rather_than_borrowing(lab, whenCanPreempt=STOP)


@story()
async def test_of_all_flavors_one_to_preempt_in_can_be_preferred_to_one_to_borrow(
    lab: Lab,
) -> None:
    preference = "PreemptionOverBorrowing"
    await expect_preemption_rather_than_borrowing(
        lab, whenCanPreempt=NEXT, whenCanBorrow=NEXT, preference=preference
    )
