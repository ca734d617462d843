"""Metrics: a scrape tells the numbers of the story, under Kueue's names."""

from __future__ import annotations

from functools import cache
from math import isnan

import pytest

from makeway.controller.metric_families import FAMILIES
from makeway.controller.series import Family
from makeway.engine import events as ev
from makeway.engine.model import (
    CheckState,
    Config,
    EvictionReason,
    Gates,
    HistoryPolicy,
    PodsReadyPolicy,
    Queue,
    QueueName,
)
from tests.controller.metrics_lab import ROLE, ObservedScenario, Scrape
from tests.harness.engine import (
    ANY,
    HOLD,
    HOLD_AND_DRAIN,
    LOWER,
    NEWER_EQUAL,
    STRICT,
    cohort,
    queue,
    quota,
)

READY = CheckState.READY


# --- what comes and goes ---


def test_an_admission_counts_for_its_queue_and_its_local_queue() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.pending("train", on="vision", gpu=4)
    lab.later(30).cycle()

    scrape = lab.scrape()
    assert scrape.get("kueue_quota_reserved_workloads_total", cluster_queue="vision") == 1
    assert scrape.get("kueue_admitted_workloads_total", cluster_queue="vision") == 1
    assert scrape.get("kueue_admission_wait_time_seconds_sum", cluster_queue="vision") == 30
    local = {"name": "vision", "namespace": "default"}
    assert scrape.get("kueue_local_queue_admitted_workloads_total", **local) == 1
    assert scrape.get("kueue_local_queue_quota_reserved_wait_time_seconds_sum", **local) == 30
    assert scrape.all("kueue_admission_checks_wait_time_seconds_count") == []


def test_a_wait_falls_into_its_bucket_and_all_above() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.pending("train", on="vision", gpu=4)
    lab.later(30).cycle()

    buckets = "kueue_admission_wait_time_seconds_bucket"
    assert lab.scrape().get(buckets, le="20") == 0
    assert lab.scrape().get(buckets, le="40") == 1
    assert lab.scrape().get(buckets, le="+Inf") == 1


def test_reserved_is_counted_before_the_checks_and_admitted_after_them() -> None:
    lab = ObservedScenario(queue("vision", gpu=8, checks=["budget"]))
    lab.check_is("budget")
    lab.pending("train", on="vision", gpu=4)
    lab.later(10).cycle()
    assert lab.scrape().get("kueue_quota_reserved_workloads_total") == 1
    assert lab.scrape().all("kueue_admitted_workloads_total") == []

    lab.later(5)
    lab.answer("train", "budget", READY)
    lab.cycle()

    scrape = lab.scrape()
    assert scrape.get("kueue_quota_reserved_workloads_total") == 1
    assert scrape.get("kueue_admitted_workloads_total") == 1
    assert scrape.get("kueue_quota_reserved_wait_time_seconds_sum") == 10
    assert scrape.get("kueue_admission_checks_wait_time_seconds_sum") == 5
    assert scrape.get("kueue_admission_wait_time_seconds_sum") == 15


def test_a_workload_counts_under_its_priority_class() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.document("train", spec={"priorityClassRef": {"name": "urgent"}})
    lab.pending("train", on="vision", gpu=4)
    lab.cycle()

    assert lab.scrape().get("kueue_admitted_workloads_total", priority_class="urgent") == 1


def test_a_preemption_counts_once_per_victim_and_until_it_has_let_go() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab"
    )
    lab.running("big", on="speech", gpu=12)
    lab.pending("eval", on="vision", gpu=8)
    lab.later(60).cycles()
    lab.later(7).let_go("big")

    scrape = lab.scrape()
    why = {"preempting_cluster_queue": "vision", "reason": "InCohortReclamation"}
    assert scrape.get("kueue_preempted_workloads_total", **why) == 1
    evicted = {"cluster_queue": "speech", "reason": "Preempted", "underlying_cause": ""}
    assert scrape.get("kueue_evicted_workloads_total", **evicted) == 1
    assert scrape.get("kueue_local_queue_evicted_workloads_total", name="speech") == 1
    assert scrape.get("kueue_workload_eviction_latency_seconds_sum", reason="Preempted") == 7


def test_evictions_by_others_and_by_stopped_queues_carry_their_reasons() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.running("a", on="vision", gpu=4)
    lab.running("b", on="vision", gpu=4)
    lab.evicted("a", EvictionReason.PREEMPTED_IN_PLACEMENT)
    lab.stop("vision", HOLD_AND_DRAIN)
    lab.cycle()

    evicted = "kueue_evicted_workloads_total"
    assert lab.scrape().get(evicted, reason="PreemptedInPlacement") == 1
    assert lab.scrape().get(evicted, reason="ClusterQueueStopped") == 1


