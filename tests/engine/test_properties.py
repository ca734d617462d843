"""What must hold in every world, whatever happens in it. The checks stand in `worlds.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Cycle, Preempt, Reserve
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry
from makeway.engine.explain import Explanation
from makeway.engine.model import (
    HOLDING,
    Amounts,
    FlavorName,
    FlavorResource,
    Phase,
    QueueName,
    ResourceName,
    Workload,
    WorkloadKey,
)
from makeway.engine.nominate import Nominator
from makeway.engine.state import ClusterState
from makeway.engine.upkeep import tend
from makeway.engine.view import KnownQueue
from tests.engine.worlds import CYCLE_CHECKS, Before, Play, Step, check_nobody_is_superfluous
from tests.harness.engine import add_queue, check_state, forest_of, objects_in, queue, quota
from tests.harness.quota_forest import QuotaForest
from tests.harness.random_worlds import EVERYTHING, PLAIN, Knobs, Worldmaker
from tests.prerequisites import samples

Check = Callable[[Before, Cycle], None]

EXAMPLES = settings(max_examples=samples(200), deadline=None, derandomize=True)


class Seeded(Random):
    """A failure prints its seed, with which the same life can be lived again.

    Worlds drawn choice by choice would shrink, but they stay small, and nobody is preempted.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.made_of = seed

    def __repr__(self) -> str:
        return f"Random({self.made_of})"


RANDOMS = st.integers(0, 10**9).map(Seeded)


def crowd(rng: Random, knobs: Knobs, *checks: Check, most: int = 24) -> Play:
    """A world where people only submit, and whoever is evicted lets go sooner or later."""
    play = Play(Worldmaker(rng, knobs))
    play.on_cycle += checks
    play.fill(most)
    for _ in range(rng.randint(0, 6)):
        play.let_one_go()
        play.run()
    return play


def life(rng: Random, *checks: Check, knobs: Knobs = EVERYTHING) -> Play:
    """A world where anything may happen."""
    play = Play(Worldmaker(rng, knobs))
    play.on_cycle += checks
    play.fill(16)
    play.live(40)
    return play


# --- quota and victims ---


@EXAMPLES
@given(rng=RANDOMS)
def test_in_a_crowd_decisions_keep_to_the_rules_of_quota_and_victims(rng: Random) -> None:
    """Who is admitted fits; victims suffice, may be taken, are needed; places are kept."""
    play = crowd(rng, PLAIN, *CYCLE_CHECKS, check_nobody_is_superfluous)
    play.settle(lets_go=False)


@EXAMPLES
@given(rng=RANDOMS)
def test_decisions_keep_to_the_rules_whatever_else_happens(rng: Random) -> None:
    life(rng, *CYCLE_CHECKS)


# --- getting on ---


@EXAMPLES
@given(rng=RANDOMS)
def test_who_fits_into_free_quota_and_is_alone_is_admitted_soon(rng: Random) -> None:
    play = crowd(rng, PLAIN)
    for key in play.keys(Phase.PENDING, Phase.EVICTING):
        play.apply(ev.WorkloadRemoved(key))
    spec = rng.choice(play.world.queues)
    workload = replace(play.maker.workload(999, spec.name, play.now), defect=None)
    play.apply(ev.WorkloadSeen(workload))
    if not has_room_at_once(play.state, spec.name, workload):
        return
    flavors = sum(len(group.flavors) for group in spec.groups)
    for _ in range(flavors + 2):
        play.cycle()
        play.let_all_go()  # it may prefer preemption to what is free elsewhere
    assert play.state.entries[workload.key].phase is Phase.ADMITTED


def has_room_at_once(state: ClusterState, name: QueueName, workload: Workload) -> bool:
    """Has the queue itself, for every resource, a flavor with room for all pod sets together?"""
    forest, spec = forest_of(state), state.queues[name].spec
    for group in spec.groups:
        flavors = [quotas.flavor for quotas in group.flavors]
        amounts = {
            flavor: {
                FlavorResource(flavor, resource): sum(
                    dict(ps.requests).get(resource, 0) * ps.count for ps in workload.pod_sets
                )
                for resource in group.resources
            }
            for flavor in flavors
        }
        chosen = {value for ps in workload.pod_sets for _, value in ps.constraints.selector}
        if not any(forest.fits_unborrowed(name, amounts[flavor]) for flavor in flavors) or chosen:
            return False
    return True


