"""Back in the queue: seed 003. Where an evicted workload stands, and that nobody flaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.engine import events as ev
from makeway.engine.decisions import (
    DeactivationReason,
    HeldForPreemptor,
    WaitingForVictims,
    WaitsForOwner,
)
from makeway.engine.model import (
    Backoff,
    CheckState,
    Claim,
    Config,
    EvictionReason,
    FlavorName,
    FlavorResource,
    Gates,
    Phase,
    PodsReadyPolicy,
    QueueName,
    RequeueTime,
    ResourceName,
    Strategy,
    WorkloadKey,
)
from tests.harness.engine import (
    ANY,
    BEST_EFFORT,
    HOLD,
    HOLD_AND_DRAIN,
    LOWER,
    MAY_STOP,
    MINUTE,
    NEWER_EQUAL,
    RECLAIM,
    RECLAIM_WHILE_BORROWING,
    STRICT,
    Said,
    Scenario,
    admit,
    cohort,
    deactivate,
    evict,
    pods,
    preempt,
    queue,
    requeue,
    reserve,
)

NOTHING: list[Said] = []
AT_ONCE = Backoff(base_s=0)

both_strategies = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda s: s.value)
both_times = pytest.mark.parametrize("time", list(RequeueTime), ids=lambda t: t.value)


def held_for(name: str) -> HeldForPreemptor:
    return HeldForPreemptor(WorkloadKey(f"default/{name}"))


def left_to(name: str, queue_name: str) -> WaitsForOwner:
    cell = FlavorResource(FlavorName("default"), ResourceName("gpu"))
    return WaitsForOwner(cell, WorkloadKey(f"default/{name}"), QueueName(queue_name))


# --- the place of an evicted workload ---


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param(RequeueTime.CREATION, ["victim", "other"], id="front"),
        pytest.param(RequeueTime.EVICTION, ["other", "victim"], id="back"),
    ],
)
def test_after_preemption_priority_preemption_decides_the_place(
    time: RequeueTime, expected: list[str]
) -> None:
    lab = Scenario(queue("q", gpu=4, within=LOWER), config=Config(after_preemption=time))
    lab.running("victim", on="q", gpu=4)
    lab.later().pending("other", on="q", gpu=3)
    lab.later().pending("urgent", on="q", gpu=4, priority=9)
    assert lab.cycle() == [preempt("urgent", victims=["victim"])]
    lab.later().let_go("victim")
    assert lab.cycle() == [admit("urgent")]

    assert lab.line("q") == expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param(RequeueTime.CREATION, ["slow", "other"], id="front"),
        pytest.param(RequeueTime.EVICTION, ["other", "slow"], id="back"),
    ],
)
def test_after_a_pods_ready_timeout_pods_ready_timeout_decides_the_place(
    time: RequeueTime, expected: list[str]
) -> None:
    lab = Scenario(
        queue("q", gpu=4),
        config=Config(
            after_pods_ready_timeout=time,
            pods_ready=PodsReadyPolicy(timeout_s=300),
            backoff=AT_ONCE,
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    assert lab.cycle() == [admit("slow")]
    lab.later(60).pending("other", on="q", gpu=4)
    assert lab.cycles() == NOTHING
    assert lab.next_at == 300
    assert lab.cycle(now=300) == [evict("slow", EvictionReason.PODS_READY_TIMEOUT)]
    lab.later(5).let_go("slow")

    assert lab.line("q") == expected


@both_times
def test_after_an_admission_check_it_is_always_the_eviction_time(time: RequeueTime) -> None:
    lab = Scenario(
        queue("q", gpu=4, checks=["budget"]),
        config=Config(after_preemption=time, after_pods_ready_timeout=time),
    )
    lab.check_is("budget")
    lab.pending("first", on="q", gpu=4)
    assert lab.cycle() == [reserve("first", checks=["budget"])]
    lab.later().pending("second", on="q", gpu=4)
    lab.later().answer("first", "budget", CheckState.RETRY)
    assert lab.cycle() == [evict("first", EvictionReason.ADMISSION_CHECK)]
    lab.let_go("first")

    assert lab.line("q") == ["second", "first"]


def test_each_reason_has_its_own_setting() -> None:
    lab = Scenario(
        queue("q", gpu=4, within=LOWER),
        config=Config(
            after_preemption=RequeueTime.EVICTION,
            after_pods_ready_timeout=RequeueTime.CREATION,
            pods_ready=PodsReadyPolicy(timeout_s=300),
            backoff=AT_ONCE,
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.later(60).pending("other", on="q", gpu=4)
    lab.cycle(now=300)
    lab.let_go("slow")
    assert lab.line("q") == ["slow", "other"]  # it timed out: front
    assert lab.cycle() == [admit("slow")]
    lab.later().pending("urgent", on="q", gpu=4, priority=9)
    assert lab.cycle() == [preempt("urgent", victims=["slow"])]
    lab.let_go("slow")
    lab.cycle()

    assert lab.line("q") == ["other", "slow"]  # it was preempted: back


def test_an_eviction_time_counts_only_until_the_next_admission() -> None:
    lab = Scenario(
        queue("q", gpu=4, within=LOWER),
        config=Config(
            after_preemption=RequeueTime.CREATION,
            after_pods_ready_timeout=RequeueTime.EVICTION,
            pods_ready=PodsReadyPolicy(timeout_s=300),
            backoff=AT_ONCE,
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=300)
    lab.let_go("slow")  # stands at 300 now
    assert lab.cycle() == [admit("slow")]
    lab.later().pending("other", on="q", gpu=4, created=200.0)
    lab.pending("urgent", on="q", gpu=4, priority=9)
    assert lab.cycle() == [preempt("urgent", victims=["slow"])]
    lab.let_go("slow")
    lab.cycle()

    assert lab.line("q") == ["slow", "other"]  # created at 0, and that counts again


def test_the_first_user_story_of_the_seed() -> None:
    """Stocked out on flavor #2, timed out, and flavor #1 came free meanwhile: go there at once."""
    lab = Scenario(
        queue("q", gpu={"one": 4, "two": 4}),
        config=Config(
            after_pods_ready_timeout=RequeueTime.CREATION,
            pods_ready=PodsReadyPolicy(timeout_s=300),
            backoff=AT_ONCE,
        ),
    )
    lab.running("holder", on="q", flavor="one", gpu=4)
    lab.pending("train", on="q", gpu=4)
    assert lab.cycle() == [admit("train", "two")]
    lab.later(10).pending("other", on="q", gpu=8)  # fits nowhere, but waits behind
    assert lab.cycle(now=300) == [evict("train", EvictionReason.PODS_READY_TIMEOUT)]
    lab.finish("holder")
    lab.let_go("train")

    assert lab.cycle() == [admit("train", "one")]  # before the other, which came later


