"""Where pods and gangs go when nobody has to make way."""

import pytest

from makeway.engine.matching import Taint, Toleration
from makeway.placement.decisions import (
    BindPods,
    Blocked,
    Cause,
    DomainLack,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.model import NAME_FIELD, NodeName, Spread
from makeway.selectors import Requirement
from tests.placement.scenario import CPU, Cluster, bound, short


def test_a_pod_goes_to_the_tightest_node_that_takes_it() -> None:
    lab = Cluster(n1=16, n2=5, n3=8)
    lab.pod("p", cpu=4)
    assert bound(lab.place("p")) == {"p": "n2"}


def test_a_gang_uses_as_few_nodes_as_possible() -> None:
    lab = Cluster(n1=4, n2=4, n3=12, n4=4)
    lab.gang("g", min_count=4)
    lab.members("g", 4, cpu=4)
    assert sorted(bound(lab.place("g")).values()) == ["n1", "n3", "n3", "n3"]


def test_a_gang_waits_as_a_whole() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=3)
    lab.members("g", 3)

    decision = lab.place("g")
    assert isinstance(decision, WaitForNodes)
    assert decision.reason is WaitReason.NO_CANDIDATES
    assert (decision.needed, decision.fitting) == (3, 2)


def test_members_beyond_min_count_go_where_there_is_room() -> None:
    lab = Cluster(n1=4, n2=4, n3=4)
    lab.gang("g", min_count=2)
    lab.members("g", 5)
    assert len(bound(lab.place("g"))) == 3


def test_a_late_member_of_a_running_gang_takes_what_is_left() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=1)
    lab.pod("g-0", gang="g", on="n1")
    lab.pod("g-1", gang="g")
    assert bound(lab.place("g")) == {"g-1": "n2"}


def test_large_members_are_placed_before_small_ones() -> None:
    lab = Cluster(n1=4, n2=1)
    lab.gang("g", min_count=2)
    lab.pod("a-small", gang="g", cpu=1)
    lab.pod("z-big", gang="g", cpu=4)
    assert bound(lab.place("g")) == {"a-small": "n2", "z-big": "n1"}


def test_a_gang_stays_within_one_rack() -> None:
    lab = Cluster()
    for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"), ("n5", "b")):
        lab.node(name, cpu=4, labels={"rack": rack})
    lab.gang("g", min_count=3, within="rack")
    lab.members("g", 3)
    assert sorted(bound(lab.place("g")).values()) == ["n3", "n4", "n5"]


def test_a_late_member_joins_the_rack_of_the_others() -> None:
    lab = Cluster()
    lab.node("n1", cpu=8, labels={"rack": "a"})
    lab.node("n2", cpu=4, labels={"rack": "b"})
    lab.gang("g", min_count=2, within="rack")
    lab.pod("g-0", gang="g", on="n1")
    lab.pod("g-1", gang="g")
    assert bound(lab.place("g")) == {"g-1": "n1"}


def test_members_that_keep_apart_share_no_node() -> None:
    lab = Cluster(n1=16, n2=4, n3=4)
    lab.gang("g", min_count=3)
    lab.members("g", 3, apart="kubernetes.io/hostname")
    assert sorted(bound(lab.place("g")).values()) == ["n1", "n2", "n3"]


def test_members_that_keep_apart_share_no_zone() -> None:
    lab = Cluster()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        lab.node(name, cpu=16, labels={"zone": zone})
    lab.gang("g", min_count=2)
    lab.members("g", 3, apart="zone")
    assert sorted(bound(lab.place("g")).values()) == ["n1", "n3"]


def zones(**cpu: int) -> Cluster:
    """A node in each zone, named after it."""
    lab = Cluster()
    for zone, amount in cpu.items():
        lab.node(zone, cpu=amount, labels={"zone": zone})
    return lab


def test_members_are_spread_evenly_when_they_ask_for_it() -> None:
    lab = zones(a=16, b=16, c=16)
    lab.gang("g", min_count=4)
    lab.members("g", 4, cpu=4, spread="zone")
    placement = sorted(bound(lab.place("g")).values())
    assert [placement.count(zone) for zone in "abc"] == [2, 1, 1]


def test_a_full_zone_holds_the_others_back() -> None:
    lab = zones(a=16, b=4, c=16)
    lab.gang("g", min_count=5)
    lab.members("g", 6, cpu=4, spread="zone")
    placement = sorted(bound(lab.place("g")).values())
    assert [placement.count(zone) for zone in "abc"] == [2, 1, 2]


def test_running_members_count_when_others_are_spread() -> None:
    lab = zones(a=16, b=16)
    lab.gang("g", min_count=1)
    lab.pod("g-9", gang="g", on="a", cpu=4)
    lab.members("g", 1, cpu=4, spread="zone")
    assert bound(lab.place("g")) == {"g-0": "b"}


