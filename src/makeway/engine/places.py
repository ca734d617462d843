"""Keeping the place of a waiting preemptor (gate HoldForPreemptor).

Quota that is being cleared for a preemptor must not go to somebody else of no higher priority,
least of all to one of the victims: they would change places for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from makeway.engine.entry import Entry, Phase
from makeway.engine.flavors import Mode
from makeway.engine.model import Amounts, EvictionReason, Strategy, WorkloadKey
from makeway.engine.nominate import Nominator
from makeway.engine.quota import Node, borrow_level
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree
from makeway.engine.victims import Chosen

PREEMPTED = EvictionReason.PREEMPTED


class Rival(NamedTuple):
    """A waiting preemptor that would lose its place."""

    preemptor: WorkloadKey
    concerns_shape: bool  # to whoever is of the same shape, not only to this workload


def recall_bookings(state: ClusterState, tree: Tree) -> None:
    """Preemptors known from before a restart: find out anew what they wait for."""
    for entry in tree.preemptors.values():
        if entry.booking is None:
            queue = state.queue_of(entry)
            nomination, _ = Nominator(state, entry, queue, tree.snapshot).nominate()
            entry.booking = nomination.usage if nomination.mode is not Mode.NO_FIT else {}


def find_rival(
    tree: Tree,
    entry: Entry,
    queue: QueueState,
    usage: Amounts,
    victims: tuple[Chosen, ...],
    picture: Snapshot,
    booked: Collection[WorkloadKey],
    gone: Collection[WorkloadKey],
) -> Rival | None:
    """The waiting preemptor that would lose its place to this workload; None if nobody would.

    All victims on the way out are counted as gone. In order of precedence each preemptor that
    then fits is given its place; what is left has to be enough. In the picture, those in `booked`
    have their place already, and those in `gone` are gone.
    """
    waiting = [
        rival
        for rival in tree.preemptors.values()
        if rival is not entry and rival.booking and rival.workload.key not in booked
    ]
    if not waiting:
        return None
    with picture.trial():
        for leaving, its_queue in _leaving(tree, victims, gone):
            picture.release(its_queue.node, leaving.usage)
        level = _level(queue.node, usage, picture)
        rivals = []
        for rival in waiting:
            assert rival.booking is not None
            node = _queue_of(tree, rival).node
            its_level = _level(node, rival.booking, picture)
            if node is queue.node and queue.spec.strategy is Strategy.STRICT_FIFO:
                its_level = level  # behind the head it can't come to its turn before it
            is_before = _comes_before(rival, its_level, entry, level)
            is_returning = node is not queue.node and _returns(entry) and its_level == level > 0
            if is_before or is_returning:
                rivals.append((rival, node, rival.booking, is_before))
        concerns_shape = not entry.is_preemptor
        for rival, node, booking, is_before in sorted(rivals, key=lambda r: _precedence(r[0])):
            if not picture.fits(node, booking):
                continue  # it needs other victims anyhow
            picture.charge(node, booking)
            concerns_shape = concerns_shape and is_before
            if not picture.fits(queue.node, usage):
                return Rival(rival.workload.key, concerns_shape)
    return None


def _leaving(
    tree: Tree, victims: tuple[Chosen, ...], gone: Collection[WorkloadKey]
) -> Iterator[tuple[Entry, QueueState]]:
    """Who makes way in this tree, the given victims included.

    Who is evicted for another reason is not counted: preemptors may have no claim on that place,
    and would take theirs again from whoever was let pass for its sake.
    """
    for queue in tree.queues:
        for order in queue.holders:
            if order[0]:
                break  # from here on nobody is being evicted
            entry: Entry = order[5]
            is_victim = entry.eviction is not None and entry.eviction.reason is PREEMPTED
            if is_victim and entry.workload.key not in gone:
                yield entry, queue
    for victim in victims:
        if victim.entry.phase is not Phase.EVICTING:
            yield victim.entry, victim.queue


def _queue_of(tree: Tree, entry: Entry) -> QueueState:
    assert entry.queue is not None, f"{entry.workload.key} waits in no queue"
    return tree.queue_named[entry.queue]


def _level(node: Node, amounts: Amounts, picture: Snapshot) -> int:
    """How far up the tree this has to be borrowed."""
    usage = picture.usage
    levels = (borrow_level(node, c, amount, usage)[0] for c, amount in amounts.items() if amount)
    return max(levels, default=0)


def _precedence(entry: Entry) -> tuple[int, float, int]:
    return -entry.workload.priority, entry.order_time, entry.serial


def _returns(entry: Entry) -> bool:
    """Whether it had to make way since it last ran, and nobody makes way for it.

    Whoever took back what it had borrowed would do so again: if that one then has to make way in
    its own queue, for a preemptor that borrows no further, the three would change places for ever.
    """
    was_preempted = entry.eviction is not None and entry.eviction.reason is PREEMPTED
    return was_preempted and not entry.is_preemptor


def _comes_before(preemptor: Entry, its_level: int, entry: Entry, level: int) -> bool:
    """May the preemptor's place be kept from this workload? Higher priorities may pass,

    unless they would have to borrow further up: as among heads, that comes before priority. Of two
    preemptors exactly one comes before the other, else each would wait for the other.
    """
    if its_level < level or (its_level > level and entry.is_preemptor):
        return its_level < level
    if preemptor.workload.priority != entry.workload.priority:
        return preemptor.workload.priority > entry.workload.priority
    return not entry.is_preemptor or _precedence(preemptor) < _precedence(entry)
