"""Who makes way, who is spared, and why."""

from makeway.placement.decisions import (
    BindPods,
    PreemptUnits,
    SpareReason,
    Unwind,
    VictimReason,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.events import BindFailed, EvictionFailed
from makeway.placement.model import GangKey, PodKey
from tests.placement.scenario import Cluster, bound, nominated, short, victims


def reasons(decision: object) -> dict[str, SpareReason]:
    assert isinstance(decision, PreemptUnits)
    return {short(spared.unit.key): spared.reason for spared in decision.spared}


def test_the_least_level_of_priority_is_enough() -> None:
    lab = Cluster(n1=4, n2=4, n3=4)
    for node, priority in (("n1", 30), ("n2", 10), ("n3", 20)):
        lab.pod(f"p{priority}", on=node, priority=priority)
    lab.gang("g", min_count=2)
    lab.members("g", 2)

    decision = lab.place("g")
    assert victims(decision) == ["p10", "p20"]
    assert isinstance(decision, PreemptUnits)
    assert decision.level == 20
    assert reasons(decision) == {"p30": SpareReason.ABOVE_LEVEL}


def test_whoever_fits_beside_the_gang_stays() -> None:
    lab = Cluster(n1=6)
    lab.pod("new", on="n1", cpu=2, started=200)
    lab.pod("old", on="n1", cpu=2, started=100)
    lab.pod("oldest", on="n1", cpu=2, started=50)
    lab.gang("g", min_count=2)
    lab.members("g", 2, cpu=1)

    decision = lab.place("g")
    assert victims(decision) == ["new"]
    assert reasons(decision) == {"old": SpareReason.FITS, "oldest": SpareReason.FITS}


def test_a_gang_that_goes_together_says_which_of_its_pods_is_in_the_way() -> None:
    lab = Cluster(n2=4)
    lab.node("n1", cpu=4, labels={"zone": "a"})
    lab.gang("low", min_count=2, priority=10, together=True)
    lab.pod("low-0", gang="low", on="n1")
    lab.pod("low-1", gang="low", on="n2")
    lab.pod("p", priority=100, selector={"zone": "a"})

    decision = lab.place("p")
    assert victims(decision) == ["low-0", "low-1"]
    assert isinstance(decision, PreemptUnits)
    (victim,) = decision.victims
    assert victim.why(PodKey("lab/low-0")) is VictimReason.IN_THE_WAY
    assert victim.why(PodKey("lab/low-1")) is VictimReason.UNIT


def test_of_overlapping_gangs_those_go_that_free_most() -> None:
    # Clearing n1 and n2 costs one gang of two; any other pair of nodes costs more pods.
    lab = Cluster(n1=4, n2=4, n3=4, n4=4)
    lab.gang("pair", min_count=2, priority=10, together=True)
    lab.pod("pair-0", gang="pair", on="n1", started=1)
    lab.pod("pair-1", gang="pair", on="n2", started=1)
    for gang, nodes in (("a", ("n3", "n4")), ("b", ("n3", "n4"))):
        lab.gang(gang, min_count=2, priority=10, together=True)
        for node in nodes:
            lab.pod(f"{gang}-{node}", gang=gang, on=node, cpu=2, started=2)
    lab.gang("g", min_count=2)
    lab.members("g", 2)
    assert victims(lab.place("g")) == ["pair-0", "pair-1"]


def test_a_budget_spares_a_pod_at_the_price_of_a_more_important_one() -> None:
    lab = Cluster(n1=2)
    lab.pod("guarded", on="n1", cpu=1, priority=10, labels={"app": "db"})
    lab.pod("mid", on="n1", cpu=1, priority=50)
    lab.budget("db", allowed=0, app="db")
    lab.gang("g")
    lab.members("g", 1, cpu=1)

    decision = lab.place("g")
    assert victims(decision) == ["mid"]
    assert reasons(decision) == {"guarded": SpareReason.BUDGET}


def test_a_budget_gives_way_when_nothing_else_helps() -> None:
    lab = Cluster(n1=2)
    lab.pod("guarded", on="n1", cpu=2, labels={"app": "db"})
    lab.budget("db", allowed=0, app="db")
    lab.gang("g")
    lab.members("g", 1, cpu=1)

    decision = lab.place("g")
    assert isinstance(decision, PreemptUnits)
    assert (victims(decision), decision.violations) == (["guarded"], 1)


def test_a_raised_preemption_priority_protects_a_running_job() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.pod("a", on="n1", priority=10)
    lab.pod("b", on="n2", priority=20)
    lab.pod("a", on="n1", priority=10, preemption_priority=30)  # about to finish
    lab.pod("p", priority=100)
    assert victims(lab.place("p")) == ["b"]


def test_a_preemption_priority_below_the_own_priority_does_not_count() -> None:
    lab = Cluster(n1=4)
    lab.pod("a", on="n1", priority=100, preemption_priority=1)
    lab.pod("p", priority=50)
    assert isinstance(lab.place("p"), WaitForNodes)


def test_the_cheapest_rack_is_cleared() -> None:
    lab = Cluster()
    for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")):
        lab.node(name, cpu=4, labels={"rack": rack})
    for name, node, priority in (("p1", "n1", 10), ("p2", "n2", 40), ("p3", "n3", 20)):
        lab.pod(name, on=node, priority=priority)
    lab.pod("p4", on="n4", priority=20)
    lab.gang("g", min_count=2, within="rack")
    lab.members("g", 2)

    decision = lab.place("g")
    assert isinstance(decision, PreemptUnits)
    assert (victims(decision), decision.domain) == (["p3", "p4"], "b")


def test_members_of_different_shapes_are_placed_once_and_units_come_back_around_them() -> None:
    lab = Cluster(n1=8, n2=4)
    lab.pod("low-1", on="n1", cpu=4, priority=10)
    lab.pod("low-2", on="n1", cpu=4, priority=20)
    lab.pod("low-3", on="n2", cpu=4, priority=30)
    lab.gang("g", min_count=2)
    lab.pod("g-big", gang="g", cpu=6)
    lab.pod("g-small", gang="g", cpu=2)

    decision = lab.place("g")
    assert nominated(decision) == {"g-big": "n1", "g-small": "n1"}
    assert victims(decision) == ["low-1", "low-2"]


def test_spread_members_make_room_in_every_zone() -> None:
    lab = Cluster()
    for zone in "abc":
        lab.node(zone, cpu=8, labels={"zone": zone})
        lab.pod(f"low-{zone}", on=zone, cpu=8, priority=10)
    lab.gang("g", min_count=2)
    lab.members("g", 2, cpu=4, spread="zone")
    assert len(victims(lab.place("g"))) == 2  # one node would have room for both


def test_members_that_keep_apart_make_room_on_several_nodes() -> None:
    lab = Cluster(n1=8, n2=8, n3=8)
    for node, priority in (("n1", 10), ("n2", 30), ("n3", 20)):
        lab.pod(f"low-{node}", on=node, cpu=8, priority=priority)
    lab.gang("g", min_count=2)
    lab.members("g", 2, cpu=4, apart="kubernetes.io/hostname")
    assert victims(lab.place("g")) == ["low-n1", "low-n3"]


def test_pods_on_a_lost_node_are_nobodys_victims() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.pod("low", on="n1")
    lab.pod("same", on="n2", priority=100)
    lab.lose_node("n1")
    lab.pod("p", priority=100)
    assert isinstance(lab.place("p"), WaitForNodes)


def test_room_that_is_about_to_be_free_needs_no_victim() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.pod("dying", on="n1", leaving=True)
    lab.pod("low", on="n2")
    lab.gang("g")
    lab.members("g", 1)

    decision = lab.place("g")
    assert victims(decision) == []
    assert nominated(decision) == {"g-0": "n1"}


def test_members_beyond_min_count_cost_nobody_its_place() -> None:
    lab = Cluster(n1=4, n2=4, n3=4)
    lab.pod("l2", on="n2", started=1)
    lab.pod("l3", on="n3", started=2)
    lab.gang("g", min_count=2)
    lab.members("g", 3)

    decision = lab.place("g")
    assert victims(decision) == ["l3"]
    assert sorted(nominated(decision).values()) == ["n1", "n3"]


def test_victims_leave_first_then_the_gang_is_bound() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.pod("l1", on="n1")
    lab.pod("l2", on="n2")
    lab.gang("g", min_count=2)
    lab.members("g", 2)

    assert victims(lab.place("g")) == ["l1", "l2"]
    lab.ended("l1")
    waiting = lab.place("g")
    assert isinstance(waiting, WaitForNodes)
    assert waiting.reason is WaitReason.VICTIMS_LEAVING
    lab.ended("l2")
    assert sorted(bound(lab.place("g")).values()) == ["n1", "n2"]


def test_a_free_node_is_taken_instead_of_waiting_for_the_nominated_one() -> None:
    lab = Cluster(n1=4)
    lab.pod("l1", on="n1")
    lab.pod("p", priority=100)
    assert nominated(lab.place("p")) == {"p": "n1"}
    lab.node("n2", cpu=4)
    assert bound(lab.place("p")) == {"p": "n2"}


def test_a_victim_that_stays_after_all_makes_the_nomination_void() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.pod("l1", on="n1", priority=10)
    lab.pod("l2", on="n2", priority=20)
    lab.pod("p", priority=100)
    assert victims(lab.place("p")) == ["l1"]
    lab.tell(EvictionFailed(PodKey("lab/l1")))
    lab.pod("l1", on="n1", priority=10, preemption_priority=200)
    assert victims(lab.place("p")) == ["l2"]


def test_a_bind_that_stops_short_is_unwound() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=2)
    lab.members("g", 2)
    assert len(bound(lab.place("g"))) == 2

    lab.tell(BindFailed(PodKey("lab/g-1")))
    (unwind, *_) = lab.state.place(now=9)
    assert unwind.gang == GangKey("lab/g")  # type: ignore[union-attr]
    assert unwind.pods == (PodKey("lab/g-0"),)  # type: ignore[union-attr]


