"""Rows for pages, kept up with the picture: what changed is noted at once, and read when asked.

While nobody looks, a change costs a mark. `refresh` turns marks into rows, a few at a time, so that
ten thousand jobs hold nobody up; each row is written as JSON once, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import orjson

from makeway.api.batch import ENDED_PHASES, Node
from makeway.api.kinds import (
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.api.queueing import ClusterQueue, Cohort, LocalQueue
from makeway.dashboard.rows import Row, cohort_row, job_row, node_row, pod_entry, queue_row
from makeway.dashboard.units import Unit, Units, seen, unit_of_pod
from makeway.plane.parts import NOTHING, Outcome, Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, ObjectWrite, Say
from makeway.translate.job_state import state_of, with_pods

JOBS_TABLE, QUEUES_TABLE, COHORTS_TABLE, NODES_TABLE = "jobs", "queues", "cohorts", "nodes"
TIDY_ABOVE = 10_000  # marks
HELD_MAX = 1000  # objects


class Mark(NamedTuple):
    """A row that may look different now."""

    table: str
    key: Unit | str  # a name, where it is no job


class Fresh(NamedTuple):
    """A row as it is now."""

    table: str
    key: str
    namespace: str  # empty: of no namespace
    body: bytes  # JSON; empty: it is gone
    change: bytes = b""  # its key and what became different of it; empty: tell all of it


class Board:
    """A part of the plane that writes nothing."""

    resources: tuple[Resource, ...]

    def __init__(
        self, picture: Picture, clock: Callable[[], float], *, has_nodes: bool = True
    ) -> None:
        """Without nodes where nobody else looks at them, lest it needs a right of its own."""
        kinds = (JOBS, WORKLOADS, PODS, QUEUES, COHORTS, LOCAL_QUEUES)
        self.resources = (*kinds, NODES) if has_nodes else kinds
        self._picture, self._clock = picture, clock
        self._units = Units(picture)
        self._on_node = picture.index(PODS, _on_node)
        self._local_queues = picture.index(LOCAL_QUEUES, _by_queue)
        self._leads_to = picture.index(LOCAL_QUEUES, _leads_to)
        self._rows: dict[Mark, Fresh] = {}
        self._marks: dict[Mark, None] = {}  # in the order of the changes
        self._tidy_above = TIDY_ABOVE
        self._held: list[Object] = []  # that changed since rows were read
        self._on_change: Callable[[], None] | None = None  # somebody looks, and wants to hear

    # As a part

    def changed(self, change: Change) -> None:
        touched = dict.fromkeys(self._touched(change))
        self._marks |= touched
        if len(self._marks) > self._tidy_above:
            self._tidy()
        if touched and self._on_change is not None:
            self._hold(change.new)
            self._on_change()

    def _hold(self, object: Object | None) -> None:
        """Rows are read a moment after a change. By then the picture would have forgotten what was
        decoded of it, and where much happens, doing that again would be most of what pages cost."""
        if object is not None and len(self._held) < HELD_MAX:
            object.hold()
            self._held.append(object)

    def _let_go(self) -> None:
        for object in self._held:
            object.let_go()
        self._held.clear()

    def _tidy(self) -> None:
        """Forget marks of what came and went while nobody looked."""
        self._marks = {
            mark: None
            for mark in self._marks
            if mark in self._rows or not isinstance(mark.key, Unit) or self._units.has(mark.key)
        }
        self._tidy_above = 2 * len(self._marks) + TIDY_ABOVE

    def act(self, now: float) -> Plan:
        return NOTHING

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        raise AssertionError(f"{write} is not ours")

    def _touched(self, change: Change) -> Iterator[Mark]:
        name = change.key.name
        if change.resource in (JOBS, WORKLOADS, PODS):
            for unit in self._units.touched(change):
                yield Mark(JOBS_TABLE, unit)
        if change.resource is PODS:
            for node in self._on_node.touched(change):
                yield Mark(NODES_TABLE, node)
        elif change.resource is LOCAL_QUEUES:
            for queue in self._local_queues.groups(change):
                yield Mark(QUEUES_TABLE, queue)
        elif change.resource is QUEUES:
            yield Mark(QUEUES_TABLE, name)
        elif change.resource is COHORTS:
            yield Mark(COHORTS_TABLE, name)
        elif change.resource is NODES:
            yield Mark(NODES_TABLE, name)

    # For those who look

    def watch(self, on_change: Callable[[], None]) -> None:
        """Somebody looks from now on, and hears when there may be something new."""
        self._on_change = on_change

    def unwatch(self) -> None:
        self._on_change = None
        self._let_go()

    @property
    def backlog(self) -> int:
        """How many rows may look different from what `rows` has."""
        return len(self._marks)

    def rows(self) -> list[Fresh]:
        return list(self._rows.values())

    def refresh(self, most: int) -> list[Fresh]:
        """Look at some of the rows that may be different; returns those that are."""
        found = []
        for mark in [*islice(self._marks, most)]:
            del self._marks[mark]
            row = self._read(mark)
            body = b"" if row is None else _written(row)
            known = self._rows.get(mark)
            if body == (b"" if known is None else known.body):
                continue
            namespace = mark.key.namespace if isinstance(mark.key, Unit) else ""
            fresh = Fresh(mark.table, str(mark.key), namespace, body)
            if row is None:
                del self._rows[mark]
            else:
                self._rows[mark] = fresh
            if row is not None and known is not None:
                fresh = fresh._replace(change=_change(known.body, row))
            found.append(fresh)
        if not self._marks:
            self._let_go()
        return found

    def _read(self, mark: Mark) -> Row | None:
        if isinstance(mark.key, Unit):
            return self._job(mark.key)
        key = Key("", mark.key)
        if mark.table == NODES_TABLE:
            node = seen(self._picture, NODES, key, Node)
            return None if node is None else node_row(node, self._pods_on(mark.key))
        if mark.table == COHORTS_TABLE:
            cohort = seen(self._picture, COHORTS, key, Cohort)
            return None if cohort is None else cohort_row(cohort)
        queue = seen(self._picture, QUEUES, key, ClusterQueue)
        return None if queue is None else queue_row(queue, self._doors_of(mark.key))

    def _doors_of(self, queue: str) -> list[LocalQueue]:
        keys = self._local_queues.keys(queue)
        found = [seen(self._picture, LOCAL_QUEUES, key, LocalQueue) for key in keys]
        return [local for local in found if local is not None]

    def _job(self, unit: Unit) -> Row | None:
        target = self._units.target(unit)
        if target is None:
            return None
        state = state_of(target, self._clock())
        pods = self._units.pods(unit)
        nodes = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
        state = with_pods(state, pods)
        return job_row(unit, state, self._queue_of(unit.namespace, state.queue), [*nodes])

    def _queue_of(self, namespace: str, local_queue: str) -> str:
        return next(iter(self._leads_to.values(Key(namespace, local_queue))), "")

    def _pods_on(self, node: str) -> list[Row]:
        found = [self._picture.find(PODS, key) for key in self._on_node.keys(node)]
        return [
            pod_entry(pod.view, unit_of_pod(pod))
            for pod in found
            if pod is not None and pod.view is not None
        ]


def _change(before: bytes, row: Row) -> bytes:
    """A row has the same fields at any time, and mostly one or two of them become different."""
    known = orjson.loads(before)
    different = {name: value for name, value in row.items() if known[name] != value}
    return _written({"key": row["key"], **different})


def _written(row: Row) -> bytes:
    """Copied, as the encoder's own result holds on to ten times its size; rows are kept."""
    return bytes(memoryview(orjson.dumps(row)))


def _on_node(pod: Object) -> tuple[str, None] | None:
    """Pods that hold something of a node."""
    node = (pod.document.get("spec") or {}).get("nodeName")
    phase = (pod.document.get("status") or {}).get("phase")
    return (node, None) if node and phase not in ENDED_PHASES else None


def _by_queue(local_queue: Object) -> tuple[str, None] | None:
    queue = (local_queue.document.get("spec") or {}).get("clusterQueue")
    return (queue, None) if queue else None


def _leads_to(local_queue: Object) -> tuple[Key, str]:
    return local_queue.key, (local_queue.document.get("spec") or {}).get("clusterQueue", "")
