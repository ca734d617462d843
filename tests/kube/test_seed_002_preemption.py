"""Workloads make way for others (seed 002), on a real API server with its own Job controller."""

from tests.kube.cluster import true_conditions
from tests.kube.seeds import Lab, story

LOWER = {"withinClusterQueue": "LowerPriority"}
IN_QUEUE, RECLAIM = "InClusterQueue", "InCohortReclamation"


async def two_queues(lab: Lab, reclaim: str, strategy: str = "BestEffortFIFO") -> None:
    """An owner and a neighbour with two CPUs each, who lend to each other."""
    spec = {"preemption": {"reclaimWithinCohort": reclaim}, "queueingStrategy": strategy}
    for name in ("owner", "neighbour"):
        await lab.queue_with(name, {"cpu": 2}, cohortName="lab", **spec)


@story()
async def test_a_victim_makes_way_and_finishes_later(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 2}, preemption=LOWER)
    written = await lab.work("minor", pods=2, priority="low")
    await lab.until_running("minor", 2)

    await lab.work("major", pods=2, priority="high")
    message = await lab.until_told("minor", "Preempted", IN_QUEUE)
    assert "major" in message
    await lab.until_running("major", 2)
    await lab.until_suspended("minor")
    assert (await lab.job("minor"))["spec"]["template"] == written["spec"]["template"]

    await lab.until_finished("major")
    await lab.until_running("minor", 2)
    await lab.until_finished("minor")


@story()
async def test_a_job_that_is_not_to_come_back_has_failed_when_it_made_way(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 2}, preemption=LOWER)
    annotations = {"makeway.dev/on-preemption": "Terminate"}
    await lab.work("session", pods=2, priority="low", annotations=annotations)
    await lab.until_running("session", 2)

    await lab.work("major", pods=2, priority="high")
    await lab.until_running("major", 2)
    session = await lab.job("session")
    reasons = {c["type"]: c["reason"] for c in session["status"]["conditions"]}
    assert reasons["Failed"] == "TerminatedOnPreemption"
    assert "Finished" in true_conditions(await lab.workload("session"))


@story()
async def test_nobody_makes_way_for_an_equal(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1}, preemption=LOWER)
    await lab.work("first", priority="high")
    await lab.until_running("first", 1)
    before = await lab.uids("first")

    await lab.work("second", priority="high")
    await lab.until_waits("second")
    assert await lab.uids("first") == before


@story()
async def test_nobody_makes_way_where_no_policy_says_so(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1})
    await lab.work("minor", priority="low")
    await lab.until_running("minor", 1)
    before = await lab.uids("minor")

    await lab.work("major", priority="high")
    await lab.until_waits("major")
    assert await lab.uids("minor") == before


@story()
async def test_an_owner_gets_its_quota_back_from_anybody(lab: Lab) -> None:
    await two_queues(lab, "Any")
    await lab.work("borrower", queue="neighbour", pods=4, priority="high")
    await lab.until_running("borrower", 4)

    await lab.work("rightful", queue="owner", pods=2, priority="low")
    await lab.until_told("borrower", "Preempted", RECLAIM)
    await lab.until_running("rightful", 2)


@story()
async def test_an_owner_may_be_told_to_reclaim_only_from_lower_priorities(lab: Lab) -> None:
    await two_queues(lab, "LowerPriority")
    await lab.work("borrower", queue="neighbour", pods=4, priority="middle")
    await lab.until_running("borrower", 4)
    before = await lab.uids("borrower")

    await lab.work("lesser", queue="owner", pods=1, priority="low")
    await lab.until_waits("lesser")
    assert await lab.uids("borrower") == before

    await lab.work("greater", queue="owner", pods=1, priority="high")
    await lab.until_told("borrower", "Preempted", RECLAIM)
    await lab.until_running("greater", 1)


@story()
async def test_who_does_not_borrow_keeps_what_it_has(lab: Lab) -> None:
    await two_queues(lab, "Any")
    await lab.work("modest", queue="neighbour", pods=2, priority="low")
    await lab.until_running("modest", 2)
    before = await lab.uids("modest")

    await lab.work("greedy", queue="owner", pods=3, priority="high")
    await lab.until_waits("greedy")
    assert await lab.uids("modest") == before


@story()
async def test_nobody_goes_whose_going_was_not_needed(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 3}, preemption=LOWER)
    await lab.work("large", pods=2, priority="low")
    await lab.until_running("large", 2)
    await lab.stay_for(1.1)  # so that the small one has reserved later: it is looked at first
    await lab.work("small", pods=1, priority="low")
    await lab.until_running("small", 1)
    before = await lab.uids("small")

    await lab.work("major", pods=2, priority="high")
    await lab.until_running("major", 2)
    assert await lab.uids("small") == before
    assert "Evicted" in true_conditions(await lab.workload("large"))


@story()
async def test_a_victim_holds_its_quota_until_its_pods_are_gone(lab: Lab) -> None:
    await lab.queue_with("team", {"cpu": 1}, preemption=LOWER)
    await lab.node("one", cpu=1)
    lab.slow.add("minor")
    await lab.work("minor", priority="low", node="one")
    await lab.until_running("minor", 1)

    await lab.work("major", priority="high")
    await lab.until_told("minor", "Preempted", IN_QUEUE)
    await lab.stay_for(2)
    (pod,) = await lab.pods("minor")
    assert pod["metadata"]["deletionTimestamp"]
    assert "QuotaReserved" in true_conditions(await lab.workload("minor"))
    assert await lab.pods("major") == []

    lab.slow.clear()
    await lab.until_running("major", 1)
    assert "QuotaReserved" not in true_conditions(await lab.workload("minor"))


@story()
async def test_while_an_owner_waits_for_its_quota_nobody_borrows_more_of_it(lab: Lab) -> None:
    await two_queues(lab, "Never", "StrictFIFO")
    await lab.work("borrower", queue="neighbour", pods=3)
    await lab.until_running("borrower", 3)
    await lab.work("rightful", queue="owner", pods=2)
    await lab.until_waits("rightful")

    await lab.work("more", queue="neighbour", pods=1)
    await lab.until_waits("more")
    await lab.until_finished("borrower")
    await lab.until_running("rightful", 2)
    await lab.until_running("more", 1)