def test_but_nobody_who_ran_before_is() -> None:
    lab = Cluster(n1=4, n2=4, n3=4)
    lab.gang("g", min_count=3)
    for number in (0, 1):
        lab.pod(f"g-{number}", gang="g", on=f"n{number + 1}")  # the third of them has ended
    lab.pod("g-2", gang="g")
    assert bound(lab.place("g")) == {"g-2": "n3"}

    lab.tell(BindFailed(PodKey("lab/g-2")))
    assert not any(isinstance(decision, Unwind) for decision in lab.state.place(now=9))


def test_what_was_decided_counts_until_it_is_seen() -> None:
    lab = Cluster(n1=4)
    lab.pod("p")
    lab.pod("q")
    assert isinstance(lab.place("p"), BindPods)
    lab.pod("p")  # the watch has not caught up: still without a node
    assert isinstance(lab.place("q"), WaitForNodes)


def test_a_queue_workload_is_evicted_when_no_pod_of_it_is_left() -> None:
    lab = Cluster(n1=4, n2=4, n3=4)
    lab.pod("a-0", on="n1", priority=10, workload="lab/a")
    lab.pod("b-0", on="n2", priority=10, workload="lab/b")
    lab.pod("b-1", on="n3", priority=50, workload="lab/b")
    lab.gang("g", min_count=2)
    lab.members("g", 2)

    decision = lab.place("g")
    assert isinstance(decision, PreemptUnits)
    assert victims(decision) == ["a-0", "b-0"]
    assert decision.workloads == ("lab/a",)


