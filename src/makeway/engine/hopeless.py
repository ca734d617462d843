"""Heads that need no search, since it can be seen at a glance that it would find nothing.

When a workload ends, everybody in the tree gets another chance. Where there is contention, most
are as far from it as before: what is free is too little for them, and nobody may be preempted. A
search that told so once would tell so again. The glance looks at no holder of quota, only at sums:

- *It does not fit.* In every choice of flavors some cell has too little left; or, in simulations,
  what is left there is refused to it for the sake of owners (`Config.skips_refused`).
- *Nobody makes way.* In its own queue, and where policy lets it take from others, everybody is too
  important; or every subtree that it would be nearer to than those who borrow there is too small
  for it, and it may not preempt in order to borrow.

The glance errs on one side only: if it says hopeless, the search would have parked the whole
shape, too. Where others of the cycle would notice a head without hope (something is reserved for
it, or under fair sharing it takes part in the tournament), the head is searched for unless all
heads of the cycle are without hope: then they are parked together, and the next in line come up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from makeway.engine.entry import Demand, Entry
from makeway.engine.model import Amounts, FlavorResource, Policy
from makeway.engine.owners import CHOICES_MAX, Owners, choices_of, smallest_pod_sets
from makeway.engine.quota import Usage, available, borrow_level
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState
from makeway.engine.victims import (
    all_are_too_important,
    first_priority_spared,
    first_priority_spared_by,
)


def is_without_hope(state: ClusterState, entry: Entry, queue: QueueState, owners: Owners) -> bool:
    """Would a search only tell what was told before: it does not fit, and nobody makes way?

    To be asked of a head that was told nothing else.
    """
    if not state.config.skips_hopeless or entry.status.claim is not None:
        return False
    priority = entry.workload.priority
    may_preempt = not all_are_too_important(priority, queue)
    if may_preempt and not _preempts_only_as_owner(state, priority, queue):
        return False
    glance = Glance(queue, owners, may_preempt)
    for choices in _decisive_groups(state, entry, queue):
        for choice in choices:  # any() takes twice as long
            if glance.finds_all(choice):
                break
        else:
            return glance.is_as_told(entry)
    return False


class Line(NamedTuple):
    """What those in a line ask for, taken together as if they were one."""

    least: Amounts  # that anybody asks for, of each cell
    spared: float  # nobody of this priority, or a higher one, makes way for any of them
    spared_in_queue: float  # nor of this one, in their own queue
    may_borrow_for: bool  # whoever makes way, even if the line has to borrow then


def line_is_without_hope(state: ClusterState, queue: QueueState, usage: Usage) -> bool:
    """Is everybody in line without hope? Said only where one look at all of them tells.

    Not of a line where owners are in the way: until those behind its head come up, these may have
    got their places elsewhere.
    """
    pending = queue.pending
    key = (pending.version, pending.told_version, state.flavors_edited, state.config)
    if queue.line_known is None or queue.line_known[0] != key:
        queue.line_known = (key, _line_of(state, queue))
    line: Line | None = queue.line_known[1]
    if line is None:
        return False
    may_preempt = queue.tree.lowest_priority() < line.spared
    if may_preempt and (line.may_borrow_for or queue.lowest_priority() < line.spared_in_queue):
        return False
    node = queue.node
    for cell, amount in line.least.items():  # any() takes twice as long
        if amount <= available(node, cell, usage) or (
            may_preempt and borrow_level(node, cell, amount, usage)[1]
        ):
            return False
    return True


def _line_of(state: ClusterState, queue: QueueState) -> Line | None:
    """None: there is no telling, since some may be noticed, or have to be turned away."""
    namespaces, policy = queue.spec.namespaces, queue.spec.preemption
    if not state.config.skips_hopeless or not leaves_no_trace(state, queue):
        return None
    if namespaces is None or namespaces.requirements:
        return None
    firsts = queue.pending.all_short()
    if not firsts:
        return None
    least: dict[FlavorResource, int] = {}
    for entry in firsts:
        groups = _decisive_groups(state, entry, queue)
        if not groups or entry.status.claim is not None:
            return None
        for choice in groups[0]:
            for cell, amount in choice.items():
                least[cell] = min(amount, least.get(cell, amount))
    priority = max(entry.workload.priority for entry in firsts)
    return Line(
        least,
        first_priority_spared_by(queue, priority),
        first_priority_spared(policy.within_queue, priority),
        policy.borrow_while_reclaiming,
    )


def _decisive_groups(state: ClusterState, entry: Entry, queue: QueueState) -> Demand:
    """The choices in each group of resources that ends a search if it has nothing to offer.

    If another group lets choose, too, a search that fails may stop in the middle there, and the
    next one goes on from that place.
    """
    known = queue.decisive.get(entry.shape)
    if known is None or known[0] != state.flavors_edited:
        queue.forget_shapes()
        groups = tuple(_find_decisive(state, entry, queue))
        known = queue.decisive[entry.shape] = (state.flavors_edited, groups)
    return known[1]


def _find_decisive(
    state: ClusterState, entry: Entry, queue: QueueState
) -> Iterator[tuple[Amounts, ...]]:
    pod_sets = smallest_pod_sets(state, entry)
    with_choice = [group for group in queue.spec.groups if len(group.flavors) > 1]
    for group in queue.spec.groups:
        others = len(pod_sets) if group in with_choice else 1
        if len(with_choice) - (group in with_choice) + others > 1:
            continue
        choices = tuple(choices_of(state, entry, queue, group, pod_sets))
        if len(choices) < CHOICES_MAX and any(choices):
            yield choices


def leaves_no_trace(state: ClusterState, queue: QueueState) -> bool:
    """Whether a head without hope makes no difference to the other heads of its cycle."""
    reclaims = queue.spec.preemption.reclaim is Policy.ANY and queue.node.parent is not None
    return reclaims and not state.config.fair_sharing


def _preempts_only_as_owner(state: ClusterState, priority: int, queue: QueueState) -> bool:
    """Is there nobody in its own queue who makes way, nor elsewhere as long as it borrows?"""
    policy = queue.spec.preemption
    if policy.borrow_while_reclaiming or state.config.fair_sharing:
        return False
    spared = first_priority_spared(policy.within_queue, priority)
    return queue.lowest_priority() >= spared


class Glance:
    """A look at what there is for somebody of a queue, as a cycle sees it at its beginning."""

    def __init__(self, queue: QueueState, owners: Owners, may_preempt: bool) -> None:
        self._queue = queue
        self._owners = owners
        self._may_preempt = may_preempt
        self._refused: list[FlavorResource] = []  # for the sake of owners, though it is free

    def finds_all(self, choice: Amounts) -> bool:
        """Does each cell of it fit, or might it once others have made way?"""
        for cell, amount in choice.items():  # noqa: SIM110  # all() takes twice as long
            if not self.finds(cell, amount):
                return False
        return True

    def finds(self, cell: FlavorResource, amount: int) -> bool:
        node, picture = self._queue.node, self._queue.tree.snapshot
        if self._may_preempt and borrow_level(node, cell, amount, picture.usage)[1]:
            return True
        if amount > available(node, cell, picture.usage):
            return False
        owners = self._owners
        if owners.skips_refused and owners.are_before(self._queue, cell, amount, picture):
            self._refused.append(cell)
            return False
        return True

    def is_as_told(self, entry: Entry) -> bool:
        """Who is refused for the first time has to hear it; a refusal is noted as by a search."""
        if self._refused and not self._queue.pending.was_refused(entry):
            return False
        for cell in self._refused:  # tried again when more is left
            self._owners.note_refusal(self._queue, cell, ())
        return True
