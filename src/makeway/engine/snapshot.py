"""One cycle's picture of one cohort tree: charge, release, fits, and trials that leave no trace.

The picture is the live usage itself: nothing is copied. Every changed cell is noted in a journal
with the value it had, so undoing is exact and no inverse operation has to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from makeway.engine.model import Amounts, FlavorResource
from makeway.engine.quota import Node, Usage, available, usage_above

Journal = list[tuple[dict[FlavorResource, int], FlavorResource, int]]  # where, and what was there


class Trial:
    """A context manager by hand: cycles enter one for every other question they ask."""

    __slots__ = ("_journal", "_mark")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._mark = len(journal)

    def __enter__(self) -> None:
        """The trial began when it was made."""

    def __exit__(self, *error: object) -> None:
        journal, mark = self._journal, self._mark
        if len(journal) > mark:
            for cells, key, before in reversed(journal[mark:]):
                cells[key] = before
            del journal[mark:]


class Snapshot:
    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self._journal: Journal = []

    def copy(self) -> Snapshot:
        """A second picture that goes its own way; costs one small map per node of the tree."""
        return Snapshot([dict(used) for used in self.usage])

    def trial(self) -> Trial:
        """Everything charged or released inside is undone on leaving, also by an exception."""
        return Trial(self._journal)

    def forget_journal(self) -> None:
        """What happened so far is here to stay."""
        self._journal.clear()

    def charge(self, node: Node, amounts: Amounts) -> None:
        for cell, amount in amounts.items():
            self._add(node, cell, amount)

    def release(self, node: Node, amounts: Amounts) -> None:
        for cell, amount in amounts.items():
            self._add(node, cell, -amount)

    def release_together(self, released: Mapping[Node, Amounts]) -> None:
        """The same as one by one; but what they have above them is changed once, not for each."""
        waiting = {node.index: (node, dict(amounts)) for node, amounts in released.items()}
        indices = [-index for index in waiting]  # children come before their parents
        heapify(indices)
        while indices:
            node, amounts = waiting.pop(-heappop(indices))
            above: dict[FlavorResource, int] = {}
            if node.parent is not None:
                index = node.parent.index
                if index not in waiting:
                    waiting[index] = node.parent, above
                    heappush(indices, -index)
                above = waiting[index][1]
            self._release_at(node, amounts, above)

    def _release_at(self, node: Node, amounts: Amounts, above: dict[FlavorResource, int]) -> None:
        """At one node; what of it shows above the node is added there."""
        used, kept, note = self.usage[node.index], node.kept, self._journal.append
        for cell, amount in amounts.items():
            before = used.get(cell, 0)
            note((used, cell, before))
            after = used[cell] = before - amount
            if kept:
                amount = usage_above(node, cell, before) - usage_above(node, cell, after)
            above[cell] = above.get(cell, 0) + amount

    def _add(self, node: Node | None, cell: FlavorResource, amount: int) -> None:
        """Add to the node, and to its ancestors what shows above the quota each one keeps."""
        usage, note = self.usage, self._journal.append
        while node is not None and amount:
            used = usage[node.index]
            before = used.get(cell, 0)
            note((used, cell, before))
            after = used[cell] = before + amount
            if node.kept:
                kept = node.kept.get(cell, 0)
                amount = max(0, after - kept) - max(0, before - kept)
            node = node.parent

    def used(self, node: Node, cell: FlavorResource) -> int:
        return self.usage[node.index].get(cell, 0)

    def available(self, node: Node, cell: FlavorResource) -> int:
        return max(0, available(node, cell, self.usage))

    def fits(self, node: Node, amounts: Amounts) -> bool:
        usage = self.usage
        for cell, amount in amounts.items():  # all() takes twice as long
            if amount > max(0, available(node, cell, usage)):
                return False
        return True

    def fits_without_borrowing(self, node: Node, amounts: Amounts) -> bool:
        used = self.usage[node.index]
        return all(
            used.get(cell, 0) + amount <= node.nominal(cell) for cell, amount in amounts.items()
        ) and self.fits(node, amounts)
