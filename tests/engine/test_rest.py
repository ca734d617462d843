"""Rest is rest for everyone, and a place is kept only for somebody who can use it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.engine.decisions import VictimRule
from makeway.engine.model import Config, Phase, Preference, RequeueTime
from tests.harness.engine import (
    ANY,
    LOWER,
    MAY_STOP,
    NEWER_EQUAL,
    RECLAIM,
    STRICT,
    Scenario,
    admit,
    cohort,
    preempt,
    queue,
    quota,
)

NOTHING: list[object] = []
FAIR = Config(fair_sharing=True)


def preemptors(lab: Scenario) -> list[str]:
    """Who has a claim."""
    entries = lab.state.entries.items()
    return [key.removeprefix("default/") for key, e in entries if e.status.claim is not None]


# --- rest ---


def test_an_older_workload_is_not_parked_with_a_younger_one() -> None:
    """Of equal priority it may preempt whoever is newer, which the younger one may not."""
    lab = Scenario(queue("q", gpu=2, within=NEWER_EQUAL))
    lab.later(30).running("middle", on="q", gpu=2, created=10.0)
    lab.pending("young", on="q", gpu=2, created=20.0)
    assert lab.cycles() == NOTHING

    lab.pending("old", on="q", gpu=2, created=0.0)

    assert lab.cycles() == [preempt("old", victims=["middle"])]


def test_under_fair_sharing_nothing_is_left_for_a_fresh_engine() -> None:
    lab = Scenario(
        queue("a", gpu=3, reclaim=ANY, weight=2), queue("c", gpu=1), cohort="lab", config=FAIR
    )
    for name, on, gpu, priority in [("c1", "c", 2, 0), ("c2", "c", 1, 1), ("a1", "a", 4, 0)]:
        lab.later().pending(name, on=on, gpu=gpu, priority=priority)
        lab.settle()

    lab.restart()

    assert lab.settle() == NOTHING


def test_what_is_free_is_taken_though_others_came_first_in_an_earlier_cycle() -> None:
    """c4 loses f1 to b1, which reserves more than there is and is parked; then f1 has room."""
    lab = Scenario(
        queue("a", gpu={"f1": quota(3, lend=1)}),
        queue("b", reclaim=LOWER, borrow_within=True, gpu={"f1": 2}),
        queue("c", gpu={"f1": 1, "f0": 3}),
        cohort="lab",
    )
    arrivals = [
        *[("c1", "c", 1, 0), ("c2", "c", 1, 0), ("b1", "b", 3, 0), ("c3", "c", 1, 0)],
        *[("c4", "c", 1, 0), ("c5", "c", 3, 0), ("b2", "b", 1, 1)],
    ]
    for name, on, gpu, priority in arrivals:
        lab.later().pending(name, on=on, gpu=gpu, priority=priority)
        lab.settle()
    assert lab.phase("c4") is Phase.PENDING  # b2 took its place

    lab.later().finish("c1")

    assert lab.settle() == [admit("c4", "f1")]


def test_who_begins_to_borrow_becomes_a_victim_of_those_who_wait_already() -> None:
    lab = Scenario(
        queue("a", gpu=3), queue("b", gpu=1, reclaim=ANY, borrow_within=True), cohort="lab"
    )
    for name, gpu in [("a1", 1), ("a2", 2)]:
        lab.later().pending(name, on="a", gpu=gpu)
        lab.settle()
    lab.later().pending("b1", on="b", gpu=2, priority=1)
    assert lab.settle() == NOTHING  # a does not borrow
    lab.later().pending("a3", on="a", gpu=1, priority=1)
    lab.settle()

    lab.restart()

    assert lab.settle() == NOTHING


def test_who_makes_its_cohort_borrow_makes_others_victims() -> None:
    """a2 takes what is a's own; but b has 1 cpu of it, so that x holds 4 and owns 3.

    From then on c3 may take from x, though it borrows itself.
    """
    lab = Scenario(
        cohort("lab", cpu=4, gpu=3),
        cohort("x", parent="lab"),
        queue("a", cohort="x", cpu=3, gpu=4),
        queue("b", cohort="x", cpu=0, gpu=1),
        queue("c", cohort="lab", reclaim=ANY, borrow_within=True, cpu=1, gpu=quota(4, lend=2)),
    )
    for name, cpu, gpu in [("a1", 1, 1), ("b1", 1, 2), ("c1", 1, 3), ("c2", 1, 4)]:
        lab.running(name, on=name[0], cpu=cpu, gpu=gpu)
    lab.pending("c3", on="c", cpu=3, gpu=3, priority=1)  # of 2 GPUs that are free
    assert lab.settle() == NOTHING

    lab.pending("a2", on="a", cpu=2, gpu=1)

    taken = preempt("c3", victims=["b1"], why=VictimRule.RECLAIM_WHILE_BORROWING)
    assert lab.settle() == [admit("a2"), taken, admit("c3")]
    lab.restart()
    assert lab.settle() == NOTHING


def test_a_head_loses_to_nobody_but_others() -> None:
    """a1 lacks cpu, and would borrow its gpu; a2 behind it fits."""
    lab = Scenario(
        queue("a", reclaim=ANY, preference=Preference.PREEMPTION_OVER_BORROWING, cpu=3, gpu=0),
        queue("b", cpu=1, gpu=2),
        cohort="lab",
    )
    lab.later().pending("b1", on="b", cpu=3, gpu=1)
    lab.settle()
    lab.later().pending("a1", on="a", cpu=2, gpu=1)
    lab.settle()
    lab.later().pending("a2", on="a", cpu=1, gpu=1)
    lab.settle()

    assert lab.phase("a2") is Phase.ADMITTED or lab.phase("a1") is Phase.ADMITTED


# --- claims ---


def test_a_place_is_not_kept_for_somebody_behind_a_blocked_head() -> None:
    """small has cleared 3 and is not the head any more; big needs 6 and has no victims."""
    lab = Scenario(
        queue("owner", gpu=9, strategy=STRICT, reclaim=ANY), queue("guest", gpu=0), cohort="lab"
    )
    lab.running("o1", on="owner", gpu=6)
    lab.running("g1", on="guest", gpu=3)
    lab.pending("small", on="owner", gpu=3)
    assert lab.cycles() == [preempt("small", victims=["g1"], why=RECLAIM)]

    lab.pending("big", on="owner", gpu=6, priority=10)
    lab.cycles()
    assert preemptors(lab) == []

    lab.let_go("g1")
    lab.later().pending("g2", on="guest", gpu=3)
    lab.cycles()
    assert lab.used("guest") == 3  # nobody of the owner's queue can use them


def test_a_preemptor_without_victims_to_wait_for_has_no_claim() -> None:
    lab = Scenario(
        queue("a", gpu=1, reclaim=ANY),
        queue("b", gpu=3, strategy=STRICT, reclaim=LOWER),
        cohort="lab",
        config=FAIR,
    )
    for name, on, gpu, priority in [("b1", "b", 4, 0), ("a1", "a", 2, 1), ("a2", "a", 1, 0)]:
        lab.later().pending(name, on=on, gpu=gpu, priority=priority)
        lab.settle()

    assert preemptors(lab) == []


def alpha_takes_back() -> Scenario:
    """Three queues of 2, of which beta holds all six; a1 of alpha comes."""
    lab = Scenario(
        queue("alpha", gpu=2, reclaim=ANY),
        queue("beta", gpu=2),
        queue("gamma", gpu=2, reclaim=ANY),
        cohort="lab",
    )
    for name in ("b1", "b2", "b3"):
        lab.later().running(name, on="beta", gpu=2)
    lab.later().pending("a1", on="alpha", gpu=2)
    return lab


def test_two_owners_reclaim_at_the_same_time() -> None:
    """Not one after the other: gamma does not wait until alpha's victim has let go."""
    lab = alpha_takes_back()
    assert lab.cycles() == [preempt("a1", victims=["b3"], why=RECLAIM)]

    lab.later().pending("c1", on="gamma", gpu=2)
    assert lab.cycles() == [preempt("c1", victims=["b2"], why=RECLAIM)]

    lab.let_go("b2")
    assert lab.cycles() == [admit("a1")]  # the first of the two, whoever has let go
    lab.let_go("b3")
    assert lab.cycles() == [admit("c1")]


