"""What must hold at rest, judged apart from the engine.

At rest nobody is on the way out and no back-off runs. Then a fresh engine that is shown the same
objects decides nothing (law 2), nobody waits who fits, and nobody has a claim (law 5). While
victims make way, whoever has a claim can be tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from makeway.engine.decisions import Admit, Decision, Evict, Preempt, Reserve
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry
from makeway.engine.model import Amounts, FlavorResource, Phase, QueueName, Strategy, WorkloadKey
from tests.harness.quota_forest import QuotaForest
from tests.laws.playing import Broken, Law, Player, Stage, fresh_engine
from tests.laws.story import Story, short

CYCLES_MOST = 200
MUCH_LATER_S = 7200.0  # every back-off is over by then


class JudgedPlayer(Player):
    """Judges claims at every pause and every rest; what costs more is asked for."""

    def __init__(self, story: Story, stage: Stage | None = None) -> None:
        super().__init__(story, stage)
        self.judges_midway = False

    def seen_again_at_the_end(self) -> list[WorkloadKey]:
        return list(self.engine.state.entries)

    def on_pause(self) -> None:
        judge_claims_midway(self)
        if self.judges_midway:
            judge_restart_midway(self)


def judge_rest(player: Player) -> None:
    """Everything about a rest that costs little."""
    for key, entry in player.engine.state.entries.items():
        if entry.status.claim is not None:
            raise Broken(Law.CLAIM, f"{short(key)} has a claim, and nobody makes way for it")
    judge_nobody_fits(player)


# --- law 2: rest is rest for everyone ---


def judge_fresh(player: Player) -> None:
    """Nothing is left for a fresh engine to decide, now or at any later time."""
    engine = fresh_engine(player.engine)
    for now in (player.now, player.now + MUCH_LATER_S):
        decided = first_decision(engine, now)
        if decided is not None:
            raise Broken(Law.FRESH, in_words(decided))


def judge_seeing_again(player: Player, keys: Iterable[WorkloadKey]) -> None:
    for key in keys:
        player.see_again(key)
        decided = first_decision(player.engine, player.now)
        if decided is not None:
            raise Broken(Law.SEEN_AGAIN, f"{short(key)} was seen: {in_words(decided)}")


def judge_restart_midway(player: Player) -> None:
    """A restart while victims make way takes no others, and gives nobody their place."""
    decided = first_decision(fresh_engine(player.engine), player.now)
    if decided is not None:
        raise Broken(Law.MIDWAY, in_words(decided))


def first_decision(engine: Engine, now: float) -> Decision | None:
    for _ in range(CYCLES_MOST):
        cycle = engine.run_cycle(now)
        for decision in cycle.decisions:
            match decision:
                case Admit() | Reserve() | Evict():
                    return decision
                case Preempt() if any(victim.is_new for victim in decision.victims):
                    return decision
        if cycle.next_at is None or cycle.next_at > now:
            return None
    raise Broken(Law.RESTLESS, f"a fresh engine is busy for {CYCLES_MOST} cycles")


def in_words(decision: Decision) -> str:
    match decision:
        case Admit() | Reserve():
            flavors = "+".join(decision.assignment.flavors())
            return f"{short(decision.workload)} is admitted on {flavors}"
        case Preempt():
            victims = ", ".join(short(v.workload) for v in decision.victims if v.is_new)
            return f"{short(decision.preemptor)} takes {victims}"
    return repr(decision)


# --- law 2: nobody waits who could be admitted by fitting ---


class Waiting(NamedTuple):
    entry: Entry
    queue: QueueName
    choices: tuple[Amounts, ...]  # what it would take, by flavor


def judge_nobody_fits(player: Player) -> None:
    """By the formulas of quota, and of owners first where that is on.

    Left out: a strict head of another queue may keep what it lacks from others.
    """
    waiting = list(waiting_in(player))
    strict = {w.queue for w in waiting if _is_strict(player, w.queue)}
    roots = {queue: player.forest.path(f"queue:{queue}")[-1] for queue in player.queues}
    keeps = player.engine.state.config.gates.owners_first
    for one in waiting:
        if any(other != one.queue and roots[other] == roots[one.queue] for other in strict):
            continue
        for amounts in one.choices:
            if player.forest.fits(one.queue, amounts) and not (
                keeps and is_refused(player.forest, one, amounts, waiting)
            ):
                what = f"{short(one.entry.workload.key)} fits: {dict(amounts)}"
                raise Broken(Law.FITS, what)


def waiting_in(player: Player) -> Iterator[Waiting]:
    """Who may be tried: of a strict queue only the head."""
    lines: dict[QueueName, list[Entry]] = {}
    for entry in player.engine.state.entries.values():
        if entry.phase is Phase.PENDING and entry.queue is not None:
            state = player.engine.state.queues[entry.queue]
            if state.inactive is None:
                lines.setdefault(entry.queue, []).append(entry)
    for queue, line in lines.items():
        if _is_strict(player, queue):
            line = [min(line, key=_order)]
        for entry in line:
            yield Waiting(entry, queue, tuple(_choices(player, queue, entry)))


def _order(entry: Entry) -> tuple[int, float, str]:
    return -entry.workload.priority, entry.order_time, entry.workload.uid


def _is_strict(player: Player, queue: QueueName) -> bool:
    return player.queues[queue].strategy is Strategy.STRICT_FIFO


def _choices(player: Player, queue: QueueName, entry: Entry) -> Iterator[Amounts]:
    """Of queues with one group of resources, and workloads of one pod set."""
    (group,) = player.queues[queue].groups
    (pod_set,) = entry.workload.pod_sets
    count = pod_set.count if pod_set.min_count is None else pod_set.min_count
    for quotas in group.flavors:
        yield {
            FlavorResource(quotas.flavor, resource): amount * count
            for resource, amount in pod_set.requests
            if amount
        }


# --- law 4: owners first, rules O1 to O5 once more ---


def is_refused(
    forest: QuotaForest[FlavorResource], one: Waiting, amounts: Amounts, waiting: list[Waiting]
) -> bool:
    """Would it begin to borrow what others wait for who would borrow less far up?"""
    node = f"queue:{one.queue}"
    borrowed = [
        cell
        for cell, amount in amounts.items()
        if forest.usage(node, cell) + amount > forest.subtree(node, cell)
    ]
    if not borrowed:
        return False
    forest.charge(one.queue, amounts)
    try:
        return any(_lacks_room(forest, node, cell, one, waiting) for cell in borrowed)
    finally:
        forest.charge(one.queue, {cell: -amount for cell, amount in amounts.items()})


def _lacks_room(
    forest: QuotaForest[FlavorResource],
    node: str,
    cell: FlavorResource,
    one: Waiting,
    waiting: list[Waiting],
) -> bool:
    claimed = 0
    for below, above in _steps_up(forest, node):
        claimed += sum(
            _claim(forest, sibling, cell, waiting)
            for sibling in forest.children(above)
            if sibling != below
        )
        room = forest.subtree(above, cell) - forest.usage(above, cell)
        if room >= 0:
            return room < claimed
    return False


def _steps_up(forest: QuotaForest[FlavorResource], node: str) -> Iterator[tuple[str, str]]:
    return pairwise(forest.path(node))


def _claim(
    forest: QuotaForest[FlavorResource], node: str, cell: FlavorResource, waiting: list[Waiting]
) -> int:
    """What the owners at a node wait for, as far as the node lends it to those above."""
    asked = sum(
        max((c[cell] for c in w.choices if cell in c and _owns(forest, node, w, c)), default=0)
        for w in waiting
    )
    used, kept = forest.usage(node, cell), forest.kept(node, cell)
    claim = min(forest.subtree(node, cell) - used, asked)
    return max(0, max(0, used + claim - kept) - max(0, used - kept)) if claim > 0 else 0


def _owns(forest: QuotaForest[FlavorResource], node: str, one: Waiting, amounts: Amounts) -> bool:
    """Would it fit into the quota of the node, with what the nodes below keep for themselves?"""
    path = forest.path(f"queue:{one.queue}")
    if node not in path:
        return False
    below = path[: path.index(node)]
    forest.charge(one.queue, amounts)
    try:
        return all(
            forest.usage(node, cell) <= forest.subtree(node, cell)
            and all(_is_within_limit(forest, b, cell) for b in below)
            for cell in amounts
        )
    finally:
        forest.charge(one.queue, {cell: -amount for cell, amount in amounts.items()})


def _is_within_limit(forest: QuotaForest[FlavorResource], node: str, cell: FlavorResource) -> bool:
    limit = forest.quota(node, cell).borrowing_limit
    return limit is None or forest.usage(node, cell) <= forest.subtree(node, cell) + limit


# --- law 5: a claim lasts as long as its holder can use it ---


def judge_claims_midway(player: Player) -> None:
    state = player.engine.state
    for key, entry in state.entries.items():
        if entry.status.claim is None:
            continue
        if entry.queue is None or state.queues[entry.queue].inactive is not None:
            raise Broken(Law.USELESS_CLAIM, f"{short(key)} has a claim, and its queue is stopped")
        if _is_strict(player, entry.queue):
            _judge_behind_head(player, entry)


def _judge_behind_head(player: Player, entry: Entry) -> None:
    line = [e for e in player.engine.state.entries.values() if e.queue == entry.queue]
    line = [e for e in line if e.phase is Phase.PENDING]
    head = min(line, key=_order)
    if head.status.claim is None and head.workload.priority > entry.workload.priority:
        names = short(entry.workload.key), short(head.workload.key)
        raise Broken(Law.USELESS_CLAIM, f"{names[0]} has a claim behind {names[1]}, who has none")
