"""Heads without hope: nobody searches for them again, and nobody is decided upon otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.engine import flavors, nominate
from makeway.engine.decisions import Decision, Preempt, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import Config, FlavorName, FlavorTrial, Gates, Preference
from makeway.engine.nominate import Found, Nominator
from makeway.engine.pending import PendingQueue
from makeway.engine.state import ClusterState
from tests.engine.test_properties import life
from tests.harness.engine import (
    ANY,
    LOWER,
    MAY_STOP,
    NEVER,
    STRICT,
    TIMEOUT,
    TRY_NEXT,
    Scenario,
    admit,
    cohort,
    preempt,
    queue,
    rule,
)
from tests.prerequisites import samples


@contextmanager
def searches() -> Iterator[list[str]]:
    """Whom a search is made for, in order."""
    made: list[str] = []
    nominate = Nominator.nominate

    def note(nominator: Nominator, *args: Any, **options: Any) -> Found:
        made.append(nominator.entry.workload.key.split("/")[1])
        return nominate(nominator, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nominator, "nominate", note)
        yield made


def crowded() -> Scenario:
    """Two queues of 4 in a cohort, both full; in each a large one waits, and has been told why."""
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY, "within": LOWER}
    lab = Scenario(queue("a", gpu=4, **policy), queue("b", gpu=4, **policy))
    for name in ("a1", "a2", "b1", "b2"):
        lab.running(name, on=name[0], gpu=2)
    lab.pending("a-large", on="a", gpu=4)
    lab.pending("b-large", on="b", gpu=4)
    assert lab.cycles() == []
    return lab


def all_borrowed(is_simulated: bool = False) -> Scenario:
    """Two queues own nothing, and each has 2 of the 4 of their cohort."""
    policy: dict[str, Any] = {"cohort": "all", "gpu": 0, "reclaim": ANY}
    config = Config(is_simulated=is_simulated)
    lab = Scenario(cohort("all", gpu=4), queue("a", **policy), queue("b", **policy), config=config)
    lab.running("r1", on="a", gpu=2)
    lab.running("r2", on="b", gpu=2)
    return lab


@pytest.mark.pure
def test_who_is_as_far_from_it_as_before_is_not_searched_for_again() -> None:
    lab = crowded()
    lab.pending("b-small", on="b", gpu=2)
    assert lab.cycles() == []

    lab.finish("b1")
    with searches() as made:
        assert lab.cycles() == [admit("b-small")]
    assert made == ["b-small"]
    lab.finish("a1")  # 2 are free now, and both large ones ask for 4
    with searches() as made:
        assert lab.cycles() == []
    assert made == []
    lab.finish("a2")
    with searches() as made:
        assert lab.cycles() == [admit("a-large")]
    assert made == ["a-large", "b-large"]


def test_what_was_told_stays_told() -> None:
    lab = crowded()
    told = lab.why("a-large")
    assert told
    lab.finish("b1")
    lab.cycles()
    assert lab.why("a-large") == told


@pytest.mark.pure
def test_who_comes_first_of_its_shape_is_told_what_its_equals_were() -> None:
    lab = crowded()
    lab.later().pending("a-next", on="a", gpu=4)
    lab.finish("a1", "a2")
    with searches() as made:
        assert lab.cycles() == [admit("a-large")]
    assert "a-next" not in made
    assert lab.why("a-next") == lab.why("a-large")  # as it was told before it was admitted


def test_other_flavors_of_its_queue_are_hope() -> None:
    lab = Scenario(
        queue("q", cohort="all", reclaim=ANY, gpu={"old": 2}),
        queue("other", cohort="all", gpu={"new": 1}),
    )
    lab.running("long", on="q", gpu=1)
    lab.running("short", on="other", gpu=1)
    lab.pending("waits", on="q", gpu=2)
    assert lab.cycles() == []
    lab.finish("short")
    assert lab.cycles() == []  # a glance is enough

    lab.change(queue("q", cohort="all", reclaim=ANY, gpu={"new": 2}))
    assert lab.cycles() == [admit("waits", "new")]


def test_a_less_important_holder_in_its_queue_is_hope() -> None:
    lab = crowded()
    lab.finish("a1")
    lab.pending("a-low", on="a", gpu=2, priority=-1)
    assert lab.cycles() == [admit("a-low")]
    lab.finish("a2")
    assert lab.cycles() == [preempt("a-large", victims=["a-low"])]


@pytest.mark.pure
def test_where_something_is_kept_for_it_a_head_without_hope_is_nominated_beside_others() -> None:
    """b may not reclaim. So what its head waits for is not lent in the same cycle."""
    lab = Scenario(
        queue("a", gpu=4, cohort="all", reclaim=NEVER),
        queue("b", gpu=4, cohort="all", reclaim=NEVER),
    )
    lab.running("b1", on="b", gpu=2)
    lab.running("b2", on="b", gpu=2)
    lab.running("a1", on="a", gpu=3)
    lab.pending("b-large", on="b", gpu=4)
    assert lab.cycles() == []

    lab.finish("b1")
    lab.pending("a-large", on="a", gpu=2)  # would borrow 1 of what b owns
    with searches() as made:
        lab.cycle()
    assert made == ["a-large", "b-large"]


def by_tree(state: ClusterState, decisions: list[Decision]) -> list[Decision]:
    """Trees do not concern each other, nor does it matter which is first."""
    trees = {q.spec.name: number for number, tree in enumerate(state.trees) for q in tree.queues}
    return sorted(decisions, key=lambda decision: trees.get(decision.queue, -1))


def decided(engine: Engine, now: float) -> list[Decision]:
    """Whatever is decided until nothing is left to do, but for reasons that are told again."""
    made: list[Decision] = []
    for _ in range(300):
        is_needed = engine.needs_cycle(now)
        cycle = engine.run_cycle(now)
        assert is_needed or not cycle.decisions
        made += [d for d in cycle.decisions if not isinstance(d, Wait) and not _is_old(d)]
        if cycle.next_at != now:
            return by_tree(engine.state, made)
    raise AssertionError("no rest after 300 cycles")


def _is_old(decision: Decision) -> bool:
    return isinstance(decision, Preempt) and not any(v.is_new for v in decision.victims)


@settings(max_examples=samples(80), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**9))
def test_nobody_is_decided_upon_otherwise(seed: int) -> None:
    play = life(Random(seed))
    config = play.world.config
    glancing, searching = Engine(config), Engine(replace(config, skips_hopeless=False))
    simulating = Engine(replace(config, is_simulated=True))
    forecasting = Engine(replace(config, is_simulated=True, tells_reasons=False))
    for step in play.steps:
        if isinstance(step, float):
            for tree in searching.state.trees:
                tree.has_only_newcomers = False  # nor are refusals left unasked
            with pytest.MonkeyPatch.context() as patch:  # nor is a free flavor looked for first
                patch.setattr(flavors, "_free_in_group", lambda *_: None)
                patch.setattr(nominate, "free_places", lambda *_: None)
                expected = decided(searching, step)
            assert decided(glancing, step) == expected, f"{seed} at {step}"
            assert decided(simulating, step) == expected, f"{seed} at {step}"
            assert decided(forecasting, step) == expected, f"{seed} at {step}"
        else:
            for engine in (glancing, searching, simulating, forecasting):
                engine.apply(step)


@pytest.mark.pure
@pytest.mark.parametrize("tells_reasons", [True, False])
def test_where_nobody_asks_why_nobody_is_searched_for_to_tell_it(tells_reasons: bool) -> None:
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY}
    config = Config(tells_reasons=tells_reasons)
    lab = Scenario(queue("a", gpu=2, **policy), queue("b", gpu=2, **policy), config=config)
    lab.running("a1", on="a", gpu=2)
    lab.running("b1", on="b", gpu=1)
    lab.pending("large", on="b", gpu=2)
    with searches() as made:
        assert lab.cycles() == []
    assert made == (["large"] if tells_reasons else [])
    lab.finish("b1")
    assert lab.cycles() == [admit("large")]


@pytest.mark.pure
def test_where_nothing_is_left_nobody_is_woken_to_be_tried_once_more() -> None:
    """Both fit when r1 ends, and one loses its place to the other."""
    lab = all_borrowed()
    lab.pending("a1", on="a", gpu=2)
    lab.pending("b1", on="b", gpu=2)
    assert lab.cycles() == []

    lab.finish("r1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterState, "wake_tree", None)  # it is not called
        assert lab.cycles() == [admit("a1")]
    assert lab.why("b1")


@pytest.mark.pure
@pytest.mark.parametrize(("is_simulated", "searched"), [(False, 2), (True, 1)])
def test_who_lost_to_another_is_told_again_what_it_was_told_before(
    is_simulated: bool, searched: int
) -> None:
    """Live the numbers of today are looked for; in a simulation those of before are enough."""
    lab = all_borrowed(is_simulated)
    lab.pending("a1", on="a", gpu=2)
    lab.pending("b1", on="b", gpu=2)
    lab.cycles()
    told = lab.why("b1")

    lab.finish("r1")
    with searches() as made:
        assert lab.cycles() == [admit("a1")]
    assert made.count("b1") == searched  # it fits, and loses its place to a1
    assert lab.why("b1") == told


@pytest.mark.pure
def test_in_a_simulation_who_lost_to_another_does_not_go_on_to_a_flavor_that_is_full() -> None:
    """b1 fits into x, and loses its place there to a1; in y all is taken."""
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY, "gpu": {"x": 0, "y": 0}}
    lab = Scenario(
        cohort("all", gpu={"x": 2, "y": 2}),
        queue("a", **policy),
        queue("b", **policy),
        config=Config(is_simulated=True),
    )
    lab.running("r1", on="a", flavor="x", gpu=2)
    lab.running("r2", on="b", flavor="y", gpu=2)
    lab.pending("a1", on="a", gpu=2)
    lab.pending("b1", on="b", gpu=2)
    lab.cycles()
    told = lab.why("b1")

    lab.finish("r1")
    with searches() as made:
        assert lab.cycles() == [admit("a1", "x")]
    assert made == ["a1", "b1"]
    assert lab.why("b1") == told
    lab.finish("r2")
    assert lab.cycles() == [admit("b1", "y")]


@pytest.mark.parametrize(("is_simulated", "cycles"), [(False, 2), (True, 1)])
def test_in_a_simulation_a_cycle_that_would_only_park_is_spared(
    is_simulated: bool, cycles: int
) -> None:
    """a1 takes what r1 leaves; nothing is left for a2, who is next in line, and for b1."""
    lab = all_borrowed(is_simulated)
    lab.pending("a1", on="a", gpu=2)
    lab.later().pending("a2", on="a", gpu=2)
    lab.pending("b1", on="b", gpu=4)
    lab.cycles()

    lab.finish("r1")
    before = lab.state.cycle
    assert lab.cycles() == [admit("a1")]
    assert lab.state.cycle - before == cycles
    lab.finish("a1", "r2")
    assert lab.cycles() == [admit("a2")]


@pytest.mark.pure
def test_in_a_simulation_who_comes_to_be_first_is_parked_with_its_line() -> None:
    """a2 becomes the first of its shape. One look tells that there is nothing for it."""
    lab = Scenario(
        queue("a", gpu=2, cohort="all", reclaim=ANY),
        queue("b", gpu=2, cohort="all", reclaim=ANY),
        config=Config(is_simulated=True),
    )
    for name in ("r1", "r2", "r3", "r4"):
        lab.running(name, on="a" if name < "r3" else "b", gpu=1)
    lab.pending("a1", on="a", gpu=2)
    lab.later().pending("a2", on="a", gpu=2)
    lab.pending("b1", on="b", gpu=1)
    lab.cycles()

    lab.remove("a1")
    lab.finish("r3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PendingQueue, "park_shape", None)  # nobody has to come up by itself
        assert lab.cycles() == [admit("b1")]
    lab.finish("r1", "r2")
    assert lab.cycles() == [admit("a2")]


WAYS = {
    "by searching": {"skips_hopeless": False},
    "live": {},
    "simulated": {"is_simulated": True},
    "in a forecast": {"is_simulated": True, "tells_reasons": False},
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@each_way
def test_who_borrows_in_a_flavor_where_another_resource_needs_victims(way: dict[str, Any]) -> None:
    """Without places that are kept, the search ends there: no one has to look at y."""
    lab = Scenario(
        queue(
            "a",
            cohort="all",
            within=LOWER,
            reclaim=ANY,
            when_can_preempt=TRY_NEXT,
            when_can_borrow=MAY_STOP,
            preference=Preference.PREEMPTION_OVER_BORROWING,
            cpu={"x": 2, "y": 2},
            gpu={"x": 0, "y": 0},
        ),
        queue("b", cohort="all", cpu={"x": 0, "y": 0}, gpu={"x": 4, "y": 1}),
        queue("c", cohort="all", gpu={"y": 0}),
        config=Config(gates=Gates(hold_for_preemptor=False), **way),
    )
    lab.running("low", on="a", flavor="x", cpu=2, priority=-1)
    lab.pending("high", on="a", cpu=1, gpu=1, priority=5)
    lab.pending("other", on="c", gpu=1)

    assert lab.cycles()[0] == admit("other", "y")


@each_way
def test_waiting_counts_from_the_first_attempt_of_any_alike(way: dict[str, Any]) -> None:
    """a preempts after 100 s: when b0 ends first is tried, and second with it."""
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY, "within": LOWER, "after_s": 100.0}
    lab = Scenario(queue("a", gpu=4, **policy), queue("b", gpu=2, **policy), config=Config(**way))
    lab.running("a0", on="a", gpu=4)
    for name in ("b0", "b1"):
        lab.running(name, on="b", gpu=1)
    lab.pending("first", on="a", gpu=4)
    lab.cycles()
    lab.later(10).pending("second", on="a", gpu=4)
    lab.cycles()
    lab.later(10).finish("b0")
    assert lab.cycles() == []

    lab.later(110).remove("first")
    lab.edit("a0", preemption_priority=-1)
    assert lab.cycles() == [preempt("second", victims=["a0"])]


@each_way
def test_a_holder_of_its_queue_that_is_less_important_now_is_hope(way: dict[str, Any]) -> None:
    """b1 is less important still, and not its to take: b holds no more than what b owns."""
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY, "within": LOWER}
    lab = Scenario(queue("a", gpu=4, **policy), queue("b", gpu=4, **policy), config=Config(**way))
    for name in ("a1", "a2"):
        lab.running(name, on="a", gpu=2, priority=5)
    lab.running("b1", on="b", gpu=3)
    lab.running("b2", on="b", gpu=1)
    lab.pending("waits", on="a", gpu=2, priority=3)
    lab.cycles()
    lab.finish("b2")
    assert lab.cycles() == []

    lab.edit("a1", priority=1)
    assert lab.cycles() == [preempt("waits", victims=["a1"])]


@each_way
def test_who_waits_behind_some_without_flavors_is_an_owner_too(way: dict[str, Any]) -> None:
    """Strict s owns 3: s1 and s2 have tried their only flavor in vain, and s3 needs all of it."""
    lab = Scenario(
        queue("a", cohort="all", reclaim=ANY, gpu={"x": 0}, memory={"x": 5}),
        queue(
            "s",
            cohort="all",
            strategy=STRICT,
            reclaim=ANY,
            rules=[rule("x", minutes=1)],
            gpu={"x": 3},
        ),
        config=Config(**way),
    )
    lab.running("a0", on="a", flavor="x", memory=5)
    lab.running("s0", on="s", flavor="x", gpu=3)
    lab.pending("a1", on="a", gpu=2, memory=5)
    assert lab.cycles() == []

    lab.later().finish("s0")
    in_vain = FlavorTrial(FlavorName("x"), 0.0, 0.0, TIMEOUT)
    for name in ("s1", "s2"):
        lab.pending(name, on="s", gpu=1, tried=[in_vain])
    lab.pending("s3", on="s", gpu=3)
    lab.pending("a2", on="a", gpu=1)
    assert lab.cycles()[2:] == [admit("s3", "x")]  # s1 and s2 have nothing left to try


@each_way
def test_a_search_that_stopped_midway_begins_anew_when_more_is_free(way: dict[str, Any]) -> None:
    """b1 is before a1 in x; when both flavors are free again, a1 gets the first."""
    policy: dict[str, Any] = {"cohort": "all", "reclaim": ANY}
    lab = Scenario(
        queue("a", gpu={"x": 0, "y": 0}, **policy),
        queue("b", gpu={"x": 0}, **policy),
        queue("d", gpu={"x": 2, "y": 2}, **policy),
        config=Config(gates=Gates(hold_for_preemptor=False), **way),
    )
    lab.running("d1", on="d", flavor="y", gpu=2)
    lab.pending("b1", on="b", gpu=1)
    lab.pending("a1", on="a", gpu=2)
    assert lab.cycles() == [admit("b1", "x")]

    lab.later().finish("b1", "d1")
    assert lab.cycles() == [admit("a1", "x")]
