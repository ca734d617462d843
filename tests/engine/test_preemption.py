"""Who has to make way for whom: the policies of seed 002."""

from __future__ import annotations

import pytest

from makeway.engine.decisions import Preemptability, Shortfall, VictimsTaken, WaitingForVictims
from makeway.engine.model import Config, EvictionReason, Gates, Phase, Policy, WorkloadKey
from tests.harness.engine import (
    ANY,
    HOLD,
    IN_QUEUE,
    LOWER,
    NEVER,
    NEWER_EQUAL,
    RECLAIM,
    RECLAIM_WHILE_BORROWING,
    STRICT,
    Scenario,
    admit,
    cohort,
    evict,
    preempt,
    queue,
    quota,
)

NOTHING: list[object] = []


# --- within the queue ---


@pytest.mark.parametrize(
    ("policy", "victim", "taken"),
    [
        pytest.param(NEVER, "lower", False, id="never"),
        pytest.param(LOWER, "lower", True, id="lower priority: lower"),
        pytest.param(LOWER, "newer", False, id="lower priority: newer and equal"),
        pytest.param(NEWER_EQUAL, "lower", True, id="or newer equal: lower"),
        pytest.param(NEWER_EQUAL, "newer", True, id="or newer equal: newer and equal"),
        pytest.param(NEWER_EQUAL, "older", False, id="or newer equal: older and equal"),
        pytest.param(NEWER_EQUAL, "higher", False, id="or newer equal: higher"),
    ],
)
def test_whom_a_workload_may_preempt_in_its_own_queue(
    policy: Policy, victim: str, taken: bool
) -> None:
    lab = Scenario(queue("q", gpu=4, within=policy))
    priority, created = {
        "lower": (4, 0.0),
        "newer": (5, 20.0),
        "older": (5, 0.0),
        "higher": (6, 20.0),
    }[victim]
    lab.later(30).running(victim, on="q", gpu=4, priority=priority, created=created)
    lab.pending("train", on="q", gpu=4, priority=5, created=10.0)

    assert lab.cycle() == ([preempt("train", victims=[victim])] if taken else NOTHING)


def test_equals_stay_though_somebody_lower_is_there() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("lower", on="q", gpu=1, priority=0)
    lab.running("equal", on="q", gpu=3, priority=5)
    lab.pending("train", on="q", gpu=4, priority=5)

    assert lab.cycle() == NOTHING


def test_a_request_beyond_nominal_quota_preempts_nobody_not_even_at_home() -> None:
    lab = Scenario(queue("mine", gpu=4, within=LOWER), queue("theirs", gpu=4), cohort="lab")
    lab.running("low", on="mine", gpu=4)
    lab.running("other", on="theirs", gpu=4)
    lab.pending("big", on="mine", gpu=6, priority=9)

    assert lab.cycle() == NOTHING
    (reason,) = lab.why("big")
    assert isinstance(reason, Shortfall)
    assert (reason.missing, reason.preemption) == (6, Preemptability.FORBIDDEN)


# --- in the cohort ---


@pytest.mark.parametrize(
    ("policy", "priority", "taken"),
    [
        pytest.param(NEVER, 0, False, id="never"),
        pytest.param(LOWER, 4, True, id="lower priority: lower"),
        pytest.param(LOWER, 5, False, id="lower priority: equal"),
        pytest.param(ANY, 5, True, id="any: equal"),
        pytest.param(ANY, 9, True, id="any: higher"),
    ],
)
def test_from_whom_a_queue_may_take_back_its_quota(
    policy: Policy, priority: int, taken: bool
) -> None:
    lab = Scenario(queue("mine", gpu=4, reclaim=policy), queue("theirs", gpu=4), cohort="lab")
    lab.running("borrower", on="theirs", gpu=8, priority=priority)
    lab.pending("train", on="mine", gpu=4, priority=5)

    expected = [preempt("train", victims=["borrower"], why=RECLAIM)]
    assert lab.cycle() == (expected if taken else NOTHING)


