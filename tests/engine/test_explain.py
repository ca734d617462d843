"""Why does my workload not run, who holds what it needs, and what would help?"""

from __future__ import annotations

from makeway.engine.decisions import (
    ExceedsCapacity,
    NamespaceNotAdmitted,
    Preemptability,
    PreemptionPaused,
    Shortfall,
    VictimRule,
    WaitsForOwner,
)
from makeway.engine.explain import (
    AllOf,
    AnyOf,
    BackingOff,
    BehindHead,
    ChecksOpen,
    EvictedByStop,
    Explanation,
    FitsNow,
    HigherBorrowingLimit,
    HigherPriority,
    LeftByOwners,
    LettingGo,
    LocalQueueStopped,
    LowerMinimum,
    MoreQuota,
    NoLocalQueue,
    NoQueue,
    OwnQuota,
    QueueInactive,
    Refusal,
    ResumedQueue,
    SmallerRequest,
    Threat,
)
from makeway.engine.model import (
    Backoff,
    CheckName,
    CheckState,
    Config,
    EvictionReason,
    FlavorName,
    FlavorResource,
    Gates,
    Inactive,
    LocalQueueKey,
    NamespaceSelector,
    Phase,
    PodSetName,
    PodsReadyPolicy,
    Preemptions,
    QueueName,
    ResourceName,
    StopPolicy,
    WorkloadKey,
)
from makeway.selectors import Requirement
from tests.harness.engine import (
    ANY,
    HOLD,
    HOLD_AND_DRAIN,
    LOWER,
    NEWER_EQUAL,
    STRICT,
    Scenario,
    pods,
    queue,
    quota,
)

GPU = FlavorResource(FlavorName("default"), ResourceName("gpu"))
MAIN = PodSetName("main")


def key(name: str) -> WorkloadKey:
    return WorkloadKey(f"default/{name}")


def explain(lab: Scenario, name: str) -> Explanation:
    return lab.engine.explain(key(name))


def verdicts(explanation: Explanation) -> dict[str, VictimRule | Refusal]:
    return {h.workload.removeprefix("default/"): h.verdict for h in explanation.holders}


def short_of(missing: int, outlook: Preemptability) -> Shortfall:
    return Shortfall(MAIN, GPU, missing, outlook)


# --- who holds it, and could it be taken back? ---


def test_a_full_queue_names_who_holds_the_missing_quota_biggest_first() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.running("small", on="vision", gpu=2)
    lab.running("big", on="vision", gpu=5)
    lab.pending("eval", on="vision", gpu=4)
    lab.cycles()

    answer = explain(lab, "eval")

    assert answer.obstacles == (short_of(3, Preemptability.NO_VICTIMS),)
    assert [(h.workload, dict(h.amounts)) for h in answer.holders] == [
        (key("big"), {GPU: 5}),
        (key("small"), {GPU: 2}),
    ]
    assert verdicts(answer) == {"big": Refusal.POLICY, "small": Refusal.POLICY}


def test_priority_decides_who_of_the_own_queue_could_give_way() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER))
    lab.running("important", on="vision", gpu=4, priority=5)
    lab.running("humble", on="vision", gpu=4, priority=1)
    lab.pending("eval", on="vision", gpu=8, priority=3)
    lab.cycles()

    answer = explain(lab, "eval")

    assert verdicts(answer) == {"important": Refusal.PRIORITY, "humble": Refusal.NOT_ENOUGH}
    assert answer.would_preempt == ()
    assert answer.helps[0] == HigherPriority(6, (key("humble"), key("important")))


def test_who_runs_hears_for_whom_it_may_have_to_make_way() -> None:
    lab = Scenario(
        queue("vision", gpu=4, within=LOWER), queue("speech", gpu=4, reclaim=ANY), cohort="lab"
    )
    lab.running("modest", on="vision", gpu=4)
    own = Threat(QueueName("vision"), VictimRule.IN_QUEUE)
    assert explain(lab, "modest").threats == (own,)

    lab.running("greedy", on="vision", gpu=2)  # now vision borrows
    owner = Threat(QueueName("speech"), VictimRule.RECLAIM)
    assert explain(lab, "greedy").threats == (own, owner)


