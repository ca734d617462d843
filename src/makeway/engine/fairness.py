"""Fair sharing: shares, the order of heads, and victims chosen by comparing shares.

A node's share is how much it borrows, in relation to what its parent could offer at most, of the
resource in which that is largest, divided by its weight. Two queues are compared at the level
just below their lowest common cohort.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.engine.entry import Entry, VictimOrder
from makeway.engine.model import Amounts, FlavorResource, Policy, ShareRule
from makeway.engine.quota import Node, is_within_quota, lendable
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import QueueState, Tree
from makeway.engine.victims import (
    Chosen,
    Eligible,
    Fit,
    Need,
    release_all,
    spare_the_unneeded,
)


class Share(NamedTuple):
    """Comparable: a node of weight zero that borrows is above all others."""

    is_infinite: bool
    value: float


class NodeShare(NamedTuple):
    share: Share
    borrowed: frozenset[FlavorResource]


NOTHING_BORROWED = NodeShare(Share(False, 0.0), frozenset())


def share_of(node: Node, snapshot: Snapshot) -> NodeShare:
    """Cost: flavor-resources of the node's subtree."""
    if node.parent is None:
        return NOTHING_BORROWED
    used = snapshot.usage[node.index]
    borrowed = {
        cell: excess
        for cell, quota in node.subtree.items()
        if (excess := used.get(cell, 0) - quota) > 0
    }
    if not borrowed:
        return NOTHING_BORROWED
    by_resource: dict[str, int] = {}
    for cell, excess in borrowed.items():
        by_resource[cell.resource] = by_resource.get(cell.resource, 0) + excess
    offered = lendable(node.parent)
    ratio = max(
        (
            amount * 1000.0 / offered[resource]
            for resource, amount in by_resource.items()
            if offered.get(resource, 0) > 0
        ),
        default=0.0,
    )
    cells = frozenset(borrowed)
    if node.weight == 0:
        return NodeShare(Share(True, ratio), cells)
    return NodeShare(Share(False, ratio / node.weight), cells)


# --- the order of heads ---


class FairHead(NamedTuple):
    entry: Entry
    queue: QueueState
    usage: Amounts


_Rank = tuple[bool, Share, int, float, str, int]


class FairOrder:
    """Heads of one tree, the one that leaves its subtree with the smallest share first.

    At each cohort the heads of its children compete, each child counted with its head admitted.
    Taking a head changes usage only on its path to the root, so only that path is looked at anew:
    the others keep their places in the heap of their cohort.
    """

    def __init__(self, tree: Tree, heads: list[FairHead], snapshot: Snapshot) -> None:
        self._tree = tree
        self._snapshot = snapshot
        self._heads = {head.queue.node.index: head for head in heads}
        self._rivals: dict[int, list[tuple[_Rank, FairHead]]] = {}  # a heap per cohort, by index

    def __iter__(self) -> Iterator[FairHead]:
        """Between two steps the caller may charge the queue of the head it was given."""
        head = self._line_up(self._tree.root)
        while head is not None:
            yield head
            head = self._next_after(head)

    def _line_up(self, node: Node) -> FairHead | None:
        """Let the heads below `node` compete; returns the winner."""
        if node.is_queue:
            return self._heads.get(node.index)
        rivals = self._rivals[node.index] = [
            (self._rank(child, head), head)
            for child in node.children
            if (head := self._line_up(child)) is not None
        ]
        heapify(rivals)
        return rivals[0][1] if rivals else None

    def _next_after(self, taken: FairHead) -> FairHead | None:
        """The winner now that `taken`, who was first on the whole path to the root, has left."""
        node, winner = taken.queue.node, None
        while node.parent is not None:
            rivals = self._rivals[node.parent.index]
            heappop(rivals)
            if winner is not None:
                heappush(rivals, (self._rank(node, winner), winner))
            winner = rivals[0][1] if rivals else None
            node = node.parent
        return winner

    def _rank(self, node: Node, head: FairHead) -> _Rank:
        with self._snapshot.trial():
            self._snapshot.charge(head.queue.node, head.usage)
            share, borrowed = share_of(node, self._snapshot)
        borrows_asked = any(head.usage.get(cell, 0) > 0 for cell in borrowed)
        workload = head.entry.workload
        return (
            borrows_asked,
            share,
            -workload.priority,
            head.entry.order_time,
            workload.uid,
            head.entry.serial,
        )


# --- victims ---