# Where nobody takes anything from a higher priority, nothing can go in circles. With
# `reclaimWithinCohort: Any` three can: the low one reclaims from the high one, the middle
# one preempts the low one in its own queue, and the high one the middle one while borrowing.
STEADY = replace(PLAIN, fair_sharing=False, hold_for_preemptor=True)
MILD = replace(STEADY, is_mild=True)
EQUAL = replace(STEADY, priorities=(1,))  # queues take back what is theirs from anybody


@pytest.mark.parametrize("knobs", [MILD, EQUAL], ids=["mild", "equal"])
@EXAMPLES
@given(rng=RANDOMS)
def test_no_preemption_goes_in_circles(knobs: Knobs, rng: Random) -> None:
    play = Play(Worldmaker(rng, knobs))
    play.fill(24)
    lets_go_late = rng.random() < 0.5
    for _ in range(400):
        cycle = play.cycle()
        evicting = play.keys(Phase.EVICTING)
        if lets_go_late and evicting:
            play.apply(ev.PodsGone(rng.choice(evicting)))
        else:
            play.let_all_go()
        if play.is_at_rest(cycle):
            return
    raise AssertionError(f"still busy: {play.cycles[-3:]}")


# --- no trace, no chance, no forgetting ---


@EXAMPLES
@given(rng=RANDOMS)
def test_explaining_and_nominating_leave_no_trace_and_never_fail(rng: Random) -> None:
    play = life(rng)
    state, before = play.state, dump(play.state)
    for key in state.entries:
        play.engine.explain(key)
    for waiting in state.queues.values():
        for entry in [*waiting.pending.active(), *waiting.pending.parked()]:
            Nominator(state, entry, waiting, waiting.tree.snapshot).nominate()
            Nominator(state, entry, waiting, waiting.tree.snapshot).nominate(is_resumed=False)
    assert dump(state) == before
    check_state(state)


@EXAMPLES
@given(rng=RANDOMS)
def test_the_same_events_give_the_same_decisions_whoever_asks_in_between(rng: Random) -> None:
    """Decisions, their order, explanations and the state itself, on engines without upkeep."""
    play = life(rng)
    silent, asked = Engine(play.world.config), Engine(play.world.config)
    cycles: list[Cycle] = []
    for step in play.steps:
        for _ in range(rng.choice([0, 0, 1, 3])):
            rng.choice(QUESTIONS)(asked, rng)
        said = answer(silent, step)
        assert answer(asked, step) == said
        cycles += [said] if isinstance(said, Cycle) else []
    assert [cycle.decisions for cycle in cycles] == [cycle.decisions for cycle in play.cycles]
    assert [cycle.order for cycle in cycles] == [cycle.order for cycle in play.cycles]
    assert explanations(silent) == explanations(play.engine)
    assert dump(asked.state) == dump(silent.state) == dump(play.state)


def answer(engine: Engine, step: Step) -> object:
    return engine.run_cycle(step) if isinstance(step, float) else engine.apply(step)


def explain_some(engine: Engine, rng: Random) -> None:
    for key in engine.state.entries:
        if rng.random() < 0.5:
            engine.explain(key)


def look_at_lines(engine: Engine, rng: Random) -> None:
    for name in engine.state.queues:
        engine.waiting_in(name, rng.choice([None, 2]))
        engine.view.waiting_by_local_queue(name)


def look_at_queues(engine: Engine, rng: Random) -> None:
    view = engine.view
    rng.choice([list(view.queues()), list(view.cohorts()), view.with_unseen_pods()])
    for local_queue in list(view.local_queues()):
        view.counted_from(local_queue.key)
        for key in view.unfinished_from(local_queue.key):
            view.checks_for(key)
            if view[key].phase is Phase.PENDING and view.why_outside(key) is None:
                view.why_in_line(key)


