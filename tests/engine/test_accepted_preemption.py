"""Preemption that people accept: who waits first, who is safe for a while, who goes first."""

import pytest

from makeway.engine.decisions import BudgetSpent, PreemptsLater, VictimsProtected
from makeway.engine.events import Evicted, LocalQueueChanged
from makeway.engine.explain import Refusal
from makeway.engine.model import Aging, EvictionReason, LocalQueue, Milestone, Phase, Sorting
from makeway.engine.sacrifice import cost_at
from tests.harness.engine import (
    ANY,
    LOWER,
    MINUTE,
    NEWER_EQUAL,
    RECLAIM,
    STRICT,
    Scenario,
    admit,
    preempt,
    queue,
)

LEAST_LOST, SHORTEST, LONGEST = (
    Sorting.LEAST_WORK_LOST,
    Sorting.LOWEST_RUNTIME,
    Sorting.LONGEST_RUNTIME,
)


# --- triggerAfterWorkloadWaitingSeconds ---


def test_a_workload_preempts_only_after_it_has_waited() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=8)
    lab.pending("urgent", on="vision", gpu=8, priority=9)

    assert lab.cycles() == []
    assert PreemptsLater(since=0.0, until=600.0) in lab.why("urgent")
    assert lab.next_at == 600.0  # the engine wakes by itself, and not before

    assert lab.cycle(now=599.0) == []
    assert lab.cycle(now=600.0) == [preempt("urgent", victims=["train"])]


def test_who_fits_needs_no_wait() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=8)
    lab.pending("urgent", on="vision", gpu=8, priority=9)
    lab.cycles()

    lab.later(60).finish("train")
    assert lab.cycles() == [admit("urgent")]


def test_who_is_told_what_its_equals_were_waits_from_then_on() -> None:
    """Nobody makes way for the two. One starts when a place is free, and the next is the first."""
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=4, priority=20)
    lab.running("tune", on="vision", gpu=4, priority=20)
    lab.pending("first", on="vision", gpu=4, priority=9)
    lab.cycles()
    lab.later(10).pending("next", on="vision", gpu=4, priority=9)
    lab.finish("train")
    assert lab.cycles() == [admit("first")]

    lab.later(590).edit("tune", priority=0)
    assert lab.cycles() == []
    assert lab.next_at == 610.0
    assert lab.cycle(now=610.0) == [preempt("next", victims=["tune"])]


def test_the_first_attempt_survives_a_restart() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=8)
    lab.pending("urgent", on="vision", gpu=8, priority=9)
    lab.cycles()

    lab.restart(after_s=400)
    assert lab.cycles() == []
    assert lab.next_at == 600.0
    assert lab.cycle(now=600.0) == [preempt("urgent", victims=["train"])]


def test_the_wait_of_all_of_one_shape_begins_with_the_first_of_them() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=4)
    lab.running("tune", on="vision", gpu=4)
    lab.pending("first", on="vision", gpu=4, priority=9)
    lab.pending("second", on="vision", gpu=4, priority=9)
    lab.cycles()
    lab.remove("first")  # whose deadline it was

    lab.cycles()
    assert lab.cycle(now=600.0) == [preempt("second", victims=["train"])]


def test_a_workload_that_was_admitted_waits_anew() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, after_s=600))
    lab.running("train", on="vision", gpu=8, priority=5)
    lab.pending("urgent", on="vision", gpu=8, priority=9)
    lab.cycles()
    lab.finish("train")
    assert lab.cycles() == [admit("urgent")]
    assert lab.entry("urgent").status.first_attempt_at is None


# --- minRuntimeSeconds ---


def test_nobody_is_preempted_before_having_run_for_the_time_it_is_granted() -> None:
    lab = Scenario(
        queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8, protects_s=1200), cohort="lab"
    )
    lab.running("train", on="speech", gpu=16)
    lab.later(180).pending("eval", on="vision", gpu=8)

    assert lab.cycles() == []
    (reason,) = [r for r in lab.why("eval") if isinstance(r, VictimsProtected)]
    assert (reason.until, reason.victims) == (1200.0, ("default/train",))
    assert lab.next_at == 1200.0

    said = lab.engine.explain(lab.entry("eval").workload.key)
    (holder,) = said.holders
    assert holder.verdict is Refusal.PROTECTED
    assert holder.stake is not None
    assert holder.stake.ran_s == 180

    assert lab.cycle(now=1200.0) == [preempt("eval", victims=["train"], why=RECLAIM)]


def test_what_is_at_stake_grows_though_nothing_is_decided() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, protects_s=600))
    lab.running("train", on="vision", gpu=8)
    key = lab.entry("train").workload.key
    assert lab.cycles() == []

    def stake(now: float) -> tuple[float, bool]:
        found = lab.engine.explain(key, now).stake
        assert found is not None
        return found.lost_s, found.protection is not None

    assert [stake(now) for now in (60.0, 599.0, 3600.0)] == [
        (60.0, True),
        (599.0, True),
        (3600.0, False),
    ]


