"""Requests like one that waits, and what would become of them now: smaller, or of more priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace

from makeway.engine.flavors import Mode
from makeway.engine.head import Head
from makeway.engine.model import FlavorResource, WorkloadKey
from makeway.engine.nominate import Nominator
from makeway.engine.owners import Owners
from makeway.engine.state import ClusterState

PRIORITIES_TRIED = 8


def most_that_fits(
    state: ClusterState, head: Head, missing: Mapping[FlavorResource, int]
) -> tuple[FlavorResource, int] | None:
    """How much less of one resource would be enough to start now; None: no such amount.

    Only where a flavor lacks nothing else, and one pod set asks.
    """
    if len(head.entry.workload.pod_sets) != 1:
        return None
    queue, snapshot = head.queue, head.queue.tree.snapshot
    flavors = [cell.flavor for cell in missing]
    free = [
        (snapshot.available(queue.node, cell), cell)
        for cell in missing
        if flavors.count(cell.flavor) == 1
    ]
    for amount, cell in sorted(free, key=lambda pair: (-pair[0], pair[1])):
        owners = Owners(state, queue.tree, is_what_if=True)
        if amount > 0 and owners.refuse(head.entry, queue, {cell: amount}, snapshot) is None:
            return cell, amount
    return None


def least_priority(state: ClusterState, head: Head) -> tuple[int, tuple[WorkloadKey, ...]] | None:
    """From which priority on it would start, and whom it would preempt for that; None: none."""
    entry, queue = head.entry, head.queue
    for priority in _priorities(head):
        raised = copy(entry)
        raised.workload = replace(entry.workload, priority=priority)
        found = Nominator(state, raised, queue, queue.tree.snapshot).nominate(is_resumed=False)
        if found.victims and found.nomination.mode is Mode.PREEMPT:
            return priority, tuple(victim.entry.workload.key for victim in found.victims)
    return None


def _priorities(head: Head) -> Iterator[int]:
    """Just above those who hold quota in the tree, from the own one on."""
    own = head.entry.workload.priority
    orders = (order for queue in head.queue.tree.queues for order in queue.holders)
    higher = {o.entry.workload.victim_priority + 1 for o in orders if o.is_staying}
    yield from sorted(p for p in higher if p > own)[:PRIORITIES_TRIED]
