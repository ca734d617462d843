"""What a document of a Workload means, in the light of what is decided, was shown and is sent."""

from __future__ import annotations

import pytest

from makeway.controller.hearing import NOTHING, Hold, Known, Meaning, hold_of, meaning_of
from makeway.engine import events as ev
from makeway.engine.model import (
    Assignment,
    Eviction,
    EvictionReason,
    LocalQueueKey,
    Phase,
    PodSetAssignment,
    PodSetName,
    QueueName,
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
    on_its_way: Hold | None = None if sent is None else hold_of(sent)
    known = Known(engine, hold_of(shown), on_its_way, has_unwritten=has_unwritten)
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
