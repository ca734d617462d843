"""Changes while things run: each has a defined outcome, and none a crash."""

from __future__ import annotations

import pytest

from makeway.engine import events as ev
from makeway.engine.decisions import DeactivationReason, NamespaceNotAdmitted
from makeway.engine.model import (
    Backoff,
    CheckName,
    CheckState,
    CohortName,
    Config,
    EvictionReason,
    FlavorName,
    Inactive,
    LocalQueueKey,
    NamespaceSelector,
    Phase,
    PodsReadyPolicy,
    QueueName,
    Strategy,
)
from makeway.selectors import Requirement
from tests.harness.engine import (
    ANY,
    HOLD,
    HOLD_AND_DRAIN,
    LOWER,
    RECLAIM,
    STRICT,
    Said,
    Scenario,
    admit,
    cohort,
    deactivate,
    evict,
    flavor,
    pods,
    preempt,
    queue,
    quota,
    requeue,
    reserve,
    rule,
)

NOTHING: list[Said] = []
LAB = CohortName("lab")


def why_inactive(lab: Scenario, name: str) -> Inactive | None:
    return lab.state.queues[QueueName(name)].inactive


# --- quota and cohorts ---


def test_more_quota_wakes_who_waits_for_it() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("train", on="q", gpu=6)
    assert lab.cycles() == NOTHING
    lab.change(queue("q", gpu=6))

    assert lab.cycles() == [admit("train")]


def test_more_quota_of_a_cohort_wakes_those_below_it() -> None:
    lab = Scenario(cohort("lab", gpu=2), queue("q", cohort="lab", gpu=2))
    lab.pending("train", on="q", gpu=6)
    assert lab.cycles() == NOTHING
    lab.change(cohort("lab", gpu=4))

    assert lab.cycles() == [admit("train")]


def test_quota_shrunk_below_usage_stops_nothing_and_admits_nothing() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.change(queue("q", gpu=6, within=LOWER))
    lab.pending("train", on="q", gpu=1)

    assert lab.cycles() == NOTHING
    assert lab.used("q") == 8
    lab.finish("a")
    assert lab.cycles() == [admit("train")]


def test_a_queue_that_joins_a_cohort_lends_to_it() -> None:
    lab = Scenario(queue("mine", cohort="lab", gpu=2), queue("rich", gpu=6))
    lab.running("theirs", on="rich", gpu=2)
    lab.pending("train", on="mine", gpu=6)
    assert lab.cycles() == NOTHING
    lab.edit_queue("rich", cohort=LAB)

    assert lab.cycles() == [admit("train")]


def test_a_queue_that_leaves_takes_its_quota_along_and_its_borrowers_keep_running() -> None:
    lab = Scenario(queue("mine", gpu=2), queue("rich", gpu=6, reclaim=ANY), cohort="lab")
    lab.running("train", on="mine", gpu=8)
    lab.edit_queue("rich", cohort=None)
    lab.pending("owner", on="rich", gpu=6)
    lab.pending("more", on="mine", gpu=1)

    assert lab.cycles() == [admit("owner")]
    assert lab.phase("train") is Phase.ADMITTED


def test_moved_to_another_cohort_its_usage_counts_there() -> None:
    lab = Scenario(
        queue("mine", cohort="lab", gpu=2),
        queue("rich", cohort="lab", gpu=6),
        queue("poor", cohort="ops", gpu=2),
    )
    lab.running("train", on="mine", gpu=4)
    lab.edit_queue("mine", cohort=CohortName("ops"))
    lab.pending("small", on="poor", gpu=1)
    lab.pending("large", on="rich", gpu=6)

    assert lab.cycles() == [admit("large")]  # ops has 4, and train uses them all


def test_a_cohort_that_is_removed_leaves_its_queues_together_without_its_quota() -> None:
    lab = Scenario(
        cohort("lab", gpu=4, parent="campus"),
        queue("a", cohort="lab", gpu=2),
        queue("b", cohort="lab", gpu=2),
        queue("far", cohort="campus", gpu=9),
    )
    lab.running("train", on="a", gpu=5)
    lab.apply(ev.CohortRemoved(LAB))
    lab.pending("more", on="b", gpu=1)

    assert lab.cycles() == NOTHING  # a and b have 4 between them now, and 5 are used
    lab.finish("train")
    assert lab.cycles() == [admit("more")]


