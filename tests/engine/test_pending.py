"""Waiting in a queue: who is the head, who is parked with whom, and what wakes them."""

from __future__ import annotations

import pytest

from makeway.engine.decisions import (
    Defective,
    ExceedsCapacity,
    NotCovered,
    Shortfall,
)
from makeway.engine.model import Config, FlavorName, FlavorResource, Gates, PodSetName, ResourceName
from tests.harness.engine import (
    LOWER,
    NEWER_EQUAL,
    STRICT,
    Said,
    Scenario,
    admit,
    pods,
    preempt,
    queue,
    quota,
)

NOTHING: list[Said] = []
MAIN = PodSetName("main")
GPU = FlavorResource(FlavorName("default"), ResourceName("gpu"))


def test_in_line_by_priority_then_age_then_arrival() -> None:
    lab = Scenario(queue("q", gpu=8))
    lab.later(10).pending("young", on="q", gpu=1)
    lab.pending("twin", on="q", gpu=1)
    lab.pending("old", on="q", gpu=1, created=5.0)
    lab.pending("high", on="q", gpu=1, priority=1)

    assert lab.line("q") == ["high", "old", "young", "twin"]
    assert lab.cycle() == [admit("high")]  # one per queue and cycle
    assert lab.cycles() == [admit("old"), admit("young"), admit("twin")]


def test_a_strict_queue_waits_for_its_head() -> None:
    lab = Scenario(queue("q", gpu=4, strategy=STRICT))
    lab.running("holder", on="q", gpu=2)
    lab.pending("large", on="q", gpu=4)
    lab.pending("small", on="q", gpu=1)

    assert lab.cycles() == NOTHING
    assert lab.line("q") == ["large", "small"]
    lab.finish("holder")
    assert lab.cycles() == [admit("large")]


def test_in_a_best_effort_queue_others_pass_a_head_that_has_to_wait() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("holder", on="q", gpu=2)
    lab.pending("large", on="q", gpu=4)
    lab.pending("small", on="q", gpu=1)

    assert lab.cycles() == [admit("small")]
    assert lab.parked("q") == ["large"]


def test_equal_shapes_are_parked_together_and_newcomers_with_them() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("holder", on="q", gpu=2)
    for number in range(3):
        lab.pending(f"large-{number}", on="q", gpu=4)
    lab.pending("other", on="q", gpu=3)

    assert lab.cycle() == NOTHING
    assert lab.parked("q") == ["large-0", "large-1", "large-2"]
    assert lab.line("q") == ["other"]
    lab.pending("large-3", on="q", gpu=4)
    assert lab.line("q") == ["other"]


def test_another_priority_is_another_shape() -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER))
    lab.running("holder", on="q", gpu=4)
    lab.pending("low", on="q", gpu=4)
    assert lab.cycles() == NOTHING
    lab.pending("high", on="q", gpu=4, priority=1)

    assert lab.cycle() == [preempt("high", victims=["holder"])]


def test_without_the_gate_each_is_tried_on_its_own() -> None:
    lab = Scenario(queue("q", gpu=4), config=Config(gates=Gates(equal_shapes_together=False)))
    lab.running("holder", on="q", gpu=2)
    lab.pending("large-0", on="q", gpu=4)
    lab.pending("large-1", on="q", gpu=4)
    lab.cycle()

    assert lab.parked("q") == ["large-0"]


def test_a_finish_anywhere_in_the_tree_wakes_the_parked() -> None:
    lab = Scenario(queue("mine", gpu=0), queue("theirs", gpu=4), cohort="lab")
    lab.running("holder", on="theirs", gpu=4)
    lab.pending("a", on="mine", gpu=2)
    lab.pending("b", on="mine", gpu=2)
    lab.cycles()
    assert lab.parked("mine") == ["a", "b"]
    lab.finish("holder")

    assert lab.line("mine") == ["a", "b"]  # in the order in which they stood
    assert lab.cycles() == [admit("a"), admit("b")]


def test_a_finish_in_another_tree_wakes_nobody() -> None:
    lab = Scenario(queue("mine", gpu=0), queue("theirs", gpu=4))
    lab.running("holder", on="theirs", gpu=4)
    lab.pending("a", on="mine", gpu=2)
    lab.cycles()
    lab.finish("holder")

    assert lab.parked("mine") == ["a"]


def test_submissions_and_time_wake_nobody() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("holder", on="q", gpu=4)
    lab.pending("a", on="q", gpu=2)
    lab.cycles()
    lab.later(3600).pending("b", on="q", gpu=1)
    lab.cycles()

    assert lab.parked("q") == ["a", "b"]
    assert lab.next_at is None  # nothing will happen of itself


def test_who_lost_to_another_head_of_the_cycle_is_not_parked() -> None:
    lab = Scenario(queue("a", gpu=0), queue("b", gpu=0), queue("lender", gpu=4), cohort="lab")
    lab.pending("first", on="a", gpu=4)
    lab.later().pending("second", on="b", gpu=4)

    assert lab.cycle() == [admit("first")]
    assert lab.line("b") == ["second"]
    assert lab.cycle() == NOTHING
    assert lab.parked("b") == ["second"]


