"""Nobody begins to borrow what somebody waits for who would borrow less far up.

Queues a and b own 4 each. Where a workload has to wait though there is room for it, another that
can never fit is the head of its queue in that cycle.
"""

from __future__ import annotations

import pytest

from makeway.engine import events as ev
from makeway.engine.decisions import ExceedsCapacity, WaitsForOwner
from makeway.engine.model import NamespaceSelector, Phase, Strategy
from makeway.selectors import Requirement
from tests.harness.engine import (
    ANY,
    BEST_EFFORT,
    LOWER,
    RECLAIM,
    STRICT,
    Amount,
    Scenario,
    admit,
    cohort,
    pods,
    preempt,
    queue,
    quota,
)

NOTHING: list[object] = []


def two_queues(
    *, a: Amount = 4, b: Amount = 4, strategy: Strategy = BEST_EFFORT, reclaims: bool = False
) -> Scenario:
    policy = {"reclaim": ANY} if reclaims else {}
    return Scenario(
        queue("a", gpu=a, strategy=strategy, **policy),  # type: ignore[arg-type]
        queue("b", gpu=b, within=LOWER),
        cohort="lab",
    )


def owners(lab: Scenario, name: str) -> list[str]:
    """For whom it is told to wait."""
    reasons = [reason for reason in lab.why(name) if isinstance(reason, WaitsForOwner)]
    return [reason.owner.removeprefix("default/") for reason in reasons]


def excess(lab: Scenario, name: str) -> list[tuple[str, int, int]]:
    """Of what it asks for more than there is, how much, and how much there is; nothing else."""
    found: list[tuple[str, int, int]] = []
    for reason in lab.why(name):
        assert isinstance(reason, ExceedsCapacity)
        asked = reason.earlier + reason.requested
        found.append((reason.cell.resource, asked, reason.capacity))
    return found


# --- who is an owner ---


def test_a_borrower_waits_for_a_parked_owner() -> None:
    lab = two_queues()
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    assert lab.cycles() == NOTHING

    lab.pending("b3", on="b", gpu=2)

    assert lab.cycles() == NOTHING
    assert owners(lab, "b3") == ["a1"]


def test_an_owner_gets_what_becomes_free_bit_by_bit() -> None:
    lab = two_queues()
    for name in ("b1", "b2"):
        lab.running(name, on="b", gpu=2)
    lab.running("b-long", on="b", gpu=4)
    lab.pending("a1", on="a", gpu=4)
    lab.later().pending("b3", on="b", gpu=2)
    assert lab.cycles() == NOTHING

    lab.finish("b1")
    assert lab.cycles() == NOTHING  # 2 are free: a1 needs 4, b3 would have to borrow

    lab.finish("b2")
    assert lab.cycles() == [admit("a1")]


@pytest.mark.parametrize(
    ("waiting", "size", "gets_it"),
    [
        pytest.param(1, 3, True, id="a1 needs 1, b2 takes 3 of 4"),
        pytest.param(1, 4, False, id="a1 needs 1, b2 wants 4 of 4"),
        pytest.param(3, 2, False, id="three need 1 each, b2 wants 2 of 4"),
        pytest.param(3, 1, True, id="three need 1 each, b2 takes 1 of 4"),
    ],
)
def test_borrowers_may_take_what_owners_do_not_need(waiting: int, size: int, gets_it: bool) -> None:
    lab = two_queues()
    lab.running("b1", on="b", gpu=4)
    lab.pending("too-big", on="a", gpu=9, priority=10)
    for number in range(waiting):
        lab.pending(f"a{number + 1}", on="a", gpu=1)
    lab.pending("b2", on="b", gpu=size)

    assert lab.cycle() == ([admit("b2")] if gets_it else NOTHING)

    lab.cycles()
    assert all(lab.phase(f"a{number + 1}") is Phase.ADMITTED for number in range(waiting))
    assert (lab.phase("b2") is Phase.ADMITTED) is gets_it


def test_who_is_refused_is_admitted_once_the_owner_has_gone() -> None:
    lab = two_queues()
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b3", on="b", gpu=2)
    assert lab.cycles() == NOTHING

    lab.remove("a1")

    assert lab.cycles() == [admit("b3")]