def test_protection_counts_from_when_pods_are_ready_and_begins_with_admission() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, protects_s=600))
    lab.running("train", on="vision", gpu=8, ready=False)
    lab.later(300).pods_ready("train")
    lab.pending("urgent", on="vision", gpu=8, priority=9)

    assert lab.cycles() == []
    assert lab.next_at == 900.0


def test_who_never_gets_ready_is_protected_once_and_not_for_ever() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, protects_s=600))
    lab.running("train", on="vision", gpu=8, ready=False)
    lab.later(300).pending("urgent", on="vision", gpu=8, priority=9)
    lab.cycles()
    assert lab.cycle(now=600.0) == [preempt("urgent", victims=["train"])]


def test_of_many_the_search_waits_for_the_first_moment_at_which_enough_are_free_to_go() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, protects_s=600))
    for minute, name in enumerate(("a", "b", "c", "d")):
        lab.running(name, on="vision", gpu=2, reserved=minute * MINUTE)
    lab.now = 4 * MINUTE
    lab.pending("urgent", on="vision", gpu=4, priority=9)

    assert lab.cycles() == []
    assert lab.next_at == 11 * MINUTE  # a and b have run 10 minutes each
    assert lab.cycle(now=11 * MINUTE) == [preempt("urgent", victims=["a", "b"])]


def test_others_are_taken_instead_of_the_protected() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, protects_s=600))
    lab.running("old", on="vision", gpu=4, reserved=0.0)
    lab.now = 700.0
    lab.running("new", on="vision", gpu=4)
    lab.pending("urgent", on="vision", gpu=4, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["old"])]


# --- workloadSorting, checkpoints, milestones ---


@pytest.mark.parametrize(
    ("sorting", "first"),
    [((), "young"), ((SHORTEST,), "young"), ((LONGEST,), "old"), ((LEAST_LOST,), "saved")],
)
def test_the_queue_of_the_preemptor_says_who_goes_first(
    sorting: tuple[Sorting, ...], first: str
) -> None:
    lab = Scenario(queue("vision", gpu=12, within=LOWER, sorting=sorting))
    lab.running("old", on="vision", gpu=4, reserved=0.0)
    lab.running("saved", on="vision", gpu=4, reserved=1000.0, checkpoint=5900.0)
    lab.running("young", on="vision", gpu=4, reserved=5000.0)
    lab.now = 6000.0
    lab.pending("urgent", on="vision", gpu=4, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=[first])]


def test_priority_comes_before_every_order() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, sorting=(LEAST_LOST,)))
    lab.running("important", on="vision", gpu=4, priority=5, reserved=5999.0)
    lab.running("dear", on="vision", gpu=4, reserved=0.0)
    lab.now = 6000.0
    lab.pending("urgent", on="vision", gpu=4, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["dear"])]


def test_the_order_goes_across_queues() -> None:
    lab = Scenario(
        queue("vision", gpu=4, reclaim=ANY, sorting=(LEAST_LOST,)),
        queue("speech"),
        queue("text"),
        cohort="lab",
    )
    for part in ("speech", "text"):
        lab.change(queue(part, gpu=0, cohort="lab"))
    lab.running("dear", on="speech", gpu=2, reserved=0.0)
    lab.running("cheap", on="text", gpu=2, reserved=5900.0)
    lab.now = 6000.0
    lab.pending("eval", on="vision", gpu=2)
    assert lab.cycles() == [preempt("eval", victims=["cheap"], why=RECLAIM)]


def test_a_checkpoint_written_meanwhile_counts_and_costs_nobody_its_place() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, sorting=(LEAST_LOST,)))
    lab.running("a", on="vision", gpu=4, reserved=0.0)
    lab.running("b", on="vision", gpu=4, reserved=3000.0)
    lab.now = 6000.0
    lab.edit("a", checkpoint_at=5990.0)
    lab.pending("urgent", on="vision", gpu=4, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["a"])]


def test_milestones_of_a_workload_or_of_its_local_queue_break_ties() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER))
    key = lab.state.local_queues
    (local_queue,) = key.values()
    default = LocalQueue(
        key=local_queue.key, queue=local_queue.queue, milestones=(Milestone(0, 50),)
    )
    lab.apply(LocalQueueChanged(default))
    lab.running("cheap", on="vision", gpu=4, milestones=[(0, 100), (1000, 0)])
    lab.running("by-default", on="vision", gpu=4)
    lab.now = 600.0  # cheap costs 40 now, after 100 in the beginning
    lab.pending("urgent", on="vision", gpu=4, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["cheap"])]


