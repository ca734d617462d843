"""Which flavor: seed 000, row by row. Two flavors, spot before on-demand."""

from __future__ import annotations

import pytest

from makeway.engine.decisions import FlavorMismatch, MismatchKind
from makeway.engine.model import Config, FlavorName, Gates, PodSetName, Preference, Search
from tests.harness.engine import (
    ANY,
    LOWER,
    MAY_STOP,
    RECLAIM,
    TRY_NEXT,
    Said,
    Scenario,
    admit,
    flavor,
    pods,
    preempt,
    queue,
    quota,
)

BOTH_SEARCHES = pytest.mark.parametrize("search", [TRY_NEXT, MAY_STOP], ids=lambda s: s.value)
PREEMPTION_FIRST = Preference.PREEMPTION_OVER_BORROWING


def lab_where(
    *,
    spot: str,
    on_demand: str,
    when_can_borrow: Search = MAY_STOP,
    when_can_preempt: Search = TRY_NEXT,
    preference: Preference | None = None,
    config: Config | None = None,
) -> Scenario:
    """A queue in which `train`, of priority 1, finds each flavor as the words say.

    Its own quota of each flavor is 4, which is what it asks for. Where it would have to borrow,
    its queue has none of that flavor and the neighbour lends; where it would have to preempt,
    `<flavor>-low` of priority 0 holds it; where there is nothing, the neighbour keeps it all.
    """
    said = {"spot": spot, "on-demand": on_demand}
    own: dict[str, int] = {}
    lent = {}
    for name, words in said.items():
        own[name] = 0 if "borrow" in words or words == "no fit" else 4
        lent[name] = quota(4, lend=4 if "borrow" in words else 0)
    lab = Scenario(
        queue(
            "mine",
            gpu=own,
            within=LOWER,
            reclaim=LOWER,
            borrow_within=True,
            when_can_borrow=when_can_borrow,
            when_can_preempt=when_can_preempt,
            preference=preference,
        ),
        queue("theirs", gpu=lent),
        cohort="lab",
        config=config,
    )
    for name, words in said.items():
        if "preempt" in words:
            lab.running(f"{name}-low", on="mine", flavor=name, gpu=4)
    lab.pending("train", on="mine", gpu=4, priority=1)
    return lab


def gets(name: str) -> Said:
    return admit("train", name)


def takes(victim: str) -> Said:
    return preempt("train", victims=[victim])


# --- the table: what the first flavor offers, and whether the search goes on ---


@BOTH_SEARCHES
def test_no_fit_always_goes_on(search: Search) -> None:
    lab = lab_where(spot="no fit", on_demand="fit", when_can_borrow=search, when_can_preempt=search)

    assert lab.cycle() == [gets("on-demand")]


def test_preempt_goes_on_with_try_next() -> None:
    lab = lab_where(spot="preempt", on_demand="fit", when_can_preempt=TRY_NEXT)

    assert lab.cycle() == [gets("on-demand")]


def test_preempt_breaks_with_may_stop() -> None:
    lab = lab_where(spot="preempt", on_demand="fit", when_can_preempt=MAY_STOP)

    assert lab.cycle() == [takes("spot-low")]


def test_fit_with_borrowing_goes_on_with_try_next() -> None:
    lab = lab_where(spot="borrow", on_demand="fit", when_can_borrow=TRY_NEXT)

    assert lab.cycle() == [gets("on-demand")]


def test_fit_with_borrowing_breaks_with_may_stop() -> None:
    lab = lab_where(spot="borrow", on_demand="fit", when_can_borrow=MAY_STOP)

    assert lab.cycle() == [gets("spot")]


@BOTH_SEARCHES
def test_fit_without_borrowing_always_breaks(search: Search) -> None:
    lab = lab_where(spot="fit", on_demand="fit", when_can_borrow=search, when_can_preempt=search)

    assert lab.cycle() == [gets("spot")]


