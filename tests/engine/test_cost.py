"""What a cycle costs, in steps: trees gone through, nominations, fit checks, holders looked at.

Seconds are for `make bench`; these are the counts that make them what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex, cast

import pytest
from benchmarks.worlds import (
    BEST_EFFORT,
    LOWER_ONLY,
    LOWER_OR_BORROWED,
    LOWER_OR_NEWER,
    NO_PREEMPTION,
    STRICT,
    Load,
    World,
    forest,
    full,
    full_and_free,
    lent_out,
    one_queue,
    sizes,
)

from makeway.engine import events as ev
from makeway.engine import fairness, free_places, nominate, pending, quota, snapshot
from makeway.engine.cycle import TreeCycle
from makeway.engine.entry import VictimOrder
from makeway.engine.model import Preemption, QueueName, Strategy
from makeway.engine.nominate import Nominator
from makeway.engine.pending import PendingQueue
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import QueueState
from makeway.engine.victims import Eligible
from tests.harness.engine import Scenario, queue

pytestmark = pytest.mark.pure  # calls are counted by replacing functions

QUEUE = "queue-0"


class Calls:
    """How often a function has been called since the last look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self._count = 0
        function: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._count += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    def take(self) -> int:
        count, self._count = self._count, 0
        return count


def idle(world: World) -> World:
    """Run cycles until one decides nothing."""
    while world.cycle():
        pass
    return world


def long_queue(pending: int, shapes: int = 1, running: int = 20) -> World:
    load = Load(name=QUEUE, quota=running, running=running, pending=sizes(pending, shapes))
    return idle(one_queue(load))


def only_queue(world: World) -> QueueState:
    return world.engine.state.queues[QueueName(QUEUE)]


def finish_one(world: World) -> None:
    holder = only_queue(world).holders[0][5]
    world.engine.apply(ev.WorkloadFinished(holder.workload.key))


# --- trees and nominations ---


@pytest.mark.parametrize("preemption", [NO_PREEMPTION, LOWER_ONLY], ids=["off", "on"])
@pytest.mark.parametrize("strategy", [STRICT, BEST_EFFORT], ids=["strict", "best effort"])
def test_a_cycle_with_nothing_changed_goes_through_no_tree(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy, preemption: Preemption
) -> None:
    trees = Calls(monkeypatch, TreeCycle, "run")
    world = forest(full(queues=40, cohorts=4), strategy, preemption)

    world.cycle()
    assert trees.take() == 4
    world.cycle()
    world.cycle()
    assert trees.take() == 0


def test_what_happens_in_one_tree_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = Calls(monkeypatch, TreeCycle, "run")
    world = idle(forest(full(queues=40, cohorts=4)))
    trees.take()

    finish_one(world)
    world.cycle()
    assert trees.take() == 1


def test_parking_a_thousand_of_one_shape_costs_one_nomination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nominations = Calls(monkeypatch, Nominator, "nominate")
    world = long_queue(pending=1_000)

    assert nominations.take() == 1
    assert len(list(only_queue(world).pending.parked())) == 1_000


