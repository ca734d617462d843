"""Fairness by history: local queues of one queue, in line and among victims, by what they used."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

import pytest

from makeway.engine import events as ev
from makeway.engine.decisions import Admit
from makeway.engine.history import Account, UsageHistory
from makeway.engine.model import (
    Config,
    FlavorName,
    FlavorResource,
    HistoryPolicy,
    LocalQueueKey,
    Phase,
    ResourceName,
    Strategy,
    WorkloadKey,
)
from tests.harness.engine import BEST_EFFORT, LOWER, STRICT, Scenario, admit, preempt, queue

HOUR = 3600.0
GPU = ResourceName("gpu")
POLICY = HistoryPolicy(half_life_s=HOUR, sampling_s=300.0)
REMEMBERS = Config(history=POLICY)
CELL = FlavorResource(FlavorName("default"), GPU)


def lab_of(*local_queues: str, config: Config = REMEMBERS, **fields: object) -> Scenario:
    lab = Scenario(queue("lab", counts_history=True, **fields), config=config)  # type: ignore[arg-type]
    for name in local_queues:
        lab.local_queue(name, to="lab")
    return lab


# --- the average ---


@pytest.mark.parametrize(
    ("hours", "used"), [(0, 0.0), (1, 4.0), (2, 6.0), (3, 7.0), (20, 7.99999237)]
)
def test_usage_comes_nearer_to_what_is_held_by_half_in_each_half_life(
    hours: float, used: float
) -> None:
    account = Account()
    account.coming = {GPU: 8.0}
    account.settle(0.0, POLICY)
    assert account.used_at(hours * HOUR, POLICY)[GPU] == pytest.approx(used)


def test_usage_does_not_depend_on_how_often_somebody_looks() -> None:
    often, once = Account(), Account()
    for account in (often, once):
        account.coming = {GPU: 8.0}
        account.settle(0.0, POLICY)
    for minute in range(1, 120):
        often.settle(minute * 60.0, POLICY)
    assert often.used_at(2 * HOUR, POLICY)[GPU] == pytest.approx(
        once.used_at(2 * HOUR, POLICY)[GPU]
    )


def test_an_admission_counts_at_once_for_one_sampling_interval_and_no_more_until_then() -> None:
    history, key = UsageHistory(), LocalQueueKey("lab/a")
    history.change(key, {CELL: 8}, 1)
    history.admit(key, {CELL: 8}, 0.0, POLICY)
    in_advance = 8 * (1 - 0.5 ** (300 / HOUR))
    for now in (0.0, 100.0, 299.0, 300.0):
        assert history.used(key, now, POLICY)[GPU] == pytest.approx(in_advance)
    assert history.used(key, HOUR, POLICY)[GPU] == pytest.approx(4.0)


def test_the_same_holds_when_somebody_looks_in_between() -> None:
    history, key = UsageHistory(), LocalQueueKey("lab/a")
    history.change(key, {CELL: 8}, 1)
    history.admit(key, {CELL: 8}, 0.0, POLICY)
    for now in (200.0, 400.0, 900.0):
        history.change(key, {}, 1)
        history.settle(now, POLICY)
    assert history.used(key, HOUR, POLICY)[GPU] == pytest.approx(4.0)


# --- the line ---


def test_who_used_less_comes_first_whatever_the_priority() -> None:
    lab = lab_of("a", "b", gpu=8)
    lab.pending("long", on="a", gpu=8)
    assert lab.cycles() == [admit("long")]
    lab.now = HOUR
    lab.pending("again", on="a", gpu=8, priority=9)
    lab.pending("other", on="b", gpu=8)
    lab.cycles()
    assert lab.positions("lab") == ["other", "again"]
    lab.finish("long")
    assert lab.cycles() == [admit("other")]


def test_inside_a_local_queue_priority_and_time_decide() -> None:
    lab = lab_of("a", gpu=8)
    lab.running("long", on="a", gpu=8)
    lab.pending("first", on="a", gpu=8)
    lab.pending("urgent", on="a", gpu=8, priority=1)
    lab.cycles()
    assert lab.positions("lab") == ["urgent", "first"]


def test_places_that_become_free_at_one_moment_go_to_all_in_turn() -> None:
    lab = lab_of("a", "b", gpu=4)
    for name in ("a", "b"):
        for number in range(4):
            lab.pending(f"{name}-{number}", on=name, gpu=1)
    assert lab.cycles() == [admit("a-0"), admit("b-0"), admit("a-1"), admit("b-1")]


def test_a_weight_of_two_may_have_used_twice_as_much() -> None:
    lab = lab_of("a", gpu=6)
    lab.local_queue("b", to="lab", weight=2.0)
    for name in ("a", "b"):
        for number in range(6):
            lab.pending(f"{name}-{number}", on=name, gpu=1)
    admitted = [said.workload[0] for said in lab.cycles()]
    assert (admitted.count("a"), admitted.count("b")) == (2, 4)


def test_without_the_scope_or_without_the_setting_the_past_does_not_count() -> None:
    for config, counts in ((REMEMBERS, False), (Config(), True)):
        lab = Scenario(queue("lab", gpu=8, counts_history=counts), config=config)
        for name in ("a", "b"):
            lab.local_queue(name, to="lab")
        lab.running("long", on="a", gpu=8)
        lab.now = HOUR
        lab.pending("again", on="a", gpu=8, priority=9)
        lab.pending("other", on="b", gpu=8)
        lab.cycles()
        assert lab.positions("lab") == ["again", "other"]


def test_what_is_written_down_survives_a_restart() -> None:
    lab = lab_of("a", "b", gpu=8)
    lab.pending("long", on="a", gpu=8)
    lab.cycles()
    lab.now = HOUR
    lab.pending("again", on="a", gpu=8)
    lab.pending("other", on="b", gpu=8)
    lab.cycles()
    lab.restart(after_s=60)
    lab.cycles()
    assert lab.positions("lab") == ["other", "again"]
    assert lab.state.usage_of(LocalQueueKey("default/a")) == pytest.approx(
        8 - 4 * 0.5 ** (60 / HOUR)
    )


def test_in_a_line_that_nobody_passes_another_comes_first_as_time_goes_by() -> None:
    """b's head is small enough; a, which used more, falls below b while b goes on using."""
    lab = lab_of("a", "b", "c", gpu=8, strategy=STRICT)
    lab.running("past", on="a", gpu=6)
    lab.running("now", on="b", gpu=2)
    lab.cycles()
    lab.now = 2 * HOUR
    lab.finish("past")
    lab.running("rest", on="c", gpu=5)
    lab.pending("big", on="b", gpu=4)
    lab.pending("small", on="a", gpu=1)
    assert lab.cycles() == []
    assert lab.positions("lab")[0] == "big"
    assert lab.next_at is not None
    at = lab.next_at
    assert lab.cycle(now=at) == [admit("small")]