def test_only_queues_that_borrow_have_to_give() -> None:
    lab = Scenario(
        queue("mine", gpu=4, reclaim=ANY),
        queue("modest", gpu=4),
        queue("greedy", gpu=4),
        cohort="lab",
    )
    lab.running("within", on="modest", gpu=4)
    lab.running("beyond-1", on="greedy", gpu=4)
    lab.later().running("beyond-2", on="greedy", gpu=4)
    lab.pending("train", on="mine", gpu=4, priority=5)

    assert lab.cycle() == [preempt("train", victims=["beyond-2"], why=RECLAIM)]


def test_a_queue_is_left_alone_once_it_borrows_no_more() -> None:
    lab = Scenario(
        queue("mine", gpu=6, reclaim=ANY), queue("a", gpu=2), queue("b", gpu=2), cohort="lab"
    )
    lab.running("a1", on="a", gpu=2, priority=1)
    lab.running("a2", on="a", gpu=2, priority=1)  # a borrows two
    lab.running("b1", on="b", gpu=2, priority=2)
    lab.running("b2", on="b", gpu=2, priority=2)  # b too
    lab.running("own", on="mine", gpu=2)
    lab.pending("train", on="mine", gpu=4)

    # Priority alone would say a1 and a2; but with one of them gone, a is within its quota.
    assert lab.cycle() == [preempt("train", victims=["a1", "b1"], why=RECLAIM)]


def test_a_queue_on_hold_still_lends_but_cannot_be_made_to_give() -> None:
    lab = Scenario(queue("mine", gpu=4, reclaim=ANY), queue("held", gpu=4), cohort="lab")
    lab.running("borrower", on="held", gpu=6)
    lab.stop("held", HOLD)
    lab.pending("train", on="mine", gpu=4)
    lab.pending("small", on="mine", gpu=2)

    assert lab.cycles() == [admit("small")]


def test_reclaim_climbs_the_tree() -> None:
    lab = Scenario(
        cohort("campus"),
        cohort("lab", parent="campus"),
        cohort("ops", parent="campus"),
        queue("vision", cohort="lab", gpu=4, reclaim=ANY),
        queue("builds", cohort="ops", gpu=4),
    )
    lab.running("nightly", on="builds", gpu=8)
    lab.pending("eval", on="vision", gpu=4)

    assert lab.cycle() == [preempt("eval", victims=["nightly"], why=RECLAIM)]


# --- borrowWithinCohort ---


@pytest.mark.parametrize(
    ("threshold", "victim", "taken"),
    [
        pytest.param(None, 4, True, id="lower priority"),
        pytest.param(None, 5, False, id="equal priority"),
        pytest.param(3, 3, True, id="at the threshold"),
        pytest.param(3, 4, False, id="above the threshold"),
    ],
)
def test_borrow_within_cohort_lets_a_borrower_preempt_lower_priorities(
    threshold: int | None, victim: int, taken: bool
) -> None:
    lab = Scenario(
        queue("mine", gpu=2, reclaim=ANY, borrow_within=True, threshold=threshold),
        queue("theirs", gpu=2),
        queue("lender", gpu=4),
        cohort="lab",
    )
    lab.running("borrower", on="theirs", gpu=8, priority=victim)
    lab.pending("train", on="mine", gpu=4, priority=5)  # two of its own, two to borrow

    expected = [preempt("train", victims=["borrower"], why=RECLAIM_WHILE_BORROWING)]
    assert lab.cycle() == (expected if taken else NOTHING)


def test_above_the_threshold_a_victim_is_fair_game_if_nothing_is_borrowed() -> None:
    lab = Scenario(
        queue("mine", gpu=4, reclaim=ANY, borrow_within=True, threshold=3),
        queue("theirs", gpu=4),
        cohort="lab",
    )
    lab.running("borrower", on="theirs", gpu=8, priority=7)
    lab.pending("train", on="mine", gpu=4, priority=5)

    assert lab.cycle() == [preempt("train", victims=["borrower"], why=RECLAIM)]


# --- who is sacrificed, who is spared ---