def test_leaving_the_line_leaves_the_others_in_order() -> None:
    lab = Scenario(queue("q", gpu=1))
    lab.running("holder", on="q", gpu=1)
    for name in ("a", "b", "c"):
        lab.later().pending(name, on="q", gpu=1)
    lab.cycles()
    lab.remove("a")
    lab.finish("holder")

    assert lab.cycle() == [admit("b")]
    assert lab.line("q") == ["c"]


@pytest.mark.parametrize("count", [1, 50])
def test_a_parked_class_wakes_as_a_whole_and_starts_in_order(count: int) -> None:
    lab = Scenario(queue("q", gpu=2))
    lab.running("holder", on="q", gpu=2)
    names = [f"w{number:02}" for number in range(count)]
    for name in names:
        lab.pending(name, on="q", gpu=1)
    lab.cycles()
    assert lab.parked("q") == names
    lab.finish("holder")

    assert lab.cycles() == [admit(name) for name in names[:2]]


def test_positions_count_everybody_parked_or_not() -> None:
    lab = Scenario(queue("q", gpu=4), queue("other", gpu=4))
    lab.running("holder", on="q", gpu=3)
    lab.pending("large", on="q", gpu=4)
    lab.later().pending("medium", on="q", gpu=3)
    lab.later().pending("high", on="q", gpu=2, priority=1)
    lab.pending("elsewhere", on="other", gpu=9)
    lab.cycles()

    assert lab.parked("q") == ["high", "large", "medium"]
    assert lab.positions("q") == ["high", "large", "medium"]


def test_a_waiting_preemptor_stands_before_its_equals() -> None:
    lab = Scenario(queue("q", gpu=4, within=NEWER_EQUAL))
    lab.later(10).running("newer", on="q", gpu=4)
    lab.pending("oldest", on="q", gpu=5, created=1.0)
    lab.pending("train", on="q", gpu=4, created=2.0)

    assert lab.cycles() == [preempt("train", victims=["newer"])]
    assert lab.positions("q") == ["train", "oldest"]


# --- the reasons ---


def test_a_shortfall_says_how_much_of_what_is_missing() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.running("holder", on="q", gpu=3)
    lab.pending("train", on="q", gpu=3)
    lab.cycle()

    (reason,) = lab.why("train")
    assert isinstance(reason, Shortfall)
    assert (reason.cell, reason.missing) == (GPU, 2)


def test_more_than_the_tree_could_ever_offer_is_said_as_such() -> None:
    lab = Scenario(queue("q", gpu=quota(4, borrow=1)), queue("other", gpu=4), cohort="lab")
    lab.pending("train", pods("main", 3, gpu=2), on="q")
    lab.cycle()

    assert lab.why("train") == (ExceedsCapacity(MAIN, GPU, 0, 6, 5),)


def test_a_resource_that_the_queue_does_not_have() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("train", on="q", gpu=1, tpu=1)
    lab.pending("none", on="q", gpu=1, tpu=0)

    assert lab.cycles() == [admit("none")]
    assert lab.why("train") == (NotCovered(MAIN, ResourceName("tpu")),)


def test_a_defect_is_told_and_blocks_nobody() -> None:
    lab = Scenario(queue("q", gpu=4))
    lab.pending("broken", on="q", gpu=1)
    lab.edit("broken", defect="requests exceed limits")
    lab.pending("sound", on="q", gpu=1)

    assert lab.cycles() == [admit("sound")]
    assert lab.why("broken") == (Defective("requests exceed limits"),)
    lab.edit("broken", defect=None)
    assert lab.cycles() == [admit("broken")]


def test_a_strict_queue_waits_for_a_defect_to_be_mended_unless_that_one_stands_aside() -> None:
    lab = Scenario(queue("q", gpu=4, strategy=STRICT))
    lab.pending("group", on="q", gpu=1)
    lab.later().pending("next", on="q", gpu=1)
    lab.edit("group", defect="its pods are gone")
    assert lab.cycles() == NOTHING

    lab.edit("group", stands_aside=True)
    assert lab.cycles() == [admit("next")]
    assert lab.why("group") == (Defective("its pods are gone"),)

    lab.edit("group", defect=None, stands_aside=False)
    assert lab.cycles() == [admit("group")]


# --- fewer pods than asked for ---


def test_with_a_minimum_the_largest_count_that_fits_is_admitted() -> None:
    lab = Scenario(queue("q", gpu=10))
    lab.running("holder", on="q", gpu=3)
    lab.pending("elastic", pods("main", 10, at_least=2, gpu=1), on="q")

    assert lab.cycle() == [admit("elastic", pods=7)]
    assert lab.used("q") == 10


def test_below_the_minimum_it_waits() -> None:
    lab = Scenario(queue("q", gpu=10))
    lab.running("holder", on="q", gpu=9)
    lab.pending("elastic", pods("main", 10, at_least=2, gpu=1), on="q")

    assert lab.cycle() == NOTHING