def test_a_deactivation_names_its_underlying_cause() -> None:
    lab = ObservedScenario(queue("vision", gpu=8, checks=["budget"]))
    lab.check_is("budget")
    lab.pending("train", on="vision", gpu=4)
    lab.cycle()
    lab.answer("train", "budget", CheckState.REJECTED)
    lab.cycle()

    why = {"reason": "Deactivated", "underlying_cause": "AdmissionCheck"}
    assert lab.scrape().get("kueue_evicted_workloads_total", **why) == 1


def test_a_second_eviction_for_the_same_reason_is_not_counted_once_more() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    past = {"evictions": [{"reason": "ClusterQueueStopped", "count": 1}]}
    lab.document("again", status={"schedulingStats": past})
    lab.running("again", on="vision", gpu=4)
    lab.running("first", on="vision", gpu=4)
    lab.stop("vision", HOLD_AND_DRAIN)
    lab.cycle()

    assert lab.scrape().get("kueue_evicted_workloads_total") == 2
    assert lab.scrape().get("kueue_evicted_workloads_once_total") == 1


def test_the_time_from_ready_pods_to_eviction_comes_from_the_condition() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    since = {"type": "PodsReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"}
    lab.document("train", status={"conditions": [since]})
    lab.running("train", on="vision", gpu=4)
    lab.later(100).stop("vision", HOLD_AND_DRAIN)
    lab.cycle()

    name = "kueue_pods_ready_to_evicted_time_seconds_sum"
    assert lab.scrape().get(name, reason="ClusterQueueStopped") == 80


def test_pods_are_waited_for_once_even_if_they_get_lost_later() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8), config=Config(pods_ready=PodsReadyPolicy(timeout_s=600))
    )
    lab.pending("train", on="vision", gpu=4)
    lab.later(10).cycle()
    lab.later(20).pods_ready("train")
    lab.later(5).pods_not_ready("train")
    lab.later(5).pods_ready("train")

    scrape = lab.scrape()
    assert scrape.get("kueue_ready_wait_time_seconds_count") == 1
    assert scrape.get("kueue_ready_wait_time_seconds_sum") == 30
    assert scrape.get("kueue_admitted_until_ready_wait_time_seconds_sum") == 20


def test_an_end_is_counted_once_with_the_time_since_admission() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.pending("train", on="vision", gpu=4)
    lab.cycle()
    lab.later(90).finish("train")
    lab.finish("train")

    assert lab.scrape().get("kueue_finished_workloads_total", cluster_queue="vision") == 1
    assert lab.scrape().get("kueue_execution_time_seconds_sum") == 90
    assert lab.scrape().get("kueue_local_queue_finished_workloads_total") == 1


def test_a_cycle_succeeds_if_one_head_got_quota() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.cycle()  # nobody there: no attempt
    lab.pending("a", on="vision", gpu=8)
    lab.cycle()
    lab.pending("b", on="vision", gpu=8)
    lab.cycle()

    scrape = lab.scrape()
    assert scrape.get("kueue_admission_attempts_total", result="success") == 1
    assert scrape.get("kueue_admission_attempts_total", result="inadmissible") == 1
    duration = "kueue_admission_attempt_duration_seconds_sum"
    assert scrape.get(duration, result="success") == 0.25
    assert scrape.get("makeway_cycle_duration_seconds_count") == 3


def test_a_queue_that_is_gone_takes_its_series_with_it() -> None:
    lab = ObservedScenario(queue("vision", gpu=8), queue("speech", gpu=8))
    lab.pending("a", on="vision", gpu=8)
    lab.pending("b", on="speech", gpu=8)
    lab.cycle()
    lab.apply(ev.QueueRemoved(QueueName("vision")))

    scrape = lab.scrape()
    assert scrape.get("kueue_admitted_workloads_total") == 1
    assert scrape.all("kueue_pending_workloads", cluster_queue="vision") == []
    assert scrape.get("kueue_admitted_workloads_total", cluster_queue="speech") == 1


# --- how things stand ---