def test_a_cohort_cycle_makes_its_queues_inactive_and_crashes_nothing() -> None:
    lab = Scenario(
        cohort("a", parent="b"),
        cohort("b", parent="c"),
        queue("in-a", cohort="a", gpu=4),
        queue("in-b", cohort="b", gpu=4),
        queue("outside", gpu=4),
    )
    lab.running("train", on="in-a", gpu=2)
    lab.change(cohort("c", parent="a"))
    lab.pending("one", on="in-a", gpu=1)
    lab.pending("two", on="in-b", gpu=1)
    lab.pending("three", on="outside", gpu=1)

    assert lab.cycles() == [admit("three")]
    assert why_inactive(lab, "in-a") is Inactive.COHORT_CYCLE
    lab.change(cohort("c"))
    assert lab.cycles() == [admit("one"), admit("two")]


def test_usage_is_right_though_things_end_and_start_between_an_edit_and_the_next_cycle() -> None:
    lab = Scenario(queue("a", gpu=quota(4, lend=2)), queue("b", gpu=quota(4, lend=3)), cohort="lab")
    lab.running("one", on="a", gpu=6)
    lab.running("two", on="b", gpu=1)
    lab.change(queue("a", cohort="lab", gpu=quota(4, lend=1)))
    lab.finish("one")
    lab.running("three", pods("main", 4, gpu=1), on="a")
    lab.change(cohort("lab", gpu=1))
    lab.give_back("three", main=1)  # 3 are left, which is what a keeps
    lab.pending("next", on="b", gpu=5)  # 1 of the cohort's, 1 of a's, 3 of its own

    assert lab.cycles() == [admit("next")]
    assert (lab.used("a"), lab.used("b")) == (3, 6)


def test_a_cohort_may_get_a_parent_while_its_queues_are_busy() -> None:
    lab = Scenario(queue("vision", cohort="lab", gpu=4), queue("physics", cohort="campus", gpu=4))
    lab.running("train", on="vision", gpu=4)
    lab.pending("more", on="vision", gpu=2)
    assert lab.cycles() == NOTHING
    lab.change(cohort("lab", parent="campus"))

    assert lab.cycles() == [admit("more")]


# --- queues stopped, deleted and back ---


def test_a_queue_on_hold_lets_run_what_runs_and_admits_nothing() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=2)
    lab.stop("q", HOLD)
    lab.pending("more", on="q", gpu=2)

    assert lab.cycles() == NOTHING
    lab.start("q")
    assert lab.cycles() == [admit("more")]


def test_a_queue_that_drains_stops_what_runs_and_lets_it_back_afterwards() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=2)
    lab.stop("q", HOLD_AND_DRAIN)

    assert lab.cycles() == [evict("train", EvictionReason.QUEUE_STOPPED)]
    lab.let_go("train")
    assert lab.cycles() == NOTHING
    lab.start("q")
    assert lab.cycles() == [admit("train")]


def test_a_queue_that_is_deleted_leaves_its_workloads_running_uncounted() -> None:
    lab = Scenario(queue("q", gpu=4), queue("neighbour", gpu=4), cohort="lab")
    lab.running("train", on="q", gpu=6)
    lab.pending("waiting", on="q", gpu=1)
    lab.apply(ev.QueueRemoved(QueueName("q")))
    lab.pending("next", on="neighbour", gpu=4)

    assert lab.cycles() == [admit("next")]
    assert lab.phase("train") is Phase.ADMITTED
    assert lab.entry("waiting").queue is None


def test_and_counts_them_again_when_it_is_back() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=3)
    lab.running("short", on="q", gpu=1)
    lab.pending("waiting", on="q", gpu=2)
    lab.apply(ev.QueueRemoved(QueueName("q")))
    lab.finish("short")  # while it is gone
    assert lab.cycles() == NOTHING
    lab.change(queue("q", gpu=4))

    assert lab.used("q") == 3
    assert lab.cycles() == NOTHING
    lab.finish("train")
    assert lab.cycles() == [admit("waiting")]


