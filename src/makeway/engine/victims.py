"""Who may be preempted, and the least of them that suffices.

Candidates are taken in the order in which they may be sacrificed, until the preemptor fits;
then, from the dearest backwards, everyone whose removal was not needed is spared. The lists of
holders are kept sorted, so a search looks at no more candidates than it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import chain, islice
from math import inf
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.engine.entry import Entry, VictimOrder
from makeway.engine.model import Amounts, FlavorResource, Policy, WorkloadKey
from makeway.engine.quota import Node, available, fits_in_subtree, is_within_quota
from makeway.engine.sacrifice import Sacrifice, is_protected
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import Leaving, QueueState
from makeway.engine.turns import Turn, Turns, turn_at

# Up to how far above its own priority somebody may preempt.
REACH = {
    Policy.NEVER: -inf,
    Policy.LOWER_PRIORITY: 0.0,
    Policy.LOWER_OR_NEWER_EQUAL: 1.0,
    Policy.ANY: inf,
}


class Need(NamedTuple):
    """Who wants how much of what, and which of it is contested."""

    preemptor: Entry
    queue: QueueState
    amounts: Amounts
    contested: Collection[FlavorResource]
    gone: Collection[WorkloadKey] = ()  # taken already by others; not in the picture any more
    is_refused: Callable[[Collection[Chosen]], bool] | None = None  # borrowing, with these victims
    at: float | None = None  # when, as far as protection counts; None: nobody is protected
    sacrifice: Sacrifice | None = None  # the order of victims; None: the usual one


class Chosen(NamedTuple):
    entry: Entry
    queue: QueueState
    rule: VictimRule


def first_priority_spared(policy: Policy, priority: int) -> float:
    """Nobody of this priority or a higher one may be preempted by somebody of `priority`."""
    return priority + REACH[policy]


def may_preempt(policy: Policy, preemptor: Entry, candidate: Entry) -> bool:
    """The rule for one candidate; `Eligible` searches by the same rule."""
    mine, theirs = preemptor.workload.priority, candidate.workload.victim_priority
    if policy is Policy.LOWER_OR_NEWER_EQUAL and mine == theirs:
        return preemptor.order_time < candidate.order_time
    return theirs < first_priority_spared(policy, mine)


class Eligible:
    """Who may be preempted for a need under one policy, as a search through sorted holders."""

    __slots__ = ("_at", "_equal", "_gone", "_newer_than", "_too_high", "contested")

    def __init__(self, need: Need, policy: Policy) -> None:
        priority = need.preemptor.workload.priority
        self.contested = need.contested
        self._gone = need.gone
        self._too_high = first_priority_spared(policy, priority)
        is_finer = policy is Policy.LOWER_OR_NEWER_EQUAL
        self._equal = priority if is_finer else None  # of this priority only those who are
        self._newer_than = need.preemptor.order_time
        self._at = need.at

    def next_in(self, queue: QueueState, start: int = 0) -> int | None:
        """The first position from `start` on among the holders of a queue.

        The search ends where all are too important. Who is not on the way out is ordered by its
        creation, so if even the last created is not newer, equal priority is too high already.
        """
        holders, contested = queue.holders, self.contested
        too_high, equal = self._too_high, self._equal
        ends_at = too_high
        if equal is not None and queue.newest(equal) <= self._newer_than:
            ends_at = float(equal)
        for position in range(start, len(holders)):
            order = holders[position]
            priority, entry = order.priority, order.entry
            if order.is_staying and priority >= ends_at:
                return None
            if (
                priority < too_high
                and not entry.usage.keys().isdisjoint(contested)
                and (priority != equal or self._newer_than < entry.order_time)
                and entry.workload.key not in self._gone
                and (self._at is None or not is_protected(entry, queue, self._at))
            ):
                return position
        return None

    def is_past(self, order: VictimOrder) -> bool:
        """Whether it is too important, and all behind it in order of sacrifice are."""
        return order.is_staying and order.priority >= self._too_high

    def all_in(self, queue: QueueState, start: int = 0) -> Iterator[VictimOrder]:
        position = self.next_in(queue, start)
        while position is not None:
            yield queue.holders[position]
            position = self.next_in(queue, position + 1)


def all_are_too_important(priority: int, queue: QueueState) -> bool:
    """A cheap look before any search: is everybody in the tree too important?"""
    return queue.tree.lowest_priority() >= first_priority_spared_by(queue, priority)


def first_priority_spared_by(queue: QueueState, priority: int) -> float:
    """The same, whether it is of its own queue or of another one of the tree."""
    preemption = queue.spec.preemption
    reach = REACH[preemption.within_queue]
    if queue.node.parent is not None:
        reach = max(reach, REACH[preemption.reclaim])
    return priority + reach


def own_queue_may_suffice(
    priority: int, queue: QueueState, amounts: Amounts, snapshot: Snapshot
) -> bool:
    """A cheap look before any search: do those of its own queue hold enough who may be preempted?

    Enough to leave room for it, or to keep it from borrowing, whoever makes way elsewhere.
    """
    spared = first_priority_spared(queue.spec.preemption.within_queue, priority)
    if queue.lowest_priority() >= spared:
        return False
    node, least = queue.node, {}
    for cell, amount in amounts.items():
        borrowed = snapshot.used(node, cell) + amount - node.nominal(cell)
        least[cell] = min(borrowed, amount - snapshot.available(node, cell))
    missing = Missing(least)
    for order in queue.holders:
        if order.priority < spared:
            if missing.is_covered_by(order.entry.usage):
                return True
        elif order.is_staying:
            break
    return False


class Missing:
    """A cheap lower bound: nothing can fit before this much has been released somewhere."""

    def __init__(self, amounts: Amounts) -> None:
        self._left = {cell: amount for cell, amount in amounts.items() if amount > 0}

    def is_covered_by(self, released: Amounts) -> bool:
        """Note what was released; might the need fit now?"""
        left = self._left
        if left:
            for cell in tuple(left):
                left[cell] -= released.get(cell, 0)
                if left[cell] <= 0:
                    del left[cell]
        return not left


class Fit:
    """Does the need fit into the picture, which its victims have left, and may it have it?"""

    def __init__(self, need: Need, snapshot: Snapshot, may_borrow: bool = True) -> None:
        self.queue = need.queue
        self._amounts = need.amounts
        self._snapshot = snapshot
        self._may_borrow = may_borrow
        self.is_refused = need.is_refused if may_borrow else None

    def __call__(self, victims: Collection[Chosen]) -> bool:
        if not self._may_borrow:
            return self._snapshot.fits_without_borrowing(self.queue.node, self._amounts)
        return self._snapshot.fits(self.queue.node, self._amounts) and not (
            self.is_refused is not None and self.is_refused(victims)
        )

    def slack(self) -> dict[FlavorResource, int]:
        """How much more could be charged to the preemptor's own queue with the need still fitting.

        Exact, since what is charged to a node is missing from what is available to that very node.
        """
        node, usage = self.queue.node, self._snapshot.usage
        slack = {}
        for cell, amount in self._amounts.items():
            free = available(node, cell, usage)
            if not self._may_borrow:
                free = min(free, node.nominal(cell) - self._snapshot.used(node, cell))
            slack[cell] = free - amount
        return slack


def spare_the_unneeded(victims: list[Chosen], snapshot: Snapshot, fits: Fit) -> tuple[Chosen, ...]:
    """Put victims back, last chosen first, while the preemptor still fits.

    The last one is not tried: without it the preemptor did not fit. For the preemptor's own queue
    a subtraction tells, unless owners have to be asked; for other queues it takes a trial.
    """
    if len(victims) == 1:
        return tuple(victims)  # as most often
    needed = {victim.entry.workload.key: victim for victim in victims}
    slack = fits.slack()
    for victim in reversed(victims[:-1]):
        key, usage = victim.entry.workload.key, victim.entry.usage
        is_own = victim.queue is fits.queue
        if is_own and any(usage.get(cell, 0) > left for cell, left in slack.items()):
            continue
        snapshot.charge(victim.queue.node, usage)
        del needed[key]
        if (is_own and fits.is_refused is None) or fits(needed.values()):
            slack = fits.slack()
        else:
            snapshot.release(victim.queue.node, usage)
            needed[key] = victim
    return tuple(victim for victim in victims if victim.entry.workload.key in needed)


def release_all(holders: Iterable[Chosen | Leaving], snapshot: Snapshot) -> None:
    """As if none of them were there; their usage is summed up first, queue by queue."""
    by_queue: dict[Node, dict[FlavorResource, int]] = {}
    for one in holders:
        total = by_queue.setdefault(one.queue.node, {})
        for cell, amount in one.entry.usage.items():
            total[cell] = total.get(cell, 0) + amount
    snapshot.release_together(by_queue)


# --- classical preemption ---


class Level(NamedTuple):
    """What lies below a cohort above the preemptor's queue, and not below the one before it."""

    cohort: Node
    without: Node
    has_advantage: bool  # the preemptor is nearer to the quota that is used there