def test_others_go_before_the_own_then_low_priority_then_the_newest() -> None:
    lab = Scenario(
        queue("mine", gpu=8, within=LOWER, reclaim=ANY), queue("theirs", gpu=0), cohort="lab"
    )
    lab.running("other", on="theirs", gpu=2, priority=3)
    lab.running("own-low", on="mine", gpu=2, priority=1)
    lab.running("own-mid-old", on="mine", gpu=2, priority=2, reserved=1.0)
    lab.running("own-mid-new", on="mine", gpu=2, priority=2, reserved=2.0)
    lab.later(10)

    for amount, victims in [
        (2, {"other": RECLAIM}),
        (4, {"other": RECLAIM, "own-low": IN_QUEUE}),
        (6, {"other": RECLAIM, "own-low": IN_QUEUE, "own-mid-new": IN_QUEUE}),
    ]:
        lab.pending("train", on="mine", gpu=amount, priority=9)
        assert lab.cycle() == [preempt("train", victims=victims)]
        for victim in victims:
            lab.forget(victim)  # and once more from the beginning
        lab.remove("train")


def test_whoever_is_not_needed_is_spared() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("small", on="q", gpu=1, priority=1)
    lab.running("large", on="q", gpu=7, priority=2)
    lab.pending("train", on="q", gpu=7, priority=9)

    assert lab.cycle() == [preempt("train", victims=["large"])]  # small was taken first, in vain


def test_if_even_all_would_not_do_nobody_goes() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("low", on="q", gpu=4, priority=1)
    lab.running("high", on="q", gpu=4, priority=9)
    lab.pending("train", on="q", gpu=6, priority=5)

    assert lab.cycle() == NOTHING
    (reason,) = lab.why("train")
    assert isinstance(reason, Shortfall)
    assert (reason.missing, reason.preemption) == (6, Preemptability.NO_VICTIMS)


def test_only_who_uses_the_scarce_flavor_and_resource_is_a_candidate() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4}, cpu={"x86": 8}, within=LOWER))
    lab.running("cpu-only", on="q", cpu=8, priority=0)
    lab.running("trainer", on="q", gpu=4, priority=1)
    lab.pending("urgent", on="q", gpu=4, priority=9)

    assert lab.cycle() == [preempt("urgent", victims=["trainer"])]


def test_who_is_on_the_way_out_counts_first_and_is_not_evicted_again() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("dear", on="q", gpu=4, priority=3)
    lab.running("cheap", on="q", gpu=4, priority=1)
    lab.edit("dear", active=False)
    assert lab.cycle() == [evict("dear", EvictionReason.DEACTIVATED)]
    lab.pending("train", on="q", gpu=4, priority=9)

    assert lab.cycles() == NOTHING
    assert lab.why("train")[0] == WaitingForVictims((WorkloadKey("default/dear"),))


def test_as_a_victim_a_workload_counts_with_its_preemption_priority() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("shielded", on="q", gpu=4, priority=1, as_victim=6)
    lab.running("plain", on="q", gpu=4, priority=3)
    lab.pending("train", on="q", gpu=4, priority=5)

    assert lab.cycle() == [preempt("train", victims=["plain"])]


def test_preemption_priority_gains_nothing_for_the_preemptor() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("plain", on="q", gpu=4, priority=3)
    lab.pending("shielded", on="q", gpu=4, priority=1, as_victim=6)

    assert lab.cycle() == NOTHING


# --- what the preemptor gets ---


def test_the_preemptor_starts_only_when_its_victims_have_let_go() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.pending("train", on="q", gpu=8, priority=9)

    assert lab.cycle() == [preempt("train", victims=["a", "b"])]
    assert lab.phase("a") is Phase.EVICTING
    assert lab.used("q") == 8  # charged until their pods are gone
    lab.let_go("b")
    assert lab.cycles() == NOTHING
    lab.let_go("a")
    assert lab.cycles() == [admit("train")]


