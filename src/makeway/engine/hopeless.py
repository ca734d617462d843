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

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from makeway.engine.consequences import has_to_tell, lets_others_pass
from makeway.engine.entry import Demand, Entry
from makeway.engine.model import Amounts, FlavorResource, Policy
from makeway.engine.owners import CHOICES_MAX, Owners, choices_of, smallest_pod_sets
from makeway.engine.quota import available, room_nearby, usage_room
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree
from makeway.engine.victims import (
    all_are_too_important,
    first_priority_spared,
    first_priority_spared_by,
)

Cells = Sequence[FlavorResource]


class Line(NamedTuple):
    """What those in a line ask for, taken together as if they were one."""

    least: tuple[tuple[FlavorResource, int], ...]  # that anybody asks for, of each cell
    spared: float  # nobody of this priority, or a higher one, makes way for any of them
    spared_in_queue: float  # nor of this one, in their own queue
    may_borrow_for: bool  # whoever makes way, even if the line has to borrow then


def heads_with_hope(state: ClusterState, tree: Tree) -> list[tuple[Entry, QueueState]]:
    """The heads of lines in which somebody may have a chance; the other lines are parked.

    One look tells it of a whole line: at the least that anybody in it asks for. Nobody has to come
    up for that: what is too little remains so until somebody ends. Of those who are refused for the
    sake of owners it is not said: these may get their places elsewhere before the next comes up.
    """
    found = []
    for queue in tree.queues:
        pending = queue.pending
        if not pending.classes or queue.inactive is not None:
            continue
        head = None if pending.is_woken else pending.head()
        if head is None and not pending.is_woken:
            continue
        is_worth_a_look = head is None or _knows_why(state, queue, head)
        if is_worth_a_look and _line_is_short(state, queue):
            pending.park_all()
        elif (head := head or pending.head()) is not None:
            found.append((head, queue))
    return found


def all_are_short(state: ClusterState, tree: Tree) -> bool:
    """Whether all who wait in a tree, parked or not, would be parked by one look at each line."""
    for queue in tree.queues:
        pending = queue.pending
        if pending.aside:
            return False
        if pending.classes and queue.inactive is None and not _line_is_short(state, queue):
            return False
    return True


def _knows_why(state: ClusterState, queue: QueueState, head: Entry) -> bool:
    """Whether the head at least was told why it waits, or nobody asks; cheaper than to ask all."""
    return not has_to_tell(state, queue) or queue.pending.knows_why(head)


def _line_is_short(state: ClusterState, queue: QueueState) -> bool:
    """Whether there is too little for anybody in line, and nobody makes way for any of them."""
    line = _line_now(state, queue)
    if line is None:
        return False
    least, spared, spared_in_queue, may_borrow_for = line
    tree, node = queue.tree, queue.node
    all_are_spared = tree.lowest_priority() >= spared
    if not all_are_spared and (may_borrow_for or queue.lowest_priority() < spared_in_queue):
        return False  # somebody may make way who borrows nothing that is nearer to the line
    usage = tree.snapshot.usage
    for cell, amount in least:
        if amount <= available(node, cell, usage):
            return False
        if not all_are_spared and amount <= room_nearby(node, cell, usage):
            return False
    return True


def _line_now(state: ClusterState, queue: QueueState) -> Line | None:
    """Kept from cycle to cycle while the first of each shape, and what they were told, stay."""
    stamp = queue.pending.firsts_version + state.flavors_edited  # neither of them shrinks
    known = queue.line_known
    if known is None or known[0] != stamp or known[1] is not state.config:
        known = queue.line_known = (stamp, state.config, _line_of(state, queue))
    line: Line | None = known[2]
    return line


def _line_of(state: ClusterState, queue: QueueState) -> Line | None:
    """None: there is no telling, since some may be noticed, or have to be turned away."""
    namespaces, policy = queue.spec.namespaces, queue.spec.preemption
    if not (state.config.skips_hopeless and lets_others_pass(queue)):
        return None
    if policy.after_waiting_s:
        return None  # everybody who is tried has the time of that noted
    if not leaves_no_trace(state, queue) or namespaces is None or namespaces.requirements:
        return None
    firsts = _known_firsts(state, queue)
    if not firsts:
        return None
    least: dict[FlavorResource, int] = {}
    priority = firsts[0].workload.priority
    for entry in firsts:
        groups = _decisive_groups(state, entry, queue)
        if not groups or entry.status.claim is not None:
            return None
        if entry.workload.priority > priority:
            priority = entry.workload.priority
        for choice in groups[0]:
            for cell, amount in choice.items():
                known = least.get(cell)
                if known is None or amount < known:
                    least[cell] = amount
    return Line(
        tuple(least.items()),
        first_priority_spared_by(queue, priority),
        first_priority_spared(policy.within_queue, priority),
        policy.borrow_while_reclaiming,
    )