def test_a_deleted_queue_frees_the_place_that_was_kept_for_its_preemptor() -> None:
    lab = Scenario(
        queue("owner", gpu=8, reclaim=ANY),
        queue("guest", gpu=0),
        queue("lender", gpu=4),
        cohort="lab",
    )
    lab.running("a", on="guest", gpu=4)
    lab.running("b", on="guest", gpu=8)
    lab.pending("big", on="owner", gpu=8)
    assert lab.cycle() == [preempt("big", victims=["b"], why=RECLAIM)]
    lab.finish("a")
    lab.pending("c", on="guest", gpu=4)
    assert lab.cycles() == [admit("c")]  # beside the place that is kept
    lab.finish("c")
    lab.apply(ev.QueueRemoved(QueueName("owner")))
    lab.let_go("b")
    lab.pending("d", on="guest", gpu=4)

    assert lab.cycles() == [admit("d")]


def test_who_lets_go_while_its_queue_is_gone_waits_for_its_return() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("train", on="q", gpu=4)
    lab.pending("urgent", on="q", gpu=4, priority=1)
    lab.cycle()
    lab.apply(ev.QueueRemoved(QueueName("q")))
    lab.let_go("train")
    assert lab.cycles() == NOTHING
    lab.change(queue("q", gpu=8, within=LOWER))

    assert lab.cycles() == [admit("urgent"), admit("train")]


def test_what_was_said_while_its_queue_was_gone_is_heard_when_that_is_back() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=4)
    lab.apply(ev.QueueRemoved(QueueName("q")))
    lab.local_queue("q", to="q", stop=HOLD_AND_DRAIN)
    assert lab.cycles() == NOTHING
    lab.change(queue("q", gpu=4))

    assert lab.cycles() == [evict("train", EvictionReason.LOCAL_QUEUE_STOPPED)]


def test_a_queue_deleted_and_back_within_one_cycle_is_as_it_was() -> None:
    lab = Scenario(queue("q", gpu=4), queue("neighbour", gpu=4), cohort="lab")
    lab.running("train", on="q", gpu=6)
    lab.pending("next", on="q", gpu=2)
    lab.apply(ev.QueueRemoved(QueueName("q")))
    lab.change(queue("q", cohort="lab", gpu=4))

    assert lab.cycles() == [admit("next")]
    assert lab.used("q") == 8


def test_a_local_queue_on_hold_is_in_no_line_and_comes_back() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=2)
    lab.pending("waiting", on="q", gpu=2)
    lab.local_queue("q", to="q", stop=HOLD)

    assert lab.cycles() == NOTHING
    assert lab.line("q") == lab.parked("q") == []
    lab.local_queue("q", to="q")
    assert lab.cycles() == [admit("waiting")]


def test_a_local_queue_that_drains_stops_only_its_own() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.local_queue("side", to="q")
    lab.running("mine", on="side", gpu=2)
    lab.running("other", on="q", gpu=2)
    lab.local_queue("side", to="q", stop=HOLD_AND_DRAIN)

    assert lab.cycles() == [evict("mine", EvictionReason.LOCAL_QUEUE_STOPPED)]
    lab.let_go("mine")
    assert lab.cycles() == NOTHING
    lab.local_queue("side", to="q")
    assert lab.cycles() == [admit("mine")]


def test_a_local_queue_that_moves_takes_who_waits_along() -> None:
    lab = Scenario(queue("full", gpu=2), queue("free", gpu=2))
    lab.running("train", on="full", gpu=2)
    lab.pending("waiting", on="full", gpu=2)
    assert lab.cycles() == NOTHING
    lab.local_queue("full", to="free")

    assert lab.cycles() == [admit("waiting")]
    assert lab.used("free") == 2
    assert lab.used("full") == 2  # train holds what it holds


def test_a_local_queue_that_is_removed_leaves_its_workloads_waiting_for_it() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("waiting", on="q", gpu=2)
    lab.apply(ev.LocalQueueRemoved(LocalQueueKey("default/q")))
    assert lab.cycles() == NOTHING
    lab.local_queue("q", to="q")

    assert lab.cycles() == [admit("waiting")]


# --- flavors, checks, namespaces ---


def test_a_queue_whose_flavor_is_removed_is_inactive_until_it_is_back() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4, "on-demand": 4}))
    lab.running("train", on="q", flavor="spot", gpu=2)
    lab.apply(ev.FlavorRemoved(FlavorName("spot")))
    lab.pending("more", on="q", gpu=1)

    assert lab.cycles() == NOTHING
    assert why_inactive(lab, "q") is Inactive.FLAVOR_NOT_FOUND
    assert lab.phase("train") is Phase.ADMITTED
    lab.change(flavor("spot"))
    assert lab.cycles() == [admit("more", "spot")]