QUESTIONS = (explain_some, look_at_lines, look_at_queues)


@EXAMPLES
@given(rng=RANDOMS)
def test_what_is_told_before_an_edit_takes_effect_is_what_holds_afterwards(rng: Random) -> None:
    play = life(rng)
    play.edit_queue()
    told = explanations(play.engine)
    queues, cohorts = list(play.engine.view.queues()), list(play.engine.view.cohorts())

    play.state.build_trees()

    assert explanations(play.engine) == told
    assert by_name(play.engine.view.queues()) == by_name(queues)
    assert {c.name: c for c in play.engine.view.cohorts()} == {c.name: c for c in cohorts}


def by_name(queues: Iterable[KnownQueue]) -> dict[QueueName, KnownQueue]:
    """Without who is parked: building a tree wakes them all."""
    return {
        queue.spec.name: queue._replace(
            in_line=queue.in_line + queue.parked, parked=0, coming_back={}
        )
        for queue in queues
    }


def test_decisions_do_not_depend_on_how_strings_are_hashed() -> None:
    """Sets of names are iterated in an order that differs from process to process."""
    program = "from tests.engine.test_properties import transcript; print(transcript())"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def transcript() -> str:
    """All decisions of a few lives."""
    lines: list[str] = []
    for seed in range(8):
        play = life(Random(seed))
        for cycle in play.cycles:
            lines += map(repr, cycle.decisions)
        lines += [repr(e) for e in explanations(play.engine).values()]
    return "\n".join(lines)


@EXAMPLES
@given(rng=RANDOMS)
def test_rebuilding_from_the_objects_gives_the_same_state(rng: Random) -> None:
    play = life(rng)
    play.cycle()
    rebuilt = rebuild(play.state)
    check_state(rebuilt.state)
    assert facts(rebuilt.state) == facts(play.state)
    for key in play.keys(*HOLDING):
        are_ready = play.state.entries[key].status.pods_ready
        for engine in (rebuilt, play.engine):
            engine.apply(ev.PodsChanged(key, are_ready, play.now))
    later = play.now + rng.choice([0.0, 2.0, 6.0, 30.0])
    assert tend(rebuilt.state, later) == tend(play.state, later)
    assert facts(rebuilt.state) == facts(play.state)


@EXAMPLES
@given(rng=RANDOMS)
def test_looking_again_at_a_settled_tree_finds_the_same(rng: Random) -> None:
    play = life(rng)
    play.settle(lets_go=False)
    trees = [tree for tree in play.state.trees if tree.is_settled]
    queues = [q for tree in trees for q in tree.queues if q.inactive is None]
    heads = {queue.spec.name: queue.pending.head() for queue in queues}
    before = facts(play.state)
    for tree in trees:
        play.state.touch(tree)
    cycle = play.engine.run_cycle(play.now)
    assert not [d for d in cycle.decisions if isinstance(d, Admit | Reserve)]
    assert not [d for d in cycle.decisions if isinstance(d, Preempt) and news(d)]
    assert facts(play.state) == before
    again = {outcome.queue: outcome for outcome in cycle.order if outcome.queue in heads}
    assert again == {
        name: outcome
        for name, outcome in play.last_heads.items()
        if (head := heads.get(name)) is not None and head.workload.key == outcome.workload
    }


def news(decision: Preempt) -> list[WorkloadKey]:
    return [victim.workload for victim in decision.victims if victim.is_new]


# --- pictures of a state ---


def rebuild(state: ClusterState) -> Engine:
    """A new engine that is told what the objects say."""
    engine = Engine(state.config)
    for event in objects_in(state):
        engine.apply(event)
    engine.state.build_trees()
    return engine


def explanations(engine: Engine) -> dict[WorkloadKey, Explanation]:
    return {key: engine.explain(key) for key in engine.state.entries}


