"""What a run costs, and what for."""

from __future__ import annotations

import pytest

from makeway.sim import SimulationError, simulate
from makeway.sim.comparison import figures
from makeway.sim.named_figures import figures_of
from makeway.sim.page import render_page
from makeway.sim.report import as_data
from makeway.sim.report_tables import tables
from makeway.sim.world import World
from tests.sim.worlds import HOUR, MINUTE, cluster, flavor, job, play, queue, settings, trace

ON_DEMAND = "prices: [{flavor: a, perHour: 2}]"
RESERVED = "prices: [{flavor: a, perHour: 2, reserved: true}], currency: EUR"


def test_on_demand_machines_are_paid_while_jobs_have_them() -> None:
    """Two GPUs for ten minutes of start-up, an hour of work and half a minute of nothing."""
    world = settings(f"startup: [{{flavor: a, delay: 10m}}], {ON_DEMAND}")
    money = play((flavor("a"), queue("q", a=8), world), job("x", gpus=2, run=HOUR)).money

    assert money is not None
    assert money.total.paid == pytest.approx(2 * 2 * 70 / 60)
    assert money.total.useful == pytest.approx(4.0)
    assert money.total.idle == pytest.approx(4 / 6)
    assert (money.total.lost, money.total.unused) == (0.0, 0.0)
    assert money.per_useful_hour == pytest.approx(money.total.paid / 2)


def test_reserved_quota_is_paid_all_the_time_and_what_is_paid_divides_without_rest() -> None:
    policy = "  preemption: {withinClusterQueue: LowerPriority}\n"
    world = settings(f"termination: 5m, startup: [{{flavor: a, delay: 10m}}], {RESERVED}")
    result = play(
        (flavor("a"), queue("q", a=4, more=policy), world),
        job("low", gpus=4, run=2 * HOUR),
        job("high", at=HOUR, gpus=4, run=HOUR, priority=1),
    )
    money = result.money

    assert money is not None
    assert money.total.paid == pytest.approx(4 * 2 * result.end / HOUR)
    assert sum(money.total[1:]) == pytest.approx(money.total.paid)
    assert money.total.lost == pytest.approx(4 * 2 * 50 / 60)  # low had run for 50 minutes
    assert money.total.useful == pytest.approx(4 * 2 * 3)
    assert money.queues == {"q": pytest.approx(money.total.paid - money.total.unused)}


def test_who_waits_for_machines_in_a_stockout_pays_nothing() -> None:
    dry = settings(f"stockouts: [{{flavor: a, from: 0s, for: 5h}}], {ON_DEMAND}")
    money = play((flavor("a"), queue("q", a=1), dry), job("x", at=MINUTE, run=HOUR)).money

    assert money is not None
    assert money.total.paid == pytest.approx(2.0)


def test_cost_is_a_figure_like_any_other() -> None:
    jobs = trace(job(f"j{i}", run=HOUR) for i in range(4))
    few, many = (
        simulate(cluster(flavor("a"), queue("q", a=n), settings(RESERVED)), jobs) for n in (1, 8)
    )

    cost = next(f for f in figures([few, many]) if f.what == "cost")

    assert cost.values == (8.0, 16.0)
    assert cost.verdict(1) == "WORSE"
    assert figures_of(many)["cost of unused quota"] == 8.0
    assert as_data(few)["money"]["total"]["paid"] == 8.0
    assert any(table.title == "money (EUR)" for table in tables(few))
    assert "Wait against cost" in render_page(few, many)


def test_a_price_for_what_nobody_has_is_an_error() -> None:
    with pytest.raises(SimulationError, match=r"spec.prices\[0\]: no queue has cpu of flavor a"):
        _ = play(
            (
                flavor("a"),
                queue("q", a=1),
                settings("prices: [{flavor: a, resource: cpu, perHour: 1}]"),
            ),
            job("x"),
        ).money


def test_without_prices_there_is_no_money() -> None:
    result = play((flavor("a"), queue("q", a=1)), job("x"))

    assert result.money is None
    assert as_data(result)["money"] is None
    assert "cost" not in figures_of(result)


def test_a_price_of_what_no_queue_has_is_told_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "run", None)
    world = settings("prices: [{flavor: a, perHour: 2, resource: cpu}]")

    with pytest.raises(SimulationError, match="no queue has cpu of flavor a"):
        play((flavor("a"), queue("q", a=8), world), job("x"))