@pytest.mark.parametrize(
    ("pod", "goes_to"),
    [
        pytest.param({}, "n4", id="avoids taint and cordon"),
        pytest.param({"tolerations": [Toleration("gpu", "Exists")]}, "n1", id="tolerates"),
        pytest.param({"selector": {"zone": "c"}}, "n3", id="selector"),
        pytest.param({"affinity": [Requirement("zone", "In", ("c", "d"))]}, "n3", id="affinity"),
    ],
)
def test_where_a_pod_may_run(pod: dict[str, object], goes_to: str) -> None:
    lab = Cluster()
    lab.node("n1", cpu=4, taints=[Taint("gpu")])
    lab.node("n2", cpu=4, unschedulable=True)
    lab.node("n3", cpu=16, labels={"zone": "c"})
    lab.node("n4", cpu=8)
    lab.pod("p", **pod)  # type: ignore[arg-type]
    assert bound(lab.place("p")) == {"p": goes_to}


def test_nodes_are_counted_by_what_they_lack() -> None:
    lab = Cluster(n1=4)
    lab.node("n2", cpu=4, taints=[Taint("gpu")])
    lab.node("n3", cpu=4, unschedulable=True)
    lab.node("n4", cpu=16, pods=0)
    lab.pod("low", on="n1", cpu=3)
    lab.gang("g", min_count=2)
    lab.members("g", 2, cpu=4)

    decision = lab.place("g")
    assert isinstance(decision, WaitForNodes)
    assert {(short(b.example), b.cause, b.resource, b.nodes) for b in decision.blocked} == {
        ("n1", Cause.RESOURCE, "cpu", 1),
        ("n2", Cause.TAINT, None, 1),
        ("n3", Cause.UNSCHEDULABLE, None, 1),
        ("n4", Cause.RESOURCE, "pods", 1),
    }


def test_higher_priority_is_placed_first_then_the_older() -> None:
    lab = Cluster(n1=4)
    lab.pod("young", priority=10, created=2)
    lab.pod("old", priority=10, created=1)
    lab.pod("high", priority=20, created=3)
    decisions = lab.state.place(now=5)
    assert [short(decision.preemptor.key) for decision in decisions] == ["high", "old", "young"]  # type: ignore[union-attr]


def test_nobody_is_tried_again_until_something_changes() -> None:
    lab = Cluster(n1=4)
    lab.pod("low", on="n1", priority=50)
    lab.pod("p", priority=10)
    assert len(lab.state.place(now=1)) == 1
    assert lab.state.place(now=2) == []
    lab.ended("low")
    assert [bound(decision) for decision in lab.state.place(now=3)] == [{"p": "n1"}]


def test_pods_alike_are_refused_together() -> None:
    lab = Cluster(n1=4)
    lab.pod("big", on="n1", cpu=3, priority=100)
    for i in range(3):
        lab.pod(f"p{i}", cpu=2, created=i)
    lab.pod("small", cpu=1, created=9)
    found = lab.state.place(now=10)
    assert [type(decision) for decision in found] == [
        WaitForNodes,
        WaitForNodes,
        WaitForNodes,
        BindPods,
    ]
    assert {decision.blocked for decision in found if isinstance(decision, WaitForNodes)} == {
        (Blocked(Cause.RESOURCE, CPU, 1, NodeName("n1")),)
    }


def test_pods_on_a_node_not_seen_yet_count_once_it_is() -> None:
    lab = Cluster()
    lab.pod("early", on="n1", cpu=3)
    lab.node("n1", cpu=4)
    lab.pod("p", cpu=2, priority=0)
    assert isinstance(lab.place("p"), WaitForNodes)


def test_each_rack_says_how_many_members_it_has_room_for() -> None:
    lab = Cluster()
    for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        lab.node(name, cpu=4, labels={"rack": rack})
    lab.pod("low", on="n1", priority=10)
    lab.gang("g", min_count=3, within="rack")
    lab.members("g", 3)

    decision = lab.place("g")
    assert isinstance(decision, WaitForNodes)
    assert decision.domains == (DomainLack("a", 1, 2), DomainLack("b", 1, 1))
    assert (decision.needed, decision.fitting) == (3, 1)


def test_an_affinity_may_name_a_node() -> None:
    lab = Cluster(n1=4, n2=16)
    lab.pod("p", affinity=[Requirement(NAME_FIELD, "NotIn", ("n1",))])
    assert bound(lab.place("p")) == {"p": "n2"}


def test_pods_of_a_group_without_gang_policy_are_placed_one_by_one() -> None:
    lab = Cluster(n1=4, n2=4)
    lab.gang("g", min_count=0, priority=100)
    lab.members("g", 3)
    decisions = lab.state.place(now=1)
    assert [type(decision) for decision in decisions] == [BindPods, BindPods, WaitForNodes]


def test_with_too_few_zones_none_takes_more_than_the_skew() -> None:
    lab = zones(a=16, b=16)
    lab.gang("g", min_count=1)
    for i in range(4):
        lab.pod(f"g-{i}", gang="g", cpu=1, spread=Spread("zone", max_skew=1, min_domains=3))
    assert sorted(bound(lab.place("g")).values()) == ["a", "b"]
