"""The outbox: whose turn it is, after what pause, and who is left alone."""

from __future__ import annotations

from makeway.plane.outbox import Outbox


def test_keys_come_in_the_order_in_which_they_were_wanted_and_once() -> None:
    outbox: Outbox[str] = Outbox(1.0)
    for key in ("b", "a", "b"):
        outbox.want(key)

    assert outbox.take(0.0, most=1) == ["b"]
    assert (outbox.next_at(0.0), outbox.take(0.0, most=10)) == (0.0, ["a"])
    assert (outbox.next_at(0.0), outbox.take(0.0, most=10)) == (None, [])


def test_a_key_with_a_write_on_its_way_is_left_alone_until_the_last_one_is_settled() -> None:
    outbox: Outbox[str] = Outbox(1.0)
    outbox.sent("a")
    outbox.sent("a")
    outbox.want("a")

    outbox.settled("a")
    assert (outbox.take(0.0, most=1), outbox.next_at(0.0), outbox.in_flight) == ([], None, 1)

    outbox.settled("a")
    assert (outbox.next_at(0.0), outbox.take(0.0, most=1), outbox.in_flight) == (0.0, ["a"], 0)


def test_after_each_failure_in_a_row_the_pause_is_longer() -> None:
    outbox: Outbox[str] = Outbox(1.0, retry_max_s=3.0)
    pauses = []
    for _ in range(4):
        outbox.failed("a", 10.0)
        at = outbox.next_at(10.0)
        assert at is not None
        pauses.append(at - 10.0)
        assert (outbox.take(at - 0.1, most=1), outbox.take(at, most=1)) == ([], ["a"])

    assert pauses == [1.0, 2.0, 3.0, 3.0]

    outbox.calm("a")
    outbox.failed("a", 10.0)
    assert outbox.next_at(10.0) == 11.0


def test_what_is_wanted_in_a_pause_waits_for_its_end_and_what_is_wanted_now_does_not() -> None:
    outbox: Outbox[str] = Outbox(1.0)
    for key in ("a", "b"):
        outbox.failed(key, 0.0)

    outbox.want("a")
    outbox.want_now("b")

    assert outbox.take(0.5, most=10) == ["b"]
    assert (outbox.next_at(0.5), outbox.take(1.0, most=10)) == (1.0, ["a", "b"])


def test_of_several_times_the_earliest_counts() -> None:
    outbox: Outbox[str] = Outbox(1.0)
    for at in (5.0, 3.0, 4.0):
        outbox.want_at("a", at)

    assert outbox.next_at(0.0) == 3.0
    assert (outbox.take(3.0, most=1), outbox.take(9.0, most=1)) == (["a"], [])


def test_what_is_forgotten_comes_no_more_and_has_not_failed() -> None:
    outbox: Outbox[str] = Outbox(1.0)
    outbox.failed("a", 0.0)
    outbox.forget("a")

    assert outbox.take(9.0, most=1) == []

    outbox.want("a")
    assert outbox.take(0.0, most=1) == ["a"]
