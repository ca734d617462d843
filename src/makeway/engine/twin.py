"""A second state that goes its own way: what is asked of it never happened to the first.

Trees don't concern each other, so a twin has only the trees that are asked about. What is never
changed in place is shared (workloads, statuses, quotas, nodes of trees, shapes); the rest is
copied, notes on searches too: the twin decides as the original would have. Cost: a microsecond for
each workload that waits or holds quota in these trees, and a few for those that are looked at.

This module knows how everything is kept; a test tells it of what is new there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from heapq import heapify
from typing import Any, TypeVar

from makeway.engine.clocks import Clocks
from makeway.engine.entry import Entry, Place, Search, VictimOrder
from makeway.engine.model import WorkloadKey
from makeway.engine.pending import PendingQueue, ShapeClass
from makeway.engine.quota import Node
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree

Key = TypeVar("Key")
Lane = list[tuple[tuple[int, int, float, str, int], int, ShapeClass]]


def twin_of(state: ClusterState, trees: Iterable[Tree] | None = None) -> ClusterState:
    """With these trees only, and for as long as the original stays as it is; None: all of it."""
    return _Copying(state, state.trees if trees is None else trees, is_whole=trees is None).twin


class _LateEntry(Entry):
    """Of thousands in a line few are looked at: it is a copy when somebody asks for the first time.

    Until then the original must not change.
    """

    __slots__ = ("original",)
    original: Entry

    def __getattr__(self, name: str) -> Any:
        """Called for a slot that was not filled yet."""
        _fill(self)
        return getattr(self, name)


def _fill(new: _LateEntry) -> None:
    old = new.original
    new.workload, new.status, new.serial = old.workload, old.status, old.serial
    new.undo, new.phase, new.queue, new.usage = old.undo, old.phase, old.queue, old.usage
    new.order_time, new.shape = old.order_time, old.shape
    new.search, notes = Search.__new__(Search), old.search
    new.search.scan, new.search.began_at = notes.scan, notes.began_at
    new.search.was_put_off, new.search.attempts = notes.was_put_off, notes.attempts
    new.search.told, new.search.claimed_usage = notes.told, notes.claimed_usage
    new.search.pods_seen, new.search.ready_pod_sets = notes.pods_seen, notes.ready_pod_sets


class _Copying:
    def __init__(self, state: ClusterState, trees: Iterable[Tree], *, is_whole: bool) -> None:
        self.state, self.twin = state, copy(state)
        self.is_whole = is_whole
        # Of the twin, by the id of the original.
        self.entries: dict[int, Entry] = {}
        self.by_key: dict[WorkloadKey, Entry] = {}
        self.nodes: dict[int, Node] = {}
        own = list(state.queues.values()) if is_whole else []
        trees = {id(tree): tree for tree in (*trees, *(queue.tree for queue in own))}.values()
        queues = {id(q): q for q in (*own, *(q for tree in trees for q in tree.queues))}.values()
        if is_whole:
            for entry in state.entries.values():
                self.entry(entry)
        self.queues = {id(queue): self._queue(queue) for queue in queues}
        self.trees = {id(tree): self._tree(tree) for tree in trees}
        for queue in queues:
            self.queues[id(queue)].tree = self.trees[id(queue.tree)]
        self._settle()

    # --- entries ---

    def entry(self, old: Entry) -> Entry:
        return self.entries.get(id(old)) or self._new_entry(old)

    def _new_entry(self, old: Entry) -> Entry:
        new = self.entries[id(old)] = _LateEntry.__new__(_LateEntry)
        self.by_key[old.workload.key] = new
        new.original = old
        new.place = new.victim_order = None  # with the line or the holders that it is in
        if self.is_whole:
            _fill(new)
        return new

    def _known(self, some: Mapping[Key, Entry]) -> dict[Key, Entry]:
        return {
            k: self.entries[id(entry)] for k, entry in some.items() if id(entry) in self.entries
        }

    # --- queues ---

    def _queue(self, old: QueueState) -> QueueState:
        new = copy(old)
        new.pending = self._pending(old.pending)
        new.holders = [self._holder(order) for order in old.holders]
        new._created = {priority: list(times) for priority, times in old._created.items()}
        new.used = dict(old.used)
        new.demands, new.decisive = dict(old.demands), dict(old.decisive)
        new.free_places = dict(old.free_places)
        new.node = self._node(old.node)
        new.claims_known = new.line_known = new.lack_known = None  # they name entries
        return new

    def _holder(self, order: VictimOrder) -> VictimOrder:
        entry = self.entry(order.entry)
        new = entry.victim_order = VictimOrder(*order[:-1], entry)
        return new

    def _pending(self, old: PendingQueue) -> PendingQueue:
        new = copy(old)
        classes = {id(c): self._shape_class(c) for c in old.classes.values()}
        new.classes = {shape: classes[id(c)] for shape, c in old.classes.items()}
        new._lanes = {name: _lane(lane, classes) for name, lane in old._lanes.items()}
        new._parked = _lane(old._parked, classes)
        new.aside = {key: self.entry(entry) for key, entry in old.aside.items()}
        new._held = {key: self.entry(entry) for key, entry in old._held.items()}
        new.pinned = None if old.pinned is None else self.entry(old.pinned)
        new.usage_of = None if old.usage_of is None else self.twin.usage_of
        return new

    def _shape_class(self, old: ShapeClass) -> ShapeClass:
        new = ShapeClass(old.shape, old.serial, old.lane)
        new.size, new.epoch_parked, new.reasons = old.size, old.epoch_parked, old.reasons
        new.is_short, new.is_known = old.is_short, old.is_known
        members = new.members
        # Nobody waits in two lines, so nobody was copied before, but where all were.
        copied = self.entry if self.is_whole else self._new_entry
        for item in old.members:
            order, known = item
            if known.place is item:  # else it is gone
                entry = copied(known)
                entry.place = place = Place(order, entry)
                members.append(place)
        if len(members) < len(old.members):
            heapify(members)
        new.told = None if old.told is None else self.entries.get(id(old.told), old.told)
        return new

    # --- trees ---

    def _node(self, old: Node) -> Node:
        """Shared, unless trees may be built anew: that numbers the nodes again."""
        if not self.is_whole:
            return old
        new = self.nodes.get(id(old))
        if new is None:
            new = self.nodes[id(old)] = copy(old)
            new.parent = None if old.parent is None else self._node(old.parent)
            new.children = [self._node(child) for child in old.children]
            new.bound = self._node(old.bound)
        return new

    def _tree(self, old: Tree) -> Tree:
        new = copy(old)
        new.root, new.nodes = self._node(old.root), [self._node(node) for node in old.nodes]
        new.queues = [self.queues[id(queue)] for queue in old.queues]
        new.queue_named = {queue.spec.name: queue for queue in new.queues}
        new.queue_at = [None if q is None else self.queues[id(q)] for q in old.queue_at]
        new.usage = [dict(used) for used in old.usage]
        for index, queue in enumerate(new.queue_at):
            if queue is not None:
                new.usage[index] = queue.used
        new.snapshot = Snapshot(new.usage)
        new.preemptors = self._known(old.preemptors)
        new.refusals = dict(old.refusals)
        return new

    # --- all together ---

    def _settle(self) -> None:
        """Whatever names entries, queues or trees names the twin's."""
        state, twin = self.state, self.twin
        for name in ("flavors", "cohorts", "local_queues", "namespaces", "checks", "wake_times"):
            setattr(twin, name, dict(getattr(state, name)))
        twin.queues = {
            name: self.queues[id(queue)]
            for name, queue in state.queues.items()
            if id(queue) in self.queues
        }
        twin.trees = [self.trees[id(tree)] for tree in state.trees if id(tree) in self.trees]
        waiting = [self.trees[key] for key in state.unsettled if key in self.trees]
        twin.unsettled = {id(tree): tree for tree in waiting}
        twin.entries = self.by_key
        twin.by_local_queue = {}  # of use only where queues are edited
        for key, entry in twin.entries.items() if self.is_whole else ():
            twin.by_local_queue.setdefault(entry.workload.local_queue, {})[key] = entry
        twin.orphans = {name: self._known(held) for name, held in state.orphans.items()}
        twin.attention = self._known(state.attention)
        twin.preempting = self._known(state.preempting)
        twin.unready = self._known(state.unready)
        twin.clocks = self._clocks(state.clocks)
        twin.budgets, twin.history = deepcopy(state.budgets), deepcopy(state.history)
        twin._recount, twin._changes = set(state._recount), {}

    def _clocks(self, old: Clocks) -> Clocks:
        new = Clocks()
        new._times = [
            (at, serial, self.entries[id(entry)])
            for at, serial, entry in old._times
            if id(entry) in self.entries
        ]
        heapify(new._times)
        return new


def _lane(old: Lane, classes: Mapping[int, ShapeClass]) -> Lane:
    """Without items of classes that are gone."""
    new = [(order, serial, classes[id(c)]) for order, serial, c in old if id(c) in classes]
    if len(new) < len(old):
        heapify(new)
    return new