def test_newcomers_leave_no_more_to_borrowers_so_nobody_is_asked() -> None:
    """b3 may not borrow what a1 waits for, and still less when a2 waits, too."""
    lab = two_queues()
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b3", on="b", gpu=2)
    assert lab.cycles() == NOTHING

    lab.later().pending("a2", on="a", gpu=4)
    assert not lab.engine.needs_cycle(lab.now)
    lab.remove("a1")
    assert lab.engine.needs_cycle(lab.now)
    assert lab.cycles() == NOTHING  # a2 is an owner as well
    lab.remove("a2")
    assert lab.cycles() == [admit("b3")]


def test_who_is_of_a_namespace_that_its_queue_admits_no_more_is_no_owner() -> None:
    team_a = NamespaceSelector((Requirement("team", "In", ("a",)),))
    lab = Scenario(queue("a", gpu=2), queue("b", gpu=4, namespaces=team_a), cohort="lab")
    lab.apply(ev.NamespaceChanged("default", {"team": "a"}))
    lab.running("a1", on="a", gpu=4)
    lab.pending("owner", on="b", gpu=4)
    lab.later().pending("a2", on="a", gpu=1)
    assert lab.cycles() == NOTHING

    lab.apply(ev.NamespaceChanged("default", {"team": "z"}))
    assert lab.cycles() == [admit("a2")]


def test_who_comes_before_an_owner_in_a_strict_line_may_claim_less() -> None:
    """Of 3 free GPUs a1 claims all, until a2 stands before it, who waits for CPUs with 1 GPU."""
    lab = Scenario(
        queue("a", gpu=4, cpu=2, strategy=STRICT), queue("b", gpu=4, cpu=0), cohort="lab"
    )
    lab.running("b1", on="b", gpu=5, cpu=2)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b2", on="b", gpu=2)
    assert lab.cycles() == NOTHING

    lab.pending("a2", on="a", gpu=1, cpu=2, priority=10)
    assert lab.cycles() == [admit("b2")]


def test_an_equal_exchange_inside_the_queue_is_free() -> None:
    lab = two_queues()
    lab.running("b1", on="b", gpu=4, priority=10)
    lab.later().running("low", on="b", gpu=2)
    lab.pending("a1", on="a", gpu=4)
    lab.later().pending("high", on="b", gpu=2, priority=10)

    assert lab.settle() == [preempt("high", victims=["low"]), admit("high")]
    assert lab.used("b") == 6


def test_an_exchange_for_something_larger_is_not() -> None:
    lab = two_queues()
    lab.running("b1", on="b", gpu=4, priority=10)
    lab.later().running("low", on="b", gpu=2)
    lab.pending("a1", on="a", gpu=4)
    lab.later().pending("high", on="b", gpu=3, priority=10)

    assert lab.settle() == NOTHING
    assert owners(lab, "high") == ["a1"]


def test_who_does_not_fit_into_the_own_quota_beside_those_who_run_is_no_owner() -> None:
    lab = two_queues()
    lab.running("a0", on="a", gpu=3)
    lab.running("b1", on="b", gpu=4)
    lab.pending("a1", on="a", gpu=2)
    assert lab.cycles() == NOTHING

    lab.pending("b2", on="b", gpu=1)

    assert lab.cycles() == [admit("b2")]


def test_a_strict_owner_that_can_reclaim_lets_others_borrow_until_it_is_ready() -> None:
    """It runs 1 of its 2, and its next needs 2: the free 1 is of no use to it yet."""
    lab = Scenario(
        queue("owner", gpu=2, strategy=STRICT, reclaim=ANY), queue("guest", gpu=0), cohort="lab"
    )
    lab.running("o1", on="owner", gpu=1)
    lab.pending("o2", on="owner", gpu=2)
    assert lab.cycles() == NOTHING

    lab.pending("g1", on="guest", gpu=1)
    assert lab.cycles() == [admit("g1")]

    lab.finish("o1")
    said = lab.settle()
    assert said == [preempt("o2", victims=["g1"], why=RECLAIM), admit("o2")]


