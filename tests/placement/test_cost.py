"""How the work grows: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from makeway.placement import packing, preempt, trials
from makeway.placement.decisions import BindPods, PreemptUnits
from tests.placement.scenario import Cluster


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often nodes are looked through, and how often a unit is put back."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    for module in (packing, preempt, trials):
        count(module, "fitting")
    count(trials.CountingTrial, "put_back")
    count(trials.PlacedTrial, "put_back")
    return counted


def full_cluster(nodes: int, *, levels: int = 1) -> Cluster:
    lab = Cluster()
    lab.check = lambda: None  # type: ignore[method-assign]
    for n in range(nodes):
        lab.node(f"n{n:03}", cpu=4)
        for i in range(4):
            lab.pod(f"low-{n:03}-{i}", on=f"n{n:03}", cpu=1, priority=1 + (n * 7 + i) % levels)
    return lab


@pytest.mark.parametrize("members", [2, 20])
def test_a_gang_is_not_tried_member_by_member(calls: Counter[str], members: int) -> None:
    lab = full_cluster(30, levels=8)
    lab.gang("g", min_count=members)
    lab.members("g", members, cpu=4)
    calls.clear()
    assert isinstance(lab.place("g"), PreemptUnits)
    assert calls["fitting"] <= 15


def test_a_unit_is_put_back_a_few_times_at_most(calls: Counter[str]) -> None:
    lab = full_cluster(30)
    lab.gang("g", min_count=20)
    lab.members("g", 20, cpu=4)
    calls.clear()
    assert isinstance(lab.place("g"), PreemptUnits)
    assert calls["put_back"] <= 3 * 30 * 4


def test_a_gang_that_fits_looks_through_the_nodes_once_or_twice(calls: Counter[str]) -> None:
    lab = Cluster(**{f"n{n:03}": 4 for n in range(30)})
    lab.gang("g", min_count=100)
    lab.members("g", 100, cpu=1)
    calls.clear()
    assert isinstance(lab.place("g"), BindPods)
    assert calls["fitting"] <= 2


def test_a_cycle_without_changes_looks_at_nothing(calls: Counter[str]) -> None:
    lab = full_cluster(5)
    for i in range(20):
        lab.pod(f"waits-{i}", cpu=4, priority=0)
    lab.state.place(now=1)
    calls.clear()
    assert lab.state.place(now=2) == []
    assert not calls