@pytest.mark.parametrize(
    ("borrow", "preempting", "expected"),
    [
        pytest.param(MAY_STOP, MAY_STOP, takes("spot-low"), id="both say stop"),
        pytest.param(TRY_NEXT, MAY_STOP, gets("on-demand"), id="borrowing goes on"),
        pytest.param(MAY_STOP, TRY_NEXT, gets("on-demand"), id="preempting goes on"),
        pytest.param(TRY_NEXT, TRY_NEXT, gets("on-demand"), id="both go on"),
    ],
)
def test_preemption_that_also_borrows_breaks_only_if_both_policies_say_stop(
    borrow: Search, preempting: Search, expected: Said
) -> None:
    lab = lab_where(
        spot="preempt and borrow",
        on_demand="fit",
        when_can_borrow=borrow,
        when_can_preempt=preempting,
    )

    assert lab.cycle() == [expected]


def test_preempt_without_real_victims_never_breaks() -> None:
    lab = Scenario(
        queue("mine", gpu={"spot": 4, "on-demand": 4}, within=LOWER, when_can_preempt=MAY_STOP)
    )
    lab.running("equal", on="mine", flavor="spot", gpu=4, priority=1)
    lab.pending("train", on="mine", gpu=4, priority=1)

    assert lab.cycle() == [gets("on-demand")]


# --- of all flavors looked at, the best wins ---


@pytest.mark.parametrize(
    ("spot", "on_demand", "expected"),
    [
        pytest.param("borrow", "fit", gets("on-demand"), id="fit before borrowing"),
        pytest.param("preempt", "borrow", gets("on-demand"), id="borrowing before preempting"),
        pytest.param(
            "preempt and borrow", "preempt", takes("on-demand-low"), id="preempting before both"
        ),
        pytest.param("preempt", "preempt", takes("spot-low"), id="of equals the first"),
        pytest.param("borrow", "preempt", gets("spot"), id="order of flavors does not matter"),
    ],
)
def test_by_default_borrowing_is_preferred_to_preemption(
    spot: str, on_demand: str, expected: Said
) -> None:
    lab = lab_where(spot=spot, on_demand=on_demand, when_can_borrow=TRY_NEXT)

    assert lab.cycle() == [expected]


@pytest.mark.parametrize(
    ("spot", "on_demand", "expected"),
    [
        pytest.param("borrow", "fit", gets("on-demand"), id="fit before borrowing"),
        pytest.param("preempt", "fit", gets("on-demand"), id="fit before preempting"),
        pytest.param("borrow", "preempt", takes("on-demand-low"), id="preempting before borrowing"),
        pytest.param("preempt", "borrow", takes("spot-low"), id="whichever comes first"),
        pytest.param("preempt and borrow", "borrow", gets("on-demand"), id="borrowing before both"),
    ],
)
def test_preemption_over_borrowing_prefers_what_does_not_borrow(
    spot: str, on_demand: str, expected: Said
) -> None:
    lab = lab_where(
        spot=spot, on_demand=on_demand, when_can_borrow=TRY_NEXT, preference=PREEMPTION_FIRST
    )

    assert lab.cycle() == [expected]


def test_taking_back_from_others_is_preferred_to_preempting_at_home() -> None:
    lab = Scenario(
        queue("mine", gpu={"spot": 4, "on-demand": 4}, within=LOWER, reclaim=ANY),
        queue("theirs", gpu={"spot": 0, "on-demand": 0}),
        cohort="lab",
    )
    lab.running("spot-low", on="mine", flavor="spot", gpu=4)
    lab.running("borrower", on="theirs", flavor="on-demand", gpu=4)
    lab.pending("train", on="mine", gpu=4, priority=1)

    assert lab.cycle() == [preempt("train", victims=["borrower"], why=RECLAIM)]


