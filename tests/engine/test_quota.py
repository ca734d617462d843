"""The arithmetic of the cohort tree: what is kept, lent, available and borrowed."""

from __future__ import annotations

import pytest

from makeway.engine.model import FlavorName, FlavorResource, QueueName, Quota, ResourceName
from makeway.engine.quota import available, borrow_level, potential
from makeway.engine.tree import QueueState
from tests.harness.engine import ANY, LOWER, RECLAIM, Scenario, admit, cohort, preempt, queue, quota

GPU = FlavorResource(FlavorName("default"), ResourceName("gpu"))


def settled(lab: Scenario, name: str) -> QueueState:
    lab.state.build_trees()
    return lab.state.queues[QueueName(name)]


def free(lab: Scenario, name: str) -> int:
    """What the queue can still take; below zero where more is in use than there is."""
    here = settled(lab, name)
    return available(here.node, GPU, here.tree.usage)


@pytest.mark.parametrize(
    ("mine", "theirs", "i_use", "they_use", "expected"),
    [
        pytest.param(quota(8), quota(4), 0, 0, 12, id="all that both have"),
        pytest.param(quota(8), quota(4), 3, 2, 7, id="less what both use"),
        pytest.param(quota(8), quota(4, lend=1), 0, 0, 9, id="they lend only one"),
        pytest.param(quota(8), quota(4, lend=0), 8, 0, 0, id="they lend nothing"),
        pytest.param(quota(8), quota(4, lend=1), 0, 3, 9, id="they use what they keep first"),
        pytest.param(quota(8), quota(4, lend=1), 0, 4, 8, id="then what they would lend"),
        pytest.param(quota(8, borrow=2), quota(4), 0, 0, 10, id="I may borrow two"),
        pytest.param(quota(8, borrow=2), quota(4), 9, 0, 1, id="one of the two is used"),
        pytest.param(quota(8, borrow=0), quota(4), 8, 0, 0, id="I may not borrow"),
        pytest.param(quota(8, borrow=9), quota(4), 8, 3, 1, id="the limit does not create quota"),
        pytest.param(quota(8, lend=2), quota(4), 0, 6, 6, id="what I keep stays mine"),
        pytest.param(quota(8, lend=2, borrow=1), quota(4), 6, 0, 3, id="kept, lent and borrowed"),
        pytest.param(quota(8), quota(4), 0, 12, 0, id="they took everything"),
        pytest.param(quota(0), quota(4), 0, 0, 4, id="a queue that only borrows"),
    ],
)
def test_what_a_queue_can_take(
    mine: Quota, theirs: Quota, i_use: int, they_use: int, expected: int
) -> None:
    lab = Scenario(queue("mine", gpu=mine), queue("theirs", gpu=theirs), cohort="lab")
    lab.running("my-train", on="mine", gpu=i_use)
    lab.running("their-train", on="theirs", gpu=they_use)

    assert free(lab, "mine") == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param(quota(8), quota(4), 12, id="everything"),
        pytest.param(quota(8, borrow=1), quota(4), 9, id="up to the borrowing limit"),
        pytest.param(quota(8), quota(4, lend=3), 11, id="what the others lend"),
        pytest.param(quota(8, lend=2), quota(4), 12, id="what I don't lend is still mine"),
    ],
)
def test_what_a_queue_could_ever_take(mine: Quota, theirs: Quota, expected: int) -> None:
    lab = Scenario(queue("mine", gpu=mine), queue("theirs", gpu=theirs), cohort="lab")
    lab.running("their-train", on="theirs", gpu=4)

    assert potential(settled(lab, "mine").node, GPU) == expected


def test_quota_of_a_cohort_belongs_to_all_its_queues() -> None:
    lab = Scenario(
        cohort("lab", gpu=4), queue("vision", cohort="lab", gpu=1), queue("speech", cohort="lab")
    )
    lab.running("train", on="vision", gpu=3)  # 1 of its own, 2 of the cohort's

    assert free(lab, "vision") == 2
    assert free(lab, "speech") == 2


def test_limits_of_a_cohort_bind_its_whole_subtree() -> None:
    lab = Scenario(
        cohort("campus"),
        cohort("lab", parent="campus", gpu=quota(0, borrow=3, lend=1)),
        queue("vision", cohort="lab", gpu=4),
        queue("physics", cohort="campus", gpu=8),
    )

    assert free(lab, "vision") == 4 + 3  # the lab borrows no more than three
    assert free(lab, "physics") == 8 + 1  # and lends no more than one
    lab.running("train", on="vision", gpu=6)
    assert free(lab, "vision") == 1
    assert free(lab, "physics") == 9 - 3  # three of the six are what the lab keeps


def test_quota_shrunk_below_usage_leaves_nothing_and_never_less() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.running("train", on="vision", gpu=8)
    lab.change(queue("vision", gpu=4))
    lab.pending("tiny", on="vision", gpu=1)
    lab.pending("nothing", on="vision", gpu=0)

    assert free(lab, "vision") == -4
    assert lab.cycles() == [admit("nothing")]  # what asks for nothing always fits