def test_what_would_start_now_is_told_before_what_others_could_do() -> None:
    lab = Scenario(queue("vision", gpu=8, within=LOWER))
    lab.running("modest", on="vision", gpu=2, priority=1)
    lab.running("big", on="vision", gpu=5, priority=1)
    lab.pending("eval", on="vision", gpu=4)

    assert explain(lab, "eval").helps == (
        FitsNow(GPU, 1),
        HigherPriority(2, (key("big"),)),
        AnyOf((key("big"),)),
        MoreQuota(GPU, 3),
    )


def test_who_asks_for_more_than_its_queue_owns_hears_of_nobody_whom_it_could_take() -> None:
    lab = Scenario(
        queue("vision", gpu=1, reclaim=ANY),
        queue("speech", gpu=3),
        queue("text", gpu=4),
        cohort="lab",
    )
    lab.running("ann", on="speech", gpu=7)  # 4 of them borrowed
    lab.pending("cem", on="vision", gpu=2)

    answer = explain(lab, "cem")

    (shortfall,) = answer.obstacles
    assert isinstance(shortfall, Shortfall)
    assert shortfall.preemption is Preemptability.FORBIDDEN
    assert verdicts(answer) == {"ann": Refusal.BEYOND_QUOTA}
    assert answer.helps[0] == FitsNow(GPU, 1)


def test_a_neighbour_can_be_reclaimed_from_only_while_it_borrows() -> None:
    lab = Scenario(
        queue("vision", gpu=4, reclaim=ANY),
        queue("speech", gpu=4),
        queue("text", gpu=4),
        cohort="lab",
    )
    lab.running("borrower", on="speech", gpu=8)
    lab.running("modest", on="text", gpu=4)
    lab.pending("eval", on="vision", gpu=4)

    answer = explain(lab, "eval")

    assert verdicts(answer) == {"borrower": VictimRule.RECLAIM, "modest": Refusal.NOT_BORROWING}
    assert answer.would_preempt == (key("borrower"),)


def test_nobody_is_taken_from_a_stopped_neighbour() -> None:
    lab = Scenario(queue("vision", gpu=4, reclaim=ANY), queue("speech", gpu=4), cohort="lab")
    lab.running("borrower", on="speech", gpu=8)
    lab.stop("speech", HOLD)
    lab.pending("eval", on="vision", gpu=4)

    assert verdicts(explain(lab, "eval")) == {"borrower": Refusal.QUEUE_STOPPED}


def test_who_is_on_the_way_out_is_not_asked_again() -> None:
    lab = Scenario(queue("vision", gpu=4, within=LOWER))
    lab.running("humble", on="vision", gpu=4)
    lab.pending("eval", on="vision", gpu=4, priority=1)
    lab.cycle()

    answer = explain(lab, "eval")

    assert answer.is_preemptor
    assert verdicts(answer) == {"humble": Refusal.LETTING_GO}
    assert explain(lab, "humble").obstacles == (LettingGo(EvictionReason.PREEMPTED),)


# --- what would help? ---


def test_any_of_those_whose_end_alone_would_be_enough() -> None:
    lab = Scenario(queue("vision", gpu=8))
    lab.running("small", on="vision", gpu=1)
    lab.running("fair", on="vision", gpu=3)
    lab.running("big", on="vision", gpu=4)
    lab.pending("eval", on="vision", gpu=3)

    assert explain(lab, "eval").helps == (
        AnyOf((key("big"), key("fair"))),
        MoreQuota(GPU, 3),
    )


def test_all_of_several_when_no_single_one_is_enough() -> None:
    lab = Scenario(queue("vision", gpu=6))
    lab.running("one", on="vision", gpu=2)
    lab.running("two", on="vision", gpu=2)
    lab.running("three", on="vision", gpu=2)
    lab.pending("eval", on="vision", gpu=4)

    assert explain(lab, "eval").helps == (AllOf((key("one"), key("two"))), MoreQuota(GPU, 4))