def test_a_flavor_dropped_from_a_queue_is_charged_until_its_holder_ends() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4, "on-demand": 4}))
    lab.running("train", on="q", flavor="spot", gpu=4)
    lab.change(queue("q", gpu={"on-demand": 4}))
    lab.pending("more", on="q", gpu=4)

    assert lab.cycles() == [admit("more", "on-demand")]
    assert lab.used("q", flavor="spot") == 4
    lab.finish("train")
    assert lab.used("q", flavor="spot") == 0


def test_a_queue_is_inactive_until_its_admission_check_is_there_and_active() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.pending("train", on="q", gpu=1)
    assert lab.cycles() == NOTHING
    assert why_inactive(lab, "q") is Inactive.CHECK_NOT_FOUND
    lab.check_is("prov", active=False)
    assert lab.cycles() == NOTHING
    assert why_inactive(lab, "q") is Inactive.CHECK_INACTIVE
    lab.check_is("prov")

    assert lab.cycles() == [reserve("train", checks=["prov"])]
    lab.apply(ev.CheckRemoved(CheckName("prov")))
    lab.answer("train", "prov", CheckState.READY)
    assert lab.cycles() == [admit("train")]  # what holds quota goes its way


def test_a_check_dropped_from_the_queue_is_waited_for_no_longer() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=1)
    lab.cycles()
    lab.edit_queue("q", checks=())

    assert lab.cycles() == [admit("train")]


@pytest.mark.parametrize("strategy", list(Strategy), ids=lambda s: s.value)
def test_new_labels_of_its_namespace_wake_a_head_that_did_not_match(strategy: Strategy) -> None:
    vision = NamespaceSelector((Requirement("team", "In", ("vision",)),))
    lab = Scenario(queue("q", gpu=4, namespaces=vision, strategy=strategy))
    lab.pending("train", on="q", gpu=1)

    assert lab.cycles() == NOTHING
    assert lab.why("train") == (NamespaceNotAdmitted("default"),)
    lab.apply(ev.NamespaceChanged("default", {"team": "vision"}))
    assert lab.cycles() == [admit("train")]


def test_so_does_another_selector_of_the_queue() -> None:
    lab = Scenario(queue("q", gpu=4, namespaces=None, strategy=STRICT))
    lab.pending("train", on="q", gpu=1)
    assert lab.cycles() == NOTHING
    lab.edit_queue("q", namespaces=NamespaceSelector())

    assert lab.cycles() == [admit("train")]


# --- policies ---


def test_a_new_preemption_policy_wakes_who_could_use_it() -> None:
    lab = Scenario(queue("mine", gpu=4), queue("theirs", gpu=0), cohort="lab")
    lab.running("guest", on="theirs", gpu=4)
    lab.pending("train", on="mine", gpu=4)
    assert lab.cycles() == NOTHING
    lab.change(queue("mine", cohort="lab", gpu=4, reclaim=ANY))

    assert lab.cycles() == [preempt("train", victims=["guest"], why=RECLAIM)]


def test_a_new_configuration_counts_at_once() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.later(100)
    lab.apply(ev.ConfigChanged(Config(pods_ready=PodsReadyPolicy(timeout_s=60))))

    assert lab.cycle() == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=160)]


# --- workloads ---


def test_a_new_priority_moves_who_waits() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("first", on="q", gpu=4)
    lab.later().pending("second", on="q", gpu=4)
    lab.edit("second", priority=1)

    assert lab.cycle() == [admit("second")]


def test_a_new_priority_lets_a_parked_workload_try_again() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("holder", on="q", gpu=4)
    lab.pending("train", on="q", gpu=4)
    assert lab.cycles() == NOTHING
    lab.edit("train", priority=1)

    assert lab.cycles() == [preempt("train", victims=["holder"])]


def test_a_new_priority_of_what_runs_counts_when_victims_are_sought() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4, priority=1)
    lab.running("b", on="q", gpu=4, priority=2)
    lab.edit("a", priority=3)
    lab.pending("train", on="q", gpu=4, priority=5)

    assert lab.cycles() == [preempt("train", victims=["b"])]


