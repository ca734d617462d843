"""What would happen if: the same engine, on a twin of its state, and nothing of it happens.

Whoever is evicted lets go at once, nothing else happens in between, and cycles run until there is
nothing left to decide. So an answer is right for as long as nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from makeway.engine.decisions import Deactivate, Evict, Preempt, VictimRule
from makeway.engine.engine import Engine
from makeway.engine.events import Event, PodsGone, WorkloadSeen
from makeway.engine.explain import Explanation, explain
from makeway.engine.model import (
    Assignment,
    EvictionReason,
    LocalQueueKey,
    Phase,
    QueueName,
    Workload,
    WorkloadKey,
)
from makeway.engine.sacrifice import work_lost_s
from makeway.engine.state import ClusterState
from makeway.engine.tree import Tree
from makeway.engine.twin import twin_of

CYCLES_MAX = 1000
LAST_UID = "~"  # comes after all that are given out


class Loser(NamedTuple):
    """Somebody who would have to stop."""

    workload: WorkloadKey
    owner: LocalQueueKey  # whose it is
    queue: QueueName
    lost_s: float  # of run time
    preemptor: WorkloadKey | None = None  # None: not for another's sake
    rule: VictimRule | None = None  # set exactly if there is a preemptor
    reason: EvictionReason = EvictionReason.PREEMPTED


class Preview(NamedTuple):
    workload: WorkloadKey
    phase: Phase  # in which it comes to rest
    queue: QueueName | None
    assignment: Assignment | None  # None: it would wait
    losers: tuple[Loser, ...]  # for its sake or for others', in the order of their eviction
    explanation: Explanation  # how it stands then
    is_at_rest: bool  # False: so many cycles were not enough

    @property
    def victims(self) -> tuple[Loser, ...]:
        """Those who would stop for its sake."""
        return tuple(loser for loser in self.losers if loser.preemptor == self.workload)


def preview(engine: Engine, workload: Workload, now: float) -> Preview:
    """What would become of a workload, were it submitted now."""
    twin = _twin(engine, _trees_for(engine.state, workload))
    twin.apply(WorkloadSeen(workload))
    losers, is_at_rest = play_out(twin, now)
    known = twin.view[workload.key]
    return Preview(
        workload.key,
        known.phase,
        known.queue,
        known.status.assignment,
        losers,
        explain(twin.state, workload.key, is_brief=True),
        is_at_rest,
    )


class Change(NamedTuple):
    """A workload that would stand otherwise."""

    workload: WorkloadKey
    before: Phase
    after: Phase
    flavors_before: tuple[str, ...]
    flavors_after: tuple[str, ...]


class Difference(NamedTuple):
    """What would come of other queues."""

    changes: tuple[Change, ...]
    losers: tuple[Loser, ...]  # who would not have to stop as things are
    is_at_rest: bool


def difference(engine: Engine, events: Iterable[Event], now: float) -> Difference:
    """How things would stand after these events, beside how they will stand without them."""
    without, other = _twin(engine, None), _twin(engine, None)
    stopped, _ = play_out(without, now)
    for event in events:
        other.apply(event)
    losers, is_at_rest = play_out(other, now)
    changes = []
    for known in without.view.workloads():
        then = other.view[known.workload.key]
        before, after = known.status.assignment, then.status.assignment
        if known.phase is not then.phase or before != after:
            change = Change(
                known.workload.key,
                known.phase,
                then.phase,
                () if before is None else before.flavors(),
                () if after is None else after.flavors(),
            )
            changes.append(change)
    known_losers = {loser.workload for loser in stopped}
    new = tuple(loser for loser in losers if loser.workload not in known_losers)
    return Difference(tuple(changes), new, is_at_rest)


def play_out(engine: Engine, now: float) -> tuple[tuple[Loser, ...], bool]:
    """Cycles until rest, whoever is evicted lets go at once; who that was, and whether it rests."""
    losers: list[Loser] = []
    for _ in range(CYCLES_MAX):
        cycle = engine.run_cycle(now)
        for decision in cycle.decisions:
            match decision:
                case Preempt():
                    for victim in decision.victims:
                        if victim.is_new:
                            for_whom = decision.preemptor, victim.rule
                            losers.append(_loser(engine, victim.workload, now, *for_whom))
                case Evict():
                    loser = _loser(engine, decision.workload, now)
                    losers.append(loser._replace(reason=decision.reason))
                case Deactivate() if decision.is_evicted:
                    loser = _loser(engine, decision.workload, now)
                    losers.append(loser._replace(reason=EvictionReason.DEACTIVATED))
        if not _let_go(engine) and (cycle.next_at is None or cycle.next_at > now):
            return tuple(losers), True
    return tuple(losers), False


def _loser(
    engine: Engine,
    key: WorkloadKey,
    now: float,
    preemptor: WorkloadKey | None = None,
    rule: VictimRule | None = None,
) -> Loser:
    entry = engine.state.entries[key]
    assert entry.queue is not None, f"{key} holds nothing"
    owner, lost_s = entry.workload.local_queue, work_lost_s(entry, now)
    return Loser(key, owner, entry.queue, lost_s, preemptor, rule)


def _let_go(engine: Engine) -> bool:
    leaving = [one.entry for tree in engine.state.trees for one in tree.leaving()]
    for entry in leaving:
        engine.apply(PodsGone(entry.workload.key))
    return bool(leaving)


def _twin(engine: Engine, trees: list[Tree] | None) -> Engine:
    twin = Engine(engine.state.config)
    twin.state = twin_of(engine.state, trees)
    twin.view.turn_to(twin.state)
    return twin


def _trees_for(state: ClusterState, workload: Workload) -> list[Tree] | None:
    """The tree that a workload comes to; None: all may have a say, or are to be built anew."""
    policy = state.config.pods_ready
    if state.trees_are_stale or (policy is not None and policy.blocks_admission):
        return None
    local_queue = state.local_queues.get(workload.local_queue)
    queue = None if local_queue is None else state.queues.get(local_queue.queue)
    return [] if queue is None else [queue.tree]