def test_who_waits_is_in_line_or_parked() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.pending("big", on="vision", gpu=9)
    lab.cycle()
    lab.pending("small", on="vision", gpu=1)

    waiting = "kueue_pending_workloads"
    assert lab.scrape().get(waiting, status="active") == 1
    assert lab.scrape().get(waiting, status="inadmissible") == 1
    local = "kueue_local_queue_pending_workloads"
    assert lab.scrape().get(local, name="vision", status="inadmissible") == 1


def test_preemptors_and_who_is_held_back_for_them_count_as_active() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab"
    )
    lab.running("borrower", on="speech", gpu=16)
    lab.pending("owner", on="vision", gpu=8)
    lab.cycles()
    lab.pending("next", on="vision", gpu=4)
    lab.pending("far", on="vision", gpu=99)
    lab.cycles()

    scrape, waiting = lab.scrape(), "kueue_pending_workloads"
    assert scrape.get(waiting, cluster_queue="vision", status="active") == 2
    assert scrape.get(waiting, cluster_queue="vision", status="inadmissible") == 1
    local = "kueue_local_queue_pending_workloads"
    assert scrape.get(local, name="vision", status="active") == 2


def test_a_cohort_has_its_series_though_no_queue_is_below_it() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8), cohort("lab", gpu=4), cohort("floor", parent="lab", gpu=2)
    )

    scrape = lab.scrape()
    assert scrape.get("kueue_cohort_subtree_quota", cohort="floor") == 2
    assert scrape.get("kueue_cohort_subtree_quota", cohort="lab") == 6
    assert scrape.get("kueue_cohort_subtree_admitted_active_workloads", cohort="lab") == 0
    info = "kueue_cohort_info"
    assert scrape.get(info, cohort="floor", parent_cohort="lab", root_cohort="lab") == 1


def test_in_a_queue_that_is_stopped_nobody_is_in_line() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.pending("small", on="vision", gpu=1)
    lab.stop("vision", HOLD)

    scrape = lab.scrape()
    assert scrape.get("kueue_pending_workloads", status="active") == 0
    assert scrape.get("kueue_pending_workloads", status="inadmissible") == 1
    assert scrape.get("kueue_cluster_queue_status", status="pending") == 1
    assert scrape.get("kueue_cluster_queue_status", status="active") == 0
    assert scrape.get("kueue_local_queue_status", active="False") == 1


def test_each_local_queue_tells_of_its_own() -> None:
    lab = ObservedScenario(queue("vision", gpu=8))
    lab.local_queue("night", to="vision")
    lab.running("a", on="vision", gpu=3)
    lab.running("b", on="night", gpu=2)
    for name in ("c", "d"):
        lab.pending(name, on="night", gpu=1)

    scrape = lab.scrape()
    assert scrape.get("kueue_local_queue_resource_usage", name="vision", resource="gpu") == 3
    assert scrape.get("kueue_local_queue_resource_usage", name="night", resource="gpu") == 2
    assert scrape.get("kueue_local_queue_pending_workloads", name="night", status="active") == 2
    assert scrape.get("kueue_local_queue_pending_workloads", name="vision", status="active") == 0
    assert scrape.get("kueue_local_queue_admitted_active_workloads", name="night") == 1


def test_what_is_reserved_is_used_only_when_admitted() -> None:
    lab = ObservedScenario(queue("vision", gpu=8, checks=["budget"]))
    lab.check_is("budget")
    lab.running("a", on="vision", gpu=3)
    lab.pending("b", on="vision", gpu=4)
    lab.cycle()

    scrape = lab.scrape()
    assert scrape.get("kueue_cluster_queue_resource_reservation", resource="gpu") == 7
    assert scrape.get("kueue_cluster_queue_resource_usage", resource="gpu") == 3
    assert scrape.get("kueue_reserving_active_workloads", cluster_queue="vision") == 2
    assert scrape.get("kueue_admitted_active_workloads", cluster_queue="vision") == 1


def test_quotas_are_told_in_whole_units_and_limits_where_there_are_any() -> None:
    lab = ObservedScenario(queue("vision", cpu=quota(2500, lend=500), gpu=8), cohort="lab")

    scrape = lab.scrape()
    cell = {"cohort": "lab", "cluster_queue": "vision", "flavor": "default"}
    assert scrape.get("kueue_cluster_queue_nominal_quota", resource="cpu", **cell) == 2.5
    assert scrape.get("kueue_cluster_queue_lending_limit", **cell) == 0.5
    assert scrape.all("kueue_cluster_queue_borrowing_limit") == []


