"""Arithmetic of the cohort tree: what is kept, lent, used, available and borrowed.

Every queue and cohort is a node. A node's *subtree* quota is its own nominal quota plus what its
children lend; what a lending limit holds back is *kept*, and never seen above the node, neither
as capacity nor as usage. Usage is held apart from the tree, as one map per node, so that the same
functions read the live picture and any what-if.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from makeway.engine.compiling import mypyc_attr
from makeway.engine.model import NO_QUOTA, Amounts, FlavorResource, Quota

Usage = list[dict[FlavorResource, int]]  # by node index


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """A queue or cohort in its tree. Quotas are fixed for the life of a tree; usage is not here."""

    __slots__ = (
        "borrowing_limit",
        "bound",
        "children",
        "height",
        "index",
        "is_flat",
        "is_queue",
        "kept",
        "lendable",
        "name",
        "parent",
        "potential",
        "quotas",
        "subtree",
        "weight",
    )

    def __init__(
        self, name: str, quotas: Mapping[FlavorResource, Quota], weight: float, is_queue: bool
    ) -> None:
        self.name = name
        self.quotas = quotas
        self.weight = weight
        self.is_queue = is_queue
        self.parent: Node | None = None
        # The nearest from here up, or itself, that has a lending or borrowing limit; else the root.
        self.bound: Node = self
        self.is_flat = False  # above it is the root and nothing else, and it has no limits
        self.children: list[Node] = []
        self.index = 0
        self.height = 0  # distance to the deepest leaf below
        self.subtree: dict[FlavorResource, int] = {}
        self.kept: dict[FlavorResource, int] = {}  # only where something is
        self.borrowing_limit: dict[FlavorResource, int] = {}  # only where there is one
        self.potential: dict[FlavorResource, int] = {}  # filled as it is asked for
        self.lendable: dict[str, int] | None = None  # None until it is asked for

    def nominal(self, cell: FlavorResource) -> int:
        return self.quotas.get(cell, NO_QUOTA).nominal

    def ancestors(self) -> Iterator[Node]:
        """The cohorts above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def settle(self) -> None:
        """Compute what follows from the quotas of this node and its settled children."""
        subtree = {cell: quota.nominal for cell, quota in self.quotas.items()}
        for child in self.children:
            for cell, amount in child.subtree.items():
                subtree[cell] = subtree.get(cell, 0) + amount - child.kept.get(cell, 0)
        self.subtree = subtree
        self.kept = {}
        self.borrowing_limit = {}
        self.potential = {}
        self.lendable = None
        self.bound, self.is_flat = self, False
        for cell, quota in self.quotas.items():
            if quota.lending_limit is not None and subtree[cell] > quota.lending_limit:
                self.kept[cell] = subtree[cell] - quota.lending_limit
            if quota.borrowing_limit is not None:
                self.borrowing_limit[cell] = quota.borrowing_limit
        self.height = 1 + max((child.height for child in self.children), default=-1)

    def find_bound(self) -> None:
        """After all nodes have settled, and those above have found theirs."""
        if self.parent is not None and not (self.kept or self.borrowing_limit):
            self.bound = self.parent.bound
        self.is_flat = self.bound is self.parent and self.bound.parent is None


def available(node: Node, cell: FlavorResource, usage: Usage) -> int:
    """How much more `node` can take now; negative when the tree is over-admitted."""
    node = node.bound
    if node.parent is None:  # as of most; `usage_room` would be one more call
        return node.subtree.get(cell, 0) - usage[node.index].get(cell, 0)
    return _with_own(node, cell, usage, available(node.parent, cell, usage))


def available_in(top: Node, node: Node, cell: FlavorResource, usage: Usage) -> int:
    """How much more of the quota of a subtree alone, that of `top`, a node in it can take."""
    while node is not top and not (node.kept or node.borrowing_limit):
        assert node.parent is not None, f"{node.name} is not below {top.name}"
        node = node.parent  # it has whatever there is above it
    if node is top or node.parent is None:
        return usage_room(node, cell, usage)
    return _with_own(node, cell, usage, available_in(top, node.parent, cell, usage))