# --- pauses and their limit ---


def test_the_pause_doubles_up_to_its_maximum_and_the_limit_deactivates() -> None:
    lab = Scenario(
        queue("q", gpu=4),
        config=Config(
            pods_ready=PodsReadyPolicy(timeout_s=100),
            backoff=Backoff(base_s=60, max_s=200, limit=3),
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    assert lab.cycle() == [admit("slow")]
    for pause in (60, 120, 200):
        lab.later(100)
        back = lab.now + pause
        assert lab.cycle() == [evict("slow", EvictionReason.PODS_READY_TIMEOUT, until=back)]
        lab.let_go("slow")
        assert lab.cycles() == NOTHING
        assert lab.next_at == back
        assert lab.cycle(now=back) == [requeue("slow"), admit("slow")]

    assert lab.later(100).cycle() == [deactivate("slow", DeactivationReason.REQUEUE_LIMIT)]
    lab.let_go("slow")
    assert lab.phase("slow") is Phase.INACTIVE


def test_who_pauses_does_not_block_a_strict_queue() -> None:
    lab = Scenario(
        queue("q", gpu=4, strategy=STRICT),
        config=Config(
            after_pods_ready_timeout=RequeueTime.CREATION,
            pods_ready=PodsReadyPolicy(timeout_s=100),
            backoff=Backoff(base_s=60),
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.later().pending("next", on="q", gpu=4)
    lab.cycle(now=100)
    lab.let_go("slow")

    assert lab.cycles() == [admit("next")]


def test_ready_in_time_is_left_alone() -> None:
    lab = Scenario(queue("q", gpu=4), config=Config(pods_ready=PodsReadyPolicy(timeout_s=100)))
    lab.pending("quick", on="q", gpu=4)
    lab.cycle()
    lab.later(50).pods_ready("quick")

    assert lab.cycle(now=1000) == NOTHING


def test_pods_lost_later_have_the_recovery_time() -> None:
    policy = PodsReadyPolicy(timeout_s=100, recovery_timeout_s=30)
    lab = Scenario(queue("q", gpu=4), config=Config(pods_ready=policy, backoff=AT_ONCE))
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.later(50).pods_ready("train")
    lab.later(500).pods_not_ready("train")

    assert lab.cycle(now=579) == NOTHING
    assert lab.cycle(now=580) == [evict("train", EvictionReason.PODS_READY_TIMEOUT)]


def test_a_check_that_says_retry_requeues_after_its_delay() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["budget"]))
    lab.check_is("budget")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "budget", CheckState.RETRY, retry_after=5 * MINUTE)
    assert lab.cycle() == [evict("train", EvictionReason.ADMISSION_CHECK, until=300)]
    lab.later(10).let_go("train")
    assert lab.cycles() == NOTHING
    assert lab.next_at == 300

    assert lab.cycle(now=300) == [requeue("train"), reserve("train", checks=["budget"])]
    assert lab.entry("train").status.requeue_count == 0  # it wasn't the workload's fault
    lab.answer("train", "budget", CheckState.READY)
    assert lab.cycle() == [admit("train")]


# --- no flapping ---


@both_strategies
@both_times
def test_victims_that_end_one_by_one_never_take_the_cleared_place(
    strategy: Strategy, time: RequeueTime
) -> None:
    lab = Scenario(
        queue("q", gpu=8, within=NEWER_EQUAL, strategy=strategy),
        config=Config(after_preemption=time),
    )
    lab.later(10).running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.pending("big", on="q", gpu=8, created=5.0)  # of equal priority, but older

    assert lab.cycle() == [preempt("big", victims=["a", "b"])]
    lab.later(30).let_go("a")
    assert lab.cycles() == NOTHING  # a would fit, but the place is big's
    lab.later(300)
    assert lab.cycles() == NOTHING
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]
    lab.later().finish("big")
    assert lab.cycles() == [admit("a"), admit("b")]


