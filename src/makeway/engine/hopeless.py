"""Heads that need no search, since it can be seen at a glance that it would find nothing.

When a workload ends, everybody in the tree gets another chance. Where there is contention, most
are as far from it as before: what is free is too little for them, and nobody may be preempted. A
search that told so once would tell so again. The glance looks at no holder of quota, only at sums:

- *It does not fit.* In every choice of flavors some cell has too little left; or, in simulations,
  what is left there is refused to it for the sake of owners (`Config.is_simulated`).
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
from makeway.engine.entry import Cells, Entry
from makeway.engine.model import FlavorResource, Policy
from makeway.engine.owners import CHOICES_MAX, Owners, choices_of, smallest_pod_sets
from makeway.engine.quota import Node, available, room_nearby, usage_room
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

    least: Cells  # that anybody asks for, of each cell
    spared: float  # nobody of this priority, or a higher one, makes way for any of them
    spared_in_queue: float  # nor of this one, in their own queue
    may_borrow_for: bool  # whoever makes way, even if the line has to borrow then


class Lack(NamedTuple):
    """What everybody in a line has too little of, unless there is as much as this somewhere."""

    least: Cells  # that anybody asks for, of each cell
    looks_nearby: bool  # whether so much in a cohort below the root would be enough as well


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
            asks_owners=config.is_simulated and config.gates.owners_first and above is not None,
        )
        known = queue.reach_known = (above, config, reach)
    found: Reach = known[2]
    return found


def _knows_why(state: ClusterState, queue: QueueState, head: Entry) -> bool:
    """Whether the head at least was told why it waits, or nobody asks; cheaper than to ask all."""
    return not has_to_tell(state, queue) or queue.pending.knows_why(head)


def is_refused(owners: Owners, queue: QueueState, cell: FlavorResource, amount: int) -> bool:
    """Whether so much, which is free and would be borrowed, is left alone for owners."""
    if not owners.are_asked_by(queue):
        return False
    known = owners.let.get((queue.node.index, cell), 0)
    return amount > known and amount > owners.let_have(queue, cell, amount)


def _line_of(state: ClusterState, queue: QueueState) -> Line | None:
    """None: there is no telling, since some may be noticed, or have to be turned away."""
    stamp = queue.pending.firsts_version + state.flavors_edited  # neither of them shrinks
    known = queue.line_known
    if known is None or known[0] != stamp or known[1] is not state.config:
        known = queue.line_known = (stamp, state.config, _find_line(state, queue))
    line: Line | None = known[2]
    return line


def _find_line(state: ClusterState, queue: QueueState) -> Line | None:
    stamp = queue.pending.shapes_version + state.flavors_edited  # neither of them shrinks
    known = queue.asked_for_known
    if known is None or known[0] != stamp or known[1] is not state.config:
        known = queue.asked_for_known = (stamp, state.config, _asked_for_in(state, queue))
    line: Line | None = known[2]
    return line if line is not None and _lack_only_quota(state, queue) else None


def _asked_for_in(state: ClusterState, queue: QueueState) -> Line | None:
    """What those in line ask for; kept while there are the same shapes."""
    policy = queue.spec.preemption
    if not (state.config.skips_hopeless and lets_others_pass(queue)):
        return None
    if policy.after_waiting_s:
        return None  # everybody who is tried has the time of that noted
    if not leaves_no_trace(state, queue) or not queue.spec.admits_every_namespace:
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
            for cell, amount in choice:
                known = least.get(cell)
                if known is None or amount < known:
                    least[cell] = amount
    return Line(
        tuple(least.items()),
        first_priority_spared_by(queue, priority),
        first_priority_spared(policy.within_queue, priority),
        policy.borrow_while_reclaiming,
    )


def _lack_only_quota(state: ClusterState, queue: QueueState) -> bool:
    """Whether nothing but quota can be in the way of anybody in line, and whoever has to hear of
    that has heard it.

    In a simulation it is enough that one of each shape has.
    """
    is_told, is_simulated = has_to_tell(state, queue), state.config.is_simulated
    for shape_class in queue.pending.classes.values():
        first = shape_class.best()[1]
        if first.status.claim is not None:
            return False
        if shape_class.told is first:
            continue
        if is_told and not (is_simulated and shape_class.is_known):
            return False
        if not _is_plain(state, first, queue):
            return False
    return True


def _is_plain(state: ClusterState, entry: Entry, queue: QueueState) -> bool:
    """Whether nothing but quota can be in its way; of whoever was told of quota that is known."""
    return (
        entry.workload.defect is None
        and not entry.status.history
        and entry.search.scan is None
        and state.admits_namespace_of(entry, queue)
    )


def _decisive_groups(
    state: ClusterState, entry: Entry, queue: QueueState
) -> tuple[tuple[Cells, ...], ...]:
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
) -> Iterator[tuple[Cells, ...]]:
    pod_sets = smallest_pod_sets(state, entry)
    with_choice = [group for group in queue.spec.groups if len(group.flavors) > 1]
    for group in queue.spec.groups:
        others = len(pod_sets) if group in with_choice else 1
        if len(with_choice) - (group in with_choice) + others > 1:
            continue
        choices = tuple(choices_of(state, entry, queue, group, pod_sets))
        if len(choices) < CHOICES_MAX and any(choices):
            yield tuple(tuple(choice.items()) for choice in choices)


def leaves_no_trace(state: ClusterState, queue: QueueState) -> bool:
    """Whether a head without hope makes no difference to the other heads of its cycle."""
    reclaims = queue.spec.preemption.reclaim is Policy.ANY and queue.node.parent is not None
    return reclaims and not state.config.fair_sharing


class Lines:
    """The lines of one tree, looked at as a whole; as it is when a cycle begins or has ended."""

    def __init__(self, state: ClusterState, tree: Tree) -> None:
        self._state = state
        self._tree = tree
        self.usage = tree.snapshot.usage
        self.lowest_priority = tree.lowest_priority()
        # For all queues that may have whatever is free there; as far as it was asked.
        self.free_in_root: dict[FlavorResource, int] = {}

    def heads_with_hope(self, owners: Owners) -> list[tuple[Entry, QueueState]]:
        """The heads of lines in which somebody may have a chance; the other lines are parked.

        One look tells it of a whole line: at the least that anybody in it asks for. Nobody has to
        come up for that: what is too little remains so until somebody ends. Not of those who are
        refused for the sake of owners, who may have more to leave before the next comes up; but
        for forecasts (`Config.skips_refused_lines`).
        """
        found = []
        asked = owners if self._state.config.skips_refused_lines else None
        for queue in self._tree.queues:
            pending = queue.pending
            if not pending.classes or queue.inactive is not None:
                continue
            head = None
            if not pending.is_woken:
                head = pending.head()
                if head is None:
                    continue
            is_worth_a_look = head is None or _knows_why(self._state, queue, head)
            if is_worth_a_look and self._line_is_short(queue, asked):
                pending.park_all()
            elif (head := head or pending.head()) is not None:
                found.append((head, queue))
        return found

    def all_are_short(self) -> bool:
        """Whether all who wait, parked or not, would be parked by one look at each line."""
        for queue in self._tree.queues:
            pending = queue.pending
            if pending.aside:
                return False
            if pending.classes and queue.inactive is None and not self._line_is_short(queue):
                return False
        return True

    def park_all_if_short(self) -> bool:
        """Whether nobody has a chance, by one look at each line; then all are parked."""
        if not self.all_are_short():
            return False
        for queue in self._tree.queues:
            if queue.inactive is None and queue.pending.has_head():
                queue.pending.park_all()
        return True

    def _line_is_short(self, queue: QueueState, owners: Owners | None = None) -> bool:
        """Whether there is too little for anybody in line, and nobody makes way for any of them.

        If owners are asked, it may also be that they leave too little of it; that is noted.
        """
        state, lowest = self._state, (self.lowest_priority, queue.lowest_priority())
        # None of these shrinks.
        stamp = queue.pending.firsts_version + queue.generation + state.flavors_edited
        known = queue.lack_known
        if known is None or known[0] != stamp or known[1] != lowest or known[2] is not state.config:
            known = queue.lack_known = (stamp, lowest, state.config, self._lack_of(queue))
        lack: Lack | None = known[3]
        if lack is None:
            return False
        least, looks_nearby = lack
        node, is_flat, free_in_root = queue.node, queue.node.is_flat, self.free_in_root
        refused: list[FlavorResource] = []
        for cell, amount in least:
            if looks_nearby and amount <= room_nearby(node, cell, self.usage):
                return False
            free = free_in_root.get(cell) if is_flat else None
            if free is None:
                free = self.available(node, cell)
            if amount <= free:
                if owners is None or amount <= usage_room(node, cell, self.usage):
                    return False
                if not is_refused(owners, queue, cell, amount):
                    return False
                refused.append(cell)
        if owners is not None:
            for cell in refused:
                owners.note_refusal(queue, cell, ())
        return True

    def _lack_of(self, queue: QueueState) -> Lack | None:
        line = _line_of(self._state, queue)
        if line is None:
            return None
        if self.lowest_priority >= line.spared:
            return Lack(line.least, looks_nearby=False)
        if line.may_borrow_for or queue.lowest_priority() < line.spared_in_queue:
            return None  # somebody may make way who borrows nothing that is nearer to the line
        if not queue.node.is_flat:
            return Lack(line.least, looks_nearby=True)
        for cell, amount in line.least:
            if amount <= usage_room(queue.node, cell, self.usage):
                return None
        return Lack(line.least, looks_nearby=False)

    def available(self, node: Node, cell: FlavorResource) -> int:
        """How much more a queue can take."""
        free = available(node, cell, self.usage)
        if node.is_flat:
            self.free_in_root[cell] = free
        return free


class Glances:
    """What can be seen of heads at a glance in one cycle, as it is at its beginning."""

    def __init__(self, state: ClusterState, owners: Owners, lines: Lines) -> None:
        self._state = state
        self._owners = owners
        self._lines = lines

    def is_without_hope(self, entry: Entry, queue: QueueState) -> bool:
        """Would a search only tell the head what was told before?

        Who is refused for the sake of owners is tried again when these leave more: it is noted as
        by a search. A search that goes on with its next flavor has no more hope than a new one.
        """
        reach = reach_of(self._state, queue)
        if not reach.is_looked_at or (reach.is_told and not queue.pending.knows_why(entry)):
            return False
        is_midway = entry.search.scan is not None
        if entry.status.claim is not None or (is_midway and not self._state.config.is_simulated):
            return False
        priority = entry.workload.priority
        may_preempt = self._lines.lowest_priority < priority + reach.spared
        if may_preempt and (
            reach.may_borrow_for or queue.lowest_priority() < priority + reach.spared_in_queue
        ):
            return False  # somebody of its own queue may make way, or elsewhere though it borrows
        refused: list[FlavorResource] = []
        asked = self._owners if reach.asks_owners else None
        for choices in _decisive_groups(self._state, entry, queue):
            if not self._finds_one(choices, queue, may_preempt, asked, refused):
                return not refused or (not is_midway and self._notes_refusal(entry, queue, refused))
        return False

    def _finds_one(
        self,
        choices: tuple[Cells, ...],
        queue: QueueState,
        may_preempt: bool,
        owners: Owners | None,
        refused: list[FlavorResource],
    ) -> bool:
        """Is there a choice of which each cell fits, or might once others have made way?

        If what is free is left alone for the sake of owners, that is noted.
        """
        lines, node, is_flat = self._lines, queue.node, queue.node.is_flat
        usage, free_in_root = lines.usage, lines.free_in_root
        own, used = node.subtree, usage[node.index]
        for choice in choices:
            for cell, amount in choice:
                free = free_in_root.get(cell) if is_flat else None
                if free is None:
                    free = lines.available(node, cell)
                if amount > free and not may_preempt:
                    break
                room = own.get(cell, 0) - used.get(cell, 0)
                if may_preempt and amount <= (room if is_flat else room_nearby(node, cell, usage)):
                    continue  # it is nearer to the quota than those who borrow it
                if amount > free:
                    break
                if owners is not None and amount > room and is_refused(owners, queue, cell, amount):
                    refused.append(cell)
                    break
            else:
                return True
        return False

    def _notes_refusal(
        self, entry: Entry, queue: QueueState, refused: list[FlavorResource]
    ) -> bool:
        """Note it, unless it is for the first time: then it has to be heard, by a search."""
        if has_to_tell(self._state, queue) and not queue.pending.was_refused(entry):
            return False
        for cell in refused:
            self._owners.note_refusal(queue, cell, ())
        return True