@pytest.mark.parametrize(
    ("borrow", "preempting", "gate", "expected"),
    [
        pytest.param(TRY_NEXT, MAY_STOP, True, takes("on-demand-low"), id="case 1"),
        pytest.param(TRY_NEXT, TRY_NEXT, True, takes("on-demand-low"), id="case 2"),
        pytest.param(MAY_STOP, TRY_NEXT, True, gets("spot"), id="neither: search ends at spot"),
        pytest.param(TRY_NEXT, MAY_STOP, False, takes("on-demand-low"), id="stops there anyhow"),
        pytest.param(TRY_NEXT, TRY_NEXT, False, gets("spot"), id="case 2, gate off"),
    ],
)
def test_the_gate_implies_preemption_over_borrowing_in_its_two_cases(
    borrow: Search, preempting: Search, gate: bool, expected: Said
) -> None:
    lab = lab_where(
        spot="borrow",
        on_demand="preempt",
        when_can_borrow=borrow,
        when_can_preempt=preempting,
        config=Config(gates=Gates(implicit_preference=gate)),
    )

    assert lab.cycle() == [expected]


def test_the_first_user_story_of_the_seed() -> None:
    """High priority jobs preempt on stable machines before they try spot."""
    lab = Scenario(
        queue("prod", gpu={"standard": 8, "spot": 8}, within=LOWER, when_can_preempt=MAY_STOP)
    )
    lab.running("batch", on="prod", flavor="standard", gpu=8)
    lab.pending("important", on="prod", gpu=8, priority=10)

    assert lab.cycle() == [preempt("important", victims=["batch"])]
    lab.let_go("batch")
    assert lab.cycle() == [admit("important", "standard")]
    assert lab.cycle() == [admit("batch", "spot")]


def test_the_second_user_story_of_the_seed() -> None:
    """Who borrows may be reclaimed from soon, so rather preempt than borrow."""
    lab = lab_where(spot="preempt", on_demand="borrow", when_can_preempt=MAY_STOP)

    assert lab.cycle() == [takes("spot-low")]


# --- one flavor per group and pod set ---


def test_all_resources_of_a_group_get_the_same_flavor() -> None:
    lab = Scenario(queue("q", cpu={"spot": 8, "on-demand": 8}, gpu={"spot": 1, "on-demand": 4}))
    lab.pending("train", on="q", cpu=4, gpu=2)

    assert lab.cycle() == [gets("on-demand")]  # spot has the cpu, but not the gpu


def lab_with_vain_victims(config: Config | None = None) -> Scenario:
    """w could borrow spot, and preempts before it borrows.

    Of on-demand it owns the cpus, which b1 holds, and would have to borrow the gpu: for that it may
    not take back.
    """
    lab = Scenario(
        queue(
            "a",
            reclaim=ANY,
            when_can_borrow=TRY_NEXT,
            when_can_preempt=MAY_STOP,
            cpu={"spot": 0, "on-demand": 4},
            gpu={"spot": 0, "on-demand": 0},
        ),
        queue("b", cpu={"spot": 4, "on-demand": 0}, gpu={"spot": 1, "on-demand": 2}),
        cohort="lab",
        config=config,
    )
    lab.running("b1", on="b", cpu=1, gpu=1, flavor="on-demand")
    lab.pending("w", on="a", cpu=4, gpu=1)
    return lab


def test_where_victims_help_each_resource_but_not_all_another_flavor_is_taken() -> None:
    assert lab_with_vain_victims().cycles() == [admit("w", "spot")]


def test_kueue_waits_where_victims_help_each_resource_but_not_all() -> None:
    kueue = Config(gates=Gates(hold_for_preemptor=False))

    assert lab_with_vain_victims(kueue).cycles() == []


def test_groups_choose_apart() -> None:
    lab = Scenario(queue("q", cpu={"x86": 8, "arm": 8}, gpu={"spot": 1, "on-demand": 4}))
    lab.pending("train", on="q", cpu=4, gpu=2)

    assert lab.cycle() == [admit("train", "on-demand+x86")]


