"""Queues and the cohort trees they form, with the live usage."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from copy import copy
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from makeway.engine.compiling import mypyc_attr
from makeway.engine.entry import Cells, Demand, Entry, Shape, VictimOrder
from makeway.engine.model import (
    Amounts,
    Assignment,
    CheckName,
    Config,
    EvictionReason,
    FlavorResource,
    Inactive,
    Phase,
    Policy,
    Queue,
    QueueName,
    Quota,
    ResourceGroup,
    ResourceName,
    WorkloadKey,
)
from makeway.engine.pending import PendingQueue
from makeway.engine.quota import Node, Usage, usage_above
from makeway.engine.snapshot import Snapshot


def quotas_of(queue: Queue) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor_quotas.flavor, resource): quota
        for group in queue.groups
        for flavor_quotas in group.flavors
        for resource, quota in flavor_quotas.quotas.items()
    }


class Refusal(NamedTuple):
    """Where somebody was refused, for the sake of owners, to begin to borrow."""

    queue: QueueName
    cell: FlavorResource
    top: int  # index of the node whose quota was to be borrowed
    victims: tuple[WorkloadKey, ...]  # even without these


def was_preempted(entry: Entry) -> bool:
    """Whether it had to make way since it last ran, or has to now."""
    eviction = entry.status.eviction
    return eviction is not None and eviction.reason is EvictionReason.PREEMPTED


SHAPES_MAX = 1000  # of which a queue knows what they ask for


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueState:
    """A queue, who waits in it, and who holds its quota."""

    def __init__(self, spec: Queue) -> None:
        self.pending = PendingQueue()
        self.holders: list[VictimOrder] = []  # exactly the entries in HOLDING, sorted
        # When the holders were created, sorted, by victim priority; where there are some.
        self._created: dict[int, list[float]] = {}
        self._lowest: float = inf  # the lowest of these priorities
        self.used: dict[FlavorResource, int] = {}  # the sum of what its holders are charged
        self.generation = 0  # grows whenever who holds its quota changes
        # Of owners.py: as of when, whether it was active then, and what.
        self.claims_known: tuple[int, Inactive | None, dict[FlavorResource, int]] | None = None
        self.inactive: Inactive | None = None
        self.configure(spec)
        self.tree = Tree(self.node, [self], ())  # until it is built together with its cohort

    def configure(self, spec: Queue) -> None:
        self.spec = spec
        self.group_of: dict[ResourceName, ResourceGroup] = {}
        for group in spec.groups:
            for resource in group.resources:
                self.group_of.setdefault(resource, group)
        policies = (spec.preemption.within_queue, spec.preemption.reclaim)
        self.pending.counts_time = Policy.LOWER_OR_NEWER_EQUAL in policies
        self.node = self._new_node()
        self.generation += 1
        # What those of a shape ask for, and as of which edit of flavors.
        self.demands: dict[Shape, tuple[int, Demand]] = {}
        self.decisive: dict[Shape, tuple[int, tuple[tuple[Cells, ...], ...]]] = {}
        self.free_places: dict[Shape, tuple[int, Any]] = {}  # of free_places.py
        # Of hopeless.py: as of when, under which configuration, and what.
        self.line_known: tuple[int, Config, Any] | None = None
        self.lack_known: tuple[int, tuple[float, float], Config, Any] | None = None
        self.asked_for_known: tuple[int, Config, Any] | None = None
        self.reach_known: tuple[Node | None, Config, Any] | None = None

    def _new_node(self) -> Node:
        return Node(self.spec.name, quotas_of(self.spec), self.spec.weight, is_queue=True)

    def lookalike(self) -> QueueState:
        """The same line and the same holders, to be built into another tree."""
        twin = copy(self)
        twin.node = twin._new_node()
        return twin

    def forget_shapes(self) -> None:
        """There were many by now, and some may have died out."""
        if len(self.demands) > SHAPES_MAX:
            self.demands.clear()
        if len(self.decisive) > SHAPES_MAX:
            self.decisive.clear()
        if len(self.free_places) > SHAPES_MAX:
            self.free_places.clear()

    def checks_for(self, assignment: Assignment) -> tuple[CheckName, ...]:
        """The admission checks that a workload on the assigned flavors has to pass."""
        if not self.spec.checks:
            return ()
        held = set(assignment.flavors())
        return tuple(c.name for c in self.spec.checks if not c.flavors or c.flavors & held)

    def is_borrowing(self, cells: Iterable[FlavorResource]) -> bool:
        used, nominal = self.used, self.node.nominal
        for cell in cells:  # noqa: SIM110  # any() takes twice as long
            if used.get(cell, 0) > nominal(cell):
                return True
        return False

    def hold(self, entry: Entry) -> None:
        """Sort the entry in among those who hold quota."""
        workload, priority = entry.workload, entry.workload.victim_priority
        if priority not in self._created:
            self._created[priority] = []
            self._note_priorities()
        insort(self._created[priority], workload.created_at)
        self._sort_in(entry)

    def let_go(self, entry: Entry) -> None:
        order = entry.victim_order
        assert order is not None, f"{entry.workload.key} holds nothing"
        created = self._created[order.priority]
        del created[bisect_left(created, entry.workload.created_at)]
        if not created:
            del self._created[order.priority]
            self._note_priorities()
        self._take_out(order)
        entry.victim_order = None

    def sort_anew(self, entry: Entry) -> None:
        """It is on its way out now, or no longer."""
        assert entry.victim_order is not None, f"{entry.workload.key} holds nothing"
        self._take_out(entry.victim_order)
        self._sort_in(entry)

    def _sort_in(self, entry: Entry) -> None:
        workload, reserved_at = entry.workload, entry.status.reserved_at
        order = entry.victim_order = VictimOrder(
            entry.phase is not Phase.EVICTING,
            workload.victim_priority,
            -(reserved_at or 0.0),
            workload.uid,
            entry.serial,
            entry,
        )
        insort(self.holders, order)

    def _take_out(self, order: VictimOrder) -> None:
        del self.holders[bisect_left(self.holders, order)]

    def newest(self, priority: int) -> float:
        """When the last created holder of this victim priority was; minus infinity if none is."""
        created = self._created.get(priority)
        return created[-1] if created else -inf

    def first_staying(self) -> int:
        """The position of the first holder who is not on the way out."""
        return bisect_left(self.holders, True, key=attrgetter("is_staying"))

    def lowest_priority(self) -> float:
        """The lowest victim priority among those who hold quota; infinite if nobody does."""
        return self._lowest

    def _note_priorities(self) -> None:
        self._lowest = min(self._created, default=inf)
        self.tree.lowest_priority_known = None


class Leaving(NamedTuple):
    """Somebody on the way out, who still holds quota of a queue."""

    entry: Entry
    queue: QueueState

    @property
    def by_preemption(self) -> bool:
        return was_preempted(self.entry)

    @property
    def preemptor(self) -> WorkloadKey | None:
        """For whom it has to make way; None: for nobody, or nobody knows."""
        eviction = self.entry.status.eviction
        return None if eviction is None else eviction.preemptor


@mypyc_attr(allow_interpreted_subclasses=True)
class Tree:
    """A cohort tree, or a queue without cohort. Nothing that happens in one concerns another."""

    def __init__(self, root: Node, queues: list[QueueState], specs: tuple[object, ...]) -> None:
        self.root = root
        self.queues = queues
        self.specs = specs  # what it was built from
        self.preemptors: dict[WorkloadKey, Entry] = {}  # those in line who have a claim
        self.claims_checked = -1  # the revision at which it was last looked who lost its place
        self.refusals: dict[Refusal, int] = {}  # each with what was left for borrowers
        # Since all was at rest some have come, if anybody, and owners leave no more than before.
        self.has_only_newcomers = False
        self.revision = 0  # grows with every change of anything in it
        self.seen = -1  # the revision at which a cycle found nothing left to do
        self.has_borrowing_preemptors = any(
            queue.spec.preemption.borrow_while_reclaiming for queue in queues
        )
        self.has_protected = any(queue.spec.preemption.min_runtime_s for queue in queues)
        self.was_put_off = False  # somebody was, by others of its cycle, since all were last woken
        self.is_confirming = False  # all are tried once more, before the tree is at rest
        self.cycle = 0  # how many there were here, also of those that were spared
        self.scans_valid_from = 0  # cycle; where earlier searches stopped is forgotten
        self.needs_cycle = True  # another cycle may decide something without waiting for an event
        self.lowest_priority_known: float | None = None  # None: it may be another by now
        self.nodes: list[Node] = []
        self._number(root)
        for node in reversed(self.nodes):
            node.settle()
        for node in self.nodes[1:]:
            node.find_bound()
        self.keeps_nothing = not any(node.kept for node in self.nodes)  # all shows above
        self.usage: Usage = [{} for _ in self.nodes]
        self.queue_named = {queue.spec.name: queue for queue in queues}
        self.queue_at: list[QueueState | None] = [None] * len(self.nodes)
        for queue in queues:
            self.queue_at[queue.node.index] = queue
            self.usage[queue.node.index] = queue.used
        self.recount()
        self.snapshot = Snapshot(self.usage)

    def _number(self, node: Node) -> None:
        """Parents come before their children."""
        node.index = len(self.nodes)
        self.nodes.append(node)
        for child in node.children:
            self._number(child)

    def recount(self) -> None:
        """Sum up the usage of cohorts from that of the queues."""
        for node in self.nodes:
            if not node.is_queue:
                self.usage[node.index].clear()
        for node in reversed(self.nodes):
            if node.parent is None:
                continue
            above = self.usage[node.parent.index]
            for cell, used in self.usage[node.index].items():
                above[cell] = above.get(cell, 0) + usage_above(node, cell, used)

    def lowest_priority(self) -> float:
        """The lowest victim priority of all who hold quota here; infinite if nobody does.

        Cost: one step per queue, but only when the first of a priority has come, or the last gone.
        """
        if self.lowest_priority_known is None:
            self.lowest_priority_known = min(
                (queue.lowest_priority() for queue in self.queues), default=inf
            )
        return self.lowest_priority_known

    @property
    def is_settled(self) -> bool:
        return self.seen == self.revision

    def has_heads(self) -> bool:
        for queue in self.queues:  # asked in every cycle; any() takes twice as long
            pending = queue.pending
            if pending.classes and queue.inactive is None and pending.has_head():
                return True
        return False

    def heads(self) -> list[tuple[Entry, QueueState]]:
        """The first of each line that has one. Most have none most of the time: it costs little."""
        return [
            (head, queue)
            for queue in self.queues
            if queue.pending.classes
            and queue.inactive is None
            and (head := queue.pending.head()) is not None
        ]

    def leaving(self) -> Iterator[Leaving]:
        """Who is on the way out, for whatever reason. Cost: a look at each queue."""
        for queue in self.queues:
            for order in queue.holders:
                if order.is_staying:
                    break  # from here on nobody is being evicted
                yield Leaving(order.entry, queue)

    def queue_of(self, entry: Entry) -> QueueState:
        """Where it waits or holds quota; in a look-alike of a tree, a look-alike of that queue."""
        assert entry.queue is not None, f"{entry.workload.key} is in no queue"
        return self.queue_named[entry.queue]

    def charge(self, queue: QueueState, amounts: Amounts) -> None:
        """Charge for good; negative amounts are released."""
        self.snapshot.charge(queue.node, amounts)
        self.snapshot.forget_journal()