@both_strategies
@both_times
def test_nor_do_those_of_lower_priority(strategy: Strategy, time: RequeueTime) -> None:
    lab = Scenario(
        queue("q", gpu=8, within=LOWER, strategy=strategy), config=Config(after_preemption=time)
    )
    lab.running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.later().pending("big", on="q", gpu=8, priority=1)

    assert lab.cycle() == [preempt("big", victims=["a", "b"])]
    lab.later().let_go("b")
    assert lab.cycles() == NOTHING
    lab.later().let_go("a")
    assert lab.cycles() == [admit("big")]


@both_strategies
@both_times
def test_nor_in_another_queue_of_the_cohort(strategy: Strategy, time: RequeueTime) -> None:
    lab = Scenario(
        queue("owner", gpu=8, reclaim=ANY, strategy=strategy),
        queue("guest", gpu=0, strategy=strategy),
        cohort="lab",
        config=Config(after_preemption=time),
    )
    lab.running("g1", on="guest", gpu=4, priority=5)
    lab.running("g2", on="guest", gpu=4, priority=0)
    lab.later().pending("train", on="owner", gpu=8)

    assert lab.cycle() == [preempt("train", victims=["g1", "g2"], why=RECLAIM)]
    lab.later().let_go("g2")
    assert lab.cycles() == NOTHING
    assert lab.why("g2")[0] == left_to("train", "owner")
    lab.later().let_go("g1")
    assert lab.cycles() == [admit("train")]


def test_who_fits_beside_the_preemptor_may_start() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=3)
    lab.running("b", on="q", gpu=3)
    lab.later().pending("big", on="q", gpu=6, priority=1)  # leaves 2 of 8
    assert lab.cycle() == [preempt("big", victims=["a", "b"])]
    lab.later().pending("small", on="q", gpu=2)
    lab.pending("medium", on="q", gpu=3)
    lab.let_go("a")

    assert lab.cycles() == [admit("small")]
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]


def test_a_higher_priority_that_comes_in_between_may_pass() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.pending("big", on="q", gpu=8, priority=1)
    assert lab.cycle() == [preempt("big", victims=["a", "b"])]
    lab.let_go("a")
    lab.later().pending("urgent", on="q", gpu=4, priority=9)

    assert lab.cycle() == [admit("urgent")]
    lab.let_go("b")
    assert lab.cycles() == [admit("a")]  # big needs eight, and four are urgent's
    assert lab.phase("big") is Phase.PENDING