def test_running_members_count_and_are_nobodys_victims() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=2)
    lab.pod("g-0", gang="g", on="n1")
    lab.pod("g-1", gang="g")
    lab.pod("low", on="n2")
    assert victims(lab.place("g")) == ["low"]


def test_a_nomination_outside_the_rack_of_running_members_is_void() -> None:
    lab = Cluster()
    lab.node("n1", cpu=8, labels={"rack": "a"})
    lab.node("n2", cpu=4, labels={"rack": "b"})
    lab.gang("g", min_count=2, within="rack")
    lab.pod("g-0", gang="g", on="n1")
    lab.pod("g-1", gang="g", nominated="n2")
    assert bound(lab.place("g")) == {"g-1": "n1"}


def test_a_nomination_that_brings_members_too_close_is_void() -> None:
    lab = Cluster(n1=8, n2=8)
    lab.pod("low", on="n2", cpu=8, leaving=True)
    lab.gang("g", min_count=2)
    for name in ("g-0", "g-1"):
        lab.pod(name, gang="g", apart="kubernetes.io/hostname", nominated="n1")
    assert sorted(nominated(lab.place("g")).values()) == ["n1", "n2"]


def test_a_smaller_member_elsewhere_spares_a_victim() -> None:
    # With members to spare, the one that fits without a victim is among those needed.
    lab = Cluster(n0=3, n2=4)
    lab.pod("leaves", on="n0", cpu=3, leaving=True)
    lab.pod("low", on="n2", cpu=1, priority=50)
    lab.pod("mid", on="n2", cpu=3, priority=80)
    lab.gang("g", min_count=2)
    for name, cpu in (("g-0", 2), ("g-1", 2), ("g-3", 3)):
        lab.pod(name, gang="g", cpu=cpu)
    assert victims(lab.place("g")) == ["mid"]


def test_only_nodes_with_members_are_in_the_way() -> None:
    lab = Cluster(n0=1, n1=1)
    lab.gang("low", priority=10, together=True)
    lab.pod("low-0", gang="low", on="n0", cpu=1)
    lab.pod("low-1", gang="low", on="n1", cpu=1)
    lab.gang("g", min_count=1)
    lab.pod("g-0", gang="g", cpu=1)
    lab.pod("g-1", gang="g", cpu=2)  # fits nowhere

    decision = lab.place("g")
    assert isinstance(decision, PreemptUnits)
    assert len(decision.victims[0].in_the_way) == len(decision.placement) == 1