@pytest.mark.parametrize(
    ("after_s", "cost"), [(0, 10), (60, 10), (90, 55), (120, 100), (300, 50), (480, 0), (9999, 0)]
)
def test_costs_are_interpolated_between_milestones_and_flat_at_the_ends(
    after_s: float, cost: float
) -> None:
    milestones = (Milestone(60, 10), Milestone(120, 100), Milestone(480, 0))
    assert cost_at(milestones, after_s) == cost


# --- onPreemption: Terminate ---


def test_one_that_ends_when_preempted_is_not_queued_again() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER))
    lab.running("notebook", on="vision", gpu=8, ends=True)
    lab.pending("urgent", on="vision", gpu=8, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["notebook"])]

    lab.let_go("notebook")
    assert lab.phase("notebook") is Phase.FINISHED
    assert lab.settle() == [admit("urgent")]


def test_its_pods_may_go_while_nobody_looks() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.pending("notebook", on="vision", gpu=8, ends=True)
    entry = lab.entry("notebook")
    lab.cycles()
    lab.apply(Evicted(entry.workload.key, EvictionReason.PREEMPTED, 1.0))
    lab.let_go("notebook")
    lab.restart()
    assert lab.phase("notebook") is Phase.FINISHED


def test_it_is_queued_again_after_any_other_eviction() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.running("notebook", on="vision", gpu=8, ends=True)
    lab.evicted("notebook", EvictionReason.QUEUE_STOPPED)
    lab.let_go("notebook")
    assert lab.phase("notebook") is Phase.PENDING


# --- aging ---


def test_who_waits_long_comes_earlier_in_line() -> None:
    lab = Scenario(queue("vision", gpu=8, strategy=STRICT, aging=Aging(600, 2, 6)))
    lab.running("train", on="vision", gpu=8)
    lab.pending("patient", on="vision", gpu=8)
    lab.now = 1000.0
    lab.pending("important", on="vision", gpu=8, priority=3)

    lab.cycles()
    assert lab.positions("vision") == ["important", "patient"]
    assert lab.next_at == 1200.0
    lab.cycle(now=1200.0)  # 2 steps of 10 minutes: 4, against 3
    assert lab.positions("vision") == ["patient", "important"]


def test_waiting_counts_no_more_than_the_maximum() -> None:
    lab = Scenario(queue("vision", gpu=8, aging=Aging(600, 2, 6)))
    lab.running("train", on="vision", gpu=8)
    lab.pending("patient", on="vision", gpu=8)
    lab.now = 90_000.0
    lab.pending("important", on="vision", gpu=8, priority=7)
    lab.cycles()
    assert lab.positions("vision") == ["important", "patient"]


def test_waiting_makes_nobody_important_enough_to_preempt() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER, aging=Aging(600, 10, 100)))
    lab.running("train", on="vision", gpu=8, priority=5)
    lab.pending("patient", on="vision", gpu=8)
    lab.now = 90_000.0
    assert lab.cycles() == []


# --- budget ---


def test_the_preemptors_of_a_queue_cause_no_more_evictions_in_an_hour_than_granted() -> None:
    lab = Scenario(queue("vision", gpu=6, within=LOWER, budget=2))
    for name in ("a", "b", "c"):
        lab.running(name, on="vision", gpu=2)
    for number in range(3):
        lab.pending(f"urgent-{number}", on="vision", gpu=2, priority=9)

    lab.now = 100.0
    said = lab.settle()
    assert sum(s.what == "preempt" for s in said) == 2
    assert BudgetSpent(limit=2, needed=1, until=3700.0) in lab.why("urgent-2")
    assert lab.next_at == 3700.0
    lab.restart(after_s=600)
    assert lab.settle() == []
    assert [s.what for s in lab.cycle(now=3700.0)] == ["preempt"]


def test_taking_back_ones_own_quota_costs_nothing() -> None:
    lab = Scenario(
        queue("vision", gpu=4, reclaim=ANY, budget=1), queue("speech", gpu=4), cohort="lab"
    )
    for name in ("a", "b", "c", "d"):
        lab.running(name, on="speech", gpu=2)
    lab.pending("one", on="vision", gpu=2)
    lab.pending("two", on="vision", gpu=2)
    assert sum(said.what == "preempt" for said in lab.settle()) == 2


def test_who_needs_more_than_the_budget_ever_has_needs_the_whole_of_it() -> None:
    lab = Scenario(queue("vision", gpu=6, within=NEWER_EQUAL, budget=2))
    for name in ("a", "b", "c"):
        lab.running(name, on="vision", gpu=2)
    lab.pending("urgent", on="vision", gpu=6, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["a", "b", "c"])]