def test_a_cohort_tells_of_all_below_it() -> None:
    lab = ObservedScenario(
        cohort("campus"),
        cohort("lab", parent="campus", gpu=2),
        queue("vision", cohort="lab", gpu=8),
        queue("speech", cohort="campus", gpu=quota(4, lend=1)),
    )
    lab.pending("a", on="vision", gpu=8)
    lab.pending("b", on="speech", gpu=3)
    lab.cycle()

    scrape = lab.scrape()
    assert scrape.get("kueue_cohort_subtree_quota", cohort="lab") == 10
    assert scrape.get("kueue_cohort_subtree_quota", cohort="campus") == 11
    assert scrape.get("kueue_cohort_subtree_resource_reservations", cohort="campus") == 11
    assert scrape.get("kueue_cohort_subtree_admitted_active_workloads", cohort="campus") == 2
    assert scrape.get("kueue_cohort_subtree_admitted_workloads_total", cohort="lab") == 1
    above = {"parent_cohort": "lab", "root_cohort": "campus"}
    assert scrape.get("kueue_cluster_queue_info", cluster_queue="vision", **above) == 1
    assert scrape.get("kueue_cohort_info", cohort="lab", parent_cohort="campus") == 1


def test_shares_are_told_when_fair_sharing_is_on() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8),
        queue("speech", gpu=8),
        cohort="lab",
        config=Config(fair_sharing=True),
    )
    lab.running("big", on="speech", gpu=12)
    share = "kueue_cluster_queue_weighted_share"
    assert lab.scrape().get(share, cluster_queue="speech", cohort="lab") == 250  # 4 of 16
    assert lab.scrape().get(share, cluster_queue="vision") == 0

    lab.edit_queue("speech", weight=0.0)

    assert isnan(lab.scrape().get(share, cluster_queue="speech"))


def test_without_fair_sharing_there_are_no_shares() -> None:
    lab = ObservedScenario(queue("vision", gpu=8), cohort="lab")

    assert lab.scrape().all("kueue_cluster_queue_weighted_share") == []


def test_heads_that_lost_their_victims_to_another_are_told_of() -> None:
    lab = ObservedScenario(
        queue("vision", gpu=8, reclaim=ANY, within=LOWER),
        queue("speech", gpu=8, reclaim=ANY, within=LOWER),
        queue("guest", gpu=0),
        cohort="lab",
        config=Config(gates=Gates(reassign_on_overlap=False)),
    )
    lab.running("big", on="guest", gpu=16)
    lab.pending("a", on="vision", gpu=8)
    lab.pending("b", on="speech", gpu=8)
    lab.cycle()

    skips = lab.scrape()
    assert skips.get("kueue_admission_cycle_preemption_skips", cluster_queue="vision") == 0
    assert skips.get("kueue_admission_cycle_preemption_skips", cluster_queue="speech") == 1


# --- owners first, and pauses between preemptions ---


WAITING, PAUSING = "makeway_workloads_waiting_for_owners", "makeway_workloads_pausing_preemption"
PAUSES, GIVEN_UP = "makeway_preemption_pauses_total", "makeway_claims_given_up_total"


def test_who_waits_for_an_owner_is_counted_with_all_of_its_shape() -> None:
    lab = ObservedScenario(queue("a", gpu=4), queue("b", gpu=4), cohort="lab")
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    for name in ("b2", "b3"):
        lab.pending(name, on="b", gpu=2)
    lab.pending("b4", on="b", gpu=3)  # which lacks 1, whoever owns it
    lab.cycles()

    assert lab.scrape().get(WAITING, cluster_queue="b") == 2
    assert lab.scrape().get(WAITING, cluster_queue="a") == 0

    lab.remove("a1")
    lab.cycles()

    assert lab.scrape().get(WAITING, cluster_queue="b") == 0


def test_of_a_strict_queue_only_the_head_waits_for_an_owner() -> None:
    lab = ObservedScenario(queue("a", gpu=4), queue("b", gpu=4, strategy=STRICT), cohort="lab")
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    for name in ("b2", "b3"):
        lab.pending(name, on="b", gpu=2)
    lab.cycles()

    assert lab.scrape().get(WAITING, cluster_queue="b") == 1


def test_a_pause_between_preemptions_is_counted_once_however_often_it_is_told() -> None:
    lab = in_a_circle()  # c-takes-back has preempted twice, the last time at 3 s
    assert lab.scrape().get(PAUSES, cluster_queue="c") == 2
    assert lab.scrape().get(PAUSING, cluster_queue="c") == 1
    assert lab.scrape().get(PAUSING, cluster_queue="d") == 0

    lab.pending("another", on="c", gpu=9)  # which makes the queue be looked at again
    lab.settle()
    assert lab.scrape().get(PAUSES, cluster_queue="c") == 2

    lab.later(2.0)
    assert lab.scrape().get(PAUSING, cluster_queue="c") == 0


