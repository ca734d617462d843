"""Heads that need no search, since it can be seen at a glance that it would find nothing.

When a workload ends, everybody in the tree gets another chance. Where there is contention, most
are as far from it as before: what is free is too little for them, and nobody may be preempted. A
search that told so once would tell so again. The glance looks at no holder of quota, only at sums:

- *It does not fit.* In every choice of flavors some cell has too little left.
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

from makeway.engine.entry import Demand, Entry
from makeway.engine.model import Amounts, Policy
from makeway.engine.owners import CHOICES_MAX, choices_of, smallest_pod_sets
from makeway.engine.quota import Node, Usage, available, borrow_level
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState
from makeway.engine.victims import first_priority_spared, is_hopeless


def is_without_hope(state: ClusterState, entry: Entry, queue: QueueState, usage: Usage) -> bool:
    """Would a search only tell what was told before: it does not fit, and nobody makes way?"""
    if not state.config.skips_hopeless or not queue.pending.is_short(entry):
        return False
    if entry.status.claim is not None or entry.search.scan is not None:
        return False
    may_preempt = not is_hopeless(entry, queue)
    if may_preempt and not _preempts_only_as_owner(state, entry, queue):
        return False
    node = queue.node
    for choices in _decisive_groups(state, entry, queue):
        for choice in choices:
            if _fits(choice, node, usage) or (may_preempt and _is_nearer(choice, node, usage)):
                break
        else:
            return True
    return False


def _decisive_groups(state: ClusterState, entry: Entry, queue: QueueState) -> Demand:
    """The choices in each group of resources that ends a search if it has nothing to offer.

    If another group lets choose, too, a search that fails may stop in the middle there, and the
    next one goes on from that place.
    """
    known = queue.decisive.get(entry.shape)
    if known is None or known[0] != state.flavors_edited:
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


def _preempts_only_as_owner(state: ClusterState, entry: Entry, queue: QueueState) -> bool:
    """Is there nobody in its own queue who makes way, nor elsewhere as long as it borrows?"""
    policy = queue.spec.preemption
    if policy.borrow_while_reclaiming or state.config.fair_sharing:
        return False
    spared = first_priority_spared(policy.within_queue, entry.workload.priority)
    return queue.lowest_priority() >= spared


def _fits(choice: Amounts, node: Node, usage: Usage) -> bool:
    for cell, amount in choice.items():  # noqa: SIM110  # all() takes twice as long
        if amount > available(node, cell, usage):
            return False
    return True


def _is_nearer(choice: Amounts, node: Node, usage: Usage) -> bool:
    """Might a subtree above the queue, but not the whole tree, have room for all of it?"""
    for cell, amount in choice.items():  # noqa: SIM110  # all() takes twice as long
        if not borrow_level(node, cell, amount, usage)[1]:
            return False
    return True