def test_what_a_queue_does_not_lend_is_kept_from_nobody() -> None:
    lab = Scenario(
        queue("a", gpu=quota(4, lend=0)), queue("b", gpu=4), queue("c", gpu=4), cohort="lab"
    )
    lab.running("b1", on="b", gpu=4)
    lab.pending("too-big", on="a", gpu=13, priority=10)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b2", on="b", gpu=4)  # all that c lends

    assert lab.cycle() == [admit("b2")]
    assert lab.cycles() == [admit("a1")]


def test_behind_a_strict_head_nobody_is_an_owner() -> None:
    lab = two_queues(strategy=STRICT)
    lab.running("b1", on="b", gpu=4)
    lab.pending("too-big", on="a", gpu=9, priority=10)
    lab.pending("a1", on="a", gpu=1)
    lab.pending("b2", on="b", gpu=4)

    assert lab.cycles() == [admit("b2")]


# --- trees ---


def two_levels() -> Scenario:
    return Scenario(
        cohort("x", parent="lab"),
        cohort("y", parent="lab"),
        queue("a", gpu=2, cohort="x"),
        queue("b", gpu=2, cohort="x"),
        queue("c", gpu=2, cohort="y"),
    )


def test_who_borrows_from_a_sibling_comes_before_who_borrows_from_an_uncle() -> None:
    lab = two_levels()
    lab.running("a0", on="a", gpu=2)
    lab.running("c0", on="c", gpu=2)
    lab.pending("too-big", on="a", gpu=7, priority=10)
    lab.pending("a1", on="a", gpu=2)  # fits into x, with what b does not use
    lab.pending("c1", on="c", gpu=2)  # would have to borrow from x

    assert lab.cycle() == NOTHING
    assert owners(lab, "c1") == ["a1"]
    assert lab.cycles() == [admit("a1")]


def test_an_owner_counts_what_its_queue_keeps_to_itself() -> None:
    """a1 asks for 2 GPUs, of which a lends 1 to those above it, and keeps the other."""
    lab = Scenario(
        cohort("x", parent="lab"),
        queue("a", cohort="x", cpu=3, gpu=quota(2, lend=1)),
        queue("c", cohort="lab", cpu=0, gpu=1),
    )
    lab.running("c0", on="c", cpu=1, gpu=1)
    lab.pending("a1", on="a", cpu=3, gpu=2)
    lab.pending("c1", on="c", cpu=1, gpu=1)

    assert lab.cycles() == NOTHING
    assert owners(lab, "c1") == ["a1"]


def test_borrowing_inside_a_cohort_never_waits_for_an_uncle() -> None:
    lab = two_levels()
    lab.running("b0", on="b", gpu=2)
    lab.pending("too-big", on="c", gpu=7, priority=10)
    lab.pending("c1", on="c", gpu=2)
    lab.pending("b1", on="b", gpu=2)  # of what a does not use

    assert lab.cycle() == [admit("b1")]
    assert lab.cycles() == [admit("c1")]


def test_who_was_refused_for_an_owner_goes_further_up_once_the_owner_runs() -> None:
    """While a1 waits, b1 would take its place in x; beside a1, it borrows from the cohort above."""
    lab = Scenario(
        cohort("lab", gpu=4),
        cohort("x", parent="lab"),
        queue("a", gpu=3, cohort="x"),
        queue("b", gpu=0, cohort="x"),
    )
    lab.pending("a1", on="a", gpu=1)
    lab.pending("b1", on="b", gpu=3)

    assert lab.cycles() == [admit("a1"), admit("b1")]


# --- what is told ---


def test_who_can_never_fit_does_not_wait_for_an_owner() -> None:
    """b1 would borrow the cpus that a1 waits for; but of the gpus it wants there are only 2."""
    lab = Scenario(queue("a", cpu=4, gpu=1), queue("b", cpu=4, gpu=1), cohort="lab")
    lab.running("b0", on="b", cpu=6)
    lab.pending("a1", on="a", cpu=4)
    lab.pending("b1", on="b", cpu=2, gpu=3)

    assert lab.cycles() == NOTHING

    assert excess(lab, "b1") == [("gpu", 3, 2)]


