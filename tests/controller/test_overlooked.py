"""Who waits in line is told why, though the engine looks at heads alone."""

from makeway.api.kinds import LOCAL_QUEUES
from makeway.controller.telling import (
    EXPLAINED_AFTER_S,
    TOLD_AFTER_S,
    TOLD_AT_ONCE_MAX,
    TOLD_EVERY_S,
)
from tests.harness.queues import QueuePlane, local_queue


def told(plane: QueuePlane) -> int:
    """How many have a condition that says why they wait."""
    return sum(len(plane.status(f"w-{n}").get("conditions") or ()) for n in range(200))


def test_of_many_alike_each_is_told_what_its_head_is_told() -> None:
    plane = QueuePlane()
    for name in ("one", "two", "three"):
        plane.submit(name, 100)
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)
    assert plane.condition_of("two", "QuotaReserved") == ("", "")

    plane.settle(plane.now + TOLD_AFTER_S)

    heard = {plane.message(name, "QuotaReserved") for name in ("one", "two", "three")}
    assert len(heard) == 1
    assert "insufficient quota" in heard.pop()
    assert plane.condition_of("three", "QuotaReserved") == ("False", "ExceedsMaxQuota")


def test_who_stands_behind_a_head_that_nobody_passes_is_told_behind_whom() -> None:
    plane = QueuePlane(queueingStrategy="StrictFIFO")
    plane.submit("first", 100)
    plane.submit("second", 1)
    plane.settle()
    plane.settle(plane.now + TOLD_AFTER_S)

    assert plane.condition_of("second", "QuotaReserved") == ("False", "PendingEvaluation")
    assert plane.message("second", "QuotaReserved") == "Waits in ClusterQueue a behind lab/first"


def test_a_long_line_is_told_a_few_in_each_second_and_once() -> None:
    plane = QueuePlane()
    for number in range(200):
        plane.submit(f"w-{number}", 100)
    plane.settle()
    plane.settle(plane.now + TOLD_AFTER_S)
    assert told(plane) == 1 + TOLD_AT_ONCE_MAX  # and the head

    for _ in range(4):
        plane.settle(plane.now + TOLD_EVERY_S)
    assert told(plane) == len(plane.sent) == 200
    assert plane.next_at is None or plane.next_at > plane.now + TOLD_AFTER_S

    plane.restart()
    plane.settle(plane.now + TOLD_AFTER_S)
    plane.settle(plane.now + TOLD_AFTER_S)
    assert len(plane.sent) == 200


def test_what_the_engine_found_counts_for_more_than_that_a_queue_has_come() -> None:
    plane = QueuePlane()
    for name in ("one", "two"):
        plane.submit(name, 100, queue="later")
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)
    assert plane.message("two", "QuotaReserved") == "LocalQueue later doesn't exist"

    plane.create(
        LOCAL_QUEUES, {**local_queue("a"), "metadata": {"name": "later", "namespace": "lab"}}
    )
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)

    assert "insufficient quota" in plane.message("one", "QuotaReserved")
    assert "insufficient quota" in plane.message("two", "QuotaReserved")