def test_a_pause_that_began_before_a_restart_is_not_counted_again() -> None:
    lab = in_a_circle()

    lab.restart(after_s=0.5)
    lab.settle()

    assert lab.scrape().get(PAUSING, cluster_queue="c") == 1
    assert lab.scrape().all(PAUSES) == []

    lab.later(2.0).settle()
    assert lab.scrape().get(PAUSES, cluster_queue="c") == 1


def in_a_circle() -> ObservedScenario:
    """One of queue d clears a place by fair share; another takes it; a third takes it back."""
    lab = ObservedScenario(*circling_queues(), config=Config(fair_sharing=True))
    play_a_circle(lab)
    return lab


def circling_queues() -> tuple[Queue, Queue]:
    return (
        queue("c", cohort="ring", gpu=4, reclaim=ANY),
        queue("d", cohort="ring", gpu=3, reclaim=ANY, within=NEWER_EQUAL),
    )


def play_a_circle(lab: ObservedScenario) -> None:
    lab.pending("d-small", on="d", gpu=4)
    lab.settle()
    lab.later().pending("d-big", on="d", gpu=6, priority=10)
    lab.settle()
    lab.later().pending("c-takes-back", on="c", gpu=6)
    lab.settle()
    lab.later().settle()


def test_a_claim_that_its_holder_cannot_use_is_given_up() -> None:
    lab = ObservedScenario(*blocked_queues())
    block_a_preemptor(lab)

    assert lab.scrape().get(GIVEN_UP, cluster_queue="owner") == 1


def test_a_place_that_is_taken_is_not_given_up() -> None:
    lab = ObservedScenario(queue("a", gpu=4, within=LOWER))
    lab.running("low", on="a", gpu=4)
    lab.pending("high", on="a", gpu=4, priority=1)
    lab.settle()

    assert lab.scrape().all(GIVEN_UP) == []


def blocked_queues() -> tuple[Queue, Queue]:
    return (
        queue("owner", cohort="block", gpu=9, strategy=STRICT, reclaim=ANY),
        queue("renter", cohort="block", gpu=0),
    )


def block_a_preemptor(lab: ObservedScenario) -> None:
    """small has cleared 3 and is not the head any more; big needs 6 and has no victims."""
    lab.running("o1", on="owner", gpu=6)
    lab.running("r1", on="renter", gpu=3)
    lab.pending("small", on="owner", gpu=3)
    lab.cycles()
    lab.pending("big", on="owner", gpu=6, priority=10)
    lab.cycles()


# --- names ---