def test_pod_sets_choose_one_after_the_other_and_see_what_the_former_took() -> None:
    lab = Scenario(queue("q", gpu={"spot": 4, "on-demand": 4}))
    lab.pending("train", pods("lead", gpu=3), pods("work", 2, gpu=2), on="q")

    assert lab.cycle() == [admit("train", "on-demand+spot")]
    assert lab.flavors_of("train") == {"lead": {"gpu": "spot"}, "work": {"gpu": "on-demand"}}


def test_a_flavor_is_passed_over_whose_taint_or_labels_don_t_suit() -> None:
    lab = Scenario(
        flavor("tainted", taint="spot"),
        flavor("arm", arch="arm"),
        flavor("x86", arch="x86"),
        queue("q", gpu={"tainted": 9, "arm": 9, "x86": 9}),
    )
    lab.pending("picky", pods("main", gpu=9, selector={"arch": "x86", "disk": "any"}), on="q")
    lab.pending("brave", pods("main", gpu=9, tolerates="spot"), on="q")
    lab.pending("stuck", pods("main", gpu=1, selector={"arch": "riscv"}), on="q")

    assert lab.cycles() == [admit("picky", "x86"), admit("brave", "tainted")]
    main = PodSetName("main")
    assert FlavorMismatch(main, FlavorName("arm"), MismatchKind.AFFINITY) in lab.why("stuck")
    assert any(
        isinstance(reason, FlavorMismatch) and reason.kind is MismatchKind.TAINT
        for reason in lab.why("stuck")
    )


# --- the search goes on where it stopped ---


def test_a_head_that_lost_its_flavor_goes_on_with_the_next_one() -> None:
    lab = Scenario(
        queue("first", gpu=0),
        queue("second", gpu={"default": 0, "on-demand": 0, "last": 0}),
        queue("lender", gpu={"default": 4, "on-demand": 4, "last": 4}),
        cohort="lab",
    )
    lab.pending("a", on="first", gpu=4)
    lab.later().pending("b", on="second", gpu=4)

    assert lab.cycle() == [admit("a")]  # both would have borrowed the same four
    assert lab.cycle() == [admit("b", "on-demand")]


def test_the_position_is_kept_though_the_earlier_flavor_came_free_in_between() -> None:
    lab = Scenario(
        queue("first", gpu=0),
        queue("second", gpu={"default": 0, "on-demand": 0}),
        queue("lender", gpu={"default": 4, "on-demand": 4}),
        cohort="lab",
    )
    lab.pending("a", on="first", gpu=4)
    lab.later().pending("b", on="second", gpu=4)
    lab.cycle()
    lab.finish("a")

    assert lab.cycle() == [admit("b", "on-demand")]  # else later flavors starve under load


def test_the_position_is_dropped_when_the_shape_of_the_workload_changes() -> None:
    lab = Scenario(
        queue("first", gpu=0),
        queue("second", gpu={"default": 0, "on-demand": 0}),
        queue("lender", gpu={"default": 4, "on-demand": 4}),
        cohort="lab",
    )
    lab.pending("a", on="first", gpu=4)
    lab.later().pending("b", on="second", gpu=4)
    lab.cycle()
    lab.finish("a")
    lab.edit("b", pod_sets=(pods("main", gpu=3),))

    assert lab.cycle() == [admit("b")]


def test_the_position_is_dropped_after_issuing_victims() -> None:
    lab = Scenario(
        queue(
            "mine",
            gpu={"spot": 4, "on-demand": 4},
            reclaim=ANY,
            when_can_preempt=MAY_STOP,
        ),
        queue("theirs", gpu={"spot": 0, "on-demand": 0}),
        cohort="lab",
    )
    lab.running("borrower", on="theirs", flavor="spot", gpu=4)
    lab.pending("train", on="mine", gpu=4)

    assert lab.cycle() == [preempt("train", victims=["borrower"], why=RECLAIM)]
    lab.let_go("borrower")
    assert lab.cycles() == [gets("spot"), admit("borrower", "on-demand")]