class Source(NamedTuple):
    """A queue to take victims from."""

    queue: QueueState
    level: Level | None  # None: it is the preemptor's own


class Candidate(NamedTuple):
    order: VictimOrder
    source: Source


def find_victims(need: Need, snapshot: Snapshot, turns: Turns) -> tuple[Chosen, ...]:
    """Return the victims whose quota lets the preemptor fit; empty if even all would not do."""
    policy, own = need.queue.spec.preemption, OwnQueue(need)
    far, near = _levels(need, snapshot)
    if not (own.has_candidates() or far or policy.borrow_while_reclaiming):
        return ()  # whoever else made way, it would borrow, and may preempt nobody for that
    others = partial(OtherQueues, Eligible(need, policy.reclaim), snapshot, turns)
    for may_borrow in _passes(need, far, near, others, snapshot):
        if not may_borrow and not own.has_candidates() and _borrows_anyhow(need, snapshot):
            continue
        takes_all = policy.borrow_while_reclaiming or not may_borrow
        allowed = (far, near) if takes_all else (far,)
        groups: list[Candidates] = [*(others(levels) for levels in allowed if levels), own]
        victims = _choose(need, snapshot, _worth_taking(need, groups, snapshot), may_borrow)
        if victims:
            return victims
    return ()


def _levels(need: Need, snapshot: Snapshot) -> tuple[list[Level], list[Level]]:
    """The levels at which it may preempt others: with advantage, and without.

    Going up from the queue, the preemptor has a need on what lies beyond the first subtree that
    has room for the whole request: it is nearer to that quota than those who borrow it.
    """
    far: list[Level] = []
    near: list[Level] = []
    if need.queue.spec.preemption.reclaim is Policy.NEVER:
        return far, near
    node, remaining = need.queue.node, need.amounts
    while node.parent is not None:
        fits, remaining = fits_in_subtree(node, remaining, snapshot.usage)
        has_advantage = fits or bool(far)
        level = Level(node.parent, node, has_advantage)
        (far if has_advantage else near).append(level)
        node = node.parent
    return far, near


