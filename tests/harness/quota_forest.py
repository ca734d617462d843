"""Quotas of queues and cohorts, and what follows from them: the formulas as they are stated.

On plain dicts, made from specs or from documents, and apart from the engine, which computes all of
it in another way. A node is the name of a queue or of a cohort, told apart by a prefix.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from makeway.engine.model import Quota

Cell = TypeVar("Cell", bound=Hashable)  # one resource of one flavor


class QuotaForest(Generic[Cell]):
    """`like`: the same queues and cohorts as there, of which nobody holds anything."""

    def __init__(self, like: QuotaForest[Cell] | None = None) -> None:
        self._parents: dict[str, str | None] = like._parents if like else {}
        self._quotas: dict[str, Mapping[Cell, Quota]] = like._quotas if like else {}
        self._children: dict[str, list[str]] = like._children if like else defaultdict(list)
        self._subtrees: dict[tuple[str, Cell], int] = like._subtrees if like else {}
        self.used: dict[str, Counter[Cell]] = defaultdict(Counter)  # by node of a queue

    def add_queue(self, name: str, cohort: str | None, quotas: Mapping[Cell, Quota]) -> None:
        self._add(f"queue:{name}", cohort, quotas)

    def add_cohort(self, name: str, parent: str | None, quotas: Mapping[Cell, Quota]) -> None:
        self._add(f"cohort:{name}", parent, quotas)

    def _add(self, node: str, cohort: str | None, quotas: Mapping[Cell, Quota]) -> None:
        self._quotas[node] = quotas
        self._parents[node] = None if cohort is None else f"cohort:{cohort}"
        if cohort is not None:
            self._children[f"cohort:{cohort}"].append(node)

    def charge(self, queue: str, usage: Mapping[Cell, int]) -> None:
        for cell, used in usage.items():
            self.used[f"queue:{queue}"][cell] += used

    def has_queue(self, queue: str) -> bool:
        return f"queue:{queue}" in self._parents

    def parent(self, node: str) -> str | None:
        return self._parents.get(node)

    def children(self, node: str) -> Sequence[str]:
        return self._children.get(node, ())

    def path(self, node: str) -> list[str]:
        """The node and all above it."""
        path = [node]
        while (above := self.parent(path[-1])) is not None:
            path.append(above)
        return path

    def quota(self, node: str, cell: Cell) -> Quota:
        return self._quotas.get(node, {}).get(cell, Quota())

    def kept(self, node: str, cell: Cell) -> int:
        limit = self.quota(node, cell).lending_limit
        return 0 if limit is None else max(0, self.subtree(node, cell) - limit)

    def subtree(self, node: str, cell: Cell) -> int:
        known = self._subtrees.get((node, cell))
        if known is None:
            below = self.children(node)
            lent = sum(self.subtree(child, cell) - self.kept(child, cell) for child in below)
            known = self._subtrees[node, cell] = self.quota(node, cell).nominal + lent
        return known

    def usage(self, node: str, cell: Cell) -> int:
        below = self.children(node)
        passed_up = (max(0, self.usage(child, cell) - self.kept(child, cell)) for child in below)
        return (self.used[node][cell] if node in self.used else 0) + sum(passed_up)

    def available(self, node: str, cell: Cell) -> int:
        above, used, subtree = self.parent(node), self.usage(node, cell), self.subtree(node, cell)
        if above is None:
            return subtree - used
        kept, limit = self.kept(node, cell), self.quota(node, cell).borrowing_limit
        from_above = self.available(above, cell)
        if limit is not None:
            from_above = min(from_above, subtree - kept - max(0, used - kept) + limit)
        return max(0, kept - used) + from_above

    def fits(self, queue: str, amounts: Mapping[Cell, int]) -> bool:
        node = f"queue:{queue}"
        return all(amount <= max(0, self.available(node, cell)) for cell, amount in amounts.items())

    def fits_unborrowed(self, queue: str, amounts: Mapping[Cell, int]) -> bool:
        node = f"queue:{queue}"
        return self.fits(queue, amounts) and all(
            self.usage(node, cell) + amount <= self.quota(node, cell).nominal
            for cell, amount in amounts.items()
        )

    def level(self, queue: str, amounts: Mapping[Cell, int]) -> int:
        """The height of the smallest subtree that covers these amounts, on top of what is used."""
        return max((self._level(f"queue:{queue}", c, a) for c, a in amounts.items()), default=0)

    def _level(self, node: str, cell: Cell, amount: int) -> int:
        above = self.parent(node)
        if above is None or self.usage(node, cell) + amount <= self.subtree(node, cell):
            return self._height(node)
        kept = max(0, self.kept(node, cell) - self.usage(node, cell))
        return self._level(above, cell, amount - kept)

    def _height(self, node: str) -> int:
        return 1 + max(map(self._height, self._children.get(node, ())), default=-1)

    def borrows(self, node: str, cells: Iterable[Cell]) -> bool:
        return any(self.usage(node, cell) > self.subtree(node, cell) for cell in cells)

    def check_limits(self, queue: str, cell: Cell) -> None:
        """No limit is broken from the queue up to where its usage is no longer seen."""
        for node in self.path(f"queue:{queue}"):
            used, subtree = self.usage(node, cell), self.subtree(node, cell)
            if self.parent(node) is None:
                assert used <= subtree, f"{node} gives {used} of {subtree} {cell}"
            elif used <= self.kept(node, cell):
                return
            else:
                limit = self.quota(node, cell).borrowing_limit
                assert limit is None or used <= subtree + limit, f"{node} takes {used} {cell}"