def two_that_borrow() -> Scenario:
    """`a` may preempt those of lower priority for what both have to borrow."""
    return Scenario(
        queue("a", gpu=0, reclaim=LOWER, borrow_within=True),
        queue("b", gpu=0),
        queue("lender", gpu=8),
        cohort="lab",
    )


def test_a_higher_priority_of_another_queue_may_pass_too() -> None:
    lab = two_that_borrow()
    lab.running("g1", on="b", gpu=4)
    lab.running("g2", on="b", gpu=4)
    lab.pending("train", on="a", gpu=8, priority=1)
    assert lab.cycle() == [preempt("train", victims=["g1", "g2"], why=RECLAIM_WHILE_BORROWING)]
    lab.let_go("g1")
    assert lab.cycles() == NOTHING
    lab.later().pending("urgent", on="b", gpu=4, priority=9)  # both borrow

    assert lab.cycle() == [admit("urgent")]


def test_but_not_if_it_would_have_to_borrow_what_the_preemptor_owns() -> None:
    lab = Scenario(queue("owner", gpu=8, reclaim=ANY), queue("guest", gpu=0), cohort="lab")
    lab.running("g1", on="guest", gpu=4)
    lab.running("g2", on="guest", gpu=4)
    lab.pending("train", on="owner", gpu=8)
    lab.cycle()
    lab.let_go("g1")
    assert lab.cycles() == NOTHING
    lab.later().pending("urgent", on="guest", gpu=4, priority=9)

    assert lab.cycles() == NOTHING  # the owner would only take it back
    assert lab.why("urgent")[0] == left_to("train", "owner")
    lab.let_go("g2")
    assert lab.cycles() == [admit("train")]


def test_but_not_if_it_had_to_give_back_what_it_would_borrow_again() -> None:
    """Else three change places for ever: the low one takes its quota back from the high one and
    has to make way for the middle one, whose place the high one takes.
    """
    a = queue("a", gpu=4, within=LOWER, reclaim=ANY)
    lab = Scenario(a, queue("b", gpu=4), cohort="lab")
    lab.running("mine", on="a", gpu=1, priority=3)
    lab.running("theirs", on="b", gpu=2, priority=9)
    lab.later().running("high", on="b", gpu=4, priority=9)
    lab.later().pending("low", on="a", gpu=3)
    assert lab.cycles() == [preempt("low", victims=["high"], why=RECLAIM)]
    lab.let_go("high")
    assert lab.cycles() == [admit("low")]
    lab.pending("middle", on="a", gpu=4, priority=1)
    assert lab.cycles() == [preempt("middle", victims=["low"])]
    lab.let_go("low")

    assert lab.cycles() == [admit("middle")]
    assert lab.phase("high") is Phase.PENDING


def test_who_is_held_back_is_parked_with_all_of_its_shape_in_one_cycle() -> None:
    lab = waiting_preemptor()
    for number in range(3):
        lab.pending(f"small-{number}", on="q", gpu=2)

    assert lab.cycle() == NOTHING
    assert lab.line("q") == []
    assert lab.parked("q") == ["big", "small-0", "small-1", "small-2"]
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]


def test_but_not_with_those_who_did_not_have_to_give_anything_back() -> None:
    """`back` may not return yet, as it would borrow again; `fresh` is equal but for that."""
    lab = two_that_borrow()
    lab.running("g1", on="b", gpu=4)
    lab.running("back", on="b", gpu=4, priority=9)
    lab.evicted("back", EvictionReason.PREEMPTED)
    lab.let_go("back")
    lab.running("g2", on="b", gpu=4)
    lab.pending("train", on="a", gpu=8, priority=1)
    assert lab.cycle() == [preempt("train", victims=["g1", "g2"], why=RECLAIM_WHILE_BORROWING)]
    lab.let_go("g1")
    lab.later().pending("fresh", on="b", gpu=4, priority=9)

    assert lab.cycles() == [admit("fresh")]
    assert "back" in lab.parked("b")


def test_two_preemptors_at_once_both_get_their_place() -> None:
    lab = Scenario(
        queue("a", gpu=4, reclaim=ANY),
        queue("b", gpu=4, reclaim=ANY),
        queue("guest", gpu=0),
        cohort="lab",
    )
    lab.running("g1", on="guest", gpu=4)
    lab.later().running("g2", on="guest", gpu=4)
    lab.pending("one", on="a", gpu=4)
    lab.later().pending("two", on="b", gpu=4)
    assert lab.cycle() == [
        preempt("one", victims=["g2"], why=RECLAIM),
        preempt("two", victims=["g1"], why=RECLAIM),
    ]

    lab.later().let_go("g1")  # the first to let go is the other one's victim
    assert lab.cycles() == [admit("one")]
    assert isinstance(lab.why("two")[0], WaitingForVictims)
    lab.later().let_go("g2")
    assert lab.cycles() == [admit("two")]