def test_a_request_beyond_all_limits_fits_when_it_is_smaller_or_a_limit_higher() -> None:
    lab = Scenario(queue("vision", gpu=quota(4, borrow=2)), queue("speech", gpu=8), cohort="lab")
    lab.pending("eval", on="vision", gpu=7)
    lab.cycles()

    answer = explain(lab, "eval")

    assert answer.obstacles == (ExceedsCapacity(MAIN, GPU, 0, 7, 6),)
    assert answer.helps == (
        SmallerRequest(GPU, 6),
        MoreQuota(GPU, 1),
        HigherBorrowingLimit(QueueName("vision"), GPU),
    )
    assert answer.holders == ()


def test_when_not_even_the_least_of_pods_fits_the_minimum_is_named() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.pending("eval", pods("main", 8, at_least=6, gpu=1), on="vision")
    lab.cycles()

    assert LowerMinimum(MAIN, 6) in explain(lab, "eval").helps


def test_who_would_do_with_fewer_pods_than_fit_at_most_waits_for_room() -> None:
    """Ten pods never fit, four do as soon as the holder of 18 cpu has gone."""
    lab = Scenario(queue("vision", cpu=20, memory=8))
    lab.running("holder", on="vision", cpu=18)
    lab.pending("sweep", pods("main", 10, at_least=4, cpu=1, memory=1), on="vision")
    lab.cycles()

    memory = FlavorResource(FlavorName("default"), ResourceName("memory"))
    exceeds = ExceedsCapacity(MAIN, memory, 0, 10, 8, least=4)
    assert exceeds in explain(lab, "sweep").obstacles
    assert not exceeds.is_final


def test_who_comes_behind_pods_of_which_fewer_would_do_waits_for_room() -> None:
    """Eight workers and the launcher need 10 cpu of 8; one worker would do."""
    lab = Scenario(queue("vision", cpu=8, gpu=1))
    lab.running("holder", on="vision", gpu=1)
    team = pods("workers", 8, at_least=1, cpu=1), pods("launcher", cpu=2, gpu=1)
    lab.pending("sweep", *team, on="vision")
    lab.cycles()

    cpu = FlavorResource(FlavorName("default"), ResourceName("cpu"))
    exceeds = ExceedsCapacity(PodSetName("launcher"), cpu, 8, 2, 8, least=3)
    assert exceeds in explain(lab, "sweep").obstacles
    assert not exceeds.is_final


# --- the line ---


def test_position_and_those_ahead_nearest_last() -> None:
    lab = Scenario(queue("vision", gpu=1))
    lab.running("now", on="vision", gpu=1)
    lab.pending("first", on="vision", gpu=1)
    lab.pending("second", on="vision", gpu=1)
    lab.pending("urgent", on="vision", gpu=1, priority=9)
    lab.cycles()

    answer = explain(lab, "second")

    assert answer.position == 2
    assert answer.ahead == (key("urgent"), key("first"))


def test_behind_the_head_of_a_strict_queue_even_a_small_one_waits() -> None:
    lab = Scenario(queue("vision", gpu=4, strategy=STRICT))
    lab.running("now", on="vision", gpu=2)
    lab.pending("big", on="vision", gpu=4)
    lab.pending("small", on="vision", gpu=1)
    lab.cycles()

    answer = explain(lab, "small")

    assert answer.obstacles == (BehindHead(key("big")),)
    assert answer.helps == ()  # of quota there is enough


def test_a_place_held_for_a_preemptor_is_named() -> None:
    lab = Scenario(queue("vision", gpu=4, within=LOWER), queue("speech", gpu=0), cohort="lab")
    lab.running("old-1", on="vision", gpu=2)
    lab.running("old-2", on="vision", gpu=2)
    lab.pending("boss", on="vision", gpu=4, priority=5)
    lab.cycle()
    lab.let_go("old-1")
    lab.pending("guest", on="speech", gpu=2)
    lab.cycles()

    assert explain(lab, "guest").obstacles == (
        WaitsForOwner(GPU, key("boss"), QueueName("vision")),
    )


# --- owners first ---


def owner_and_borrowers() -> Scenario:
    """a owns 4 and waits for them; b owns 4 and runs 6."""
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=4), cohort="lab")
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    return lab