class OwnQueue:
    """The candidates of the preemptor's own queue."""

    def __init__(self, need: Need) -> None:
        policy = need.queue.spec.preemption.within_queue
        self._source = Source(need.queue, None)
        self._eligible = Eligible(need, policy)
        self._first: int | None = None  # the position of the first among the holders
        if policy is not Policy.NEVER:
            self._first = self._eligible.next_in(need.queue)

    def has_candidates(self) -> bool:
        return self._first is not None

    def in_order(self, is_staying: bool) -> Iterator[Candidate]:
        """Those who stay, or those who are on the way out."""
        for order in self._from_first(is_staying):
            if order.is_staying is not is_staying:
                return
            yield Candidate(order, self._source)

    def arranged(self, sacrifice: Sacrifice) -> Iterator[Candidate]:
        """Those who stay, in an order of their own."""
        for order in sacrifice.arranged(self._from_first(is_staying=True), self._source.queue):
            yield Candidate(order, self._source)

    def _from_first(self, is_staying: bool) -> Iterator[VictimOrder]:
        queue, first = self._source.queue, self._first
        if first is None:
            return iter(())
        if is_staying and not queue.holders[first].is_staying:
            first = queue.first_staying()
        return self._eligible.all_in(queue, first)


class OtherQueues:
    """The candidates of queues that borrow, at some levels above the preemptor's own; for one pass.

    A victim of one level changes nothing for the candidates of another: what both have above them,
    the preemptor has above it, too.
    """

    def __init__(
        self, eligible: Eligible, snapshot: Snapshot, turns: Turns, levels: Sequence[Level]
    ) -> None:
        self._eligible = eligible
        self._usage = snapshot.usage
        self._turns = turns
        self._borrowing: dict[Node, list[Node]] = {}  # the children of a cohort that do
        self._levels = levels

    def has_candidates(self) -> bool:
        return any(True for half in (False, True) for _ in self.in_order(half))

    def in_order(self, is_staying: bool) -> Iterator[Candidate]:
        """Those who stay, or those who are on the way out, as long as their queues borrow."""
        lines = [self._in_order_at(level, is_staying) for level in self._levels]
        return merge(*lines) if len(lines) > 1 else chain(*lines)

    def _in_order_at(self, level: Level, is_staying: bool) -> Iterator[Candidate]:
        """Cost: a step for each node that comes up, and for each candidate that is asked for."""
        turns, eligible = self._turns, self._eligible
        coming = self._coming_up(level.cohort, is_staying)
        heap = [turn for turn in coming if turn[2] is not level.without]
        heapify(heap)
        while heap:
            order, position, node = heap[0]
            if eligible.is_past(order):
                return
            queue = turns.queue_at[node.index]
            if not self._borrows(node, level):
                heappop(heap)
            elif queue is None:
                heappop(heap)
                for turn in self._coming_up(node, is_staying):
                    heappush(heap, turn)
            elif (found := eligible.next_in(queue, position)) != position:
                _go_on(heap, queue, found, is_staying)
            else:
                yield Candidate(order, Source(queue, level))
                _go_on(heap, queue, position + 1, is_staying)

    def arranged(self, sacrifice: Sacrifice) -> Iterator[Candidate]:
        """Those who stay, each queue's in its own order, the queues merged by the first of each."""
        by_source: dict[Source, list[VictimOrder]] = {}
        for order, source in self.in_order(is_staying=True):
            by_source.setdefault(source, []).append(order)
        lines = [
            [Candidate(order, source) for order in sacrifice.arranged(orders, source.queue)]
            for source, orders in by_source.items()
        ]
        for candidate in merge(*lines, key=lambda candidate: sacrifice.key(candidate.order)):
            queue, level = candidate.source
            if level is not None and self._borrows(queue.node, level):
                yield candidate

    def _coming_up(self, cohort: Node, is_staying: bool) -> Iterator[Turn]:
        """The turns of its children that borrow."""
        if cohort not in self._borrowing:  # in one pass nobody begins to
            cells, usage = self._eligible.contested, self._usage
            children = [c for c in cohort.children if not is_within_quota(c, cells, usage)]
            self._borrowing[cohort] = children
        for child in self._borrowing[cohort]:
            turn = self._turns.of(child, is_staying)
            if turn is not None:
                yield turn

    def _borrows(self, node: Node, level: Level) -> bool:
        """Is it, and each cohort above it up to the common one, above its quota?"""
        cells, usage = self._eligible.contested, self._usage
        while node is not level.cohort:
            if is_within_quota(node, cells, usage):
                return False
            assert node.parent is not None, f"{node.name} is not below {level.cohort.name}"
            node = node.parent
        return True