def test_a_head_without_victims_reserves_so_that_nobody_sneaks_past() -> None:
    lab = Scenario(queue("mine", gpu=4, reclaim=LOWER), queue("theirs", gpu=4), cohort="lab")
    lab.running("equal", on="theirs", gpu=6)
    lab.pending("train", on="mine", gpu=4)
    lab.later().pending("sneak", on="theirs", gpu=2)

    assert lab.cycle() == NOTHING  # two are free, but they are train's


def test_who_can_reclaim_from_anybody_reserves_nothing() -> None:
    lab = Scenario(queue("mine", gpu=6, reclaim=ANY), queue("theirs", gpu=4), cohort="lab")
    lab.running("modest", on="theirs", gpu=4)
    lab.running("own", on="mine", gpu=4)
    lab.pending("train", on="mine", gpu=6)
    lab.later().pending("sneak", on="theirs", gpu=2)

    assert lab.cycle() == [admit("sneak")]  # train takes it back whenever it can


def test_the_reservation_is_no_more_than_the_borrowing_limit_leaves() -> None:
    lab = Scenario(
        queue("mine", gpu=quota(2, borrow=1), reclaim=LOWER, borrow_within=True),
        queue("theirs", gpu=2),
        queue("lender", gpu=4),
        cohort="lab",
    )
    lab.running("own", on="mine", gpu=2)
    lab.running("equal", on="theirs", gpu=4)  # so two are free
    lab.pending("train", on="mine", gpu=3)  # but train may borrow only one
    lab.later().pending("sneak", on="theirs", gpu=1)

    assert lab.cycle() == [admit("sneak")]


# --- two heads, one victim ---


def test_a_head_whose_victims_are_taken_waits_behind_if_it_fits_with_them_gone() -> None:
    lab = Scenario(
        queue("a", gpu=4, reclaim=ANY),
        queue("b", gpu=4, reclaim=ANY),
        queue("c", gpu=0),
        cohort="lab",
    )
    lab.running("borrower", on="c", gpu=8)
    lab.pending("one", on="a", gpu=4)
    lab.later().pending("two", on="b", gpu=4)

    assert lab.cycle() == [preempt("one", victims=["borrower"], why=RECLAIM)]
    assert isinstance(lab.why("two")[0], WaitingForVictims)
    lab.let_go("borrower")
    assert lab.cycles() == [admit("one"), admit("two")]


def test_a_head_whose_victims_are_taken_finds_others() -> None:
    lab = Scenario(
        queue("a", gpu=4, reclaim=ANY),
        queue("b", gpu=4, reclaim=ANY),
        queue("c", gpu=0),
        cohort="lab",
    )
    lab.running("old", on="c", gpu=4, reserved=0.0)
    lab.later().running("new", on="c", gpu=4)
    lab.pending("one", on="a", gpu=4)
    lab.later().pending("two", on="b", gpu=4)

    assert lab.cycle() == [
        preempt("one", victims=["new"], why=RECLAIM),
        preempt("two", victims=["old"], why=RECLAIM),
    ]


def test_a_head_whose_victims_are_taken_is_skipped_if_no_others_would_do() -> None:
    lab = Scenario(
        queue("a", gpu=4, within=LOWER, reclaim=ANY),
        queue("b", gpu=4, reclaim=ANY),
        queue("c", gpu=0),
        cohort="lab",
        config=Config(gates=Gates(reassign_on_overlap=False)),
    )
    lab.running("borrower", on="c", gpu=8)
    lab.pending("one", on="a", gpu=4)
    lab.later().pending("two", on="b", gpu=4)

    assert lab.cycle() == [preempt("one", victims=["borrower"], why=RECLAIM)]
    assert lab.why("two")[0] == VictimsTaken()


def test_in_a_strict_queue_a_preemptor_does_not_get_new_victims_while_the_old_ones_leave() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER, strategy=STRICT))
    lab.running("a", on="q", gpu=4)
    lab.later().running("b", on="q", gpu=4)
    lab.pending("train", on="q", gpu=4, priority=5)

    assert lab.cycle() == [preempt("train", victims=["b"])]
    assert lab.cycles() == NOTHING
    lab.later(600)
    assert lab.cycles() == NOTHING