def find_fair_victims(
    need: Need, tree: Tree, snapshot: Snapshot, rules: tuple[ShareRule, ...]
) -> tuple[Chosen, ...]:
    lines = _lines(need, tree, snapshot)
    if not lines:
        return ()
    with snapshot.trial():
        snapshot.charge(need.queue.node, need.amounts)  # shares count the preemptor in
        contest = _Contest(need, tree, snapshot, rules)
        victims = contest.take(lines)
        if not victims:
            return ()
    with snapshot.trial():
        release_all(victims, snapshot)
        return spare_the_unneeded(victims, snapshot, Fit(need, snapshot))


class _Line:
    """Candidates of one queue in order of sacrifice; nobody is looked at before their turn."""

    __slots__ = ("_coming", "first")

    def __init__(self, orders: Iterable[VictimOrder]) -> None:
        self._coming = iter(orders)
        self.first = next(self._coming, None)  # None: nobody is left

    def pop(self) -> VictimOrder:
        first = self.first
        assert first is not None, "nobody is left in this line"
        self.first = next(self._coming, None)
        return first


_Lines = dict[int, _Line]  # by index of the queue's node; those with nobody left may be missing


def _lines(need: Need, tree: Tree, snapshot: Snapshot) -> _Lines:
    """The preemptor's own queue and all that borrow what it needs, where somebody may be taken."""
    preemption = need.queue.spec.preemption
    lines: _Lines = {}
    if preemption.within_queue is not Policy.NEVER:
        eligible = Eligible(need, preemption.within_queue)
        lines[need.queue.node.index] = _line(need, eligible, need.queue)
    if need.queue.node.parent is not None and preemption.reclaim is not Policy.NEVER:
        eligible = Eligible(need, preemption.reclaim)
        for queue in tree.queues:
            if queue is need.queue or queue.inactive is not None:
                continue
            if not is_within_quota(queue.node, need.contested, snapshot.usage):
                lines[queue.node.index] = _line(need, eligible, queue)
    return {index: line for index, line in lines.items() if line.first is not None}


def _line(need: Need, eligible: Eligible, queue: QueueState) -> _Line:
    candidates = eligible.all_in(queue)
    if need.sacrifice is None:
        return _Line(candidates)
    return _Line(need.sacrifice.arranged(candidates, queue))


class _Contest:
    """Takes victims while shares allow, with the preemptor's usage counted in."""

    def __init__(
        self, need: Need, tree: Tree, snapshot: Snapshot, rules: tuple[ShareRule, ...]
    ) -> None:
        self.need = need
        self.tree = tree
        self.snapshot = snapshot
        self.rules = rules
        self.fits = Fit(need, snapshot)
        self.path = {node.index for node in need.queue.node.ancestors()}
        self.victims: list[Chosen] = []
        self._shares: dict[int, NodeShare] = {}  # of nodes where nothing was taken since

    def share(self, node: Node) -> NodeShare:
        known = self._shares.get(node.index)
        if known is None:
            known = self._shares[node.index] = share_of(node, self.snapshot)
        return known

    def take(self, candidates: _Lines) -> list[Chosen]:
        """Return victims after which the preemptor fits; empty if there are not enough."""
        left, done = self._apply_first_rule(candidates)
        if not done and len(self.rules) > 1:
            done = self._apply_second_rule(left)
        return self.victims if done else []

    def _apply_first_rule(self, candidates: _Lines) -> tuple[_Lines, bool]:
        """Return the candidates that were judged and left alone, and whether it fits now."""
        walk = _QueueWalk(self, candidates)
        spared: dict[int, list[VictimOrder]] = {}
        is_entitled = self._is_within_nominal()
        for queue in walk:
            line = walk.lines[queue.node.index]
            if queue is self.need.queue or is_entitled:
                own = queue is self.need.queue
                rule = VictimRule.IN_QUEUE if own else VictimRule.RECLAIM
                if self._remove(line.pop(), queue, rule):
                    return {}, True
                continue
            mine, theirs = self._sides(queue)
            my_share = self.share(mine).share
            initial = self.share(theirs).share
            while line.first is not None:
                order = line.pop()
                if self._may_take(my_share, initial, theirs, order, queue):
                    if self._remove(order, queue, VictimRule.FAIR_SHARING):
                        return {}, True
                    break  # shares have changed: perhaps another queue is next
                spared.setdefault(queue.node.index, []).append(order)
        return {index: _Line(orders) for index, orders in spared.items()}, False

    def _apply_second_rule(self, candidates: _Lines) -> bool:
        walk = _QueueWalk(self, candidates)
        for queue in walk:
            mine, theirs = self._sides(queue)
            order = walk.lines[queue.node.index].pop()
            is_smaller = self.share(mine).share < self.share(theirs).share
            if is_smaller and self._remove(order, queue, VictimRule.FAIR_SHARING):
                return True
            walk.drop(queue)  # at most one of each queue
        return False

    def _may_take(
        self,
        my_share: Share,
        initial: Share,
        theirs: Node,
        order: VictimOrder,
        queue: QueueState,
    ) -> bool:
        if self.rules[0] is ShareRule.BELOW_INITIAL_SHARE:
            return my_share < initial
        with self.snapshot.trial():
            self.snapshot.release(queue.node, order.entry.usage)
            return my_share <= share_of(theirs, self.snapshot).share

    def _remove(self, order: VictimOrder, queue: QueueState, rule: VictimRule) -> bool:
        """Take the victim; does the preemptor fit now?"""
        entry, snapshot, node = order.entry, self.snapshot, self.need.queue.node
        snapshot.release(queue.node, entry.usage)
        self._shares.pop(queue.node.index, None)
        for cohort in queue.node.ancestors():
            self._shares.pop(cohort.index, None)
        self.victims.append(Chosen(entry, queue, rule))
        with snapshot.trial():
            snapshot.release(node, self.need.amounts)
            return self.fits(self.victims)

    def _is_within_nominal(self) -> bool:
        return is_within_quota(self.need.queue.node, self.need.contested, self.snapshot.usage)

    def _sides(self, queue: QueueState) -> tuple[Node, Node]:
        """The nodes just below the common cohort, on the preemptor's and on the other side."""
        theirs = queue.node
        while theirs.parent is not None and theirs.parent.index not in self.path:
            theirs = theirs.parent
        mine = self.need.queue.node
        while mine.parent is not theirs.parent:
            assert mine.parent is not None, f"{queue.spec.name} is not in this tree"
            mine = mine.parent
        return mine, theirs