def test_who_may_not_borrow_is_told_for_whom_what_is_left_and_what_would_help() -> None:
    lab = owner_and_borrowers()
    lab.pending("b2", on="b", gpu=2)
    lab.cycles()

    answer = explain(lab, "b2")

    assert answer.obstacles == (WaitsForOwner(GPU, key("a1"), QueueName("a")),)
    assert answer.left_by_owners == (LeftByOwners(GPU, asked=2, left=-2),)  # 8 - 6 - 4
    assert answer.helps == (
        AnyOf((key("a1"),)),
        AnyOf((key("b1"),)),  # then it need not borrow
        MoreQuota(GPU, 4),  # 2 for the owner, 2 for it
    )
    assert not answer.is_owner


def test_an_owner_is_told_that_it_is_one_and_who_borrows() -> None:
    lab = owner_and_borrowers()
    lab.cycles()

    answer = explain(lab, "a1")

    assert answer.is_owner
    assert [(h.workload, h.borrowed) for h in answer.holders] == [(key("b1"), ((GPU, 2),))]
    assert answer.left_by_owners == ()


def test_a_borrower_that_lacks_quota_is_told_what_is_enough_beside_the_owner() -> None:
    """1 more would do if nobody waited for it: 8 - 6 + 1 = 3."""
    lab = owner_and_borrowers()
    lab.pending("b2", on="b", gpu=3)
    lab.cycles()

    answer = explain(lab, "b2")

    assert answer.obstacles == (short_of(1, Preemptability.NO_VICTIMS),)
    assert answer.left_by_owners == (LeftByOwners(GPU, asked=3, left=-2),)
    assert MoreQuota(GPU, 5) in answer.helps


def test_quota_of_its_own_would_help_as_well_and_so_would_the_end_of_all_owners() -> None:
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=4), cohort="lab")
    lab.running("b1", on="b", gpu=4)
    lab.pending("too-big", on="a", gpu=9, priority=10)
    for name in ("a1", "a2"):
        lab.pending(name, on="a", gpu=1)
    lab.pending("b2", on="b", gpu=4)
    lab.cycle()

    answer = explain(lab, "b2")

    assert answer.left_by_owners == (LeftByOwners(GPU, asked=4, left=2),)
    assert answer.helps == (
        AllOf((key("a1"), key("a2"))),
        AnyOf((key("b1"),)),
        MoreQuota(GPU, 2),
        OwnQuota(QueueName("b"), GPU, 4),
    )


def test_asking_twice_gives_the_same_answer() -> None:
    """What-ifs leave no trace: were a0 gone, a1 and a2 would claim 4 and leave 2."""
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=4), queue("c", gpu=4), cohort="lab")
    lab.running("a0", on="a", gpu=2)
    lab.running("b1", on="b", gpu=4)
    lab.pending("too-big", on="a", gpu=13, priority=10)
    for name in ("a1", "a2"):
        lab.pending(name, on="a", gpu=2)
    lab.pending("b2", on="b", gpu=5)

    first = explain(lab, "b2")

    assert first.left_by_owners == (LeftByOwners(GPU, asked=5, left=4),)  # 12 - 6 - 2
    assert explain(lab, "b2") == first


def test_without_the_gate_nobody_is_an_owner() -> None:
    off = Config(gates=Gates(owners_first=False))
    lab = Scenario(queue("a", gpu=4), queue("b", gpu=4), cohort="lab", config=off)
    lab.running("b1", on="b", gpu=6)
    lab.pending("a1", on="a", gpu=4)
    lab.pending("b2", on="b", gpu=3)
    lab.cycles()

    assert not explain(lab, "a1").is_owner
    assert explain(lab, "b2").left_by_owners == ()


def test_who_pauses_between_preemptions_is_told_until_when() -> None:
    lab = Scenario(
        queue("a", gpu=4, reclaim=ANY),
        queue("b", gpu=3, reclaim=ANY, within=NEWER_EQUAL),
        cohort="lab",
        config=Config(fair_sharing=True),
    )
    for name, on, gpu, priority in [("b1", "b", 4, 0), ("b2", "b", 6, 10), ("a1", "a", 6, 0)]:
        lab.pending(name, on=on, gpu=gpu, priority=priority)
        lab.settle()
        lab.later()
    lab.settle()  # a1 has taken b2's place twice, at 2 s and at 3 s, and lost it to b1

    assert PreemptionPaused(Preemptions(2, 3.0), until=5.0) in explain(lab, "a1").obstacles