def test_who_lowers_its_guard_may_be_preempted_by_who_waits_already() -> None:
    """Checkpointed: the owner of a running job lowers its preemption priority."""
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("holder", on="q", gpu=4, priority=1, as_victim=9)
    lab.pending("train", on="q", gpu=4, priority=5)
    assert lab.cycles() == NOTHING
    lab.edit("holder", preemption_priority=None)

    assert lab.cycles() == [preempt("train", victims=["holder"])]


def test_a_workload_that_is_moved_waits_elsewhere() -> None:
    lab = Scenario(queue("full", gpu=2), queue("free", gpu=2))
    lab.running("train", on="full", gpu=2)
    lab.pending("waiting", on="full", gpu=2)
    lab.cycles()
    lab.edit("waiting", on="free")

    assert lab.cycles() == [admit("waiting")]


def test_deactivated_by_its_owner_it_stops_and_stays_away() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=4)
    lab.edit("train", active=False)

    assert lab.cycles() == [evict("train", EvictionReason.DEACTIVATED)]
    lab.let_go("train")
    assert lab.phase("train") is Phase.INACTIVE
    assert lab.cycles() == NOTHING
    lab.edit("train", active=True)
    assert lab.cycles() == [admit("train")]


def test_pods_given_back_free_their_quota() -> None:
    lab = Scenario(queue("q", gpu=8))
    lab.running("train", pods("main", 4, gpu=2), on="q")
    lab.pending("next", on="q", gpu=4)
    assert lab.cycles() == NOTHING
    lab.give_back("train", main=2)

    assert lab.used("q") == 4
    assert lab.cycles() == [admit("next")]


def test_after_an_eviction_it_asks_only_for_the_pods_that_are_left() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("train", pods("main", 4, gpu=2), on="q")
    lab.give_back("train", main=3)
    lab.pending("big", on="q", gpu=8, priority=1)
    assert lab.cycles() == [preempt("big", victims=["train"])]
    lab.let_go("train")
    lab.cycles()
    lab.change(queue("q", gpu=10, within=LOWER))

    assert lab.cycles() == [admit("train", pods=1)]
    assert lab.used("q") == 10


def test_removed_while_evicting_its_quota_is_free_at_once() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("train", on="q", gpu=4)
    lab.pending("urgent", on="q", gpu=4, priority=1)
    lab.cycle()
    lab.remove("train")

    assert lab.used("q") == 0
    assert lab.cycles() == [admit("urgent")]


def test_finished_while_evicting_too() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("train", on="q", gpu=4)
    lab.pending("urgent", on="q", gpu=4, priority=1)
    lab.cycle()
    lab.finish("train")

    assert lab.cycles() == [admit("urgent")]
    assert lab.phase("train") is Phase.FINISHED


# --- decisions that could not be written ---


def test_an_admission_that_could_not_be_written_is_made_again() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("train", on="q", gpu=4)
    lab.pending("other", on="q", gpu=4)
    assert lab.cycle() == [admit("train")]
    lab.forget("train")

    assert lab.used("q") == 0
    assert lab.line("q") == ["train", "other"]
    assert lab.cycle() == [admit("train")]


def test_a_forgotten_admission_keeps_the_place_of_before() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later().pending("other", on="q", gpu=4)
    lab.later().answer("train", "prov", CheckState.RETRY)
    lab.cycle()
    lab.let_go("train")
    lab.finish("other")
    assert lab.cycle() == [reserve("train", checks=["prov"])]
    lab.forget("train")
    lab.later().pending("newer", on="q", gpu=4)

    assert lab.entry("train").order_time == 2.0  # the time of its eviction still counts
    assert lab.line("q") == ["train", "newer"]


def test_a_preemption_that_could_not_be_written_is_tried_again() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("train", on="q", gpu=4)
    lab.pending("urgent", on="q", gpu=4, priority=1)
    assert lab.cycle() == [preempt("urgent", victims=["train"])]
    lab.forget("train")

    assert lab.phase("train") is Phase.ADMITTED
    assert lab.cycles() == [preempt("urgent", victims=["train"])]