def test_the_place_of_one_owner_is_not_taken_by_the_next() -> None:
    """The other side of it: what alpha's victim leaves is alpha's, whoever else reclaims."""
    lab = alpha_takes_back()
    lab.cycles()
    lab.later().pending("c1", on="gamma", gpu=2)
    lab.cycles()

    lab.let_go("b3")

    assert admit("a1") in lab.cycles()
    assert lab.phase("c1") is Phase.PENDING


# --- a restart while victims make way ---


def test_a_restart_gives_the_place_of_a_preemptor_to_nobody_else() -> None:
    lab = Scenario(queue("a", gpu=3, reclaim=LOWER), queue("b", gpu=1), cohort="lab")
    lab.later().pending("b1", on="b", gpu=2)
    lab.settle()
    lab.later().pending("a1", on="a", gpu=1)
    lab.pending("a2", on="a", gpu=2, priority=1)
    lab.settle()
    for name, gpu, priority in [("a3", 1, 0), ("a4", 3, 1)]:
        lab.later().pending(name, on="a", gpu=gpu, priority=priority)
        lab.settle()
    lab.later().finish("a2")
    taken = preempt("a4", victims=["b1"], why=RECLAIM)
    assert lab.cycles() == [taken, admit("a1")]  # 4 less 1 is what a4 needs

    lab.restart()

    assert lab.cycles() == NOTHING


