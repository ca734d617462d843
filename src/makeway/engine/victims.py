"""Who may be preempted, and the least of them that suffices.

Candidates are taken in the order in which they may be sacrificed, until the preemptor fits;
then, from the dearest backwards, everyone whose removal was not needed is spared. The lists of
holders are kept sorted, so a search looks at no more candidates than it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.engine.entry import Entry, VictimOrder
from makeway.engine.model import Amounts, FlavorResource, Policy, WorkloadKey
from makeway.engine.quota import Node, available, fits_in_subtree, is_within_quota
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import QueueState, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who wants how much of what, and which of it is contested."""

    preemptor: Entry
    queue: QueueState
    amounts: Amounts
    contested: Collection[FlavorResource]
    gone: Collection[WorkloadKey] = ()  # taken already by others; not in the picture any more


class Chosen(NamedTuple):
    entry: Entry
    queue: QueueState
    rule: VictimRule


class Candidate(NamedTuple):
    order: VictimOrder
    queue: QueueState
    common: Node | None  # the lowest cohort above both queues; None in the own queue
    has_claim: bool  # the preemptor is nearer to the quota that the candidate uses


def may_preempt(policy: Policy, preemptor: Entry, candidate: Entry) -> bool:
    match policy:
        case Policy.ANY:
            return True
        case Policy.NEVER:
            return False
    mine, theirs = preemptor.workload.priority, candidate.workload.victim_priority
    if mine != theirs or policy is Policy.LOWER_PRIORITY:
        return mine > theirs
    return preemptor.order_time < candidate.order_time


def uses(entry: Entry, cells: Collection[FlavorResource]) -> bool:
    return any(cell in entry.usage for cell in cells)


def candidates_in(queue: QueueState, claim: Claim, policy: Policy) -> Iterator[VictimOrder]:
    """Those of one queue who may be preempted for the claim, in order of sacrifice."""
    ends_early = policy in (Policy.LOWER_PRIORITY, Policy.LOWER_OR_NEWER_EQUAL)
    priority = claim.preemptor.workload.priority
    for order in queue.holders:
        if ends_early and order[0] and order[1] > priority:
            return  # from here on everybody is more important
        entry = order[5]
        if (
            uses(entry, claim.contested)
            and may_preempt(policy, claim.preemptor, entry)
            and entry.workload.key not in claim.gone
        ):
            yield order


def has_candidates(queue: QueueState, claim: Claim, policy: Policy) -> bool:
    return next(candidates_in(queue, claim, policy), None) is not None


# --- classical preemption ---


class Source(NamedTuple):
    """A queue to take victims from."""

    queue: QueueState
    common: Node | None
    has_claim: bool


def find_victims(claim: Claim, tree: Tree, snapshot: Snapshot) -> tuple[Chosen, ...]:
    """Return the victims whose quota lets the preemptor fit; empty if even all would not do."""
    policy = claim.queue.spec.preemption
    own = [Source(claim.queue, None, False)] if _own_may_give(claim) else []
    others = list(_other_sources(claim, tree, snapshot))
    if not own and not others:
        return ()
    for may_borrow in _passes(claim, others, snapshot):
        sources = [
            source
            for source in (*others, *own)
            if source.common is None
            or source.has_claim
            or not may_borrow
            or policy.borrow_while_reclaiming
        ]
        victims = _choose(claim, snapshot, _in_order(claim, sources), may_borrow)
        if victims:
            return victims
    return ()


def _own_may_give(claim: Claim) -> bool:
    policy = claim.queue.spec.preemption.within_queue
    return policy is not Policy.NEVER and has_candidates(claim.queue, claim, policy)


def _other_sources(claim: Claim, tree: Tree, snapshot: Snapshot) -> Iterator[Source]:
    """Queues of the tree that use more than their quota and hold somebody who may be preempted.

    Going up from the queue, the preemptor has a claim on what lies beyond the first subtree that
    has room for the whole request: it is nearer to that quota than those who borrow it.
    """
    policy = claim.queue.spec.preemption.reclaim
    node = claim.queue.node
    if node.parent is None or policy is Policy.NEVER:
        return
    has_claim, remaining = fits_in_subtree(node, claim.amounts, snapshot.usage)
    below = node
    for cohort in node.ancestors():
        for queue in _borrowing_queues(cohort, below, claim.contested, tree, snapshot):
            if has_candidates(queue, claim, policy):
                yield Source(queue, cohort, has_claim)
        fits, remaining = fits_in_subtree(cohort, remaining, snapshot.usage)
        has_claim = has_claim or fits
        below = cohort


def _borrowing_queues(
    cohort: Node,
    without: Node,
    cells: Collection[FlavorResource],
    tree: Tree,
    snapshot: Snapshot,
) -> Iterator[QueueState]:
    """The queues below `cohort`, but not below `without`, that lie in no subtree within quota."""
    for child in cohort.children:
        if child is without or is_within_quota(child, cells, snapshot.usage):
            continue
        if not child.is_queue:
            yield from _borrowing_queues(child, without, cells, tree, snapshot)
            continue
        queue = tree.queue_at[child.index]
        assert queue is not None
        if queue.inactive is None:
            yield queue