def test_a_reserved_victim_whose_eviction_is_forgotten_is_reserved_again() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later().pending("urgent", on="q", gpu=4, priority=1)
    lab.cycle()
    lab.forget("train")
    lab.remove("urgent")

    assert lab.phase("train") is Phase.RESERVED
    lab.answer("train", "prov", CheckState.READY)
    assert lab.cycles() == [admit("train")]


def test_a_timeout_that_could_not_be_written_fires_again() -> None:
    lab = Scenario(queue("q", gpu=4), config=Config(pods_ready=PodsReadyPolicy(timeout_s=60)))
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    assert lab.cycle(now=60) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=120)]
    lab.forget("slow")

    assert lab.later().cycle()[0].what == "evict"


def test_and_is_counted_once() -> None:
    lab = Scenario(
        queue("q", gpu=4),
        config=Config(
            pods_ready=PodsReadyPolicy(timeout_s=60), backoff=Backoff(base_s=60, limit=1)
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    assert lab.cycle(now=60) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=120)]
    lab.forget("slow")

    assert lab.cycle(now=70) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=130)]


def test_and_leaves_no_pause_behind() -> None:
    lab = Scenario(
        queue("q", gpu=4, within=LOWER), config=Config(pods_ready=PodsReadyPolicy(timeout_s=60))
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    assert lab.cycle(now=60) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=120)]
    lab.forget("slow")
    lab.pods_ready("slow")
    lab.pending("urgent", on="q", gpu=4, priority=1)
    assert lab.cycles() == [preempt("urgent", victims=["slow"])]
    lab.let_go("slow")
    lab.cycles()
    lab.finish("urgent")

    assert lab.cycles() == [admit("slow")]


def test_an_admission_after_checks_that_could_not_be_written_leaves_the_quota_reserved() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", CheckState.READY)
    assert lab.cycle() == [admit("train")]
    lab.forget("train")

    assert lab.phase("train") is Phase.RESERVED
    assert lab.cycle() == [admit("train")]


def test_a_retry_that_could_not_be_written_keeps_its_delay() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", CheckState.RETRY, retry_after=30)
    assert lab.cycle() == [evict("train", EvictionReason.ADMISSION_CHECK, until=30)]
    lab.forget("train")

    assert lab.cycle() == [evict("train", EvictionReason.ADMISSION_CHECK, until=30)]


def test_a_deactivation_that_could_not_be_written_is_made_again() -> None:
    lab = Scenario(queue("q", gpu=4, rules=[rule("*", minutes=1)]))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    said = deactivate("train", DeactivationReason.FLAVORS_EXHAUSTED)
    assert lab.cycle(now=60) == [said]
    lab.forget("train")

    assert lab.phase("train") is Phase.ADMITTED
    assert lab.cycle() == [said]


def test_so_is_that_of_a_workload_that_waits() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4, "on-demand": 4}, rules=[rule("spot", minutes=1)]))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=60)
    lab.change(queue("q", gpu={"spot": 4, "on-demand": 2}, rules=[rule("spot", minutes=1)]))
    lab.let_go("train")
    said = deactivate("train", DeactivationReason.FLAVORS_EXHAUSTED)
    assert lab.cycles() == [said]
    lab.forget("train")

    assert lab.cycles() == [said]


def test_a_drain_that_could_not_be_written_is_tried_again() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=4)
    lab.stop("q", HOLD_AND_DRAIN)
    lab.cycle()
    lab.forget("train")

    assert lab.cycle() == [evict("train", EvictionReason.QUEUE_STOPPED)]


def test_events_about_unknown_workloads_are_passed_over() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.remove("ghost")
    lab.finish("ghost")
    lab.pods_ready("ghost")
    lab.forget("ghost")
    lab.give_back("ghost", main=1)

    assert lab.cycles() == NOTHING


def test_seen_twice_is_seen_anew() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("train", on="q", gpu=4)
    lab.pending("train", on="q", gpu=2)

    assert lab.used("q") == 0
    assert lab.cycles() == [admit("train")]


# --- after a restart ---


