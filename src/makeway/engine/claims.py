"""Keeping the place of a waiting preemptor (gate HoldForPreemptor).

A preemptor is not admitted in the cycle that evicts its victims: they have to let go first, and
they end one by one. Until then it has a *claim* on the place that they clear. Without it somebody
else would take what has become free, at worst a victim itself, which would then be preempted again,
and so on for ever.

The question is asked of every head that would otherwise be admitted or be given victims.
Everybody who is on the way out by preemption is counted as gone. Then the preemptors that come
before the head are given what they claim, best first. Does the head still fit? If not, it is
*blocked* by the preemptor whose claim made the difference. A preemptor that would not fit even
then is passed over: it needs other victims anyhow, so nothing is kept for it.

Who comes before whom is the subtle part. The rule that suggests itself, "higher priorities may
pass, others may not", is wrong in five ways, each found as a circle or a standstill:

1. *The level of borrowing comes before priority*, as it does among heads. Queues a and b own 4
   each, a reclaims from anybody. a's low workload has preempted b's high one, which borrowed; b's
   high one, passing it for its priority, would borrow again and be reclaimed again.
2. *Of two preemptors exactly one comes before the other*, by level, priority, time. Else each is
   held for the other, and what both wait for stands idle until something else ends.
3. *Inside a queue the line decides*, not the level: a small workload, which borrows less for being
   small, would take the place that was cleared for a big and more important one. Of a StrictFIFO
   queue only the head has a claim at all: behind it, a place is a place for nobody.
4. *One that had to make way does not come back by borrowing past a preemptor of another queue
   that borrows no further.* a's low workload takes its quota back from b's high one and has then
   to make way for a's middle one, which borrows; if the high one could now take that place, for
   it is the more important, low would take it back from high, middle from low, and high from
   middle.
5. *An exchange inside a queue is no borrowing.* b borrows 2, for which an owner in a waits without
   victims. If an important workload of b takes the place of another one of b, the owner has no call
   on that place: without the exchange it would not be free.

Who is evicted for another reason than preemption is not counted as gone for a head that has not
chosen it as a victim: nobody may pass for the sake of that place, and have its own taken again. But
a preemptor counts on it as on any other that leaves: whether its claim fits is asked with everybody
gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from makeway.engine.entry import Entry
from makeway.engine.flavors import Mode
from makeway.engine.head import Head
from makeway.engine.model import Amounts, Phase, QueueName, WorkloadKey
from makeway.engine.nominate import Nominator
from makeway.engine.quota import Node, borrow_level
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import Leaving, QueueState, Tree, was_preempted
from makeway.engine.victims import release_all


class BlockingPreemptor(NamedTuple):
    """A waiting preemptor that would lose its place."""

    preemptor: WorkloadKey
    applies_to_shape: bool  # every workload of the head's shape is blocked, not the head alone


class _Rival(NamedTuple):
    """A preemptor whose claim is kept from the head."""

    entry: Entry
    node: Node
    claimed: Amounts
    is_before: bool  # False: only because the head comes back by borrowing (4)


def remember_claims(state: ClusterState, tree: Tree) -> None:
    """Note what preemptors from before a restart wait for, so that it stays the same."""
    for entry in tree.preemptors.values():
        entry.search.claimed_usage = claimed_usage(state, tree, entry)


def claimed_usage(state: ClusterState, tree: Tree, entry: Entry) -> Amounts:
    """The quota that a preemptor waits for; found out anew where a restart has forgotten it."""
    claim, known = entry.status.claim, entry.search.claimed_usage
    assert claim is not None, f"{entry.workload.key} has no claim"
    if known is not None:
        return known
    if claim.assignment is not None:
        return claim.assignment.usage()
    nominator = Nominator(state, entry, tree.queue_of(entry), tree.snapshot)
    nomination = nominator.nominate().nomination
    return nomination.usage if nomination.mode is not Mode.NO_FIT else {}


def can_be_met(state: ClusterState, queue: QueueState, entry: Entry) -> bool:
    """Whether a preemptor would have its place if everybody were gone who is on the way out."""
    tree, claimed = queue.tree, claimed_usage(state, queue.tree, entry)
    with _without_leaving(tree) as picture:
        return picture.fits(queue.node, claimed)


def unmet(state: ClusterState, tree: Tree) -> list[Entry]:
    """The preemptors that lose their places to others, even if all who make way were gone."""
    lost = []
    with _without_leaving(tree) as picture:
        for entry in _in_turn(state, tree, picture):
            node, claimed = tree.queue_of(entry).node, claimed_usage(state, tree, entry)
            if picture.fits(node, claimed):
                picture.charge(node, claimed)
            else:
                lost.append(entry)
    return lost


def _in_turn(state: ClusterState, tree: Tree, picture: Snapshot) -> list[Entry]:
    """The preemptors, best first; who has the turns of a queue is decided by its line (3)."""
    if len(tree.preemptors) == 1:
        return list(tree.preemptors.values())  # as most often

    def rank(entry: Entry) -> tuple[int, tuple[int, float, str, int]]:
        node, claimed = tree.queue_of(entry).node, claimed_usage(state, tree, entry)
        return _level_claimed(entry, node, claimed, picture), _precedence(entry)

    lines: dict[QueueName | None, list[Entry]] = {}
    for entry in sorted(tree.preemptors.values(), key=state.order_of, reverse=True):
        lines.setdefault(entry.queue, []).append(entry)
    return [lines[turn.queue].pop() for turn in sorted(tree.preemptors.values(), key=rank)]


def met(state: ClusterState, tree: Tree) -> list[Entry]:
    """The preemptors whose place is free now, though others may come before them."""
    return [
        entry
        for entry in tree.preemptors.values()
        if tree.snapshot.fits(tree.queue_of(entry).node, claimed_usage(state, tree, entry))
    ]


@contextmanager
def _without_leaving(tree: Tree) -> Iterator[Snapshot]:
    """The live picture as if everybody were gone who is on the way out."""
    with tree.snapshot.trial():
        release_all(tree.leaving(), tree.snapshot)
        yield tree.snapshot


def find_blocking(
    state: ClusterState,
    head: Head,
    picture: Snapshot,
    settled: Collection[WorkloadKey] = (),
    gone: Collection[WorkloadKey] = (),
) -> BlockingPreemptor | None:
    """The waiting preemptor that would lose its place to this head; None if nobody would.

    In the picture, those in `settled` have their place already, and those in `gone` are gone.
    """
    waiting = _waiting(state, head, settled)
    if not waiting:
        return None
    node, usage = head.queue.node, head.nomination.usage
    with picture.trial():
        own = {victim.entry.workload.key for victim in head.victims}
        _, others = _clear(picture, head.queue.tree, gone, own)
        release_all((v for v in head.victims if v.entry.phase is not Phase.EVICTING), picture)
        applies_to_shape = head.entry.status.claim is None
        rivals = _rivals(state, head, waiting, picture)
        for rival in sorted(rivals, key=lambda r: _precedence(r.entry)):
            if not _fits_without(others, rival, picture):
                continue  # it needs other victims anyhow
            picture.charge(rival.node, rival.claimed)
            applies_to_shape = applies_to_shape and rival.is_before
            if not picture.fits(node, usage):
                return BlockingPreemptor(rival.entry.workload.key, applies_to_shape)
    return None


@contextmanager
def beside_claims(
    state: ClusterState,
    head: Head,
    picture: Snapshot,
    settled: Collection[WorkloadKey],
    gone: Collection[WorkloadKey],
) -> Iterator[tuple[dict[WorkloadKey, Leaving], dict[WorkloadKey, Entry]]]:
    """The picture with everybody gone who makes way, and given to preemptors what they claim.

    Yields who is gone in it, besides those in `gone`, and to whom something is given. Nothing is
    left of it afterwards.
    """
    waiting, given = _waiting(state, head, settled), {}
    with picture.trial():
        leaving, others = _clear(picture, head.queue.tree, gone)
        rivals = _rivals(state, head, waiting, picture)
        for rival in sorted(rivals, key=lambda r: _precedence(r.entry)):
            if _fits_without(others, rival, picture):
                picture.charge(rival.node, rival.claimed)
                given[rival.entry.workload.key] = rival.entry
        yield leaving, given


def _waiting(
    state: ClusterState, head: Head, settled: Collection[WorkloadKey]
) -> list[tuple[Entry, Amounts]]:
    """The preemptors that wait, other than this head, and what each of them claims."""
    tree = head.queue.tree
    return [
        (rival, claimed)
        for rival in tree.preemptors.values()
        if rival is not head.entry
        and rival.workload.key not in settled
        and (claimed := claimed_usage(state, tree, rival))
    ]


def _clear(
    picture: Snapshot,
    tree: Tree,
    gone: Collection[WorkloadKey],
    chosen: Collection[WorkloadKey] = (),
) -> tuple[dict[WorkloadKey, Leaving], list[Leaving]]:
    """Let go who leaves by preemption, or is `chosen`; returns them, and who leaves besides."""
    cleared: dict[WorkloadKey, Leaving] = {}
    others: list[Leaving] = []
    for one in tree.leaving():
        key = one.entry.workload.key
        if key in gone:
            continue
        if one.by_preemption or key in chosen:
            cleared[key] = one
        else:
            others.append(one)
    release_all(cleared.values(), picture)
    return cleared, others


def _fits_without(others: list[Leaving], rival: _Rival, picture: Snapshot) -> bool:
    """Whether a preemptor has what it claims once these are gone, who leave for other reasons."""
    with picture.trial():
        release_all(others, picture)
        return picture.fits(rival.node, rival.claimed)


def _rivals(
    state: ClusterState, head: Head, waiting: list[tuple[Entry, Amounts]], picture: Snapshot
) -> Iterator[_Rival]:
    """The preemptors that come before the head, or whose place it may not come back to."""
    queue, entry = head.queue, head.entry
    level = _level(queue.node, head.nomination.usage, picture)
    comes_back = was_preempted(entry) and entry.status.claim is None
    for rival, claimed in waiting:
        node = queue.tree.queue_of(rival).node
        its_level = _level_claimed(rival, node, claimed, picture)
        if node is queue.node:
            its_level = level
            is_before = state.order_of(rival) < state.order_of(entry)  # the line decides (3)
        else:
            is_before = _comes_before(rival, its_level, entry, level)
        is_barred = node is not queue.node and comes_back and its_level == level > 0
        if is_before or is_barred:
            yield _Rival(rival, node, claimed, is_before)


def _comes_before(preemptor: Entry, its_level: int, entry: Entry, level: int) -> bool:
    """May the preemptor's place be kept from this workload? (1 and 2)"""
    is_preemptor = entry.status.claim is not None
    if its_level != level:
        return its_level < level
    if preemptor.workload.priority != entry.workload.priority:
        return preemptor.workload.priority > entry.workload.priority
    return not is_preemptor or _precedence(preemptor) < _precedence(entry)


def _precedence(entry: Entry) -> tuple[int, float, str, int]:
    workload = entry.workload
    return -workload.priority, entry.order_time, workload.uid, entry.serial


def _level_claimed(preemptor: Entry, node: Node, claimed: Amounts, picture: Snapshot) -> int:
    """How far up its claim reaches: not where its queue would hold no more than before (5)."""
    claim = preemptor.status.claim
    before = {} if claim is None else claim.held_before
    begun = {c: a for c, a in claimed.items() if picture.used(node, c) + a > before.get(c, 0)}
    return _level(node, begun, picture)


def _level(node: Node, amounts: Amounts, picture: Snapshot) -> int:
    """How far up the tree this has to be borrowed."""
    usage = picture.usage
    levels = (borrow_level(node, c, amount, usage)[0] for c, amount in amounts.items() if amount)
    return max(levels, default=0)