def test_a_restart_keeps_a_place_though_it_would_be_borrowed_by_now() -> None:
    """b1 takes its 3 back from a1; then b2 is admitted beside it, so that b1 will borrow 1 of c's.

    To borrow, it might not take a1 again, only b2 with it.
    """
    lab = Scenario(
        queue("a", gpu=0),
        queue("b", gpu=3, within=NEWER_EQUAL, reclaim=ANY),
        queue("c", gpu=1),
        cohort="lab",
    )
    lab.running("a1", on="a", gpu=3)
    lab.later().pending("b1", on="b", gpu=3)
    lab.later().pending("b2", on="b", gpu=1)
    assert lab.cycles() == [preempt("b1", victims=["a1"], why=RECLAIM), admit("b2")]

    lab.restart(after_s=10.0)  # it does not pause between two preemptions any more
    assert lab.cycles() == NOTHING

    lab.let_go("a1")
    assert lab.cycles() == [admit("b1")]
    assert lab.used("b") == 4


def test_who_took_victims_beside_a_claim_may_start_before_they_are_gone() -> None:
    """4 of 5 are in use, and big's claim of 2 keeps the free one from small.

    small takes a victim of its own; now there are 3 for the two of them, and 1 is free already.
    """
    lab = Scenario(queue("a", gpu=2, within=LOWER), queue("b", gpu=3), cohort="lab")
    lab.running("b1", on="b", gpu=1)
    for name in ("a1", "a2", "a3"):
        lab.later().running(name, on="a", gpu=1)
    lab.later().pending("big", on="a", gpu=2, priority=1)
    assert lab.cycles() == [preempt("big", victims=["a3"])]

    lab.later().pending("small", on="a", gpu=1, priority=1)

    assert lab.cycles() == [preempt("small", victims=["a2"]), admit("small")]
    lab.let_go("a2", "a3")
    assert lab.cycles() == [admit("big")]


