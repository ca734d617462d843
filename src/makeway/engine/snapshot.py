"""One cycle's picture of one cohort tree: charge, release, fits, and trials that leave no trace.

The picture is the live usage itself: nothing is copied. Every changed cell is noted in a journal
with the value it had, so undoing is exact and no inverse operation has to be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from makeway.engine.model import Amounts, FlavorResource
from makeway.engine.quota import Node, Usage, available


class Snapshot:
    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self._journal: list[tuple[dict[FlavorResource, int], FlavorResource, int]] = []

    def copy(self) -> Snapshot:
        """A second picture that goes its own way; costs one small map per node of the tree."""
        return Snapshot([dict(used) for used in self.usage])

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Everything charged or released inside is undone on leaving, also by an exception."""
        mark = len(self._journal)
        try:
            yield
        finally:
            self._undo(mark)

    def _undo(self, mark: int) -> None:
        journal = self._journal
        for cells, key, before in reversed(journal[mark:]):
            cells[key] = before
        del journal[mark:]

    def forget_journal(self) -> None:
        """What happened so far is here to stay."""
        self._journal.clear()

    def charge(self, node: Node, amounts: Amounts) -> None:
        for cell, amount in amounts.items():
            self._add(node, cell, amount)

    def release(self, node: Node, amounts: Amounts) -> None:
        for cell, amount in amounts.items():
            self._add(node, cell, -amount)

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
        return all(
            amount <= max(0, available(node, cell, usage)) for cell, amount in amounts.items()
        )

    def fits_without_borrowing(self, node: Node, amounts: Amounts) -> bool:
        used = self.usage[node.index]
        return all(
            used.get(cell, 0) + amount <= node.nominal(cell) for cell, amount in amounts.items()
        ) and self.fits(node, amounts)