class _QueueWalk:
    """The queue to take from next: from the root downwards, by the highest share.

    A node without candidates, or that does not borrow, is dropped for good; the preemptor's own
    path only when nothing is left below it.
    """

    def __init__(self, contest: _Contest, lines: _Lines) -> None:
        self.contest = contest
        self.lines = lines
        self.dropped: set[int] = set()

    def drop(self, queue: QueueState) -> None:
        self.dropped.add(queue.node.index)

    def __iter__(self) -> Iterator[QueueState]:
        need, tree = self.contest.need, self.contest.tree
        if need.queue.node.parent is None:
            while self._has_candidates(need.queue.node):
                yield need.queue
            return
        while tree.root.index not in self.dropped:
            queue = self._descend(tree.root)
            if queue is not None:
                yield queue

    def _descend(self, cohort: Node) -> QueueState | None:
        best_queue: tuple[Share, QueueState] | None = None
        best_cohort: tuple[Share, Node] | None = None
        for child in cohort.children:
            if child.index in self.dropped:
                continue
            share, borrowed = self.contest.share(child)
            if self._is_out(child, borrowed):
                self.dropped.add(child.index)
            elif not child.is_queue:
                if best_cohort is None or share >= best_cohort[0]:
                    best_cohort = (share, child)
            else:
                queue = self.contest.tree.queue_at[child.index]
                assert queue is not None
                if best_queue is None or self._goes_before(share, queue, best_queue):
                    best_queue = (share, queue)
        if best_cohort is not None and (best_queue is None or best_cohort[0] >= best_queue[0]):
            return self._descend(best_cohort[1])
        if best_queue is not None:
            return best_queue[1]
        self.dropped.add(cohort.index)
        return None

    def _has_candidates(self, node: Node) -> bool:
        line = self.lines.get(node.index)
        return line is not None and line.first is not None

    def _is_out(self, node: Node, borrowed: Collection[FlavorResource]) -> bool:
        own = self.contest.need.queue.node
        if node.is_queue:
            return (not borrowed and node is not own) or not self._has_candidates(node)
        return not borrowed and node.index not in self.contest.path

    def _goes_before(
        self, share: Share, queue: QueueState, other: tuple[Share, QueueState]
    ) -> bool:
        if share != other[0]:
            return share > other[0]
        return self._first_victim(queue) < self._first_victim(other[1])

    def _first_victim(self, queue: QueueState) -> tuple[bool, bool, VictimOrder]:
        order = self.lines[queue.node.index].first
        assert order is not None, f"{queue.spec.name} has no candidates"
        return order.is_staying, queue is self.contest.need.queue, order