def test_two_preemptors_never_wait_for_each_other() -> None:
    """`first` came before `second`; but since `urgent` has passed it, it would have to borrow."""
    lab = Scenario(queue("q", gpu=4, within=LOWER), queue("r", gpu=4, within=LOWER), cohort="lab")
    lab.running("a", on="q", gpu=4, priority=-1)
    lab.running("b", on="r", gpu=3, priority=-1)
    lab.later().pending("first", on="q", gpu=3, priority=1)
    lab.later().pending("second", on="r", gpu=4, priority=1)
    assert lab.cycle() == [preempt("first", victims=["a"]), preempt("second", victims=["b"])]
    lab.pending("urgent", on="q", gpu=3, priority=9)
    lab.let_go("a", "b")

    assert lab.cycles() == [admit("urgent"), admit("second")]
    assert lab.phase("first") is Phase.PENDING


def test_nor_does_the_head_of_a_strict_queue_wait_for_a_preemptor_behind_it() -> None:
    """`low` needs no more than its queue has; `head` has to borrow, but stands before it."""
    q = queue("q", gpu=4, reclaim=ANY, strategy=STRICT)
    lab = Scenario(q, queue("guest", gpu=4), cohort="lab")
    lab.running("borrower", on="guest", gpu=8)
    lab.pending("low", on="q", gpu=3)
    assert lab.cycle() == [preempt("low", victims=["borrower"], why=RECLAIM)]
    lab.later().pending("head", on="q", gpu=6, priority=1)
    lab.let_go("borrower")

    assert lab.cycle() == [admit("head")]


def three_rules_of_preemption(*, owners_first: bool) -> Scenario:
    """`small` reclaims from `low`, `big` takes its place and borrows, `low` has its fair share."""
    gates = Gates(owners_first=owners_first, preemption_backoff=False)
    lab = Scenario(
        queue("a", gpu=5, within=NEWER_EQUAL, reclaim=LOWER),
        queue("b", gpu=5, reclaim=ANY),
        cohort="lab",
        config=Config(fair_sharing=True, gates=gates),
    )
    lab.running("urgent", on="a", gpu=3, priority=9)
    lab.running("steady", on="b", gpu=2, priority=1)
    lab.running("low", on="b", gpu=4, priority=-1)
    lab.pending("small", on="a", gpu=2)
    lab.pending("big", on="a", gpu=4, priority=1)
    return lab


def let_all_go(lab: Scenario) -> list[str]:
    leaving = [n for n in ("urgent", "low", "small", "big") if lab.phase(n) is Phase.EVICTING]
    lab.later().let_go(*leaving)
    return leaving


def test_three_rules_of_preemption_in_a_row_make_no_circle() -> None:
    """While `small` waits inside its queue's own quota, `low` may not borrow that again."""
    lab = three_rules_of_preemption(owners_first=True)

    assert lab.cycles() == [preempt("small", victims=["low"], why=RECLAIM)]
    assert let_all_go(lab) == ["low"]
    assert lab.cycles()[-1] == admit("big")  # the more important of its queue
    assert let_all_go(lab) == []
    assert lab.cycles() == NOTHING
    assert isinstance(lab.why("low")[0], WaitsForOwner)


def test_but_they_do_where_borrowers_may_pass_owners() -> None:
    lab = three_rules_of_preemption(owners_first=False)
    for _ in range(12):
        lab.cycles()
        assert let_all_go(lab)


def test_no_new_victims_while_those_on_their_way_suffice() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.later().running("b", on="q", gpu=4)
    lab.pending("train", on="q", gpu=4, priority=1)
    assert lab.cycle() == [preempt("train", victims=["b"])]
    lab.later().pending("noise", on="q", gpu=1)
    lab.finish("noise")

    assert lab.later(60).cycles() == NOTHING
    assert lab.phase("a") is Phase.ADMITTED


