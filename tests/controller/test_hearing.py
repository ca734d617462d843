"""What a document of a Workload means, in the light of what is decided, was shown and is sent."""

from __future__ import annotations

import pytest

from makeway.controller.hearing import NOTHING, Known, Meaning, account_of, meaning_of
from makeway.engine import events as ev
from makeway.engine.model import (
    Assignment,
    Claim,
    Eviction,
    EvictionReason,
    FlavorName,
    LocalQueueKey,
    Phase,
    PodSetAssignment,
    PodSetName,
    QueueName,
    ResourceName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
    phase_of,
)
from makeway.engine.view import KnownWorkload

KEY = WorkloadKey("lab/train")
TRAIN = Workload(
    key=KEY, uid="1", namespace="lab", local_queue=LocalQueueKey("lab/a"), created_at=0.0
)
QUOTA = Assignment((PodSetAssignment(name=PodSetName("main"), count=1, flavors=(), usage=()),))

PENDING = WorkloadStatus()
RESERVED = WorkloadStatus(assignment=QUOTA, queue=QueueName("a"), reserved_at=1.0)
ADMITTED = RESERVED._replace(admitted_at=2.0)
EVICTED = ADMITTED._replace(eviction=Eviction(EvictionReason.PREEMPTED, 3.0))
FINISHED = WorkloadStatus(finished=True)


def meaning(
    document: WorkloadStatus,
    *,
    decided: WorkloadStatus,
    shown: WorkloadStatus = PENDING,
    sent: WorkloadStatus | None = None,
    has_unwritten: bool = False,
) -> Meaning:
    phase: Phase = phase_of(True, decided)
    engine = KnownWorkload(TRAIN, decided, phase, None, {}, 0.0, True)
    on_its_way = None if sent is None else account_of(sent)
    known = Known(engine, account_of(shown), on_its_way, has_unwritten=has_unwritten)
    return meaning_of(TRAIN, document, known)


def test_what_the_engine_has_decided_is_confirmed() -> None:
    assert meaning(ADMITTED, decided=ADMITTED, sent=ADMITTED) == Meaning(is_agreed=True)


@pytest.mark.parametrize("is_sent", [False, True], ids=["still unwritten", "on its way"])
def test_what_it_showed_before_leaves_our_write_to_come(is_sent: bool) -> None:
    sent = ADMITTED if is_sent else None

    assert meaning(PENDING, decided=ADMITTED, sent=sent, has_unwritten=not is_sent) == NOTHING


def test_our_write_that_a_later_decision_has_overtaken_means_nothing() -> None:
    assert meaning(ADMITTED, decided=EVICTED, sent=ADMITTED, has_unwritten=True) == NOTHING


def test_an_evicted_workload_without_quota_has_let_go() -> None:
    assert meaning(PENDING, decided=EVICTED, shown=EVICTED) == Meaning((ev.PodsGone(KEY),))


def test_an_eviction_from_outside_is_told_and_overtakes_what_we_had_to_write() -> None:
    evicted = ev.Evicted(KEY, EvictionReason.PREEMPTED, 3.0)

    assert meaning(EVICTED, decided=ADMITTED, shown=ADMITTED) == Meaning((evicted,), True)


def test_an_end_is_told_once_whatever_else_was_to_come() -> None:
    first = meaning(FINISHED, decided=EVICTED, shown=EVICTED, has_unwritten=True)

    assert first == Meaning((ev.WorkloadFinished(KEY),), is_overtaken=True)
    assert meaning(FINISHED, decided=FINISHED, shown=FINISHED) == NOTHING


def test_a_state_that_somebody_else_gave_it_counts_as_it_stands() -> None:
    seen = ev.WorkloadSeen(TRAIN, ADMITTED)

    assert meaning(ADMITTED, decided=PENDING) == Meaning((seen,), True, True)


# --- two who decide at once ---


def test_of_two_evictions_the_one_in_the_objects_counts() -> None:
    """Ours was never written: whoever had it written first has the say."""
    by_a_check = ADMITTED._replace(eviction=Eviction(EvictionReason.ADMISSION_CHECK, 3.0))
    seen = ev.WorkloadSeen(TRAIN, EVICTED)

    told = meaning(EVICTED, decided=by_a_check, shown=ADMITTED, has_unwritten=True)

    assert told == Meaning((seen,), True, True)


def test_who_let_go_after_the_eviction_of_another_remembers_that_one() -> None:
    by_a_check = ADMITTED._replace(eviction=Eviction(EvictionReason.ADMISSION_CHECK, 3.0))
    let_go = PENDING._replace(eviction=EVICTED.eviction)
    seen = ev.WorkloadSeen(TRAIN, let_go)

    told = meaning(let_go, decided=by_a_check, shown=ADMITTED, has_unwritten=True)

    assert told == Meaning((seen,), True, True)


BACKS_OFF = EVICTED._replace(requeue_count=1, requeue_at=60.0)


def test_an_eviction_by_another_of_us_counts_with_its_back_off() -> None:
    seen = ev.WorkloadSeen(TRAIN, BACKS_OFF)

    assert meaning(BACKS_OFF, decided=ADMITTED, shown=ADMITTED) == Meaning((seen,), True, True)


def test_notes_of_another_of_us_count_though_the_hold_is_agreed_upon() -> None:
    counted = ADMITTED._replace(requeue_count=1)
    seen = ev.WorkloadSeen(TRAIN, counted)

    told = meaning(counted, decided=ADMITTED, shown=ADMITTED, has_unwritten=True)

    assert told == Meaning((seen,), True, True)


@pytest.mark.parametrize("is_sent", [False, True], ids=["still unwritten", "on its way"])
def test_notes_of_our_own_are_no_news(is_sent: bool) -> None:
    sent = BACKS_OFF if is_sent else None
    again = BACKS_OFF._replace(requeue_count=2)
    document = BACKS_OFF if is_sent else EVICTED

    assert meaning(document, decided=again, shown=EVICTED, sent=sent) == Meaning(is_agreed=True)


def test_moments_are_rounded_in_the_objects_and_make_no_difference() -> None:
    exact = BACKS_OFF._replace(requeue_at=60.0000004)

    assert meaning(BACKS_OFF, decided=exact, shown=ADMITTED) == Meaning(is_agreed=True)


SPOT = Assignment(
    (
        PodSetAssignment(
            name=PodSetName("main"),
            count=1,
            flavors=((ResourceName("cpu"), FlavorName("spot")),),
            usage=((ResourceName("cpu"), 1000),),
        ),
    )
)
PREEMPTOR, MERE_FACT = PENDING._replace(claim=Claim(SPOT)), PENDING._replace(claim=Claim())


def test_a_claim_of_which_a_server_keeps_only_the_fact_is_no_news() -> None:
    told = meaning(MERE_FACT, decided=PREEMPTOR, shown=PENDING, sent=PREEMPTOR)

    assert told == Meaning(is_agreed=True)


def test_a_claim_on_another_place_was_made_by_another_of_us() -> None:
    elsewhere = PENDING._replace(claim=Claim(QUOTA))
    seen = ev.WorkloadSeen(TRAIN, PREEMPTOR)

    assert meaning(PREEMPTOR, decided=elsewhere, shown=PENDING) == Meaning((seen,), True, True)