Candidates = OwnQueue | OtherQueues


def _go_on(heap: list[Turn], queue: QueueState, position: int | None, is_staying: bool) -> None:
    """The queue that was up comes up again with the holder at this position, if there is one."""
    turn = None if position is None else turn_at(queue, position, is_staying)
    if turn is None:
        heappop(heap)
    else:
        heapreplace(heap, turn)


def has_advantage(node: Node, amounts: Amounts, snapshot: Snapshot) -> bool:
    """Does some subtree above a queue, but not the whole tree, have room for all of it?"""
    remaining = amounts
    while node.parent is not None:
        fits, remaining = fits_in_subtree(node, remaining, snapshot.usage)
        if fits:
            return True
        node = node.parent
    return False


def _borrows_anyhow(need: Need, snapshot: Snapshot) -> bool:
    """Would the queue borrow whoever of other queues made way?"""
    node = need.queue.node
    return any(
        snapshot.used(node, cell) + amount > node.nominal(cell)
        for cell, amount in need.amounts.items()
    )


def _worth_taking(
    need: Need, groups: Sequence[Candidates], snapshot: Snapshot
) -> Iterator[Candidate]:
    """All candidates; but only the first, where it does not do and all together would not.

    Most often it does, and nobody has to look at the others.
    """
    candidates = _in_order(groups, need.sacrifice)
    yield from islice(candidates, 1)
    if len(groups) == 1 or _could_suffice(need, groups, snapshot):
        yield from candidates