def test_the_place_of_one_who_leaves_anyway_is_kept_as_well() -> None:
    """`big` needs no victims: `gone` is on its way out, though not for its sake."""
    lab = Scenario(queue("q", gpu=2, within=LOWER))
    lab.running("gone", on="q", gpu=1, priority=1)
    lab.edit("gone", active=False)
    assert lab.cycle() == [evict("gone", EvictionReason.DEACTIVATED)]
    lab.pending("big", on="q", gpu=2, priority=2)
    lab.pending("small", on="q", gpu=1)

    assert lab.cycles() == NOTHING
    assert isinstance(lab.why("big")[0], WaitingForVictims)
    assert lab.why("small") == (held_for("big"),)
    lab.let_go("gone")
    assert lab.cycles() == [admit("big")]


def waiting_preemptor(strategy: Strategy = BEST_EFFORT) -> Scenario:
    """`big` waits for the second of its victims; the first, `a`, would fit and is held."""
    lab = Scenario(
        queue("q", gpu=8, reclaim=ANY, strategy=strategy),
        queue("guest", gpu=0),
        queue("elsewhere", gpu=1),
        cohort="lab",
    )
    lab.running("a", on="guest", gpu=4)
    lab.running("b", on="guest", gpu=4)
    lab.later().pending("big", on="q", gpu=8)
    assert lab.cycle() == [preempt("big", victims=["a", "b"], why=RECLAIM)]
    lab.let_go("a")
    assert lab.cycles() == NOTHING
    return lab


@both_strategies
@pytest.mark.parametrize(
    "how",
    [
        "removed",
        "finished",
        "deactivated",
        "stopped",
        "drained",
        "moved",
        "local queue stopped",
    ],
)
def test_the_place_is_free_again_when_the_preemptor_is(how: str, strategy: Strategy) -> None:
    lab = waiting_preemptor(strategy)
    match how:
        case "removed":
            lab.remove("big")
        case "finished":
            lab.finish("big")
        case "deactivated":
            lab.edit("big", active=False)
        case "stopped":
            lab.stop("q", HOLD)
        case "drained":
            lab.stop("q", HOLD_AND_DRAIN)
        case "moved":
            lab.edit("big", on="elsewhere")
        case "local queue stopped":
            lab.local_queue("q", to="q", stop=HOLD)

    assert lab.cycles() == [admit("a")]


@both_strategies
def test_the_place_is_kept_though_the_cohort_is_edited(strategy: Strategy) -> None:
    lab = waiting_preemptor(strategy)
    lab.change(cohort("lab", gpu=1))
    assert lab.cycles() == NOTHING
    lab.edit_queue("elsewhere", cohort=None)
    assert lab.cycles() == NOTHING
    lab.let_go("b")

    assert lab.cycles() == [admit("big")]


def test_the_place_is_kept_over_a_restart() -> None:
    lab = waiting_preemptor()
    lab.restart()

    assert lab.cycles() == NOTHING
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]


def test_a_place_that_was_written_down_as_a_mere_fact_is_found_out_anew() -> None:
    lab = waiting_preemptor()
    big = lab.entry("big")
    lab.apply(ev.WorkloadSeen(big.workload, big.status._replace(claim=Claim())))

    assert lab.cycles() == NOTHING
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]


def test_a_restart_chooses_the_same_flavor_and_no_further_victim() -> None:
    """`big` clears its place on spot; then reserved, where it would look first, changes hands."""
    lab = Scenario(
        queue("q", gpu={"reserved": 4, "spot": 4}, within=LOWER, when_can_preempt=MAY_STOP)
    )
    lab.running("urgent", on="q", flavor="reserved", gpu=4, priority=9)
    lab.running("low", on="q", flavor="spot", gpu=4)
    lab.later().pending("big", on="q", gpu=4, priority=5)
    assert lab.cycle() == [preempt("big", victims=["low"])]
    lab.later().finish("urgent")
    lab.pending("quick", on="q", gpu=4)
    assert lab.cycles() == [admit("quick", "reserved")]

    lab.restart()
    assert lab.cycles() == NOTHING
    lab.let_go("low")

    assert lab.cycles() == [admit("big", "spot")]
    assert lab.phase("quick") is Phase.ADMITTED


def test_the_place_is_kept_though_its_namespace_is_labelled_anew() -> None:
    lab = waiting_preemptor()
    lab.apply(ev.NamespaceChanged("default", {"team": "vision"}))

    assert lab.cycles() == NOTHING
    assert lab.entry("big").status.claim is not None
    lab.let_go("b")
    assert lab.cycles() == [admit("big")]