def test_who_loses_its_place_to_one_before_it_in_line_looks_for_another_at_once() -> None:
    """high takes over the 3 of f0 that were cleared for middle, which has victims on f2."""
    lab = Scenario(
        cohort("lab", gpu={"f0": 3, "f2": 4}),
        queue("q", cohort="lab", within=LOWER, reclaim=ANY, gpu={"f0": 0, "f2": 0}),
        config=FAIR,
    )
    for name, gpu in [("l1", 1), ("l2", 1), ("l3", 1), ("l4", 2)]:
        lab.later().pending(name, on="q", gpu=gpu)
    lab.settle()
    lab.later().pending("middle", on="q", gpu=3, priority=1)
    assert lab.cycles() == [preempt("middle", victims=["l3", "l2", "l1"])]

    lab.later().pending("high", on="q", gpu=3, priority=2)

    assert lab.cycles() == [preempt("middle", victims=["l4"])]
    lab.restart()
    assert lab.cycles() == NOTHING


def test_who_is_newer_by_its_eviction_makes_way_for_those_who_wait_already() -> None:
    """b1 takes its own back from a2, which counts as newer than a3 from then on.

    So a3 may have its place; but that is b1's, and a3 finds a victim beside it.
    """
    lab = Scenario(
        queue("a", within=NEWER_EQUAL, reclaim=ANY, weight=2, gpu={"f0": 1, "f1": 0}),
        queue("b", reclaim=ANY, gpu={"f1": 3}),
        queue("c", gpu={"f1": 1}),
        cohort="lab",
        config=replace(FAIR, after_preemption=RequeueTime.EVICTION),
    )
    for name, gpu in [("a1", 1), ("c1", 2), ("a2", 2), ("a3", 1)]:
        lab.later().pending(name, on=name[0], gpu=gpu, priority=1)
        lab.settle()
    assert lab.phase("a3") is Phase.PENDING

    lab.later().pending("b1", on="b", gpu=2)

    by_share = preempt("a3", victims=["c1"], why=VictimRule.FAIR_SHARING)
    assert lab.cycles() == [preempt("b1", victims=["a2"], why=RECLAIM), by_share]
    lab.restart()
    assert lab.cycles() == NOTHING


def test_who_loses_its_victim_to_another_looks_on_other_flavors_before_it_is_gone() -> None:
    """Both want b1's place on f0, and a1 takes it.

    b3 may begin on f1, where 5 are free, as soon as b2 is on its way: 2 of a's stay free then.
    """
    lab = Scenario(
        queue("a", reclaim=LOWER, when_can_preempt=MAY_STOP, gpu={"f0": 2, "f1": 3}),
        queue("b", within=NEWER_EQUAL, reclaim=ANY, gpu={"f0": 2, "f1": 3}),
        cohort="lab",
        config=FAIR,
    )
    for name, gpu in [("b1", 4), ("b2", 1)]:
        lab.later().pending(name, on="b", gpu=gpu)
        lab.settle()
    lab.later().pending("a1", on="a", gpu=2, priority=1)
    lab.later().pending("b3", on="b", gpu=4, priority=1)

    assert lab.cycles() == [
        preempt("a1", victims=["b1"], why=RECLAIM),
        preempt("b3", victims=["b2"]),
        admit("b3", flavor="f1"),
    ]
    lab.restart()
    assert lab.cycles() == NOTHING


@pytest.mark.parametrize("name", ["b1", "a1", "waits"])
def test_seeing_an_object_again_changes_nothing(name: str) -> None:
    lab = Scenario(queue("a", gpu=2, within=LOWER), queue("b", gpu=2), cohort="lab")
    lab.running("b1", on="b", gpu=3)
    lab.running("a1", on="a", gpu=1)
    lab.pending("waits", on="a", gpu=2)
    assert lab.settle() == NOTHING

    lab.see_again(name)

    assert lab.settle() == NOTHING
