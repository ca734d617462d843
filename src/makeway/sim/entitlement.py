"""What a queue may expect, and what it had of that.

A queue may expect what it owns, and its part of what the cohorts above it own: at each of them by
weight, among those below that have work at the time. So queues that own nothing have their due as
well. A queue's share is what it used over what was due to it, over the time in which jobs waited in
it; below 1 it was kept from its due.

Cost: linear in the changes of use and waiting; entitlements are reckoned once for each set of
queues that have work at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from makeway.engine.model import CohortName, FlavorResource, QueueName
from makeway.sim.cluster import SimulatedCluster, nominal_of
from makeway.sim.measuring import Window
from makeway.sim.record import SimulationRecord
from makeway.sim.statistics import together

IDLE, BUSY, WAITING = range(3)
Active = frozenset[QueueName]
Turn = tuple[float, QueueName, int]  # when a queue becomes idle, busy, or begins to wait


class Entitlements:
    def __init__(self, cluster: SimulatedCluster, resource: str) -> None:
        self._cluster, self._resource = cluster, resource
        self._known: dict[Active, dict[QueueName, float]] = {}
        self._below: dict[CohortName, list[QueueName | CohortName]] = {}
        for queue in cluster.queues.values():
            if queue.cohort is not None:
                self._below.setdefault(queue.cohort, []).append(queue.name)
        for cohort in cluster.cohorts.values():
            if cohort.parent is not None:
                self._below.setdefault(cohort.parent, []).append(cohort.name)

    def among(self, active: Active) -> dict[QueueName, float]:
        """What is due to each queue while exactly these have work."""
        if active not in self._known:
            self._known[active] = self._reckon(active)
        return self._known[active]

    def _reckon(self, active: Active) -> dict[QueueName, float]:
        queues = self._cluster.queues
        due = {name: float(self._owned(nominal_of(queues[name]))) for name in active}
        parents = {name: cohort.parent for name, cohort in self._cluster.cohorts.items()}
        for top in self._below:
            if parents.get(top) is None:
                self._hand_down(top, 0.0, active, due)
        return due

    def _hand_down(
        self, cohort: CohortName, pot: float, active: Active, due: dict[QueueName, float]
    ) -> None:
        known = self._cluster.cohorts.get(cohort)
        if known is not None:
            pot += self._owned({cell: quota.nominal for cell, quota in known.quotas.items()})
        below = [name for name in self._below.get(cohort, ()) if self._has_work(name, active)]
        weights = [self._weight(name) for name in below]
        total = sum(weights)
        for name, weight in zip(below, weights, strict=True):
            part = pot * weight / total if total else pot / len(below)
            if name in active:
                due[QueueName(name)] += part
            else:
                self._hand_down(CohortName(name), part, active, due)

    def _owned(self, nominal: dict[FlavorResource, int]) -> int:
        return sum(amount for cell, amount in nominal.items() if cell.resource == self._resource)

    def _has_work(self, name: str, active: Active) -> bool:
        below = self._below.get(CohortName(name), ())
        return name in active or any(self._has_work(one, active) for one in below)

    def _weight(self, name: QueueName | CohortName) -> float:
        queue = self._cluster.queues.get(QueueName(name))
        return self._cluster.cohorts[CohortName(name)].weight if queue is None else queue.weight


def shares_of(
    cluster: SimulatedCluster, record: SimulationRecord, resource: str, window: Window
) -> dict[str, float | None]:
    """Per queue: what it had over its due; None where nobody waited or nothing was due."""
    cells = [cell for cell in cluster.cells() if cell.resource == resource]
    had = dict.fromkeys(cluster.queues, 0.0)
    turns = [
        [*_turns(name, record, cells, window, had)] for name in cluster.queues
    ]  # fills `had` as well
    due = _due(Entitlements(cluster, resource), turns, window)
    return {name: had[name] / due[name] if due.get(name) else None for name in cluster.queues}


def _turns(
    name: QueueName,
    record: SimulationRecord,
    cells: Sequence[FlavorResource],
    window: Window,
    had: dict[QueueName, float],
) -> Iterator[Turn]:
    state = IDLE
    series = [record.waiting[name], *(record.used[name, cell] for cell in cells)]
    for start, stop, (waiting, *used) in together(series, window.until):
        if stop <= window.since:
            continue
        start = max(start, window.since)
        if waiting > 0:
            had[name] += sum(used) * (stop - start)
        now = WAITING if waiting > 0 else BUSY if any(used) else IDLE
        if now != state:
            yield start, name, now
            state = now


def _due(
    entitlements: Entitlements, turns: Sequence[Sequence[Turn]], window: Window
) -> dict[QueueName, float]:
    due: dict[QueueName, float] = {}
    busy: set[QueueName] = set()
    waiting: set[QueueName] = set()
    since = window.since

    def reckon(until: float) -> None:
        found = entitlements.among(frozenset(busy)) if waiting else {}
        for name in waiting:
            due[name] = due.get(name, 0.0) + found[name] * (until - since)

    for at, name, state in merge(*turns):
        if at > since:
            reckon(at)
            since = at
        (busy.discard if state == IDLE else busy.add)(name)
        (waiting.add if state == WAITING else waiting.discard)(name)
    reckon(window.until)
    return due
