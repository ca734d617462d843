"""Who may be preempted, and the least of them that suffices.

Candidates are taken in the order in which they may be sacrificed, until the preemptor fits;
then, from the dearest backwards, everyone whose removal was not needed is spared. The lists of
holders are kept sorted, so a search looks at no more candidates than it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heapreplace, merge
from math import inf
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.engine.entry import Entry, VictimOrder
from makeway.engine.model import Amounts, FlavorResource, Policy, WorkloadKey
from makeway.engine.quota import Node, available, fits_in_subtree, is_within_quota
from makeway.engine.sacrifice import Sacrifice, is_protected
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import QueueState, Tree

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

    __slots__ = ("_at", "_contested", "_equal", "_gone", "_newer_than", "_too_high")

    def __init__(self, need: Need, policy: Policy) -> None:
        priority = need.preemptor.workload.priority
        self._contested = need.contested
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
        holders, contested = queue.holders, self._contested
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


def release_all(victims: Iterable[Chosen], snapshot: Snapshot) -> None:
    """As if none of them were there; their usage is summed up first, queue by queue."""
    by_queue: dict[int, tuple[QueueState, dict[FlavorResource, int]]] = {}
    for entry, queue, _ in victims:
        _, total = by_queue.setdefault(queue.node.index, (queue, {}))
        for cell, amount in entry.usage.items():
            total[cell] = total.get(cell, 0) + amount
    for queue, total in by_queue.values():
        snapshot.release(queue.node, total)


# --- classical preemption ---


class Source(NamedTuple):
    """A queue to take victims from."""

    queue: QueueState
    common: Node | None  # the lowest cohort above both queues; None: the preemptor's own queue
    has_advantage: bool  # the preemptor is nearer to the quota that is used there
    eligible: Eligible
    first: int  # the position of the first candidate among the holders


class Candidate(NamedTuple):
    order: VictimOrder
    source: Source


def find_victims(need: Need, tree: Tree, snapshot: Snapshot) -> tuple[Chosen, ...]:
    """Return the victims whose quota lets the preemptor fit; empty if even all would not do."""
    policy = need.queue.spec.preemption
    own = _own_source(need)
    if (
        not own
        and not policy.borrow_while_reclaiming
        and not has_advantage(need.queue.node, need.amounts, snapshot)
    ):
        return ()  # whoever else made way, it would borrow, and may preempt nobody for that
    others = _other_sources(need, tree, snapshot)
    for may_borrow in _passes(need, others, snapshot):
        if not may_borrow and not own and _borrows_anyhow(need, snapshot):
            continue
        sources = [
            source
            for source in (*others, *own)
            if source.common is None
            or source.has_advantage
            or not may_borrow
            or policy.borrow_while_reclaiming
        ]
        if not _could_suffice(need, sources, snapshot):
            continue
        victims = _choose(need, snapshot, _in_order(sources, need.sacrifice), may_borrow)
        if victims:
            return victims
    return ()


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


def _could_suffice(need: Need, sources: Iterable[Source], snapshot: Snapshot) -> bool:
    """Do the candidates hold as much as is missing? A cheap look that ends many searches early."""
    missing = _Missing(need, snapshot)
    for source in sources:
        position: int | None = source.first
        while position is not None:
            if missing.is_covered_by(source.queue.holders[position].entry.usage):
                return True
            position = source.eligible.next_in(source.queue, position + 1)
    return False


def _own_source(need: Need) -> list[Source]:
    """The preemptor's own queue, if somebody may be preempted there."""
    policy = need.queue.spec.preemption.within_queue
    if policy is Policy.NEVER:
        return []
    eligible = Eligible(need, policy)
    first = eligible.next_in(need.queue)
    return [] if first is None else [Source(need.queue, None, False, eligible, first)]


def _other_sources(need: Need, tree: Tree, snapshot: Snapshot) -> list[Source]:
    """Queues of the tree that use more than their quota and hold somebody who may be preempted.

    Going up from the queue, the preemptor has a need on what lies beyond the first subtree that
    has room for the whole request: it is nearer to that quota than those who borrow it.
    """
    policy = need.queue.spec.preemption.reclaim
    node = need.queue.node
    if node.parent is None or policy is Policy.NEVER:
        return []
    sources: list[Source] = []
    eligible = Eligible(need, policy)
    has_advantage, remaining = fits_in_subtree(node, need.amounts, snapshot.usage)
    below = node
    for cohort in node.ancestors():
        for queue in _borrowing_queues(cohort, below, need.contested, tree, snapshot):
            first = eligible.next_in(queue)
            if first is not None:
                sources.append(Source(queue, cohort, has_advantage, eligible, first))
        fits, remaining = fits_in_subtree(cohort, remaining, snapshot.usage)
        has_advantage = has_advantage or fits
        below = cohort
    return sources


