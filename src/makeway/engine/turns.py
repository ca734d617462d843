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
    """Cost: a step for each queue of the tree, once a cycle, for those who stay and who leave."""

    def __init__(self, tree: Tree) -> None:
        self.queue_at = tree.queue_at
        self._known: dict[tuple[int, bool], list[Turn]] = {}

    def below(self, cohort: Node, is_staying: bool) -> list[Turn]:
        """Its children, sorted, each with the first of those who stay, or are on the way out."""
        known = self._known.get((cohort.index, is_staying))
        if known is None:
            turns = (self._first_of(child, is_staying) for child in cohort.children)
            known = sorted(turn for turn in turns if turn is not None)
            self._known[cohort.index, is_staying] = known
        return known

    def _first_of(self, node: Node, is_staying: bool) -> Turn | None:
        queue = self.queue_at[node.index]
        if queue is None:
            below = self.below(node, is_staying)
            return (below[0][0], 0, node) if below else None
        if queue.inactive is not None:
            return None
        return turn_at(queue, queue.first_staying() if is_staying else 0, is_staying)


def turn_at(queue: QueueState, position: int, is_staying: bool) -> Turn | None:
    """Of the holder there, if it is one of those who stay, or of those who are on the way out."""
    holders = queue.holders
    if position >= len(holders) or holders[position].is_staying is not is_staying:
        return None
    return holders[position], position, queue.node