def _passes(claim: Claim, others: list[Source], snapshot: Snapshot) -> tuple[bool, ...]:
    """In which order to try with (True) and without (False) leave to borrow."""
    if not others:
        return (True,)
    if claim.queue.spec.preemption.borrow_while_reclaiming:
        return (True, False)
    if not is_below_nominal(claim, snapshot):
        return (True,)
    if not any(source.has_claim for source in others):
        return (False, True)
    return (True, False)


def is_below_nominal(claim: Claim, snapshot: Snapshot) -> bool:
    node = claim.queue.node
    return all(snapshot.used(node, cell) < node.nominal(cell) for cell in claim.contested)


def _in_order(claim: Claim, sources: list[Source]) -> Iterator[Candidate]:
    """All candidates: those on their way out first, then by claim, other queues, own queue."""
    groups = (
        [s for s in sources if s.common is not None and s.has_claim],
        [s for s in sources if s.common is not None and not s.has_claim],
        [s for s in sources if s.common is None],
    )
    for is_staying in (False, True):
        for group in groups:
            yield from merge(*(_candidates_of(claim, source, is_staying) for source in group))


def _candidates_of(claim: Claim, source: Source, is_staying: bool) -> Iterator[Candidate]:
    policy = claim.queue.spec.preemption
    rule = policy.within_queue if source.common is None else policy.reclaim
    for order in candidates_in(source.queue, claim, rule):
        if order[0] == is_staying:
            yield Candidate(order, *source)
        elif order[0]:
            return


def _rule_of(claim: Claim, candidate: Candidate) -> VictimRule:
    if candidate.common is None:
        return VictimRule.IN_QUEUE
    if candidate.has_claim or not _may_borrow_over(claim, candidate.order[5]):
        return VictimRule.RECLAIM
    return VictimRule.RECLAIM_WHILE_BORROWING


def _may_borrow_over(claim: Claim, candidate: Entry) -> bool:
    """borrowWithinCohort: may it be preempted although the preemptor ends up borrowing?"""
    policy = claim.queue.spec.preemption
    priority = candidate.workload.victim_priority
    if not policy.borrow_while_reclaiming or priority >= claim.preemptor.workload.priority:
        return False
    return policy.borrow_threshold is None or priority <= policy.borrow_threshold


def _choose(
    claim: Claim, snapshot: Snapshot, candidates: Iterable[Candidate], may_borrow: bool
) -> tuple[Chosen, ...]:
    def fits() -> bool:
        node = claim.queue.node
        if may_borrow:
            return snapshot.fits(node, claim.amounts)
        return snapshot.fits_without_borrowing(node, claim.amounts)

    victims: list[Chosen] = []
    missing = _Missing(claim, snapshot)
    with snapshot.trial():
        for candidate in candidates:
            rule = _rule_of(claim, candidate)
            if candidate.common is not None:
                needs_no_borrowing = not candidate.has_claim and rule is VictimRule.RECLAIM
                if may_borrow and needs_no_borrowing:
                    continue
                if not _still_borrows(candidate, claim.contested, snapshot):
                    continue
            entry = candidate.order[5]
            snapshot.release(candidate.queue.node, entry.usage)
            victims.append(Chosen(entry, candidate.queue, rule))
            if missing.is_covered_by(entry.usage) and fits():
                return spare_the_unneeded(victims, snapshot, fits)
    return ()


class _Missing:
    """A cheap lower bound: nothing can fit before this much has been released somewhere."""

    def __init__(self, claim: Claim, snapshot: Snapshot) -> None:
        node = claim.queue.node
        self._left = {
            cell: shortfall
            for cell, amount in claim.amounts.items()
            if (shortfall := amount - max(0, available(node, cell, snapshot.usage))) > 0
        }

    def is_covered_by(self, released: Amounts) -> bool:
        """Note what was released; might the claim fit now?"""
        left = self._left
        if left:
            for cell in tuple(left):
                left[cell] -= released.get(cell, 0)
                if left[cell] <= 0:
                    del left[cell]
        return not left


def _still_borrows(
    candidate: Candidate, cells: Collection[FlavorResource], snapshot: Snapshot
) -> bool:
    """Is the queue, and each cohort up to the common one, still above its quota?"""
    node: Node | None = candidate.queue.node
    while node is not None and node is not candidate.common:
        if is_within_quota(node, cells, snapshot.usage):
            return False
        node = node.parent
    return True


def spare_the_unneeded(
    victims: list[Chosen], snapshot: Snapshot, fits: Callable[[], bool]
) -> tuple[Chosen, ...]:
    """Put victims back, last chosen first, while the preemptor still fits.

    The last one is not tried: without it the preemptor did not fit.
    """
    needed = [victims[-1]]
    for victim in reversed(victims[:-1]):
        snapshot.charge(victim.queue.node, victim.entry.usage)
        if not fits():
            snapshot.release(victim.queue.node, victim.entry.usage)
            needed.append(victim)
    needed.reverse()
    return tuple(needed)
