"""Gangs on nodes, and units that make way for them (seed 004), on a real API server.

Gangs are PodGroups as Kubernetes 1.37 serves them, or the pods of a queued Job. Makeway is the
scheduler of all pods here; the disruption controller that counts budgets is the cluster's own.
"""

from makeway.api.kinds import JOBS, POD_GROUPS
from makeway.api.labels import PREEMPTION_MODE, PREEMPTION_PRIORITY_CLASS
from tests.kube.cluster import true_conditions
from tests.kube.seeds import Lab, condition_of, story

PROTECTED = {PREEMPTION_PRIORITY_CLASS: "high"}
TOGETHER = {PREEMPTION_MODE: "PodGroup"}
BARE = {"metadata": {"annotations": {PREEMPTION_PRIORITY_CLASS: None}}}


@story()
async def test_a_gang_is_placed_as_a_whole_or_not_at_all(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    ring = await lab.gang("ring", pods=3)
    await lab.until_unschedulable(ring)
    assert await lab.nodes(ring) == ["", "", ""]

    await lab.node("two", cpu=1)
    await lab.until_placed(ring, "one", "one", "two")
    group = await lab.client.get(POD_GROUPS, "ring", lab.namespace)
    assert condition_of(group, "PodGroupInitiallyScheduled")["status"] == "True"


@story()
async def test_a_gang_waits_for_its_victims_with_all_its_nodes_named(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    await lab.node("two", cpu=2)
    minor = await lab.gang("minor", pods=4)
    await lab.until_placed(minor, "one", "one", "two", "two")
    lab.slow |= set(minor)

    major = await lab.gang("major", pods=4, priority="high")
    await lab.until_nominated(major, "one", "one", "two", "two")
    lab.slow.discard("minor-0")
    await lab.until_gone("minor-0")
    await lab.stay_for(0.5)
    assert await lab.nodes(major) == ["", "", "", ""]  # part of its room is not enough

    lab.slow.clear()
    await lab.until_placed(major, "one", "one", "two", "two")


@story()
async def test_nobody_is_stopped_for_a_gang_that_has_no_room_even_then(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    minor = await lab.gang("minor", pods=2, mode="single")
    await lab.until_placed(minor, "one", "one")

    major = await lab.gang("major", pods=3, priority="high")
    await lab.until_unschedulable(major)
    assert await lab.nodes(minor) == ["one", "one"]
    assert not [pod for pod in minor if await lab.is_leaving(pod)]


@story()
async def test_a_training_job_is_never_preempted_in_part(lab: Lab) -> None:
    await lab.node("one", cpu=1)
    await lab.node("two", cpu=1)
    minor = await lab.gang("minor", pods=2, mode="all")
    await lab.until_placed(minor, "one", "two")

    await lab.pod("major", priority="high")
    await lab.until_gone(*minor)


@story()
async def test_a_gang_that_can_run_with_fewer_loses_no_more_than_it_must(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    minor = await lab.gang("minor", pods=2, mode="single")
    await lab.until_placed(minor, "one", "one")

    await lab.pod("major", priority="high")
    await lab.until_placed(["major"], "one")
    assert len([pod for pod in minor if await lab.is_there(pod)]) == 1


@story()
async def test_two_unimportant_pods_go_rather_than_one_that_matters_more(lab: Lab) -> None:
    """The level of priority up to which victims are taken is as low as it can be."""
    await lab.node("one", cpu=2)
    await lab.pod("middle", priority="middle", cpu=2)
    await lab.until_placed(["middle"], "one")
    await lab.node("two", cpu=2)
    minor = await lab.gang("minor", pods=2, mode="single")
    await lab.until_placed(minor, "two", "two")

    major = await lab.gang("major", pods=2, priority="high")
    await lab.until_placed(major, "two", "two")
    assert await lab.nodes(["middle"]) == ["one"]


@story()
async def test_a_gang_about_to_finish_can_be_protected_while_it_runs(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    shielded = await lab.gang("shielded", pods=1, annotations=PROTECTED)
    plain = await lab.gang("plain", pods=1)
    await lab.until_placed(shielded + plain, "one", "one")

    first = await lab.gang("first", pods=1, priority="high")
    await lab.until_placed(first, "one")
    assert await lab.nodes(shielded) == ["one"]
    second = await lab.gang("second", pods=1, priority="high")
    await lab.until_unschedulable(second)

    await lab.client.patch(POD_GROUPS, "shielded", lab.namespace, patch=BARE)
    await lab.until_placed(second, "one")
    await lab.until_gone(*shielded)


@story()
async def test_a_group_tells_when_its_pods_have_another_priority(lab: Lab) -> None:
    await lab.node("one", cpu=1)
    await lab.gang("odd", pods=1, priority="high", pods_priority="low")

    async def is_told() -> bool:
        group = await lab.client.get(POD_GROUPS, "odd", lab.namespace)
        return "odd-0" in condition_of(group, "PodsNotMatchingPriority")["message"]

    await lab.until(is_told, "the group names the pod")


@story()
async def test_the_priority_of_the_group_counts_where_its_pods_have_another(lab: Lab) -> None:
    await lab.node("one", cpu=1)
    odd = await lab.gang("odd", pods=1, priority="high", pods_priority="low")
    await lab.until_placed(odd, "one")
    await lab.pod("middle", priority="middle")
    await lab.until_unschedulable(["middle"])
    assert await lab.nodes(odd) == ["one"]


@story()
async def test_a_disruption_budget_is_kept_where_that_is_possible(lab: Lab) -> None:
    await lab.node("one", cpu=2)
    await lab.pod("plain")
    await lab.until_placed(["plain"], "one")
    await lab.stay_for(1.1)  # the one that started last would go first, were it not for its budget
    await lab.pod("covered")
    await lab.until_placed(["covered"], "one")
    await lab.budget("covered", least=1)

    await lab.pod("first", priority="high")
    await lab.until_gone("plain")
    await lab.until_placed(["first"], "one")
    assert await lab.nodes(["covered"]) == ["one"]

    await lab.pod("second", priority="high")
    await lab.until_gone("covered")
    await lab.until_placed(["second"], "one")


@story()
async def test_a_queued_job_whose_pods_all_go_gives_its_quota_back(lab: Lab) -> None:
    await lab.queue("team", cpu=2)
    await lab.node("one", cpu=2)
    await lab.work("train", pods=2, priority="low", annotations=TOGETHER, scheduler="makeway")
    await lab.until_running("train", 2)

    await lab.pod("major", priority="high")
    await lab.until_told("train", "Evicted", "PreemptedInPlacement")
    await lab.until_placed(["major"], "one")

    async def has_let_go() -> bool:
        return "QuotaReserved" not in true_conditions(await lab.workload("train"))

    await lab.until(has_let_go, "the Workload holds no quota")


@story()
async def test_a_queued_job_that_loses_a_pod_keeps_its_quota_and_the_others(lab: Lab) -> None:
    await lab.queue("team", cpu=2)
    await lab.node("one", cpu=2)
    await lab.work("train", pods=2, priority="low", scheduler="makeway")
    await lab.until_running("train", 2)
    before = await lab.uids("train")

    await lab.pod("major", priority="high")
    await lab.until_placed(["major"], "one")
    assert len(before & await lab.uids("train")) == 1
    told = true_conditions(await lab.workload("train"))
    assert "Admitted" in told
    assert "Evicted" not in told


@story()
async def test_a_waiting_gang_gets_no_more_victims_over_a_restart(lab: Lab) -> None:
    minor = ["a", "b", "c"]
    for name in minor:
        await lab.node(name, cpu=1)
        await lab.pod(name)
    await lab.until_placed(minor, "a", "b", "c")
    lab.slow |= set(minor)
    major = await lab.gang("major", pods=2, priority="high")

    async def leaving() -> list[str]:
        return [pod for pod in minor if await lab.is_leaving(pod)]

    async def are_two() -> bool:
        return len(await leaving()) == 2

    await lab.until(are_two, "two have to go")
    victims = await leaving()
    await lab.until_nominated(major, *victims)  # pods go by the names of their nodes here

    lab.restart()
    await lab.stay_for(3)
    assert await leaving() == victims
    lab.slow.clear()
    await lab.until_placed(major, *victims)


@story()
async def test_a_job_can_be_protected_until_it_has_saved_its_state(lab: Lab) -> None:
    """Preemption cost: the annotation of a running Job counts in its queue as well."""
    lower = {"withinClusterQueue": "LowerPriority"}
    await lab.queue_with("team", {"cpu": 1}, preemption=lower)
    await lab.work("train", priority="low", annotations=PROTECTED)
    await lab.until_running("train", 1)
    await lab.work("major", priority="high")
    await lab.until_waits("major")
    await lab.until_running("train", 1)

    await lab.client.patch(JOBS, "train", lab.namespace, patch=BARE)
    await lab.until_told("train", "Preempted", "InClusterQueue")
    await lab.until_running("major", 1)
