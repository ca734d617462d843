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

from makeway.engine.consequences import has_to_tell, lets_others_pass
from makeway.engine.entry import Demand, Entry
from makeway.engine.model import Amounts, FlavorResource, Policy
from makeway.engine.owners import CHOICES_MAX, Owners, choices_of, smallest_pod_sets
from makeway.engine.quota import available, room_nearby
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree
from makeway.engine.victims import first_priority_spared, first_priority_spared_by


class Reach(NamedTuple):
    """What policy and configuration say of all heads of a queue."""

    is_looked_at: bool  # whether a glance counts for them
    is_told: bool  # whether they are to hear why they wait
    spared: float  # nobody so far above a head's priority makes way for it
    spared_in_queue: float  # nor so far above it, in its own queue
    may_borrow_for: bool  # whoever makes way, even if the head has to borrow then
    asks_owners: bool  # whether those who were refused for the sake of owners are glanced at


class Line(NamedTuple):
    """What those in a line ask for, taken together as if they were one."""

    least: tuple[tuple[FlavorResource, int], ...]  # that anybody asks for, of each cell
    spared: float  # nobody of this priority, or a higher one, makes way for any of them
    spared_in_queue: float  # nor of this one, in their own queue
    may_borrow_for: bool  # whoever makes way, even if the line has to borrow then


def reach_of(state: ClusterState, queue: QueueState) -> Reach:
    """Kept as long as the queue is in its tree and the configuration is the same."""
    known, above, config = queue.reach_known, queue.node.parent, state.config
    if known is None or known[0] is not above or known[1] is not config:
        policy = queue.spec.preemption
        reach = Reach(
            is_looked_at=config.skips_hopeless and lets_others_pass(queue),
            is_told=has_to_tell(state, queue),
            spared=first_priority_spared_by(queue, 0),
            spared_in_queue=first_priority_spared(policy.within_queue, 0),
            may_borrow_for=policy.borrow_while_reclaiming or config.fair_sharing,
            asks_owners=config.skips_refused and config.gates.owners_first and above is not None,
        )
        known = queue.reach_known = (above, config, reach)
    found: Reach = known[2]
    return found


def heads_with_hope(state: ClusterState, owners: Owners) -> list[tuple[Entry, QueueState]]:
    """The heads of lines in which somebody may have a chance; the other lines are parked.

    One look tells it of a whole line: at the least that anybody in it asks for. Nobody has to come
    up for that: what is too little remains so until somebody ends. Of those who are refused for the
    sake of owners it is not said, but for forecasts (`Config.skips_refused_lines`): they may get
    their places elsewhere before the next comes up.
    """
    found = []
    asked = owners if state.config.skips_refused_lines else None
    for queue in owners.tree.queues:
        pending = queue.pending
        if not pending.classes or queue.inactive is not None:
            continue
        head = None if pending.is_woken else pending.head()
        if head is None and not pending.is_woken:
            continue
        is_worth_a_look = head is None or _knows_why(state, queue, head)
        if is_worth_a_look and _line_is_short(state, queue, asked):
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


def _line_is_short(state: ClusterState, queue: QueueState, owners: Owners | None = None) -> bool:
    """Whether there is too little for anybody in line, and nobody makes way for any of them.

    If owners are asked, it may also be that they leave too little of it; that is noted.
    """
    stamp = queue.pending.firsts_version + state.flavors_edited  # neither of them shrinks
    known = queue.line_known
    if known is None or known[0] != stamp or known[1] is not state.config:
        known = queue.line_known = (stamp, state.config, _line_of(state, queue))
    line: Line | None = known[2]
    if line is None:
        return False
    least, spared, spared_in_queue, may_borrow_for = line
    tree, node = queue.tree, queue.node
    all_are_spared = tree.lowest_priority() >= spared
    if not all_are_spared and (may_borrow_for or queue.lowest_priority() < spared_in_queue):
        return False  # somebody may make way who borrows nothing that is nearer to the line
    usage, refused = tree.snapshot.usage, []
    quota, used, is_flat = node.subtree, usage[node.index], node.is_flat
    for cell, amount in least:
        room = quota.get(cell, 0) - used.get(cell, 0)
        if not all_are_spared:
            nearby = room if is_flat else room_nearby(node, cell, usage)
            if amount <= nearby:
                return False
        if amount <= available(node, cell, usage):
            if owners is None or amount <= room or not is_refused(owners, queue, cell, amount):
                return False
            refused.append(cell)
    if owners is not None:
        for cell in refused:
            owners.note_refusal(queue, cell, ())
    return True