def test_a_late_pod_of_a_group_without_gang_policy_may_preempt() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=0, priority=100)
    lab.pod("g-0", gang="g", on="n1", priority=1)
    lab.pod("g-1", gang="g", priority=1)
    lab.pod("low", on="n2", priority=50)
    assert victims(lab.place("g-1")) == ["low"]


def two_who_preempt() -> Cluster:
    """Two pods that each want a node: one of the guarded pods may go, or the one at 50."""
    lab = Cluster(n1=4, n2=4, n3=4)
    for name, node in (("a", "n1"), ("b", "n2")):
        lab.pod(name, on=node, priority=10, labels={"app": "db"})
    lab.pod("c", on="n3", priority=50)
    lab.budget("db", allowed=1, app="db")
    lab.pod("p", priority=100)
    lab.pod("q", priority=100)
    return lab


def test_a_budget_is_not_spent_twice() -> None:
    lab = two_who_preempt()
    assert victims(lab.place("p")) == ["a"]
    assert victims(lab.place("q")) == ["c"]


def test_a_victim_that_stays_gives_its_budget_back() -> None:
    lab = two_who_preempt()
    lab.place("p")
    lab.tell(EvictionFailed(PodKey("lab/a")))
    lab.ended("p")
    assert victims(lab.place("q")) == ["a"]


def test_pods_in_other_racks_are_spared_for_being_elsewhere() -> None:
    lab = Cluster()
    for name, rack in (("n1", "a"), ("n2", "b")):
        lab.node(name, cpu=4, labels={"rack": rack})
    lab.pod("low", on="n1", priority=10)
    lab.pod("mid", on="n2", priority=20)
    lab.gang("g", within="rack")
    lab.members("g", 1)

    decision = lab.place("g")
    assert victims(decision) == ["low"]
    assert reasons(decision) == {"mid": SpareReason.ELSEWHERE}


def test_a_gang_that_loses_a_member_in_a_cycle_counts_without_it_in_the_same_cycle() -> None:
    lab = Cluster(n1=4, n2=2)
    lab.gang("g", min_count=2, priority=10)
    lab.pod("g-0", gang="g", on="n1", cpu=4)
    lab.pod("g-1", gang="g", cpu=2)  # would fit on n2
    lab.pod("p", cpu=4, priority=100)

    preempt, wait = lab.state.place(now=1)
    assert victims(preempt) == ["g-0"]
    assert isinstance(wait, WaitForNodes)
    assert wait.reason is WaitReason.MEMBERS_MISSING


def test_for_a_single_pod_too_a_budget_counts_before_importance() -> None:
    lab = Cluster(n1=2)
    lab.pod("guarded", on="n1", cpu=1, priority=10, labels={"app": "db"})
    lab.pod("mid", on="n1", cpu=1, priority=50)
    lab.budget("db", allowed=0, app="db")
    lab.pod("p", cpu=1, priority=100)

    decision = lab.place("p")
    assert victims(decision) == ["mid"]
    assert reasons(decision) == {"guarded": SpareReason.BUDGET}


def test_a_nomination_given_up_helps_one_who_had_his_turn_already() -> None:
    lab = Cluster(n1=4)
    lab.pod("large", cpu=8, priority=50, created=2, nominated="n1")  # n1 has shrunk
    lab.pod("small", cpu=4, priority=50, created=1)
    decisions = lab.state.place(now=5)
    assert bound(decisions[-1]) == {"small": "n1"}


def test_who_waits_behind_a_nomination_is_woken_when_it_is_gone() -> None:
    lab = Cluster(n1=4)
    lab.pod("leaves", on="n1", cpu=2, leaving=True)
    lab.pod("high", priority=100, cpu=4)
    lab.pod("mid", priority=50, cpu=2)
    assert [type(decision) for decision in lab.state.place(now=1)] == [PreemptUnits, WaitForNodes]
    lab.ended("high")
    assert [bound(decision) for decision in lab.state.place(now=3)] == [{"mid": "n1"}]


def test_amounts_beyond_64_bits_are_too_much_for_every_node_and_harm_nobody() -> None:
    lab = Cluster(n1=4)
    lab.node("huge", cpu=2**80, unschedulable=True)
    lab.pod("absurd", cpu=2**80, priority=100)
    lab.pod("placed-by-hand", on="huge", cpu=2**80)
    lab.pod("ordinary", cpu=4)

    assert isinstance(lab.place("absurd"), WaitForNodes)
    assert bound(lab.place("ordinary")) == {"ordinary": "n1"}