def _could_suffice(need: Need, groups: Iterable[Candidates], snapshot: Snapshot) -> bool:
    """Do the candidates hold as much as is missing? A cheap look that ends many searches early."""
    missing = _missing(need, snapshot)
    for candidate in _in_order(groups, None):
        if missing.is_covered_by(candidate.order.entry.usage):
            return True
    return False


def _passes(
    need: Need,
    far: Sequence[Level],
    near: Sequence[Level],
    others: Callable[[Sequence[Level]], OtherQueues],
    snapshot: Snapshot,
) -> tuple[bool, ...]:
    """In which order to try with (True) and without (False) leave to borrow."""
    may_borrow_while = need.queue.spec.preemption.borrow_while_reclaiming
    if not near:
        return (True,)  # without leave to borrow the same candidates would have to do for more
    if not may_borrow_while and not is_below_nominal(need, snapshot):
        return (True,)
    if others(far).has_candidates():
        return (True, False)
    if others(near).has_candidates():
        return (True, False) if may_borrow_while else (False, True)
    return (True,)


def is_below_nominal(need: Need, snapshot: Snapshot) -> bool:
    node = need.queue.node
    return all(snapshot.used(node, cell) < node.nominal(cell) for cell in need.contested)


def _in_order(groups: Iterable[Candidates], sacrifice: Sacrifice | None) -> Iterator[Candidate]:
    """All candidates: those on their way out first, then by need, other queues, own queue."""
    for group in groups:
        yield from group.in_order(is_staying=False)
    for group in groups:
        if sacrifice is None:
            yield from group.in_order(is_staying=True)
        else:
            yield from group.arranged(sacrifice)


def _rule_of(need: Need, candidate: Candidate) -> VictimRule:
    level = candidate.source.level
    if level is None:
        return VictimRule.IN_QUEUE
    if level.has_advantage or not _may_borrow_over(need, candidate.order.entry):
        return VictimRule.RECLAIM
    return VictimRule.RECLAIM_WHILE_BORROWING


def _may_borrow_over(need: Need, candidate: Entry) -> bool:
    """borrowWithinCohort: may it be preempted although the preemptor ends up borrowing?"""
    policy = need.queue.spec.preemption
    priority = candidate.workload.victim_priority
    if not policy.borrow_while_reclaiming or priority >= need.preemptor.workload.priority:
        return False
    return policy.borrow_threshold is None or priority <= policy.borrow_threshold


def _choose(
    need: Need, snapshot: Snapshot, candidates: Iterable[Candidate], may_borrow: bool
) -> tuple[Chosen, ...]:
    fits = Fit(need, snapshot, may_borrow)
    victims: list[Chosen] = []
    missing, node = _missing(need, snapshot), need.queue.node
    own: dict[FlavorResource, int] = {}  # of its own queue's; released when all might suffice
    with snapshot.trial():
        for candidate in candidates:
            rule = _rule_of(need, candidate)
            queue, level = candidate.source
            needs_no_borrowing = (
                level is not None and not level.has_advantage and rule is VictimRule.RECLAIM
            )
            if may_borrow and needs_no_borrowing:
                continue
            entry = candidate.order.entry
            victims.append(Chosen(entry, queue, rule))
            if level is not None:
                snapshot.release(queue.node, entry.usage)
            else:
                for cell, amount in entry.usage.items():
                    own[cell] = own.get(cell, 0) + amount
            if missing.is_covered_by(entry.usage):
                snapshot.release(node, own)
                own.clear()
                if fits(victims):
                    return spare_the_unneeded(victims, snapshot, fits)
    return ()


def _missing(need: Need, snapshot: Snapshot) -> Missing:
    node = need.queue.node
    return Missing({c: amount - snapshot.available(node, c) for c, amount in need.amounts.items()})