def test_no_place_is_kept_for_who_comes_back_with_a_defect() -> None:
    lab = waiting_preemptor()
    big = lab.entry("big").workload
    status = lab.entry("big").status
    lab.apply(ev.WorkloadSeen(replace(big, defect="its pods are gone"), status))

    assert lab.cycles() == [admit("a")]


def test_a_preemptor_that_shrinks_and_needs_nobody_any_more_starts_at_once() -> None:
    lab = waiting_preemptor()
    lab.edit("big", pod_sets=(pods("main", gpu=4),))

    assert lab.cycles() == [admit("big")]


def test_with_the_gate_off_a_newcomer_slips_into_the_cleared_place() -> None:
    """As in Kueue with StrictFIFO; what HoldForPreemptor is there to prevent."""
    for held, first in ((True, NOTHING), (False, [admit("newcomer")])):
        lab = Scenario(
            queue("q", gpu=8, within=NEWER_EQUAL, strategy=STRICT),
            config=Config(gates=Gates(hold_for_preemptor=held)),
        )
        lab.later(10).running("a", on="q", gpu=4)
        lab.running("b", on="q", gpu=4)
        lab.pending("big", on="q", gpu=8, created=5.0)
        assert lab.cycle() == [preempt("big", victims=["a", "b"])]
        lab.let_go("a")
        lab.pending("newcomer", on="q", gpu=4, created=4.0)  # an older one, back from elsewhere

        assert lab.cycles() == first


def test_a_preemptor_that_loses_its_priority_loses_its_claim() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.running("b", on="q", gpu=4)
    lab.later().pending("big", on="q", gpu=8, priority=1)
    assert lab.cycle() == [preempt("big", victims=["a", "b"])]
    lab.let_go("a")
    assert lab.cycles() == NOTHING
    lab.edit("big", priority=0)

    assert lab.cycles() == [admit("a")]


def test_a_preemptor_that_grows_asks_for_the_victims_that_are_missing() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.later().running("b", on="q", gpu=4)
    lab.pending("train", on="q", gpu=4, priority=1)
    assert lab.cycle() == [preempt("train", victims=["b"])]
    lab.edit("train", pod_sets=(pods("main", gpu=6),))

    assert lab.cycles() == [preempt("train", victims=["a"])]
    lab.let_go("a", "b")
    assert lab.cycles() == [admit("train")]


def test_who_is_deferred_behind_another_s_victims_is_a_preemptor_too() -> None:
    lab = Scenario(
        queue("a", gpu=4, reclaim=ANY),
        queue("b", gpu=4, reclaim=ANY),
        queue("guest", gpu=0),
        cohort="lab",
    )
    lab.running("guest-1", on="guest", gpu=8)
    lab.pending("one", on="a", gpu=4)
    lab.later().pending("two", on="b", gpu=4)
    assert lab.cycle() == [preempt("one", victims=["guest-1"], why=RECLAIM)]
    lab.remove("one")
    lab.let_go("guest-1")
    lab.edit("guest-1", pod_sets=(pods("main", gpu=6),))

    assert lab.cycles() == [admit("two")]


def test_two_preemptors_of_one_queue_are_both_served_and_nobody_goes_in_vain() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER))
    lab.running("a", on="q", gpu=4)
    lab.later().running("b", on="q", gpu=4)
    lab.pending("one", on="q", gpu=4, priority=1)
    lab.pending("two", on="q", gpu=4, priority=1)
    said = lab.cycles()
    while lab.phase("two") is not Phase.ADMITTED:
        lab.let_go(*(name for name in ("a", "b") if lab.phase(name) is Phase.EVICTING))
        said += lab.cycles()

    assert said.count(preempt("one", victims=["b"])) == 1
    assert said.count(preempt("two", victims=["a"])) == 1
    assert len(said) == 4  # and the two admissions


def test_a_preemptor_whose_admission_could_not_be_written_still_comes_first() -> None:
    lab = Scenario(queue("owner", gpu=8, reclaim=ANY), queue("guest", gpu=0), cohort="lab")
    lab.running("g1", on="guest", gpu=8, priority=9)
    lab.later().pending("train", on="owner", gpu=8)
    lab.cycle()
    lab.let_go("g1")
    assert lab.cycle() == [admit("train")]
    lab.forget("train")

    assert lab.cycles() == [admit("train")]


