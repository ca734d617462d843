"""In which order the queues of a tree come up when somebody looks for victims.

A cohort comes up with the first of its children, a queue with the first of those who hold its
quota. That is the same for all heads of a cycle: while it decides, nobody comes or goes. So a
search among many queues looks only at those that come up before it has what it needs; whether they
borrow, and whom of their holders it may preempt, is asked then.
"""

from __future__ import annotations

from makeway.engine.entry import VictimOrder
from makeway.engine.quota import Node
from makeway.engine.tree import QueueState, Tree

Turn = tuple[VictimOrder, int, Node]  # a holder, its position in its queue (0 for a cohort), where


class Turns:
    """Cost: a step for each queue that is asked about, or lies below a cohort that is, once."""

    def __init__(self, tree: Tree) -> None:
        self.queue_at = tree.queue_at
        self._known: dict[tuple[int, bool], Turn | None] = {}

    def of(self, node: Node, is_staying: bool) -> Turn | None:
        """When a node comes up, among those who stay or are on the way out; None: it does not."""
        at = (node.index, is_staying)
        if at not in self._known:
            self._known[at] = self._find(node, is_staying)
        return self._known[at]

    def _find(self, node: Node, is_staying: bool) -> Turn | None:
        queue = self.queue_at[node.index]
        if queue is None:
            turns = (self.of(child, is_staying) for child in node.children)
            first = min((turn for turn in turns if turn is not None), default=None)
            return None if first is None else (first[0], 0, node)
        if queue.inactive is not None or not queue.holders:
            return None
        all_stay = queue.holders[0].is_staying
        start = queue.first_staying() if is_staying and not all_stay else 0
        return turn_at(queue, start, is_staying)


def turn_at(queue: QueueState, position: int, is_staying: bool) -> Turn | None:
    """Of the holder there, if it is one of those who stay, or of those who are on the way out."""
    holders = queue.holders
    if position >= len(holders) or holders[position].is_staying is not is_staying:
        return None
    return holders[position], position, queue.node