# --- not even looked at ---


def test_no_local_queue() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.pending("lost", on="nowhere", gpu=1)

    answer = explain(lab, "lost")

    assert answer.obstacles == (NoLocalQueue(LocalQueueKey("default/nowhere")),)
    assert answer.queue is None
    assert answer.position is None


def test_a_local_queue_that_points_nowhere() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.local_queue("team", to="gone")
    lab.pending("lost", on="team", gpu=1)

    assert explain(lab, "lost").obstacles == (NoQueue(QueueName("gone")),)


def test_a_stopped_local_queue() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.local_queue("team", to="vision", stop=StopPolicy.HOLD)
    lab.pending("held", on="team", gpu=1)

    assert explain(lab, "held").obstacles == (LocalQueueStopped(LocalQueueKey("default/team")),)


def test_a_stopped_queue() -> None:
    lab = Scenario(queue("vision", gpu=4, stop=HOLD))
    lab.pending("held", on="vision", gpu=1)
    lab.cycles()

    answer = explain(lab, "held")

    assert answer.obstacles == (QueueInactive(QueueName("vision"), Inactive.STOPPED),)
    assert answer.helps == (ResumedQueue(QueueName("vision")),)


def test_who_was_stopped_with_its_queue_waits_for_the_queues_return() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.running("train", on="vision", gpu=4)
    lab.stop("vision", HOLD_AND_DRAIN)
    lab.cycles()
    lab.let_go("train")

    assert explain(lab, "train").obstacles == (
        QueueInactive(QueueName("vision"), Inactive.STOPPED),
        EvictedByStop(EvictionReason.QUEUE_STOPPED),
    )


def test_a_queue_whose_check_nobody_answers_for() -> None:
    lab = Scenario(queue("vision", gpu=4, checks=["budget"]))
    lab.pending("eval", on="vision", gpu=1)
    lab.cycles()

    obstacles = explain(lab, "eval").obstacles

    why = Inactive.CHECK_NOT_FOUND
    assert obstacles == (QueueInactive(QueueName("vision"), why, ("budget",)),)


def test_a_namespace_that_the_queue_does_not_admit() -> None:
    team_a = NamespaceSelector((Requirement("team", "In", ("a",)),))
    lab = Scenario(queue("vision", gpu=4, namespaces=team_a))
    lab.pending("eval", on="vision", gpu=1)
    lab.cycles()

    assert explain(lab, "eval").obstacles == (NamespaceNotAdmitted("default"),)


def test_a_back_off_says_until_when() -> None:
    config = Config(pods_ready=PodsReadyPolicy(timeout_s=10), backoff=Backoff(base_s=60))
    lab = Scenario(queue("vision", gpu=4), config=config)
    lab.pending("slow", on="vision", gpu=1)
    lab.cycles()
    lab.later(10).cycles()
    lab.let_go("slow")
    lab.cycles()

    assert explain(lab, "slow").obstacles == (BackingOff(70.0, 1),)


# --- holding quota, or done ---


def test_open_checks_are_named_with_their_state() -> None:
    lab = Scenario(queue("vision", gpu=4, checks=["budget", "safety"]))
    lab.check_is("budget")
    lab.check_is("safety")
    lab.pending("eval", on="vision", gpu=1)
    lab.cycles()
    lab.answer("eval", "safety", CheckState.READY)

    answer = explain(lab, "eval")

    assert answer.phase is Phase.RESERVED
    assert answer.obstacles == (ChecksOpen(((CheckName("budget"), CheckState.PENDING),)),)


def test_nothing_stands_in_the_way_of_who_runs() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.running("train", on="vision", gpu=4)

    answer = explain(lab, "train")

    assert answer.obstacles == ()
    assert answer.assignment is not None
    assert answer.queue == "vision"


def test_who_fits_and_only_waits_for_the_next_cycle_has_no_obstacle() -> None:
    lab = Scenario(queue("vision", gpu=4))
    lab.pending("eval", on="vision", gpu=1)

    answer = explain(lab, "eval")

    assert answer.obstacles == ()
    assert answer.position == 0
