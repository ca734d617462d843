"""What a run costs, and what for.

On-demand machines are paid from when a job gets them until its pods are gone; reserved ones all the
time, used or not. What is paid for divides into work that counted, work that was lost, machines on
which no pods ran (starting, stopping), and reserved quota that nobody used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from makeway.api.quantity import smallest_units
from makeway.engine.model import FlavorName, FlavorResource, QueueName, ResourceName
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.measuring import Window
from makeway.sim.record import SimulationRecord
from makeway.sim.settings import Price
from makeway.sim.trace_jobs import SimulationError

HOUR_S = 3600.0


class Cost(NamedTuple):
    """In money, over the time that is measured."""

    paid: float = 0.0
    useful: float = 0.0
    lost: float = 0.0  # progress that evictions and failures took
    idle: float = 0.0  # machines without pods: starting, stopping
    unused: float = 0.0  # reserved, and nobody had it

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))


class FlavorCost(NamedTuple):
    cell: FlavorResource
    price: Price
    cost: Cost


class Money(NamedTuple):
    flavors: tuple[FlavorCost, ...]
    total: Cost
    queues: dict[QueueName, float]  # by what each held
    useful_hours: float  # of everything that has a price

    @property
    def per_useful_hour(self) -> float | None:
        return self.total.paid / self.useful_hours if self.useful_hours else None


def money_of(
    cluster: SimulatedCluster, record: SimulationRecord, main_resource: str, window: Window
) -> Money | None:
    """None where nothing has a price."""
    priced = [*_priced_cells(cluster, main_resource)]
    if not priced:
        return None
    flavors = tuple(
        FlavorCost(cell, price, _cost(cluster, record, cell, price, window))
        for cell, price in priced
    )
    total, useful_hours = Cost(), 0.0
    for flavor in flavors:
        total = total.plus(flavor.cost)
        per_hour = float(flavor.price.per_hour)
        useful_hours += flavor.cost.useful / per_hour if per_hour else 0.0
    queues = {
        name: sum(
            _hours(cell, record.used[name, cell].integral(window.until, window.since))
            * float(price.per_hour)
            for cell, price in priced
        )
        for name in cluster.queues
    }
    return Money(flavors, total, queues, useful_hours)


def check_prices(cluster: SimulatedCluster, main_resource: str) -> None:
    """What has a price has to be there; asked before hours of runs."""
    for _ in _priced_cells(cluster, main_resource):
        pass


def _priced_cells(
    cluster: SimulatedCluster, main_resource: str
) -> Iterator[tuple[FlavorResource, Price]]:
    cells = cluster.cells()
    for i, price in enumerate(cluster.settings.prices):
        resource = ResourceName(price.resource or main_resource)
        cell = FlavorResource(FlavorName(price.flavor), resource)
        if cell not in cells:
            there = ", ".join(sorted({f"{c.flavor} {c.resource}" for c in cells}))
            raise SimulationError(
                f"{cluster.source}: spec.prices[{i}]: no queue has {resource} of flavor"
                f" {price.flavor} (there are {there})"
            )
        yield cell, price


def _cost(
    cluster: SimulatedCluster,
    record: SimulationRecord,
    cell: FlavorResource,
    price: Price,
    window: Window,
) -> Cost:
    per_hour = float(price.per_hour)
    rented = _hours(cell, record.rented[cell].integral(window.until, window.since)) * per_hour
    busy = _hours(cell, record.busy[cell].integral(window.until, window.since)) * per_hour
    in_vain = sum(
        loss.machine_s * loss.usage.get(cell, 0) for loss in record.losses if window.has(loss.at)
    )
    lost = min(busy, _hours(cell, in_vain) * per_hour)
    whole = _hours(cell, cluster.quota_of(cell) * window.length_s) * per_hour
    return Cost(
        paid=whole if price.reserved else rented,
        useful=busy - lost,
        lost=lost,
        idle=max(0.0, rented - busy),
        unused=max(0.0, whole - rented) if price.reserved else 0.0,
    )


def _hours(cell: FlavorResource, unit_seconds: float) -> float:
    return unit_seconds / HOUR_S / smallest_units(cell.resource)