def _borrowing_queues(
    cohort: Node,
    without: Node,
    cells: Collection[FlavorResource],
    tree: Tree,
    snapshot: Snapshot,
) -> list[QueueState]:
    """The queues below `cohort`, but not below `without`, that lie in no subtree within quota."""
    borrowing: list[QueueState] = []
    cohorts = [cohort]
    for parent in cohorts:  # grows on the way
        for child in parent.children:
            if child is without or is_within_quota(child, cells, snapshot.usage):
                continue
            if not child.is_queue:
                cohorts.append(child)
                continue
            queue = tree.queue_at[child.index]
            assert queue is not None
            if queue.inactive is None:
                borrowing.append(queue)
    return borrowing


def _passes(need: Need, others: list[Source], snapshot: Snapshot) -> tuple[bool, ...]:
    """In which order to try with (True) and without (False) leave to borrow."""
    if not others:
        return (True,)
    if need.queue.spec.preemption.borrow_while_reclaiming:
        return (True, False)
    if not is_below_nominal(need, snapshot):
        return (True,)
    if not any(source.has_advantage for source in others):
        return (False, True)
    return (True, False)


def is_below_nominal(need: Need, snapshot: Snapshot) -> bool:
    node = need.queue.node
    return all(snapshot.used(node, cell) < node.nominal(cell) for cell in need.contested)


def _in_order(sources: list[Source], sacrifice: Sacrifice | None) -> Iterator[Candidate]:
    """All candidates: those on their way out first, then by need, other queues, own queue."""
    groups = (
        [s for s in sources if s.common is not None and s.has_advantage],
        [s for s in sources if s.common is not None and not s.has_advantage],
        [s for s in sources if s.common is None],
    )
    for group in groups:
        yield from _merged(group, is_staying=False)
    for group in groups:
        if sacrifice is None:
            yield from _merged(group, is_staying=True)
        else:
            yield from _arranged(group, sacrifice)


def _arranged(sources: list[Source], sacrifice: Sacrifice) -> Iterator[Candidate]:
    """Those who stay, each queue's in its own order, the queues merged by the first of each."""
    lines = [_line_of(source, sacrifice) for source in sources]
    return merge(*lines, key=lambda candidate: sacrifice.key(candidate.order))


def _line_of(source: Source, sacrifice: Sacrifice) -> list[Candidate]:
    orders = sacrifice.arranged(_staying(source), source.queue)
    return [Candidate(order, source) for order in orders]


def _staying(source: Source) -> Iterator[VictimOrder]:
    start = max(source.first, source.queue.first_staying())
    return source.eligible.all_in(source.queue, start)


def _merged(sources: list[Source], is_staying: bool) -> Iterator[Candidate]:
    """The candidates of several queues in one order of sacrifice.

    Cost: one step per queue, and one for each candidate that is asked for.
    """
    heap: list[tuple[VictimOrder, int, Source]] = []  # the next of each queue and its position
    for source in sources:
        holders = source.queue.holders
        position: int | None = source.first
        if is_staying and not holders[source.first].is_staying:
            position = source.eligible.next_in(source.queue, source.queue.first_staying())
        if position is not None and holders[position].is_staying is is_staying:
            heap.append((holders[position], position, source))
    heapify(heap)
    while heap:
        order, position, source = heap[0]
        yield Candidate(order, source)
        holders = source.queue.holders
        following = source.eligible.next_in(source.queue, position + 1)
        if following is None or holders[following].is_staying is not is_staying:
            heappop(heap)
        else:
            heapreplace(heap, (holders[following], following, source))


def _rule_of(need: Need, candidate: Candidate) -> VictimRule:
    source = candidate.source
    if source.common is None:
        return VictimRule.IN_QUEUE
    if source.has_advantage or not _may_borrow_over(need, candidate.order.entry):
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
    missing = _Missing(need, snapshot)
    with snapshot.trial():
        for candidate in candidates:
            rule = _rule_of(need, candidate)
            source = candidate.source
            if source.common is not None:
                needs_no_borrowing = not source.has_advantage and rule is VictimRule.RECLAIM
                if may_borrow and needs_no_borrowing:
                    continue
                if not _still_borrows(source, need.contested, snapshot):
                    continue
            entry = candidate.order.entry
            snapshot.release(source.queue.node, entry.usage)
            victims.append(Chosen(entry, source.queue, rule))
            if missing.is_covered_by(entry.usage) and fits(victims):
                return spare_the_unneeded(victims, snapshot, fits)
    return ()


class _Missing:
    """A cheap lower bound: nothing can fit before this much has been released somewhere."""

    def __init__(self, need: Need, snapshot: Snapshot) -> None:
        node = need.queue.node
        self._left = {
            cell: shortfall
            for cell, amount in need.amounts.items()
            if (shortfall := amount - max(0, available(node, cell, snapshot.usage))) > 0
        }

    def is_covered_by(self, released: Amounts) -> bool:
        """Note what was released; might the need fit now?"""
        left = self._left
        if left:
            for cell in tuple(left):
                left[cell] -= released.get(cell, 0)
                if left[cell] <= 0:
                    del left[cell]
        return not left


def _still_borrows(source: Source, cells: Collection[FlavorResource], snapshot: Snapshot) -> bool:
    """Is the queue, and each cohort up to the common one, still above its quota?"""
    node: Node | None = source.queue.node
    while node is not None and node is not source.common:
        if is_within_quota(node, cells, snapshot.usage):
            return False
        node = node.parent
    return True