KUEUE = """
kueue_admission_attempts_total counter result
kueue_admission_attempt_duration_seconds histogram result
kueue_admission_cycle_preemption_skips gauge cluster_queue
kueue_pending_workloads gauge cluster_queue status
kueue_quota_reserved_workloads_total counter cluster_queue priority_class
kueue_quota_reserved_wait_time_seconds histogram cluster_queue priority_class
kueue_admitted_workloads_total counter cluster_queue priority_class
kueue_admission_wait_time_seconds histogram cluster_queue priority_class
kueue_admission_checks_wait_time_seconds histogram cluster_queue priority_class
kueue_ready_wait_time_seconds histogram cluster_queue priority_class
kueue_admitted_until_ready_wait_time_seconds histogram cluster_queue priority_class
kueue_finished_workloads_total counter cluster_queue priority_class
kueue_execution_time_seconds histogram cluster_queue priority_class
kueue_evicted_workloads_total counter cluster_queue reason underlying_cause priority_class
kueue_evicted_workloads_once_total counter cluster_queue reason underlying_cause priority_class
kueue_preempted_workloads_total counter preempting_cluster_queue reason
kueue_workload_eviction_latency_seconds histogram cluster_queue reason
kueue_pods_ready_to_evicted_time_seconds histogram cluster_queue reason underlying_cause
kueue_reserving_active_workloads gauge cluster_queue
kueue_admitted_active_workloads gauge cluster_queue
kueue_cluster_queue_status gauge cluster_queue status
kueue_cluster_queue_info gauge cluster_queue parent_cohort root_cohort
kueue_cluster_queue_resource_reservation gauge cohort cluster_queue flavor resource
kueue_cluster_queue_resource_usage gauge cohort cluster_queue flavor resource
kueue_cluster_queue_nominal_quota gauge cohort cluster_queue flavor resource
kueue_cluster_queue_borrowing_limit gauge cohort cluster_queue flavor resource
kueue_cluster_queue_lending_limit gauge cohort cluster_queue flavor resource
kueue_cluster_queue_weighted_share gauge cluster_queue cohort
kueue_cohort_info gauge cohort parent_cohort root_cohort
kueue_cohort_subtree_quota gauge cohort flavor resource
kueue_cohort_subtree_resource_reservations gauge cohort flavor resource
kueue_cohort_subtree_admitted_workloads_total counter cohort priority_class
kueue_cohort_subtree_admitted_active_workloads gauge cohort
kueue_cohort_weighted_share gauge cohort
kueue_local_queue_pending_workloads gauge name namespace status
kueue_local_queue_quota_reserved_workloads_total counter name namespace priority_class
kueue_local_queue_quota_reserved_wait_time_seconds histogram name namespace priority_class
kueue_local_queue_admitted_workloads_total counter name namespace priority_class
kueue_local_queue_admission_wait_time_seconds histogram name namespace priority_class
kueue_local_queue_admission_checks_wait_time_seconds histogram name namespace priority_class
kueue_local_queue_ready_wait_time_seconds histogram name namespace priority_class
kueue_local_queue_admitted_until_ready_wait_time_seconds histogram name namespace priority_class
kueue_local_queue_finished_workloads_total counter name namespace priority_class
kueue_local_queue_execution_time_seconds histogram name namespace priority_class
kueue_local_queue_evicted_workloads_total counter name namespace reason underlying_cause \
priority_class
kueue_local_queue_reserving_active_workloads gauge name namespace
kueue_local_queue_admitted_active_workloads gauge name namespace
kueue_local_queue_status gauge name namespace active
kueue_local_queue_resource_reservation gauge name namespace flavor resource
kueue_local_queue_resource_usage gauge name namespace flavor resource
kueue_local_queue_admission_fair_sharing_usage gauge name namespace
"""
KUEUE_BUILD_INFO = "git_version git_commit build_date go_version compiler platform"


def test_names_types_and_labels_are_kueues() -> None:
    rows = (line.split() for line in KUEUE.strip().splitlines())
    expected = {name: (type, (*labels, "replica_role")) for name, type, *labels in rows}
    expected["kueue_build_info"] = ("gauge", tuple(KUEUE_BUILD_INFO.split()))

    ours = {
        family.name: (family.type, family.labels)
        for family in FAMILIES
        if not family.name.startswith("makeway_")
    }
    assert ours == expected


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_shown_as_it_is_declared(family: Family) -> None:
    scrape = a_whole_day()

    if family.name.startswith(("makeway_loop_", "makeway_placement_")):
        assert family.name not in scrape.names(), "no loop was named, and nothing placed"
    else:
        assert family.name in scrape.names()
        assert scrape.labels(family.name) == {family.labels}


def test_every_series_carries_the_role() -> None:
    scrape = a_whole_day()

    roles = {s.labels.get("replica_role") for f in scrape.families for s in f.samples}
    assert roles == {ROLE, None}


def test_no_series_is_shown_twice() -> None:
    samples = [s for f in a_whole_day().families for s in f.samples]

    assert len({(s.name, *s.labels.items()) for s in samples}) == len(samples)


@cache
def a_whole_day() -> Scrape:
    """Something of everything."""
    lab = ObservedScenario(
        queue("vision", gpu=quota(8, borrow=8, lend=4), reclaim=ANY, checks=["budget"]),
        queue("speech", gpu=4, budget=5, counts_history=True),
        *circling_queues(),
        *blocked_queues(),
        cohort="lab",
        config=Config(fair_sharing=True, history=HistoryPolicy(half_life_s=86_400.0)),
    )
    play_a_circle(lab)
    block_a_preemptor(lab)
    lab.check_is("budget")
    ready = {"type": "PodsReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    lab.document("guest", status={"conditions": [ready]})
    lab.running("guest", on="speech", gpu=8)
    lab.pending("owner", on="vision", gpu=8)
    lab.cycles()
    lab.let_go("guest")
    lab.cycles()
    lab.answer("owner", "budget", READY)
    lab.cycles()
    lab.pods_ready("owner")
    lab.finish("owner")
    return lab.scrape()