# --- victims ---


def test_among_victims_too_usage_comes_before_priority() -> None:
    lab = lab_of("a", "b", "c", gpu=8, within=LOWER)
    lab.pending("heavy", on="a", gpu=6, priority=3)
    lab.cycles()
    lab.now = HOUR
    lab.pending("light", on="b", gpu=2)
    assert lab.cycles() == [admit("light")]
    lab.pending("urgent", on="c", gpu=2, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["heavy"])]


def test_a_preemptor_keeps_its_place_from_local_queues_that_used_less() -> None:
    lab = lab_of("a", "b", gpu=8, within=LOWER)
    lab.pending("low", on="a", gpu=8)
    lab.cycles()
    lab.now = HOUR
    lab.pending("urgent", on="a", gpu=8, priority=9)
    assert lab.cycles() == [preempt("urgent", victims=["low"])]
    lab.pending("late", on="b", gpu=8, priority=9)
    lab.let_go("low")
    assert lab.cycles()[0] == admit("urgent")


# --- shares over time ---


class Demand:
    """Each local queue always has work; whoever is admitted runs for a random while."""

    def __init__(self, lab: Scenario, names: Sequence[str], sizes: Sequence[int]) -> None:
        self.lab, self.names, self.sizes = lab, names, sizes
        self.random, self.now, self.number = Random(7), 0.0, 0
        self.used = dict.fromkeys(names, 0.0)
        self.ends: list[tuple[float, WorkloadKey]] = []

    def play(self, until: float) -> None:
        engine = self.lab.engine
        while self.now < until:
            self._fill_up()
            for key in self._admitted():
                end = self.now + self.random.uniform(60, 900)
                amount = self.lab.state.entries[key].usage[CELL]
                self.used[key.removeprefix("default/")[0]] += amount * (min(end, until) - self.now)
                heappush(self.ends, (end, key))
            self.now, gone = heappop(self.ends)
            engine.apply(ev.WorkloadRemoved(gone))

    def _fill_up(self) -> None:
        for name in self.names:
            entries = self.lab.state.by_local_queue.get(LocalQueueKey(f"default/{name}"), {})
            waiting = sum(entry.phase is Phase.PENDING for entry in entries.values())
            for _ in range(6 - waiting):
                self.number += 1
                gpu = self.random.choice(self.sizes)
                workload = self.lab._workload(f"{name}-{self.number}", on=name, gpu=gpu)
                self.lab.engine.apply(ev.WorkloadSeen(replace(workload, created_at=self.now)))

    def _admitted(self) -> Iterator[WorkloadKey]:
        next_at: float | None = self.now
        while next_at == self.now:
            cycle = self.lab.engine.run_cycle(self.now)
            next_at = cycle.next_at
            yield from (said.workload for said in cycle.decisions if isinstance(said, Admit))


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 5}])
@pytest.mark.parametrize(
    ("strategy", "sizes"), [(STRICT, (1, 2, 4)), (BEST_EFFORT, (1,))], ids=["strict", "best-effort"]
)
def test_with_equal_demand_shares_come_within_five_percent_of_the_weights(
    weights: dict[str, int], strategy: Strategy, sizes: tuple[int, ...]
) -> None:
    lab = lab_of(gpu=16, strategy=strategy)
    for name, weight in weights.items():
        lab.local_queue(name, to="lab", weight=float(weight))
    demand = Demand(lab, list(weights), sizes)
    demand.play(until=10 * HOUR)  # ten half-lives
    total, whole = sum(demand.used.values()), sum(weights.values())
    for name, weight in weights.items():
        assert demand.used[name] / total == pytest.approx(weight / whole, rel=0.05)
