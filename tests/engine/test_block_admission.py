"""waitForPodsReady.blockAdmission: one by one, each when the pods of the last are ready."""

from __future__ import annotations

from makeway.engine import events as ev
from makeway.engine.decisions import PodsNotReady
from makeway.engine.model import (
    Backoff,
    CheckState,
    Config,
    EvictionReason,
    PodsReadyPolicy,
    WorkloadKey,
)
from tests.harness.engine import (
    HOLD_AND_DRAIN,
    IN_QUEUE,
    LOWER,
    MINUTE,
    Scenario,
    admit,
    evict,
    preempt,
    queue,
    reserve,
)

ONE_BY_ONE = Config(
    pods_ready=PodsReadyPolicy(timeout_s=5 * MINUTE, blocks_admission=True),
    backoff=Backoff(base_s=0),
)


def not_ready(name: str) -> PodsNotReady:
    return PodsNotReady(WorkloadKey(f"default/{name}"))


def two_queues(config: Config = ONE_BY_ONE) -> Scenario:
    """Of one cohort, 5 cpu each, and a workload of 2 in each."""
    lab = Scenario(queue("vision", cpu=5), queue("speech", cpu=5), cohort="lab", config=config)
    lab.pending("train", on="vision", cpu=2)
    lab.pending("index", on="speech", cpu=2)
    return lab


def test_the_second_waits_until_the_pods_of_the_first_are_ready() -> None:
    lab = two_queues()
    assert lab.cycles() == [admit("train")]
    assert lab.why("index") == (not_ready("train"),)

    lab.pods_ready("train")

    assert lab.cycles() == [admit("index")]


def test_without_the_setting_both_are_admitted_at_once() -> None:
    lab = two_queues(Config(pods_ready=PodsReadyPolicy(timeout_s=5 * MINUTE)))

    assert lab.cycles() == [admit("train"), admit("index")]


def test_the_end_of_the_first_will_do() -> None:
    for end in (Scenario.finish, Scenario.remove):
        lab = two_queues()
        lab.cycles()
        end(lab, "train")

        assert lab.cycles() == [admit("index")]


def test_queues_that_lend_each_other_nothing_wait_for_each_other_too() -> None:
    lab = Scenario(queue("vision", cpu=5), queue("speech", cpu=5), config=ONE_BY_ONE)
    lab.pending("index", on="speech", cpu=2)
    lab.pending("train", on="vision", cpu=2, priority=10)
    assert lab.cycles() == [admit("train")]  # the most important of all heads comes first

    lab.pods_ready("train")

    assert lab.cycles() == [admit("index")]


def test_pods_that_never_get_ready_give_way_after_the_timeout() -> None:
    lab = two_queues()
    lab.cycles()
    lab.now = 5 * MINUTE

    timeout = evict("train", EvictionReason.PODS_READY_TIMEOUT)
    assert lab.cycles() == [timeout]
    assert lab.cycles() == []  # its pods hold on
    lab.let_go("train")

    assert lab.cycles() == [admit("index")]


def test_pods_that_are_no_longer_ready_hold_up_the_next() -> None:
    lab = two_queues()
    lab.cycles()
    lab.pods_ready("train")
    lab.pods_not_ready("train")
    assert lab.cycles() == []

    lab.pods_ready("train")

    assert lab.cycles() == [admit("index")]


def test_whoever_has_reserved_and_waits_for_a_check_holds_up_the_next() -> None:
    lab = Scenario(queue("vision", cpu=5, checks=["budget"]), config=ONE_BY_ONE)
    lab.check_is("budget", active=True)
    lab.pending("train", on="vision", cpu=2)
    lab.pending("index", on="vision", cpu=2)
    assert lab.cycles() == [reserve("train", checks=["budget"])]
    lab.answer("train", "budget", CheckState.READY)
    assert lab.cycles() == [admit("train")]  # what is reserved may go on

    lab.pods_ready("train")

    assert lab.cycles() == [reserve("index", checks=["budget"])]


def test_nobody_passes_the_one_who_is_held_up() -> None:
    lab = Scenario(queue("vision", cpu=5), config=ONE_BY_ONE)
    lab.running("old", on="vision", cpu=1, ready=False)
    lab.pending("first", on="vision", cpu=2)
    lab.pending("second", on="vision", cpu=1)
    assert lab.cycles() == []

    lab.pods_ready("old")

    assert lab.cycles() == [admit("first")]


def test_victims_are_taken_all_the_same_and_their_place_is_kept() -> None:
    lab = Scenario(queue("vision", cpu=5, within=LOWER), config=ONE_BY_ONE)
    lab.running("old", on="vision", cpu=1, ready=False)
    lab.running("low", on="vision", cpu=4)
    lab.pending("high", on="vision", cpu=4, priority=10)
    assert lab.cycles() == [preempt("high", victims=["low"], why=IN_QUEUE)]
    lab.let_go("low")
    assert lab.cycles() == []
    assert lab.why("high") == (not_ready("old"),)

    lab.pods_ready("old")

    assert lab.cycles() == [admit("high")]


def test_turning_the_setting_off_lets_everybody_go() -> None:
    lab = two_queues()
    lab.cycles()

    lab.apply(ev.ConfigChanged(Config()))

    assert lab.cycles() == [admit("index")]


def test_turning_it_on_counts_those_who_run() -> None:
    lab = Scenario(queue("vision", cpu=5))
    lab.running("old", on="vision", cpu=1, ready=False)
    lab.apply(ev.ConfigChanged(ONE_BY_ONE))
    lab.pending("train", on="vision", cpu=2)

    assert lab.cycles() == []
    assert lab.why("train") == (not_ready("old"),)


def test_explain_says_whose_pods_are_waited_for() -> None:
    lab = two_queues()
    lab.cycles()

    explained = lab.engine.explain(WorkloadKey("default/index"))

    assert explained.obstacles == (not_ready("train"),)


def test_a_queue_that_drains_frees_those_who_wait() -> None:
    lab = two_queues()
    lab.cycles()
    lab.stop("vision", HOLD_AND_DRAIN)
    lab.cycles()
    lab.let_go("train")

    assert lab.cycles() == [admit("index")]
