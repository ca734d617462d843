"""Who waits in line is told why, though the engine looks at heads alone."""

from makeway.client.resources import LOCAL_QUEUES
from makeway.controller.overlooked import TOLD_AFTER_S, TOLD_AT_ONCE_MAX, TOLD_EVERY_S
from makeway.controller.telling import EXPLAINED_AFTER_S
from tests.controller.test_admission import Hall, local_queue


def told(hall: Hall) -> int:
    """How many have a condition that says why they wait."""
    return sum(len(hall.status(f"w-{n}").get("conditions") or ()) for n in range(200))


def test_of_many_alike_each_is_told_what_its_head_is_told() -> None:
    hall = Hall()
    for name in ("one", "two", "three"):
        hall.submit(name, 100)
    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)
    assert hall.condition("two", "QuotaReserved") == ("", "")

    hall.settle(hall.now + TOLD_AFTER_S)

    heard = {hall.message(name, "QuotaReserved") for name in ("one", "two", "three")}
    assert len(heard) == 1
    assert "insufficient quota" in heard.pop()
    assert hall.condition("three", "QuotaReserved") == ("False", "ExceedsMaxQuota")


def test_who_stands_behind_a_head_that_nobody_passes_is_told_behind_whom() -> None:
    hall = Hall(queueingStrategy="StrictFIFO")
    hall.submit("first", 100)
    hall.submit("second", 1)
    hall.settle()
    hall.settle(hall.now + TOLD_AFTER_S)

    assert hall.condition("second", "QuotaReserved") == ("False", "Pending")
    assert hall.message("second", "QuotaReserved") == "Waits in ClusterQueue a behind lab/first"


def test_a_long_line_is_told_a_few_in_each_second_and_once() -> None:
    hall = Hall()
    for number in range(200):
        hall.submit(f"w-{number}", 100)
    hall.settle()
    hall.settle(hall.now + TOLD_AFTER_S)
    assert told(hall) == 1 + TOLD_AT_ONCE_MAX  # and the head

    for _ in range(4):
        hall.settle(hall.now + TOLD_EVERY_S)
    assert told(hall) == len(hall.sent) == 200
    assert hall.next_at is None or hall.next_at > hall.now + TOLD_AFTER_S

    hall.begin_anew()
    hall.settle(hall.now + TOLD_AFTER_S)
    hall.settle(hall.now + TOLD_AFTER_S)
    assert len(hall.sent) == 200


def test_what_the_engine_found_counts_for_more_than_that_a_queue_has_come() -> None:
    hall = Hall()
    for name in ("one", "two"):
        hall.submit(name, 100, queue="later")
    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)
    assert hall.message("two", "QuotaReserved") == "LocalQueue lab/later doesn't exist"

    hall.put(LOCAL_QUEUES, {**local_queue("a"), "metadata": {"name": "later", "namespace": "lab"}})
    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)

    assert "insufficient quota" in hall.message("one", "QuotaReserved")
    assert "insufficient quota" in hall.message("two", "QuotaReserved")