def is_refused(owners: Owners, queue: QueueState, cell: FlavorResource, amount: int) -> bool:
    """Whether so much, which is free and would be borrowed, is left alone for owners."""
    if not owners.are_asked_by(queue):
        return False
    known = owners.let.get((queue.node.index, cell), 0)
    return amount > known and amount > owners.let_have(queue, cell, amount)


def _line_of(state: ClusterState, queue: QueueState) -> Line | None:
    """None: there is no telling, since some may be noticed, or have to be turned away."""
    stamp = queue.pending.shapes_version + state.flavors_edited  # neither of them shrinks
    known = queue.asked_for_known
    if known is None or known[0] != stamp or known[1] is not state.config:
        known = queue.asked_for_known = (stamp, state.config, _asked_for_in(state, queue))
    if known[2] is None:
        return None
    firsts = _known_firsts(state, queue)
    if firsts is None or any(entry.status.claim is not None for entry in firsts):
        return None
    line: Line = known[2]
    return line


def _asked_for_in(state: ClusterState, queue: QueueState) -> Line | None:
    """What those in line ask for; kept while there are the same shapes."""
    namespaces, policy = queue.spec.namespaces, queue.spec.preemption
    if not (state.config.skips_hopeless and lets_others_pass(queue)):
        return None
    if policy.after_waiting_s:
        return None  # everybody who is tried has the time of that noted
    if not leaves_no_trace(state, queue) or namespaces is None or namespaces.requirements:
        return None
    firsts = queue.pending.firsts()
    if not firsts:
        return None
    least: dict[FlavorResource, int] = {}
    priority = firsts[0].workload.priority
    for entry in firsts:
        groups = _decisive_groups(state, entry, queue)
        if not groups:
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
        by a search. A search that goes on with its next flavor has no more hope than a new one.
        """
        reach = reach_of(self._state, queue)
        if not reach.is_looked_at or (reach.is_told and not queue.pending.knows_why(entry)):
            return False
        is_midway = entry.search.scan is not None
        if entry.status.claim is not None or (is_midway and not self._owners.skips_refused):
            return False
        may_preempt = _preempts(entry.workload.priority, queue, reach)
        if may_preempt is None:
            return False
        refused: list[FlavorResource] = []
        for choices in _decisive_groups(self._state, entry, queue):
            for choice in choices:  # any() takes twice as long
                if self._finds_all(choice, queue, may_preempt, reach.asks_owners, refused):
                    break
            else:
                return not refused or (not is_midway and self._notes_refusal(entry, queue, refused))
        return False

    def _finds_all(
        self,
        choice: Amounts,
        queue: QueueState,
        may_preempt: bool,
        asks_owners: bool,
        refused: list[FlavorResource],
    ) -> bool:
        """Does each cell of it fit, or might it once others have made way?

        If what is free is left alone for the sake of owners, that is noted.
        """
        node, usage = queue.node, queue.tree.snapshot.usage
        own, used = node.subtree, usage[node.index]
        for cell, amount in choice.items():
            room = own.get(cell, 0) - used.get(cell, 0)
            nearby = room if node.is_flat else room_nearby(node, cell, usage)
            if may_preempt and amount <= nearby:
                continue  # it is nearer to the quota than those who borrow it
            if amount > available(node, cell, usage):
                return False
            if asks_owners and amount > room and is_refused(self._owners, queue, cell, amount):
                refused.append(cell)
                return False
        return True

    def _notes_refusal(
        self, entry: Entry, queue: QueueState, refused: list[FlavorResource]
    ) -> bool:
        """Note it, unless it is for the first time: then it has to be heard, by a search."""
        if has_to_tell(self._state, queue) and not queue.pending.was_refused(entry):
            return False
        for cell in refused:
            self._owners.note_refusal(queue, cell, ())
        return True


def _preempts(priority: int, queue: QueueState, reach: Reach) -> bool | None:
    """Whether somebody of this priority may preempt, if only as an owner.

    None: there is no telling. Somebody of its own queue may make way, or elsewhere though the
    queue borrows.
    """
    if queue.tree.lowest_priority() >= priority + reach.spared:
        return False
    if reach.may_borrow_for or queue.lowest_priority() < priority + reach.spared_in_queue:
        return None
    return True