@pytest.mark.parametrize("waiting", [10, 1_000])
def test_an_admission_takes_one_search_however_many_wait(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    world = long_queue(pending=waiting)
    nominations = Calls(monkeypatch, Nominator, "nominate")

    finish_one(world)
    idle(world)
    assert nominations.take() == 1  # the next is told what its equals were, and parked with them


# --- waking ---


@pytest.mark.parametrize("shapes", [1, 1_000], ids=["one shape", "all different"])
def test_waking_takes_no_step_per_parked_workload(
    monkeypatch: pytest.MonkeyPatch, shapes: int
) -> None:
    world = long_queue(pending=1_000, shapes=shapes)
    pushes = Calls(monkeypatch, pending, "heappush")
    added = Calls(monkeypatch, PendingQueue, "add")

    finish_one(world)
    assert added.take() == 0
    assert pushes.take() <= 1
    assert len(list(only_queue(world).pending.active())) == 1_000


# --- fit checks and copies ---


@pytest.mark.parametrize("loads", [full_and_free(40, 4), full(40, 4)], ids=["all fit", "none fits"])
def test_no_usage_map_is_copied_without_victims(
    monkeypatch: pytest.MonkeyPatch, loads: list[Load]
) -> None:
    copies = Calls(monkeypatch, Snapshot, "copy")
    idle(forest(loads, BEST_EFFORT, LOWER_ONLY))
    assert copies.take() == 0


def test_with_victims_a_tree_is_copied_once_per_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    loads, pool = lent_out(queues=40, cohorts=1, owners=4, roots=1)
    copies = Calls(monkeypatch, Snapshot, "copy")
    forest(loads, BEST_EFFORT, LOWER_OR_BORROWED, cohorts=[("cohort-0", None, pool)]).cycle()
    assert copies.take() == 1


def fit_checks_of_a_cycle(monkeypatch: pytest.MonkeyPatch, loads: list[Load]) -> int:
    """How often it is computed what is available to a queue, levels of the tree not counted."""
    nominated = Calls(monkeypatch, free_places, "available")
    decided = Calls(monkeypatch, snapshot, "available")
    forest(loads).cycle()
    return nominated.take() + decided.take()


def test_fit_checks_grow_with_the_heads_and_with_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = fit_checks_of_a_cycle(monkeypatch, full_and_free(20, 2))
    for module in (free_places, snapshot):
        monkeypatch.setattr(module, "available", quota.available)
    many = fit_checks_of_a_cycle(monkeypatch, full_and_free(80, 2))
    first = 2 * 2  # of each tree: nobody was decided upon since it was nominated
    assert few == 20 * 2 * 2 - first  # when nominated and when decided, per resource
    assert many == 80 * 2 * 2 - first


def test_what_is_free_is_found_once_for_all_of_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of one GPU and ten of two: the queue's own quota for some, borrowed quota for others."""
    lab = Scenario(queue("a", gpu=10, cohort="all"), queue("b", gpu=20, cohort="all"))
    made = Calls(monkeypatch, free_places.FreePlaces, "_make")
    for number in range(10):
        lab.pending(f"one-{number}", on="a", gpu=1)
        lab.pending(f"two-{number}", on="a", gpu=2)
    assert len(lab.cycles()) == 20
    assert made.take() == 2 * 2  # of each shape one that borrows, and one that does not


# --- victims ---


class Counted(list[VictimOrder]):
    """Holders that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, position: Any) -> Any:
        self.looks += 1
        return super().__getitem__(cast(SupportsIndex, position))


def a_preemptor(running: int, wanted: int) -> World:
    load = Load(name=QUEUE, quota=running, running=running, pending=(wanted,), priority=1)
    return one_queue(load, BEST_EFFORT, LOWER_ONLY)


def nominate_head(world: World) -> int:
    """Returns how many victims were found."""
    queue = only_queue(world)
    head = queue.pending.head()
    assert head is not None
    return len(Nominator(world.engine.state, head, queue, queue.tree.snapshot).nominate().victims)


@pytest.mark.parametrize("running", [50, 1_000])
def test_a_search_looks_at_no_more_holders_than_it_takes(running: int) -> None:
    world = a_preemptor(running, wanted=10)
    queue = only_queue(world)
    queue.holders = Counted(queue.holders)

    assert nominate_head(world) == 10
    assert queue.holders.looks <= 3 * 6 * 10  # cpu, memory, both; each candidate a few times


def test_a_queue_of_older_equals_is_not_gone_through() -> None:
    load = Load(name=QUEUE, quota=1_000, running=1_000, pending=(10,))
    world = one_queue(load, BEST_EFFORT, LOWER_OR_NEWER)
    queue = only_queue(world)
    queue.holders = Counted(queue.holders)

    assert nominate_head(world) == 0
    assert queue.holders.looks <= 20  # steps of a bisection


@pytest.mark.parametrize("wanted", [10, 200])
def test_sparing_victims_of_the_own_queue_takes_no_fit_check_for_each(
    monkeypatch: pytest.MonkeyPatch, wanted: int
) -> None:
    world = a_preemptor(300, wanted)
    checks = Calls(monkeypatch, Snapshot, "fits")

    assert nominate_head(world) == wanted
    assert checks.take() == 3  # one per search: when enough was released


def test_nobody_is_searched_for_where_everybody_is_too_important(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Calls(monkeypatch, nominate, "find_victims")
    idle(forest(full(queues=40, cohorts=4), BEST_EFFORT, LOWER_ONLY))
    assert searches.take() == 0


def test_nobody_is_searched_for_where_the_own_queue_could_free_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Calls(monkeypatch, nominate, "find_victims")
    idle(forest(full(queues=40, cohorts=4, low=1), BEST_EFFORT, LOWER_ONLY))
    assert searches.take() == 0


@pytest.mark.parametrize("queues", [40, 400])
def test_a_search_looks_at_the_queues_that_come_up_and_at_no_others(
    monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    loads, pool = lent_out(queues, cohorts=1, owners=1, roots=1)
    world = forest(loads, BEST_EFFORT, LOWER_OR_BORROWED, cohorts=[("cohort-0", None, pool)])
    looks = Calls(monkeypatch, Eligible, "next_in")

    assert nominate_head(world) == 10
    assert looks.take() <= 3 * (1 + 4 * 10)  # cpu, memory, both; its own, each victim a few times


def test_a_place_in_the_fair_order_is_computed_once_per_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = Calls(monkeypatch, fairness, "share_of")
    forest(full_and_free(queues=200, cohorts=1), is_fair=True).cycle()
    assert shares.take() == 200
