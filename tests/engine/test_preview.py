"""What is previewed is what then happens, and asking changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.engine import events as ev
from makeway.engine.clocks import Clocks
from makeway.engine.decisions import Preempt
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry, Search
from makeway.engine.model import Phase, QueueName, WorkloadKey
from makeway.engine.pending import PendingQueue, ShapeClass
from makeway.engine.preview import CYCLES_MAX, LAST_UID, Preview, difference, preview
from makeway.engine.quota import Node
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState
from makeway.engine.twin import twin_of
from tests.engine.test_properties import facts
from tests.engine.worlds import Play
from tests.harness.engine import ANY, LOWER, RECLAIM, Scenario, queue
from tests.journal.stories import story
from tests.prerequisites import samples

STATES = 1000


def what_comes(play: Play, workload: ev.WorkloadSeen) -> tuple[object, ...]:
    """Submit it, and let whoever is evicted go at once."""
    engine, key, victims = play.engine, workload.workload.key, []
    engine.apply(workload)
    for _ in range(CYCLES_MAX):
        cycle = engine.run_cycle(play.now)
        for decision in cycle.decisions:
            if isinstance(decision, Preempt) and decision.preemptor == key:
                victims += [(v.workload, v.rule) for v in decision.victims if v.is_new]
        leaving = [k for k, e in engine.state.entries.items() if e.phase is Phase.EVICTING]
        for one in leaving:
            engine.apply(ev.PodsGone(one))
        if not leaving and (cycle.next_at is None or cycle.next_at > play.now):
            break
    known = engine.view[key]
    why = engine.explain(key).obstacles
    return known.phase, known.queue, known.status.assignment, tuple(victims), why


def in_short(found: Preview) -> tuple[object, ...]:
    victims = tuple((loser.workload, loser.rule) for loser in found.victims)
    return found.phase, found.queue, found.assignment, victims, found.explanation.obstacles


def test_what_is_previewed_is_what_then_happens() -> None:
    seen = dict.fromkeys(Phase, 0)
    with_victims = 0
    for seed in range(samples(STATES)):
        play = story(seed, length=30)
        on = play.rng.choice(play.world.queues).name
        made = play.maker.workload(9999, on, play.now)
        workload = replace(made, uid=LAST_UID, priority=play.rng.choice([0, 1, 2, 3]))
        found = preview(play.engine, workload, play.now)
        assert in_short(found) == what_comes(play, ev.WorkloadSeen(workload)), f"seed {seed}"
        seen[found.phase] += 1
        with_victims += bool(found.victims)
    assert seen[Phase.ADMITTED] > samples(STATES) / 20
    assert seen[Phase.PENDING] > samples(STATES) / 20
    assert with_victims > samples(STATES) / 100


def test_asking_changes_nothing_that_is_decided_later() -> None:
    for seed in range(samples(60)):
        play = story(seed, length=50)
        asked, unasked = Engine(play.world.config), Engine(play.world.config)
        for number, step in enumerate(play.steps):
            if isinstance(step, float):
                assert asked.run_cycle(step) == unasked.run_cycle(step), f"seed {seed}"
            else:
                assert asked.apply(step) == unasked.apply(step), f"seed {seed}"
            if number % 5 == 0:
                queues = play.world.queues
                made = play.maker.workload(9999, queues[number % len(queues)].name, play.now)
                preview(asked, replace(made, uid=LAST_UID), asked.state.now)
                difference(asked, [ev.QueueRemoved(queues[0].name)], asked.state.now)


def test_a_twin_of_everything_goes_on_as_the_original() -> None:
    for seed in range(samples(60)):
        play = story(seed, length=50)
        engine, cut = Engine(play.world.config), len(play.steps) * 2 // 3
        for step in play.steps[:cut]:
            tell(engine, step)
        twin = Engine(play.world.config)
        twin.state = twin_of(engine.state)
        rest = play.steps[cut:]
        assert [tell(twin, s) for s in rest] == [tell(engine, s) for s in rest], f"seed {seed}"
        assert facts(twin.state) == facts(engine.state)


def tell(engine: Engine, step: ev.Event | float) -> object:
    return engine.run_cycle(step) if isinstance(step, float) else engine.apply(step)


COPIED = {
    Entry: "order_time phase place queue search serial shape status undo usage victim_order"
    " workload",
    Search: "attempts began_at claimed_usage pods_seen ready_pod_sets scan told was_put_off",
    Node: "borrowing_limit bound children height index is_flat is_queue kept lendable name"
    " parent potential quotas subtree weight",
    ShapeClass: "epoch_parked is_known is_short lane members reasons serial shape size told",
}


@pytest.mark.pure
@pytest.mark.parametrize("cls", COPIED)
def test_a_twin_copies_every_slot(cls: type) -> None:
    """Who adds one says here, and in twin.py, what a twin has in its place."""
    assert sorted(cls.__slots__) == COPIED[cls].split()  # type: ignore[attr-defined]


SHARED = {  # what a twin may share, as it is never changed in place; the rest it has for itself
    ClusterState: "_shapes config",
    QueueState: "decisive demands group_of inactive spec",
    PendingQueue: "",
    Clocks: "",
}


@pytest.mark.pure
def test_a_twin_has_whatever_is_changed_in_place_for_itself() -> None:
    play = story(4, length=60)
    state, twin = play.engine.state, twin_of(play.engine.state)
    name = next(iter(state.queues))
    pairs = [
        (state, twin),
        (state.queues[name], twin.queues[name]),
        (state.queues[name].pending, twin.queues[name].pending),
        (state.clocks, twin.clocks),
    ]
    for old, new in pairs:
        for attribute, value in vars(old).items():
            if attribute in SHARED[type(old)].split() or value is None:
                continue
            if isinstance(value, bool | int | float | str):
                continue
            where = f"{type(old).__name__}.{attribute}"
            assert vars(new)[attribute] is not value, f"{where} is shared with its twin"


# --- stories ---


def lab() -> Scenario:
    return Scenario(
        queue("vision", gpu=8, reclaim=ANY, within=LOWER),
        queue("speech", gpu=8),
        cohort="lab",
    )


def asked(story: Scenario, **fields: object) -> Preview:
    workload = story._workload("mine", **fields)  # type: ignore[arg-type]
    return preview(story.engine, replace(workload, uid=LAST_UID), story.now)


def test_it_starts_at_once() -> None:
    found = asked(lab(), on="vision", gpu=4)
    assert (found.phase, found.losers, found.is_at_rest) == (Phase.ADMITTED, (), True)


def test_it_names_who_makes_way_and_what_that_costs() -> None:
    story = lab()
    story.running("train", on="speech", gpu=12)
    story.later(600)
    (victim,) = asked(story, on="vision", gpu=8).victims
    assert (victim.workload, victim.owner) == ("default/train", "default/speech")
    assert (victim.queue, victim.rule, victim.lost_s) == ("speech", RECLAIM, 600.0)
    assert story.phase("train") is Phase.ADMITTED


def test_it_waits_and_says_for_what() -> None:
    story = lab()
    story.running("train", on="vision", gpu=16)
    found = asked(story, on="speech", gpu=8)
    assert found.phase is Phase.PENDING
    assert found.explanation.obstacles


def test_in_no_queue_it_waits_for_one() -> None:
    found = asked(lab(), on="nowhere", gpu=1)
    assert found.phase is Phase.PENDING
    assert found.explanation.obstacles


def test_other_queues_let_others_run() -> None:
    story = lab()
    story.running("train", on="speech", gpu=12)
    story.pending("more", on="speech", gpu=8)
    story.cycles()
    spec = story.state.queues[QueueName("speech")].spec
    larger = queue("speech", gpu=16, cohort="lab")
    assert difference(story.engine, [ev.QueueChanged(spec)], story.now).changes == ()
    found = difference(story.engine, [ev.QueueChanged(larger)], story.now)
    (change,) = found.changes
    assert (change.workload, change.after) == (WorkloadKey("default/more"), Phase.ADMITTED)
    assert found.losers == ()
