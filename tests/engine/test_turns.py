"""Candidates come up as if all of them had been gathered and sorted."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.worlds import (
    BEST_EFFORT,
    FLAVOR,
    LOWER_OR_BORROWED,
    UNITS,
    Load,
    World,
    forest,
)
from hypothesis import given

from makeway.engine.model import FlavorResource, Phase, Policy, WorkloadKey
from makeway.engine.quota import Node, is_within_quota
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import Leaving, QueueState
from makeway.engine.turns import Turns
from makeway.engine.victims import Eligible, Level, Need, OtherQueues, release_all
from tests.engine.test_properties import EXAMPLES, RANDOMS, crowd
from tests.harness.random_worlds import PLAIN

ONE_POD = {FlavorResource(FLAVOR, resource): unit for resource, unit in UNITS.items()}
CELLS = tuple(ONE_POD)


def borrowing_everywhere(rng: Random) -> World:
    """Twelve queues below six cohorts on three levels; some of their holders are on the way out."""
    cohorts = [("root", None, 20), ("a", "root", 2), ("b", "root", 0)]
    cohorts += [("c", "a", 0), ("d", "a", 3), ("e", "b", 1)]
    loads = [
        Load(
            name=f"queue-{i}",
            cohort=rng.choice([name for name, _, _ in cohorts]),
            quota=rng.randint(0, 4),
            running=rng.randint(0, 6),
            running_low=rng.randint(0, 3),
            pending=(rng.randint(1, 3),),
        )
        for i in range(12)
    ]
    world = forest(loads, BEST_EFFORT, LOWER_OR_BORROWED, cohorts=cohorts)
    world.cycle()
    return world


@pytest.mark.parametrize("policy", [Policy.ANY, Policy.LOWER_PRIORITY])
@EXAMPLES
@given(rng=RANDOMS)
def test_candidates_come_up_as_if_all_were_sorted(policy: Policy, rng: Random) -> None:
    world = borrowing_everywhere(rng)
    state = world.engine.state
    for queue in state.queues.values():
        preemptor = state.entries[world.submit(queue.spec.name)]
        need = Need(preemptor, queue, ONE_POD, CELLS)
        eligible, snapshot = Eligible(need, policy), queue.tree.snapshot
        assert taken_in_turn(need, eligible, snapshot) == taken_of_all(need, eligible, snapshot)


def taken_in_turn(need: Need, eligible: Eligible, snapshot: Snapshot) -> list[WorkloadKey]:
    levels, node = [], need.queue.node
    while node.parent is not None:
        levels.append(Level(node.parent, node, has_advantage=True))
        node = node.parent
    others, taken = OtherQueues(eligible, snapshot, Turns(need.queue.tree), levels), []
    with snapshot.trial():
        for is_staying in (False, True):
            for order, source in others.in_order(is_staying):
                snapshot.release(source.queue.node, order.entry.usage)
                taken.append(order.entry.workload.key)
    return taken


def taken_of_all(need: Need, eligible: Eligible, snapshot: Snapshot) -> list[WorkloadKey]:
    queues = [queue for queue in need.queue.tree.queues if queue is not need.queue]
    pairs = [(order, queue) for queue in queues for order in eligible.all_in(queue)]
    taken = []
    with snapshot.trial():
        for order, queue in sorted(pairs, key=lambda pair: pair[0]):
            if borrows(queue, need.queue, snapshot):
                snapshot.release(queue.node, order.entry.usage)
                taken.append(order.entry.workload.key)
    return taken


def borrows(queue: QueueState, preemptors: QueueState, snapshot: Snapshot) -> bool:
    """Is everything above quota from this queue up to where the preemptor's way begins?"""
    shared = way_up(preemptors.node)
    nodes = [node for node in way_up(queue.node) if node not in shared]
    return not any(is_within_quota(node, CELLS, snapshot.usage) for node in nodes)


def way_up(node: Node) -> list[Node]:
    return [node, *node.ancestors()]


@EXAMPLES
@given(rng=RANDOMS)
def test_releasing_together_is_releasing_one_by_one(rng: Random) -> None:
    state = crowd(rng, PLAIN).state
    for tree in state.trees:
        holders = [Leaving(o.entry, queue) for queue in tree.queues for o in queue.holders]
        some, snapshot = rng.sample(holders, rng.randint(0, len(holders))), tree.snapshot
        before = usage_in(snapshot)
        with snapshot.trial():
            for entry, queue in some:
                snapshot.release(queue.node, entry.usage)
            one_by_one = usage_in(snapshot)
        with snapshot.trial():
            release_all(some, snapshot)
            assert usage_in(snapshot) == one_by_one
        assert usage_in(snapshot) == before


def usage_in(snapshot: Snapshot) -> list[dict[FlavorResource, int]]:
    return [{cell: used for cell, used in cells.items() if used} for cells in snapshot.usage]


def test_these_worlds_have_what_they_are_for() -> None:
    """Somebody on the way out, and candidates who are spared, since they borrow no longer."""
    leaving = spared = 0
    for seed in range(20):
        world = borrowing_everywhere(Random(seed))
        state = world.engine.state
        leaving += sum(entry.phase is Phase.EVICTING for entry in state.entries.values())
        for queue in state.queues.values():
            need = Need(state.entries[world.submit(queue.spec.name)], queue, ONE_POD, CELLS)
            eligible = Eligible(need, Policy.ANY)
            everybody = [o for q in queue.tree.queues if q is not queue for o in eligible.all_in(q)]
            spared += len(everybody) - len(taken_of_all(need, eligible, queue.tree.snapshot))
    assert leaving > 20
    assert spared > 100