def test_no_owner_is_waited_for_on_a_flavor_that_can_never_offer_enough() -> None:
    """Of f1 there are 2 gpus at most, so b1 waits for f2, which is in use."""
    lab = Scenario(
        queue("a", cpu={"f1": 4, "f2": 0}, gpu={"f1": 1, "f2": 0}),
        queue("b", cpu={"f1": 4, "f2": 4}, gpu={"f1": 1, "f2": 4}),
        cohort="lab",
    )
    lab.running("b0", on="b", flavor="f1", cpu=6, gpu=0)
    lab.running("b-long", on="b", flavor="f2", cpu=4, gpu=4)
    lab.pending("a1", on="a", cpu=4)
    lab.pending("b1", on="b", cpu=2, gpu=3)

    assert lab.cycles() == NOTHING

    assert owners(lab, "b1") == []


def test_a_pod_set_that_can_never_fit_is_told_of_though_another_waits_for_an_owner() -> None:
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=4), cohort="lab")
    lab.running("b0", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b1", pods("first", gpu=1), pods("then", count=8, gpu=1), on="b")

    assert lab.cycles() == NOTHING

    assert excess(lab, "b1") == [("gpu", 9, 8)]


def test_fewer_pods_that_have_to_wait_for_an_owner_are_told_so() -> None:
    """6 pods are more than what is free; 2 would fit, but a1 waits for those."""
    lab = two_queues()
    lab.running("b0", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b1", pods("main", count=6, at_least=2, gpu=1), on="b")

    assert lab.cycles() == NOTHING

    assert owners(lab, "b1") == ["a1"]


@pytest.mark.parametrize("order", [("old", "urgent", "young"), ("young", "urgent", "old")])
def test_the_owner_who_is_named_is_the_first_in_line(order: tuple[str, ...]) -> None:
    """Whatever the order in which the engine has seen them."""
    waiting = {"old": (1, 0, 10.0), "young": (2, 0, 20.0), "urgent": (3, 5, 30.0)}
    lab = two_queues()
    lab.later(60).running("b0", on="b", gpu=6)
    for name in order:
        gpu, priority, created = waiting[name]
        lab.pending(name, on="a", gpu=gpu, priority=priority, created=created)
    lab.pending("too-big", on="a", gpu=9, priority=10)
    lab.pending("b1", on="b", gpu=2)

    lab.cycle()

    assert owners(lab, "b1") == ["urgent"]


def test_nobody_waits_for_an_owner_who_has_got_its_place() -> None:
    """Of 4, a1 and c1 take 3 in the same cycle; the last one is for a2, which is like a1."""
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=0), queue("c", gpu=0), cohort="lab")
    for name, on, gpu in [("a1", "a", 1), ("a2", "a", 1), ("c1", "c", 2), ("b1", "b", 1)]:
        lab.later().pending(name, on=on, gpu=gpu)

    assert lab.cycle() == [admit("a1"), admit("c1")]

    assert owners(lab, "b1") == ["a2"]


def test_who_is_turned_away_is_an_owner_no_more() -> None:
    """A queue of a's kind, behind `own` one whom it doesn't admit; `late` waits for `own`."""
    vision = NamespaceSelector((Requirement("team", "In", ("vision",)),))
    lab = Scenario(
        queue("a", gpu=4, namespaces=vision, strategy=STRICT), queue("b", gpu=4), cohort="lab"
    )
    lab.apply(ev.NamespaceChanged("default", {"team": "vision"}))
    lab.running("guest", on="b", gpu=6)
    lab.pending("own", on="a", gpu=4)
    lab.pending("stray", on="a", gpu=3, namespace="elsewhere")
    lab.pending("never", on="a", gpu=9)
    lab.pending("late", on="b", gpu=1)
    assert lab.cycles() == NOTHING
    assert owners(lab, "late") == ["own"]
    lab.remove("own")

    assert lab.cycles() == [admit("late")]