def _known_firsts(state: ClusterState, queue: QueueState) -> list[Entry] | None:
    """The first of each shape in line, if nothing but quota can be in the way of any of them."""
    if has_to_tell(state, queue):
        return queue.pending.all_told()
    firsts = queue.pending.firsts()
    return firsts if all(_is_plain(state, entry, queue) for entry in firsts) else None


def _is_plain(state: ClusterState, entry: Entry, queue: QueueState) -> bool:
    """Whether nothing but quota can be in its way; of whoever was told of quota that is known."""
    return (
        entry.workload.defect is None
        and not entry.status.history
        and entry.search.scan is None
        and state.admits_namespace_of(entry, queue)
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


class Glances:
    """What can be seen at a glance in one cycle, as it is at its beginning."""

    def __init__(self, state: ClusterState, owners: Owners) -> None:
        self._state = state
        self._owners = owners

    def is_without_hope(self, entry: Entry, queue: QueueState) -> bool:
        """Would a search only tell the head what was told before?

        Who is refused for the sake of owners is tried again when these leave more: it is noted as
        by a search.
        """
        if not _knows_why(self._state, queue, entry):
            return False
        refused = self._refused_to(entry, queue)
        if refused is None:
            return False
        for cell in refused:
            self._owners.note_refusal(queue, cell, ())
        return True

    def _refused_to(self, entry: Entry, queue: QueueState) -> Cells | None:
        """The cells that are refused to a head without hope, for the sake of owners, though free.

        It is without hope if a search would only tell what was told before: it does not fit, and
        nobody makes way. None: it may have hope. To be asked of a head that was told nothing else,
        unless nobody asks why.
        """
        if not (self._state.config.skips_hopeless and lets_others_pass(queue)):
            return None
        if entry.search.scan is not None or entry.status.claim is not None:
            return None
        may_preempt = self._preempts(entry.workload.priority, queue)
        if may_preempt is None:
            return None
        refused: list[FlavorResource] = []
        for choices in _decisive_groups(self._state, entry, queue):
            for choice in choices:  # any() takes twice as long
                if self._finds_all(choice, queue, may_preempt, refused):
                    break
            else:
                return refused if not refused or self._may_hear(entry, queue) else None
        return None

    def _preempts(self, priority: int, queue: QueueState) -> bool | None:
        """Whether somebody of this priority may preempt, if only as an owner.

        None: there is no telling. Somebody of its own queue may make way, or elsewhere though the
        queue borrows.
        """
        if all_are_too_important(priority, queue):
            return False
        policy = queue.spec.preemption
        if policy.borrow_while_reclaiming or self._state.config.fair_sharing:
            return None
        spared = first_priority_spared(policy.within_queue, priority)
        return True if queue.lowest_priority() >= spared else None

    def _finds_all(
        self, choice: Amounts, queue: QueueState, may_preempt: bool, refused: list[FlavorResource]
    ) -> bool:
        """Does each cell of it fit, or might it once others have made way?"""
        node, usage = queue.node, queue.tree.snapshot.usage
        for cell, amount in choice.items():
            if may_preempt and amount <= room_nearby(node, cell, usage):
                continue  # it is nearer to the quota than those who borrow it
            if amount > available(node, cell, usage):
                return False
            if self._is_refused(queue, cell, amount):
                refused.append(cell)
                return False
        return True

    def _is_refused(self, queue: QueueState, cell: FlavorResource, amount: int) -> bool:
        """Whether so much, which is free, is left alone for the sake of owners."""
        owners, node = self._owners, queue.node
        if not (owners.skips_refused and owners.are_asked_by(queue)):
            return False
        if amount <= usage_room(node, cell, queue.tree.snapshot.usage):
            return False
        return not owners.have_let(queue, cell, amount) and (
            amount > owners.let_have(queue, cell, amount)
        )

    def _may_hear(self, entry: Entry, queue: QueueState) -> bool:
        """Who is refused for the first time has to hear it."""
        return not has_to_tell(self._state, queue) or queue.pending.was_refused(entry)