def test_quota_reserved_for_checks_ends_the_waiting_of_a_preemptor() -> None:
    lab = Scenario(queue("q", gpu=8, within=LOWER, checks=["budget"]))
    lab.check_is("budget")
    lab.running("a", on="q", gpu=8)
    lab.later().pending("train", on="q", gpu=6, priority=1)
    assert lab.cycle() == [preempt("train", victims=["a"])]
    lab.let_go("a")

    assert lab.cycles() == [reserve("train", checks=["budget"])]
    lab.pending("small", on="q", gpu=2)
    assert lab.cycles() == [reserve("small", checks=["budget"])]


def test_the_gate_may_be_switched_while_a_preemptor_waits() -> None:
    lab = waiting_preemptor()
    lab.apply(ev.ConfigChanged(Config(gates=Gates(hold_for_preemptor=False))))
    lab.cycle()
    lab.apply(ev.ConfigChanged(Config()))
    lab.let_go("b")

    assert lab.cycles() == [admit("big")]


def test_no_place_is_kept_for_a_preemptor_behind_a_head_that_blocks_its_strict_queue() -> None:
    lab = Scenario(
        queue("owner", gpu=8, reclaim=ANY, strategy=STRICT), queue("guest", gpu=0), cohort="lab"
    )
    lab.running("a", on="guest", gpu=4)
    lab.running("b", on="guest", gpu=4)
    lab.pending("train", on="owner", gpu=8)
    lab.cycle()
    lab.later().pending("monster", on="owner", gpu=99, priority=9)  # waits for ever, and train
    lab.let_go("a", "b")

    assert lab.cycles() == [admit("a"), admit("b")]
    lab.later().remove("monster")
    assert lab.cycles() == [preempt("train", victims=["b", "a"], why=RECLAIM)]


def test_stopped_on_its_nodes_it_comes_back_after_a_pause() -> None:
    lab = Scenario(queue("q", gpu=4), config=Config(backoff=Backoff(base_s=60)))
    lab.running("train", on="q", gpu=4)
    lab.later(10).evicted("train", EvictionReason.PREEMPTED_IN_PLACEMENT)
    assert lab.cycles() == NOTHING
    lab.let_go("train")
    assert lab.cycles() == NOTHING

    assert lab.next_at == 70
    assert lab.cycle(now=70) == [requeue("train"), admit("train")]


def test_a_restart_keeps_pauses_and_counts() -> None:
    lab = Scenario(
        queue("q", gpu=4),
        config=Config(
            pods_ready=PodsReadyPolicy(timeout_s=100), backoff=Backoff(base_s=60, limit=1)
        ),
    )
    lab.pending("slow", on="q", gpu=4)
    lab.cycle()
    lab.cycle(now=100)
    lab.let_go("slow")
    lab.restart(after_s=10)

    assert lab.cycles() == NOTHING
    assert lab.next_at == 160
    assert lab.cycle(now=160) == [requeue("slow"), admit("slow")]
    assert lab.cycle(now=260) == [deactivate("slow", DeactivationReason.REQUEUE_LIMIT)]


def test_a_delay_asked_for_by_a_check_does_not_outlive_its_eviction() -> None:
    lab = Scenario(queue("q", gpu=4, checks=["budget"]))
    lab.check_is("budget")
    lab.pending("train", on="q", gpu=4)
    lab.cycle()
    lab.answer("train", "budget", CheckState.RETRY, retry_after=10)
    lab.cycle()
    lab.answer("train", "budget", CheckState.RETRY, retry_after=1000)  # once more, too late
    lab.let_go("train")
    assert lab.cycle(now=10) == [requeue("train"), reserve("train", checks=["budget"])]
    lab.answer("train", "budget", CheckState.RETRY, retry_after=10)

    assert lab.cycle() == [evict("train", EvictionReason.ADMISSION_CHECK, until=20)]


def test_a_victim_does_not_return_because_somebody_else_is_on_the_way_out() -> None:
    """The preemptor has no claim on that place, and would take its own from the victim again."""
    lab = Scenario(queue("a", cpu=4, within=LOWER), queue("b", cpu=4), cohort="lab")
    lab.running("other", on="b", cpu=4)
    lab.running("one", on="a", cpu=2)
    lab.running("two", on="a", cpu=2)
    lab.pending("urgent", on="a", cpu=4, priority=10)
    lab.cycles()
    lab.evicted("other", EvictionReason.PREEMPTED_IN_PLACEMENT)

    lab.let_go("one")
    assert lab.cycles() == []
    lab.let_go("two")
    assert lab.cycles() == [admit("urgent")]
