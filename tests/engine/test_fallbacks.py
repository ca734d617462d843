"""Flavor fallbacks: seed 001 and what design section 7 settles, bullet by bullet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.engine import events as ev
from makeway.engine.decisions import DeactivationReason, FlavorMismatch, MismatchKind
from makeway.engine.model import (
    Backoff,
    CheckName,
    CheckState,
    Config,
    EvictionReason,
    FlavorName,
    FlavorTrial,
    Phase,
    PodSetName,
    PodsReadyPolicy,
    Queue,
    QueueCheck,
    RequeueTime,
)
from tests.harness.engine import (
    HOLD,
    HOLD_AND_DRAIN,
    LOWER,
    MINUTE,
    REJECTED,
    RETRY_ALL,
    TIMEOUT,
    Said,
    Scenario,
    admit,
    deactivate,
    evict,
    exempt,
    fall_back,
    flavor,
    pods,
    preempt,
    queue,
    quota,
    requeue,
    reserve,
    rule,
    start_over,
)

NOTHING: list[Said] = []
EXHAUSTED = DeactivationReason.FLAVORS_EXHAUSTED
READY, RETRY, SAYS_NO = CheckState.READY, CheckState.RETRY, CheckState.REJECTED
TEN = 10 * MINUTE

SPOT_THEN_ON_DEMAND = {"spot": 8, "on-demand": 8}
THREE = {"reservation": 4, "spot": 100, "on-demand": 100}


def trial(flavor: str, assigned: float, exhausted: float) -> FlavorTrial:
    return FlavorTrial(FlavorName(flavor), assigned, exhausted, TIMEOUT)


def cloud(*, checks: tuple[str, ...] = ()) -> Queue:
    """Spot may run dry: after ten minutes without pods, on-demand it is."""
    return queue("q", gpu=SPOT_THEN_ON_DEMAND, checks=checks, rules=[rule("spot", minutes=10)])


# --- the seed's stories ---


def test_story_1_saturated_reservation_dry_spot_then_whatever_is_free_but_spot() -> None:
    lab = Scenario(queue("q", gpu=THREE, rules=[rule("spot", minutes=15)]))
    lab.running("holder", on="q", flavor="reservation", gpu=4)
    lab.pending("train", on="q", gpu=4)
    assert lab.cycle() == [admit("train", "spot")]

    assert lab.cycle(now=15 * MINUTE) == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycles() == [admit("train", "on-demand")]


def test_story_1_the_reservation_is_tried_first_if_it_came_free() -> None:
    lab = Scenario(queue("q", gpu=THREE, rules=[rule("spot", minutes=15)]))
    lab.running("holder", on="q", flavor="reservation", gpu=4)
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=15 * MINUTE)
    lab.finish("holder")
    lab.let_go("train")

    assert lab.cycles() == [admit("train", "reservation")]


def test_story_2_one_flavor_after_the_other() -> None:
    lab = Scenario(
        queue("q", gpu={"a": 4, "b": 4, "c": 4}, rules=[rule("a", minutes=5), rule("b", minutes=9)])
    )
    lab.pending("train", on="q", gpu=4)

    assert lab.cycle() == [admit("train", "a")]
    assert lab.cycle(now=5 * MINUTE) == [fall_back("train", "a")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "b")]
    assert lab.cycle(now=14 * MINUTE) == [fall_back("train", "b")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "c")]
    assert lab.cycle(now=999 * MINUTE) == NOTHING  # no rule, no end


def test_integration_1_the_first_is_tried_again_before_the_third() -> None:
    lab = Scenario(queue("q", gpu={"one": 4, "two": 4, "three": 4}, rules=[rule("*", minutes=10)]))
    lab.running("holder", on="q", flavor="one", gpu=4)
    lab.pending("train", on="q", gpu=4)
    assert lab.cycle() == [admit("train", "two")]
    assert lab.cycle(now=TEN) == [fall_back("train", "two")]
    lab.finish("holder")
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "one")]
    assert lab.cycle(now=2 * TEN) == [fall_back("train", "one")]
    lab.let_go("train")

    assert lab.cycle() == [admit("train", "three")]


def test_integration_2_deactivated_when_all_flavors_failed() -> None:
    lab = Scenario(queue("q", gpu={"one": 4, "two": 4}, rules=[rule("*", minutes=10)]))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=TEN)
    lab.later().let_go("train")
    assert lab.cycle() == [admit("train", "two")]

    assert lab.cycle(now=2 * TEN + 1) == [deactivate("train", EXHAUSTED)]
    assert lab.tried("train") == (trial("one", 0, TEN), trial("two", TEN + 1, 2 * TEN + 1))
    lab.let_go("train")
    assert lab.phase("train") is Phase.INACTIVE
    assert lab.cycles() == NOTHING


def test_integration_3_retry_all_flavors_starts_over_after_a_pause() -> None:
    lab = Scenario(
        queue("q", gpu={"one": 4, "two": 4}, rules=[rule("*", minutes=10)], on_failure=RETRY_ALL),
        config=Config(backoff=Backoff(base_s=60, limit=2)),
    )
    lab.pending("train", on="q", gpu=4)
    for pause in (60, 120):
        assert lab.cycles()[-1] == admit("train", "one")
        assert lab.cycle(now=lab.now + TEN) == [fall_back("train", "one")]
        lab.let_go("train")
        assert lab.cycle() == [admit("train", "two")]
        lab.later(TEN)
        assert lab.cycle() == [fall_back("train", "two", until=lab.now + pause, again=True)]
        assert lab.exhausted("train") == []
        lab.let_go("train")
        assert lab.cycles() == NOTHING
        lab.later(pause)

    assert lab.cycle() == [requeue("train"), admit("train", "one")]
    lab.later(TEN).cycle()
    lab.let_go("train")
    lab.cycle()
    assert lab.later(TEN).cycle() == [deactivate("train", DeactivationReason.REQUEUE_LIMIT)]


def test_a_check_that_refuses_at_once_cannot_spin() -> None:
    lab = Scenario(
        queue("q", gpu={"one": 4}, checks=["c"], rules=[rule("*", REJECTED)], on_failure=RETRY_ALL),
        config=Config(backoff=Backoff(base_s=60, limit=1)),
    )
    lab.check_is("c")
    lab.pending("train", on="q", gpu=4)
    assert lab.cycle() == [reserve("train", "one", checks=["c"])]
    lab.answer("train", "c", SAYS_NO)
    assert lab.cycle() == [fall_back("train", "one", until=60, again=True)]
    lab.let_go("train")
    assert lab.cycles() == NOTHING
    assert lab.cycle(now=60)[-1] == reserve("train", "one", checks=["c"])
    lab.answer("train", "c", SAYS_NO)

    assert lab.cycle() == [deactivate("train", DeactivationReason.REQUEUE_LIMIT)]


# --- the clock ---


def test_the_clock_covers_admission_checks() -> None:
    lab = Scenario(cloud(checks=("c",)))
    lab.check_is("c")
    lab.pending("train", on="q", gpu=4)
    assert lab.cycle() == [reserve("train", "spot", checks=["c"])]
    lab.later(8 * MINUTE).answer("train", "c", READY)
    assert lab.cycle() == [admit("train", "spot")]
    assert lab.next_at == TEN

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]


def test_the_clock_runs_out_though_a_check_never_answers() -> None:
    lab = Scenario(cloud(checks=("c",)))
    lab.check_is("c")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]


def test_queueing_does_not_count() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4}, rules=[rule("spot", minutes=10)]))
    lab.running("holder", on="q", gpu=4)
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(60 * MINUTE).finish("holder")
    assert lab.cycle() == [admit("train", "spot")]

    assert lab.cycle(now=69 * MINUTE) == NOTHING
    assert lab.next_at == 70 * MINUTE


def test_pods_ready_stops_the_clock_also_without_wait_for_pods_ready() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(9 * MINUTE).pods_ready("train")

    assert lab.cycle(now=600 * MINUTE) == NOTHING
    lab.pods_not_ready("train")  # a pod is lost hours later: the flavor isn't to blame
    assert lab.cycle(now=700 * MINUTE) == NOTHING
    assert lab.phase("train") is Phase.ADMITTED


def test_preempted_while_the_clock_runs_exhausts_nothing_and_starts_afresh() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4}, within=LOWER, rules=[rule("spot", minutes=10)]))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(9 * MINUTE).pending("urgent", on="q", gpu=4, priority=1)
    assert lab.cycle() == [preempt("urgent", victims=["train"])]
    assert lab.cycle(now=12 * MINUTE) == NOTHING  # its clock stopped when it was told to go
    lab.let_go("train")
    assert lab.cycle() == [admit("urgent", "spot")]
    lab.pods_ready("urgent")
    lab.later(MINUTE).finish("urgent")
    assert lab.cycle(now=60 * MINUTE) == [admit("train", "spot")]

    assert lab.cycle(now=69 * MINUTE) == NOTHING
    assert lab.cycle(now=70 * MINUTE) == [deactivate("train", EXHAUSTED)]
    assert lab.tried("train") == (trial("spot", 60 * MINUTE, 70 * MINUTE),)


def test_a_queue_that_drains_never_exhausts() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(9 * MINUTE).stop("q", HOLD_AND_DRAIN)
    assert lab.cycle() == [evict("train", EvictionReason.QUEUE_STOPPED)]
    assert lab.cycle(now=11 * MINUTE) == NOTHING
    lab.let_go("train")
    lab.later(60 * MINUTE).start("q")

    assert lab.exhausted("train") == []
    assert lab.cycle() == [admit("train", "spot")]


def test_a_manual_hold_never_exhausts() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(9 * MINUTE).edit("train", active=False)
    assert lab.cycle() == [evict("train", EvictionReason.DEACTIVATED)]
    assert lab.cycle(now=11 * MINUTE) == NOTHING
    lab.let_go("train")

    assert lab.exhausted("train") == []


def test_time_on_hold_with_the_flavor_held_counts_like_any_other() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.stop("q", HOLD)  # lets run what runs

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]


def test_the_rule_stands_in_for_wait_for_pods_ready() -> None:
    lab = Scenario(
        cloud(),
        config=Config(
            pods_ready=PodsReadyPolicy(timeout_s=60), backoff=Backoff(base_s=30, limit=0)
        ),
    )
    lab.pending("train", on="q", gpu=4)
    lab.cycle()

    assert lab.cycle(now=5 * MINUTE) == NOTHING  # a minute would have been enough else
    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]
    assert lab.entry("train").status.requeue_count == 0  # and it does not count to the limit
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand")]
    # Where no rule stands in, waitForPodsReady is what it was.
    assert lab.cycle(now=TEN + 60) == [deactivate("train", DeactivationReason.REQUEUE_LIMIT)]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param(RequeueTime.CREATION, ["train", "other"], id="front"),
        pytest.param(RequeueTime.EVICTION, ["other", "train"], id="back"),
    ],
)
def test_it_is_requeued_by_pods_ready_timeout(time: RequeueTime, expected: list[str]) -> None:
    lab = Scenario(cloud(), config=Config(after_pods_ready_timeout=time))
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.running("big", on="q", flavor="on-demand", gpu=8)
    lab.later().pending("other", on="q", gpu=8)
    lab.cycle(now=TEN)
    lab.let_go("train")

    assert lab.line("q") == expected


# --- several flavors at once ---


def test_a_common_cpu_flavor_is_not_blamed_for_a_dry_gpu_flavor() -> None:
    lab = Scenario(
        queue("q", cpu={"x86": 8}, gpu=SPOT_THEN_ON_DEMAND, rules=[rule("*", minutes=10)])
    )
    lab.pending("train", on="q", cpu=4, gpu=4)
    assert lab.cycle() == [admit("train", "spot+x86")]

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand+x86")]


def test_all_that_are_due_fire_if_none_has_an_alternative() -> None:
    lab = Scenario(queue("q", cpu={"x86": 8}, gpu={"spot": 8}, rules=[rule("*", minutes=10)]))
    lab.pending("train", on="q", cpu=4, gpu=4)
    lab.cycle()

    assert lab.cycle(now=TEN) == [deactivate("train", EXHAUSTED)]
    assert lab.tried("train") == (trial("spot", 0, TEN), trial("x86", 0, TEN))


def test_only_those_whose_own_rule_is_due_fire() -> None:
    rules = [rule("x86", minutes=5), rule("spot", minutes=10)]
    lab = Scenario(queue("q", cpu={"x86": 8, "arm": 8}, gpu=SPOT_THEN_ON_DEMAND, rules=rules))
    lab.pending("train", on="q", cpu=4, gpu=4)
    lab.cycles()
    assert lab.next_at == 5 * MINUTE

    assert lab.cycle(now=5 * MINUTE) == [fall_back("train", "x86")]
    lab.let_go("train")
    assert lab.cycles() == [admit("train", "arm+spot")]
    assert lab.next_at == 15 * MINUTE  # spot was assigned anew


def test_an_alternative_must_be_one_the_workload_could_ever_get() -> None:
    lab = Scenario(
        queue("q", cpu={"x86": 8, "arm": 2}, gpu=SPOT_THEN_ON_DEMAND, rules=[rule("*", minutes=10)])
    )
    lab.pending("train", on="q", cpu=4, gpu=4)  # four cpus: arm never has that many
    lab.cycle()

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]


def test_flavors_of_pod_sets_that_are_ready_are_not_blamed() -> None:
    lab = Scenario(
        queue("q", gpu={"spot": 4, "mid": 4, "on-demand": 9}, rules=[rule("*", minutes=10)])
    )
    lab.pending("train", pods("lead", gpu=4), pods("work", gpu=4), on="q")
    assert lab.cycle() == [admit("train", "mid+spot")]
    lab.later(MINUTE).pods_not_ready("train", but=["lead"])

    assert lab.cycle(now=TEN) == [fall_back("train", "mid")]


# --- admission checks as a trigger ---


def test_rejected_with_a_rule_exhausts_the_flavor() -> None:
    lab = Scenario(
        queue("q", gpu=SPOT_THEN_ON_DEMAND, checks=["prov"], rules=[rule("*", REJECTED)])
    )
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", SAYS_NO)

    assert lab.cycle() == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycle() == [reserve("train", "on-demand", checks=["prov"])]


def test_only_flavors_that_the_check_covers_are_exhausted() -> None:
    check = QueueCheck(CheckName("prov"), frozenset({FlavorName("spot")}))
    lab = Scenario(
        queue(
            "q",
            cpu={"x86": 8, "arm": 8},
            gpu=SPOT_THEN_ON_DEMAND,
            checks=[check],
            rules=[rule("*", REJECTED)],
        )
    )
    lab.check_is("prov")
    lab.pending("train", on="q", cpu=1, gpu=4)
    lab.cycle()
    lab.answer("train", "prov", SAYS_NO)

    assert lab.cycle() == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand+x86")]  # no check for on-demand


def test_rejected_without_a_rule_deactivates_as_in_kueue() -> None:
    lab = Scenario(cloud(checks=("prov",)))  # its only rule is for timeouts
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", SAYS_NO)

    assert lab.cycle() == [deactivate("train", DeactivationReason.CHECK_REJECTED)]
    assert lab.exhausted("train") == []


def test_retry_exhausts_nothing() -> None:
    lab = Scenario(
        queue("q", gpu=SPOT_THEN_ON_DEMAND, checks=["prov"], rules=[rule("*", REJECTED)])
    )
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", RETRY, retry_after=30)
    assert lab.cycle() == [evict("train", EvictionReason.ADMISSION_CHECK, until=30)]
    lab.let_go("train")

    assert lab.cycle(now=30) == [requeue("train"), reserve("train", "spot", checks=["prov"])]


# --- which rule ---


def test_a_rule_that_names_the_flavor_wins_over_the_star() -> None:
    rules = [rule("*", minutes=1), rule("spot", minutes=10)]
    lab = Scenario(queue("q", gpu=SPOT_THEN_ON_DEMAND, rules=rules))
    lab.pending("train", on="q", gpu=4)
    lab.cycles()

    assert lab.next_at == TEN


def test_a_named_rule_for_one_trigger_leaves_the_star_for_the_other() -> None:
    rules = [rule("*", REJECTED), rule("spot", minutes=10)]
    lab = Scenario(queue("q", gpu=SPOT_THEN_ON_DEMAND, checks=["prov"], rules=rules))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", SAYS_NO)

    assert lab.cycle() == [fall_back("train", "spot")]


def test_a_rule_with_only_a_name_exempts_from_the_star() -> None:
    lab = Scenario(
        queue("q", gpu=SPOT_THEN_ON_DEMAND, rules=[rule("*", minutes=10), exempt("spot")])
    )
    lab.pending("train", on="q", gpu=4)
    lab.cycle()

    assert lab.cycle(now=999 * MINUTE) == NOTHING


def test_a_rule_that_comes_while_the_flavor_is_held_counts_from_its_assignment() -> None:
    lab = Scenario(queue("q", gpu=SPOT_THEN_ON_DEMAND))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(4 * MINUTE)
    lab.edit_fallbacks("q", rule("spot", minutes=10))
    assert lab.cycle() == NOTHING

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]


def test_an_entry_counts_only_while_a_rule_for_it_exists() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=TEN)
    lab.edit_fallbacks("q")
    lab.let_go("train")

    assert lab.cycle() == [admit("train", "spot")]


def test_a_rule_of_the_other_trigger_does_not_keep_an_entry_alive() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=TEN)
    lab.edit_fallbacks("q", rule("spot", REJECTED))
    lab.let_go("train")

    assert lab.cycle() == [admit("train", "spot")]


# --- waiting with exhausted flavors ---


def test_an_exhausted_flavor_is_passed_over_like_one_that_does_not_match() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.running("holder", on="q", flavor="on-demand", gpu=8)
    lab.cycle(now=TEN)
    lab.let_go("train")

    assert lab.cycles() == NOTHING  # spot is free, but not for train
    assert FlavorMismatch(
        PodSetName("main"), FlavorName("spot"), MismatchKind.EXHAUSTED
    ) in lab.why("train")


def test_exhausted_flavors_are_part_of_the_shape() -> None:
    lab = Scenario(cloud())
    lab.pending("tried", on="q", gpu=8)
    lab.cycle()
    lab.running("holder", on="q", flavor="on-demand", gpu=8)
    lab.later().pending("fresh", on="q", gpu=8)
    lab.cycle(now=TEN)
    lab.edit("tried", priority=1)
    lab.edit("fresh", priority=1)
    lab.let_go("tried")

    assert lab.cycles() == [admit("fresh", "spot")]  # not parked along with the other


def test_what_was_left_to_try_is_gone_deactivates_a_waiting_workload() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.running("holder", on="q", flavor="on-demand", gpu=8)
    lab.cycle(now=TEN)
    lab.let_go("train")
    assert lab.cycles() == NOTHING
    lab.change(queue("q", gpu={"spot": 8, "on-demand": 4}, rules=[rule("spot", minutes=10)]))

    assert lab.cycles() == [deactivate("train", EXHAUSTED)]
    assert lab.tried("train") == (trial("spot", 0, TEN),)


def test_or_it_starts_over_after_a_pause() -> None:
    lab = Scenario(cloud(), config=Config(backoff=Backoff(base_s=60)))
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.running("holder", on="q", flavor="on-demand", gpu=8)
    lab.cycle(now=TEN)
    lab.let_go("train")
    lab.cycles()
    lab.change(
        queue(
            "q",
            gpu={"spot": 8, "on-demand": 4},
            rules=[rule("spot", minutes=10)],
            on_failure=RETRY_ALL,
        )
    )

    assert lab.cycles() == [start_over("train", until=TEN + 60)]
    assert lab.cycle(now=TEN + 60) == [requeue("train"), admit("train", "spot")]


def test_scan_memory_is_reset_by_a_fallback() -> None:
    lab = Scenario(
        queue("q", gpu={"one": 4, "two": 4, "three": 4}, rules=[rule("two", minutes=10)])
    )
    lab.running("holder", on="q", flavor="one", gpu=4)
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=TEN)

    assert lab.entry("train").search.scan is None


# --- forgiving ---


def on_demand_after_dry_spot() -> Scenario:
    lab = Scenario(
        queue("q", gpu=SPOT_THEN_ON_DEMAND, within=LOWER, rules=[rule("spot", minutes=10)]),
        queue("other", gpu={"spot": 8, "large": 8}, rules=[rule("spot", minutes=10)]),
    )
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.cycle(now=TEN)
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand")]
    assert lab.exhausted("train") == ["spot"]
    return lab


def test_pods_ready_forgives_only_the_flavors_they_run_on() -> None:
    """Spot was dry, on-demand works: that says nothing about spot."""
    lab = on_demand_after_dry_spot()
    lab.later(5).pods_ready("train")
    assert lab.exhausted("train") == ["spot"]
    lab.running("holder", on="q", flavor="spot", gpu=8, priority=5)
    lab.pending("urgent", on="q", gpu=8, priority=5)
    assert lab.cycle() == [preempt("urgent", victims=["train"])]
    lab.let_go("train")
    lab.cycle()
    lab.finish("holder")
    assert lab.cycle() == NOTHING  # spot is free, and passed over
    lab.finish("urgent")

    assert lab.cycle() == [admit("train", "on-demand")]


def test_what_failed_once_and_then_ran_is_forgiven() -> None:
    lab = on_demand_after_dry_spot()
    lab.edit_fallbacks("q")  # without a rule spot may be had again
    lab.evicted("train", EvictionReason.DEACTIVATED)
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "spot")]
    lab.pods_ready("train")

    lab.edit_fallbacks("q", rule("spot", minutes=10))
    assert lab.exhausted("train") == []


def test_another_priority_clears_nothing() -> None:
    lab = on_demand_after_dry_spot()
    lab.edit("train", priority=3)

    assert lab.exhausted("train") == ["spot"]


def test_active_again_by_hand_clears_the_history() -> None:
    lab = on_demand_after_dry_spot()
    lab.edit("train", active=False)
    assert lab.cycle() == [evict("train", EvictionReason.DEACTIVATED)]
    lab.let_go("train")
    assert lab.exhausted("train") == ["spot"]
    lab.edit("train", active=True)

    assert lab.cycle() == [admit("train", "spot")]


def test_active_again_by_hand_before_the_pods_are_gone_clears_it_too() -> None:
    lab = Scenario(queue("q", gpu={"spot": 8}, rules=[rule("spot", minutes=10)]))
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    assert lab.cycle(now=TEN) == [deactivate("train", EXHAUSTED)]
    lab.edit("train", active=True)
    lab.let_go("train")

    assert lab.cycle() == [admit("train", "spot")]


def test_a_change_of_queue_clears_the_history() -> None:
    lab = on_demand_after_dry_spot()
    lab.running("holder", on="q", flavor="spot", gpu=8, priority=5)
    lab.later().pending("urgent", on="q", gpu=8, priority=5)
    lab.cycle()
    lab.let_go("train")
    lab.edit("train", on="other")

    assert lab.cycle() == [admit("urgent", "on-demand"), admit("train", "spot")]


def test_so_does_a_local_queue_that_points_elsewhere() -> None:
    lab = on_demand_after_dry_spot()
    lab.running("holder", on="q", flavor="spot", gpu=8, priority=5)
    lab.later().pending("urgent", on="q", gpu=8, priority=5)
    lab.cycle()
    lab.let_go("train")
    lab.cycle()
    lab.local_queue("q", to="other")

    assert lab.cycle() == [admit("train", "spot")]


# --- after a restart ---


def test_history_survives_a_restart() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.cycle(now=TEN)
    lab.let_go("train")
    lab.restart(after_s=60)

    assert lab.exhausted("train") == ["spot"]
    assert lab.cycle() == [admit("train", "on-demand")]


def test_so_does_what_makes_its_shape_in_whichever_order_things_are_seen() -> None:
    lab = Scenario(cloud())
    lab.pending("tried", on="q", gpu=8)
    lab.cycle()
    lab.running("holder", on="q", flavor="on-demand", gpu=8)
    lab.cycle(now=TEN)
    lab.pending("fresh", on="q", gpu=8, created=TEN + 1)
    lab.let_go("tried")
    lab.restart(workloads_first=True)

    assert lab.cycles() == [admit("fresh", "spot")]  # not parked along with the other


@pytest.mark.parametrize(
    ("down_s", "fires_at"),
    [
        pytest.param(60, TEN, id="a minute"),
        pytest.param(3600, 3780, id="longer than the timeout: at once"),
    ],
)
def test_after_a_restart_the_clock_has_what_was_left(down_s: float, fires_at: float) -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.later(2 * MINUTE).restart(after_s=down_s)
    assert lab.cycle() == NOTHING
    lab.later(60).pods_not_ready("train")

    if fires_at > lab.now:
        assert lab.cycle() == NOTHING
        assert lab.next_at == fires_at
    assert lab.cycle(now=fires_at) == [fall_back("train", "spot")]


def test_after_a_restart_nothing_fires_before_the_pods_were_seen() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.restart(after_s=5 * TEN)

    assert lab.cycle() == NOTHING
    assert lab.cycle(now=lab.now + TEN) == NOTHING
    lab.pods_ready("train")  # they were running all the while
    assert lab.cycle() == NOTHING
    assert lab.phase("train") is Phase.ADMITTED


def test_after_a_restart_it_is_still_known_that_the_pods_had_been_ready() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.pods_ready("train")
    lab.later(2 * TEN).pods_not_ready("train")
    lab.restart()
    lab.pods_not_ready("train")

    assert lab.cycle() == NOTHING


def test_pods_lost_while_nobody_looked_are_not_the_flavor_s_fault_either() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    lab.pods_ready("train")
    lab.restart(after_s=2 * TEN)
    lab.pods_not_ready("train")

    assert lab.cycle() == NOTHING


def test_after_the_clock_was_set_back_no_more_than_the_whole_time_is_left() -> None:
    lab = Scenario(cloud())
    lab.later(1000 * MINUTE).pending("train", on="q", gpu=8)
    lab.cycle()
    lab.restart(clock_jump_s=-500 * MINUTE)
    lab.pods_not_ready("train")
    lab.cycle()

    assert lab.next_at == lab.now + TEN
    lab.later(5 * MINUTE).pods_not_ready("train")
    assert lab.cycle() == NOTHING
    assert lab.later(5 * MINUTE).cycle() == [fall_back("train", "spot")]


def test_an_eviction_on_its_way_is_not_repeated_after_a_restart() -> None:
    lab = Scenario(cloud())
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]
    lab.restart(after_s=5)
    lab.pods_not_ready("train")

    assert lab.cycle() == NOTHING
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand")]


def test_borrowed_quota_counts_as_an_alternative() -> None:
    lab = Scenario(
        queue("q", gpu={"spot": 8, "on-demand": quota(0, borrow=8)}, rules=[rule("*", minutes=10)]),
        queue("lender", gpu={"on-demand": 8}),
        cohort="lab",
    )
    lab.pending("train", on="q", gpu=8)
    lab.cycle()

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand")]


def test_a_check_that_refuses_who_is_leaving_already_exhausts_nothing() -> None:
    lab = Scenario(
        queue("q", gpu={"spot": 4}, within=LOWER, checks=["prov"], rules=[rule("*", REJECTED)])
    )
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.pending("urgent", on="q", gpu=4, priority=1)
    assert lab.cycle() == [preempt("urgent", victims=["train"])]
    lab.answer("train", "prov", SAYS_NO)

    assert lab.cycles() == NOTHING
    lab.let_go("train")
    assert lab.exhausted("train") == []
    assert lab.phase("train") is Phase.PENDING


def test_active_again_by_hand_while_the_engine_was_down_clears_the_history() -> None:
    lab = Scenario(queue("q", gpu={"spot": 8}, rules=[rule("spot", minutes=10)]))
    lab.pending("train", on="q", gpu=8)
    lab.cycle()
    assert lab.cycle(now=TEN) == [deactivate("train", EXHAUSTED)]
    lab.let_go("train")
    status = lab.entry("train").status
    wanted = replace(lab.entry("train").workload, active=True)
    lab.remove("train")
    lab.apply(ev.WorkloadSeen(wanted, status))

    assert lab.cycle() == [admit("train", "spot")]


def test_moved_to_another_queue_while_it_runs_it_is_judged_there_only_after_its_next_start() -> (
    None
):
    lab = on_demand_after_dry_spot()
    lab.edit("train", on="other")

    assert lab.cycles() == NOTHING
    assert lab.used("q", flavor="on-demand") == 8
    lab.evicted("train", EvictionReason.PREEMPTED)
    lab.let_go("train")
    assert lab.cycles() == [admit("train", "spot")]
    assert lab.used("other", flavor="spot") == 8


def test_two_pod_sets_on_the_same_dry_flavor_fall_back_together() -> None:
    lab = Scenario(cloud())
    lab.pending("train", pods("lead", gpu=4), pods("work", gpu=4), on="q")
    assert lab.cycle() == [admit("train", "spot")]

    assert lab.cycle(now=TEN) == [fall_back("train", "spot")]
    lab.let_go("train")
    assert lab.cycle() == [admit("train", "on-demand")]


def test_a_pod_set_that_cannot_leave_its_flavor_keeps_it_from_being_blamed() -> None:
    lab = Scenario(
        flavor("spot", kind="spot"),
        flavor("on-demand", kind="on-demand"),
        queue(
            "q", gpu=SPOT_THEN_ON_DEMAND, cpu={"x86": 8, "arm": 8}, rules=[rule("*", minutes=10)]
        ),
    )
    lab.pending("train", pods("main", gpu=4, cpu=4, selector={"kind": "spot"}), on="q")
    assert lab.cycle() == [admit("train", "spot+x86")]

    assert lab.cycle(now=TEN) == [fall_back("train", "x86")]  # the only one it can do without


def test_the_timeout_fires_only_for_the_workload_whose_pods_are_late() -> None:
    lab = Scenario(cloud())
    lab.pending("quick", on="q", gpu=4)
    lab.pending("late", on="q", gpu=4)
    assert lab.cycles() == [admit("quick", "spot"), admit("late", "spot")]
    lab.later(MINUTE).pods_ready("quick")

    assert lab.cycle(now=TEN) == [fall_back("late", "spot")]
    lab.later().pending("new", on="q", gpu=4)
    lab.let_go("late")
    assert lab.cycles() == [admit("late", "on-demand"), admit("new", "spot")]