def _with_own(node: Node, cell: FlavorResource, usage: Usage, above: int) -> int:
    """What the node can take, if there is so much above it: no more than it may borrow of that."""
    used, kept = usage[node.index].get(cell, 0), node.kept.get(cell, 0)
    limit = node.borrowing_limit.get(cell)
    if limit is not None:
        above = min(above, node.subtree.get(cell, 0) - kept - max(0, used - kept) + limit)
    return max(0, kept - used) + above


def potential(node: Node, cell: FlavorResource) -> int:
    """How much `node` could take if nothing were in use anywhere."""
    known = node.potential.get(cell)
    if known is None:
        if node.parent is None:
            known = node.subtree.get(cell, 0)
        else:
            known = node.kept.get(cell, 0) + potential(node.parent, cell)
            limit = node.borrowing_limit.get(cell)
            if limit is not None:
                known = min(known, node.subtree.get(cell, 0) + limit)
        node.potential[cell] = known
    return known


def kept_available(node: Node, cell: FlavorResource, usage: Usage) -> int:
    """What is free of the part that the node keeps for itself."""
    if not node.kept:
        return 0
    return max(0, node.kept.get(cell, 0) - usage[node.index].get(cell, 0))


def exceeds_subtree(node: Node, cell: FlavorResource, extra: int, usage: Usage) -> bool:
    """Would `extra` more lift the node above the quota of its subtree?"""
    return usage[node.index].get(cell, 0) + extra > node.subtree.get(cell, 0)


def is_within_quota(node: Node, cells: Iterable[FlavorResource], usage: Usage) -> bool:
    """Does the node borrow in none of these cells?"""
    used, subtree = usage[node.index], node.subtree
    for cell in cells:  # noqa: SIM110  # asked for every queue of a tree; all() takes twice as long
        if used.get(cell, 0) > subtree.get(cell, 0):
            return False
    return True


def borrow_level(node: Node, cell: FlavorResource, amount: int, usage: Usage) -> tuple[int, bool]:
    """Return the height of the smallest subtree that covers `amount` more, and whether that
    subtree is smaller than the whole tree.

    Height 0 is the queue's own quota. Where no subtree covers it, the height is the tree's.
    """
    top = node.parent
    if top is None or usage[node.index].get(cell, 0) + amount <= node.subtree.get(cell, 0):
        return 0, top is not None
    remaining = amount - kept_available(node, cell, usage) if node.kept else amount
    while top.parent is not None and exceeds_subtree(top, cell, remaining, usage):
        remaining -= kept_available(top, cell, usage)
        top = top.parent
    return top.height, top.parent is not None


def room_nearby(node: Node, cell: FlavorResource, usage: Usage) -> int:
    """The most for which `borrow_level` finds a subtree that is smaller than the whole tree."""
    above = node.parent
    if above is None:
        return 0
    most, kept = node.subtree.get(cell, 0) - usage[node.index].get(cell, 0), 0
    while above.parent is not None:
        kept += kept_available(node, cell, usage)
        node, above = above, above.parent
        most = max(most, usage_room(node, cell, usage) + kept)
    return most


def usage_room(node: Node, cell: FlavorResource, usage: Usage) -> int:
    """What is left of the quota of a subtree; negative where it borrows."""
    return node.subtree.get(cell, 0) - usage[node.index].get(cell, 0)


def fits_in_subtree(node: Node, amounts: Amounts, usage: Usage) -> tuple[bool, Amounts]:
    """Is there room for `amounts` below this node, and how much of them would show above it?"""
    used, subtree, fits = usage[node.index], node.subtree, True
    for cell, amount in amounts.items():
        if used.get(cell, 0) + amount > subtree.get(cell, 0):
            fits = False
            break
    if not node.kept:
        return fits, amounts
    above = {c: max(0, amount - kept_available(node, c, usage)) for c, amount in amounts.items()}
    return fits, above


def lendable(node: Node) -> Mapping[str, int]:
    """Per resource, what the node could offer at most, over all flavors of its tree."""
    if node.lendable is None:
        root = node
        while root.parent is not None:
            root = root.parent
        node.lendable = {}
        for cell in root.subtree:
            before = node.lendable.get(cell.resource, 0)
            node.lendable[cell.resource] = before + potential(node, cell)
    return node.lendable


def usage_above(node: Node, cell: FlavorResource, used: int) -> int:
    """What of a node's usage counts in its parent."""
    return max(0, used - node.kept.get(cell, 0))