@pytest.mark.parametrize("workloads_first", [False, True])
def test_a_restart_rebuilds_the_same_state(workloads_first: bool) -> None:
    lab = Scenario(
        queue("owner", gpu=quota(8, lend=6), reclaim=ANY), queue("guest", gpu=1), cohort="lab"
    )
    lab.running("a", on="guest", gpu=4)
    lab.later().running("b", on="guest", gpu=3, priority=2)
    lab.pending("train", on="owner", gpu=8)
    lab.pending("later", on="guest", gpu=4)
    lab.later().cycles()
    before = {key: entry.status for key, entry in lab.state.entries.items()}
    lab.restart(workloads_first=workloads_first)

    assert {key: entry.status for key, entry in lab.state.entries.items()} == before
    assert (lab.used("owner"), lab.used("guest")) == (0, 7)


def test_a_restart_leaves_open_checks_open() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.restart(after_s=10)

    assert lab.cycles() == NOTHING
    assert lab.phase("train") is Phase.RESERVED
    lab.answer("train", "prov", CheckState.READY)
    assert lab.cycles() == [admit("train")]


def test_what_a_check_said_of_the_last_reservation_does_not_count_for_the_next() -> None:
    """The objects show the answer until there is another reservation."""
    lab = Scenario(queue("q", gpu=4, checks=["prov"]))
    lab.check_is("prov")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "prov", CheckState.RETRY, retry_after=20)
    lab.cycle(now=1000)
    as_shown = lab.entry("train").status
    lab.let_go("train")
    lab.apply(ev.WorkloadSeen(lab.entry("train").workload, as_shown._replace(assignment=None)))

    assert lab.cycle(now=1019) == NOTHING
    assert lab.cycle(now=1020) == [requeue("train"), reserve("train", checks=["prov"])]
    assert lab.cycles() == NOTHING
    assert lab.phase("train") is Phase.RESERVED


def test_a_clock_set_back_gives_a_start_no_more_than_its_whole_time() -> None:
    lab = Scenario(queue("q", gpu=4), config=Config(pods_ready=PodsReadyPolicy(timeout_s=60)))
    lab.later(9000).pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.restart(clock_jump_s=-5000)
    lab.pods_not_ready("slow")
    lab.cycle()

    assert lab.next_at == 4060
    assert lab.cycle(now=4060) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=4120)]


def test_a_taint_removed_from_a_flavor_wakes_who_could_not_bear_it() -> None:
    lab = Scenario(flavor("spot", taint="risky"), queue("q", gpu={"spot": 4}))
    lab.pending("train", on="q", gpu=4)
    assert lab.cycles() == NOTHING
    lab.change(flavor("spot"))

    assert lab.cycles() == [admit("train", "spot")]


def test_who_holds_quota_is_charged_as_assigned_whatever_is_edited() -> None:
    lab = Scenario(queue("q", gpu=8))
    lab.running("train", on="q", gpu=4)
    lab.edit("train", pod_sets=(pods("main", gpu=8),))

    assert lab.used("q") == 4
    assert lab.cycles() == NOTHING


def test_a_workload_that_ends_before_it_starts_leaves_the_line() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("train", on="q", gpu=4)
    lab.finish("train")

    assert lab.cycles() == NOTHING
    assert lab.line("q") == []


def test_a_removed_namespace_admits_nobody() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("train", on="q", gpu=4)
    lab.apply(ev.NamespaceRemoved("default"))

    assert lab.cycles() == NOTHING
    assert lab.why("train") == (NamespaceNotAdmitted("default"),)
    lab.apply(ev.NamespaceChanged("default", {}))
    assert lab.cycles() == [admit("train")]


def test_a_hold_that_becomes_a_drain_drains_and_back_again_does_not_lose_anybody() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("a", on="q", gpu=2)
    lab.pending("b", on="q", gpu=2)
    lab.stop("q", HOLD)
    assert lab.cycles() == NOTHING
    lab.stop("q", HOLD_AND_DRAIN)
    assert lab.cycles() == [evict("a", EvictionReason.QUEUE_STOPPED)]
    lab.let_go("a")
    lab.stop("q", HOLD)
    assert lab.cycles() == NOTHING
    lab.start("q")

    assert lab.cycles() == [admit("a"), admit("b")]


def test_a_queue_started_again_before_its_drained_workloads_let_go_takes_them_back() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("a", on="q", gpu=4)
    lab.stop("q", HOLD_AND_DRAIN)
    lab.cycle()
    lab.start("q")
    assert lab.cycles() == NOTHING
    lab.let_go("a")

    assert lab.cycles() == [admit("a")]