def test_nothing_is_given_away_for_a_head_whose_queue_uses_more_than_it_may() -> None:
    """Of 5 there are 4 in use, all by a queue that was left 1: what its head is kept is nothing."""
    lab = Scenario(
        queue("shrunk", gpu=4, cohort="all"),
        queue("bank", gpu=4, cohort="all"),
        queue("a", gpu=0, cohort="all"),
        queue("b", gpu=0, cohort="all"),
    )
    lab.running("holder", on="shrunk", gpu=4)
    lab.change(queue("shrunk", gpu=quota(1, borrow=0), cohort="all", reclaim=LOWER))
    lab.pending("more", on="shrunk", gpu=1)
    lab.pending("a1", on="a", gpu=1)
    lab.pending("b1", on="b", gpu=1)

    assert lab.cycles() == [admit("a1")]  # and not b1 as well


def test_what_a_shrunk_neighbour_uses_too_much_is_missing_even_from_what_a_queue_keeps() -> None:
    """As in Kueue: the root's deficit counts against everybody below it."""
    lab = Scenario(queue("vision", gpu=quota(4, lend=0)), queue("speech", gpu=8), cohort="lab")
    lab.running("train", on="speech", gpu=8)
    lab.change(queue("speech", cohort="lab", gpu=5))  # three more in use than there are
    lab.pending("eval", on="vision", gpu=2)
    lab.pending("small", on="vision", gpu=1)

    assert lab.cycles() == [admit("small")]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        pytest.param(2, 0, id="own quota"),
        pytest.param(4, 1, id="the team's: a cohort of queues only"),
        pytest.param(6, 2, id="the campus: one level more"),
        pytest.param(99, 2, id="more than there is: the whole tree"),
    ],
)
def test_borrow_level_is_the_height_of_the_smallest_subtree_that_covers_it(
    amount: int, expected: int
) -> None:
    lab = Scenario(
        cohort("campus"),
        cohort("team", parent="campus"),
        queue("vision", cohort="team", gpu=2),
        queue("speech", cohort="team", gpu=2),
        queue("physics", cohort="campus", gpu=4),
    )
    here = settled(lab, "vision")

    assert borrow_level(here.node, GPU, amount, here.tree.usage)[0] == expected


def test_what_a_queue_keeps_need_not_be_borrowed() -> None:
    lab = Scenario(
        cohort("campus"),
        cohort("team", parent="campus"),
        queue("vision", cohort="team", gpu=quota(2, lend=0)),
        queue("speech", cohort="team", gpu=2),
        queue("physics", cohort="campus", gpu=4),
    )
    here = settled(lab, "vision")

    assert borrow_level(here.node, GPU, 4, here.tree.usage)[0] == 1  # two kept, two of the team


def test_height_is_measured_to_the_deepest_leaf() -> None:
    lab = Scenario(
        cohort("campus"),
        cohort("team", parent="campus"),
        queue("vision", cohort="team", gpu=2),
        queue("physics", cohort="campus", gpu=4),
    )
    here = settled(lab, "physics")  # right below the campus, but the campus is two high

    assert borrow_level(here.node, GPU, 5, here.tree.usage)[0] == 2


def test_who_stays_within_its_quota_goes_before_who_borrows_whatever_the_priority() -> None:
    lab = Scenario(queue("vision", gpu=4), queue("speech", gpu=4), cohort="lab")
    lab.pending("urgent", on="vision", gpu=8, priority=100)
    lab.pending("modest", on="speech", gpu=4)

    assert lab.cycle() == [admit("modest")]


def test_a_trial_leaves_no_trace() -> None:
    lab = Scenario(
        queue("vision", gpu=quota(8, lend=3)), queue("speech", gpu=quota(4, lend=1)), cohort="lab"
    )
    lab.running("train", on="vision", gpu=6)
    here, there = settled(lab, "vision"), settled(lab, "speech")
    snapshot = here.tree.snapshot
    before = [dict(used) for used in snapshot.usage]

    with snapshot.trial():
        snapshot.release(here.node, {GPU: 6})
        with snapshot.trial():
            snapshot.charge(there.node, {GPU: 7})
        snapshot.charge(here.node, {GPU: 2})
        assert snapshot.used(here.node, GPU) == 2

    assert [{c: n for c, n in used.items() if n} for used in snapshot.usage] == [
        {c: n for c, n in used.items() if n} for used in before
    ]


def test_a_trial_leaves_no_trace_when_it_fails_half_way() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.running("train", on="vision", gpu=6)
    here = settled(lab, "vision")
    snapshot = here.tree.snapshot

    def fail() -> None:
        with snapshot.trial():
            snapshot.release(here.node, {GPU: 6})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert snapshot.used(here.node, GPU) == 6


def test_owner_gets_back_what_a_neighbour_borrowed() -> None:
    lab = Scenario(queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab")
    lab.running("big-train", on="speech", gpu=12)  # 4 of them borrowed
    lab.pending("eval", on="vision", gpu=8)

    assert lab.cycle() == [preempt("eval", victims=["big-train"], why=RECLAIM)]