def facts(state: ClusterState) -> dict[str, object]:
    """What a restart must not lose: everything but scan memory and parking."""
    state.build_trees()
    return {
        "entries": {key: _entry_facts(entry) for key, entry in state.entries.items()},
        "used": {name: _nonzero(queue.used) for name, queue in state.queues.items()},
        "usage": {
            (tree.root.name, node.name): _nonzero(tree.usage[node.index])
            for tree in state.trees
            for node in tree.nodes
        },
        "holders": {
            name: [order.entry.workload.key for order in queue.holders]
            for name, queue in state.queues.items()
        },
        "lines": {name: _line(state, name) for name in state.queues},
        "inactive": {name: queue.inactive for name, queue in state.queues.items()},
        "preemptors": {
            tree.root.name: sorted(tree.preemptors) for tree in state.trees if tree.preemptors
        },
    }


def _entry_facts(entry: Entry) -> tuple[object, ...]:
    if entry.phase is Phase.FINISHED:
        return (entry.workload, entry.phase)
    return (
        entry.workload,
        entry.phase,
        entry.queue,
        entry.status.assignment,
        _nonzero(entry.usage),
        entry.status.eviction,
        entry.status.history,
        entry.status.requeue_at,
        entry.status.requeue_count,
        entry.order_time,
        entry.status.claim,
        entry.status.preemptions,
        entry.status.admitted_at,
        entry.status.reserved_at if entry.phase in HOLDING else None,
        entry.status.pods_ready,
        entry.status.pods_lost_at if entry.phase in HOLDING else None,
        dict(entry.status.checks),
        dict(entry.status.reclaimable),
    )


def _line(state: ClusterState, name: QueueName) -> list[WorkloadKey]:
    pending = state.queues[name].pending
    everybody = [*pending.active(), *pending.parked()]
    return [entry.workload.key for entry in sorted(everybody, key=state.order_of)]


def _nonzero(amounts: Amounts) -> dict[FlavorResource, int]:
    return {cell: amount for cell, amount in amounts.items() if amount}


def dump(state: ClusterState) -> dict[str, object]:
    """All that a trial must leave as it was."""
    return {
        **facts(state),
        "cycle": state.cycle,
        "unsettled": [tree.root.name for tree in state.unsettled.values()],
        "settled": {tree.root.name: tree.is_settled for tree in state.trees},
        "attention": sorted(state.attention),
        "clock": state.clocks.next_at(),
        "generations": {name: queue.generation for name, queue in state.queues.items()},
        "active": {n: _keys(queue.pending.active()) for n, queue in state.queues.items()},
        "parked": {n: _keys(queue.pending.parked()) for n, queue in state.queues.items()},
        "heads": {n: _head(queue.pending.head()) for n, queue in state.queues.items()},
        "searches": {
            key: (search.scan and search.scan.tried, search.told, search.claimed_usage, e.serial)
            for key, e in state.entries.items()
            for search in [e.search]
        },
    }


def _keys(entries: object) -> list[WorkloadKey]:
    assert hasattr(entries, "__iter__")
    return sorted(entry.workload.key for entry in entries)


def _head(entry: Entry | None) -> WorkloadKey | None:
    return None if entry is None else entry.workload.key


# --- the checks themselves ---


def test_the_formulas_agree_with_an_example_worked_by_hand() -> None:
    """Two queues of 4 in a cohort; one keeps 3 for itself and may borrow 2."""
    gpu = FlavorResource(FlavorName("default"), ResourceName("gpu"))
    picture = QuotaForest[FlavorResource]()
    add_queue(picture, queue("a", cohort="lab", gpu=quota(4, borrow=2, lend=1)))
    add_queue(picture, queue("b", cohort="lab", gpu=4))
    picture.charge("a", {gpu: 5})
    picture.charge("b", {gpu: 1})
    assert picture.kept("queue:a", gpu) == 3
    assert picture.subtree("cohort:lab", gpu) == 1 + 4
    assert picture.usage("cohort:lab", gpu) == (5 - 3) + 1
    assert picture.available("cohort:lab", gpu) == 2
    assert picture.available("queue:a", gpu) == 1  # 4 + 2 may be used, 5 are
    assert picture.available("queue:b", gpu) == 2
    assert picture.borrows("queue:a", [gpu])
    assert not picture.borrows("queue:b", [gpu])
