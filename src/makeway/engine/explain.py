"""Why does a workload not run, who holds what it needs, and what would help.

A decision carries what is cheap and exact at its moment. This answers the rest, on request, by
looking again at the present picture: it costs one nomination and a walk over the tree's holders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import NamedTuple

from makeway.engine.claims import find_blocking
from makeway.engine.decisions import (
    BudgetSpent,
    Defective,
    ExceedsCapacity,
    FlavorMismatch,
    HeldForPreemptor,
    MismatchKind,
    NamespaceNotAdmitted,
    NotCovered,
    PodsNotReady,
    Preemptability,
    PreemptsLater,
    Reason,
    Shortfall,
    VictimRule,
    VictimsProtected,
    WaitsForOwner,
)
from makeway.engine.entry import Entry, QueueOrder
from makeway.engine.flavors import Mode, Nomination
from makeway.engine.head import Head
from makeway.engine.history import weighed
from makeway.engine.model import (
    Amounts,
    Assignment,
    Cause,
    CheckName,
    CheckState,
    EvictionReason,
    FlavorName,
    FlavorResource,
    FlavorTrial,
    Inactive,
    LocalQueueKey,
    PastUsage,
    Phase,
    PodSetName,
    Policy,
    Protection,
    QueueName,
    ResourceName,
    StopPolicy,
    Strategy,
    WorkloadKey,
)
from makeway.engine.nominate import Nominator
from makeway.engine.owners import Owners, demand_of
from makeway.engine.pending import Rank
from makeway.engine.quota import Node, available_in, is_within_quota, potential
from makeway.engine.sacrifice import (
    disruption_cost,
    protection_of,
    run_time_s,
    work_lost_s,
)
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState
from makeway.engine.tree import Refusal as OwnersRefusal
from makeway.engine.victims import Need, may_preempt
from makeway.engine.what_if import least_priority, most_that_fits

# --- why it is not even looked at ---


class NoLocalQueue(NamedTuple):
    local_queue: LocalQueueKey


class LocalQueueStopped(NamedTuple):
    local_queue: LocalQueueKey


class NoQueue(NamedTuple):
    queue: QueueName


class QueueInactive(NamedTuple):
    queue: QueueName
    why: Inactive
    missing: tuple[str, ...] = ()  # the flavors or checks that are not there, or not answered for


class BackingOff(NamedTuple):
    until: float
    requeues: int  # so far


class EvictedByStop(NamedTuple):
    """It was stopped with its queue and waits for the queue's return."""

    reason: EvictionReason


class BehindHead(NamedTuple):
    """A StrictFIFO queue: nobody passes its head."""

    head: WorkloadKey


class ChecksOpen(NamedTuple):
    """Quota is reserved; these admission checks are not ready."""

    checks: tuple[tuple[CheckName, CheckState], ...]


class LettingGo(NamedTuple):
    """It was evicted and its pods have not gone yet."""

    reason: EvictionReason


Obstacle = (
    NoLocalQueue
    | LocalQueueStopped
    | NoQueue
    | QueueInactive
    | BackingOff
    | EvictedByStop
    | BehindHead
    | ChecksOpen
    | LettingGo
    | Reason
)


# --- who holds what is missing ---


class Refusal(Enum):
    """Why a holder can't be made to give way."""

    POLICY = "Policy"
    PRIORITY = "Priority"
    NOT_BORROWING = "NotBorrowing"
    QUEUE_STOPPED = "QueueStopped"
    LETTING_GO = "LettingGo"
    PROTECTED = "Protected"
    BEYOND_QUOTA = "BeyondQuota"  # who asks for more than its queue owns may not take it back
    NOT_ENOUGH = "NotEnough"  # it might be taken, but all who might would not free enough


class Stake(NamedTuple):
    """What is at stake for somebody who runs, were it preempted now."""

    ran_s: float
    lost_s: float  # of that, what would be in vain
    protection: Protection | None  # None: none, or it is over
    cost: float = 0.0  # by its milestones


class Threat(NamedTuple):
    """Who might preempt somebody who runs: workloads of a queue, by a rule."""

    queue: QueueName
    rule: VictimRule


class Holder(NamedTuple):
    workload: WorkloadKey
    queue: QueueName
    amounts: tuple[tuple[FlavorResource, int], ...]  # of what is missing
    verdict: VictimRule | Refusal  # the rule under which it may be taken, or why not
    borrowed: tuple[tuple[FlavorResource, int], ...] = ()  # by its queue, if that is another one
    stake: Stake | None = None  # None: it does not run, or is on the way out


class LeftByOwners(NamedTuple):
    """What those who wait for their own leave to a queue that would have to borrow."""

    cell: FlavorResource
    asked: int
    left: int  # below zero where there is not even enough for those


# --- what would help ---


class MoreQuota(NamedTuple):
    """So much more quota, anywhere the queue may borrow from."""

    cell: FlavorResource
    amount: int


class OwnQuota(NamedTuple):
    """So much more quota of the queue's own: then it would borrow nothing."""

    queue: QueueName
    cell: FlavorResource
    amount: int


class AnyOf(NamedTuple):
    """One of these finishing would be enough."""

    workloads: tuple[WorkloadKey, ...]


class AllOf(NamedTuple):
    """These finishing would be enough; no single one is."""

    workloads: tuple[WorkloadKey, ...]


class FitsNow(NamedTuple):
    """A request for so much in all would start now."""

    cell: FlavorResource
    amount: int


class HigherPriority(NamedTuple):
    """With so much priority it would preempt these, and start."""

    priority: int
    victims: tuple[WorkloadKey, ...]


class SmallerRequest(NamedTuple):
    """No more than this much can ever be had of it."""

    cell: FlavorResource
    capacity: int


class LowerMinimum(NamedTuple):
    """Not even the least that it would run with fits."""

    pod_set: PodSetName
    least: int  # pods


class HigherBorrowingLimit(NamedTuple):
    """The cohort has so much; the queue may not borrow it."""

    queue: QueueName
    cell: FlavorResource


class OtherSetting(NamedTuple):
    """Another value of a field of a queue."""

    queue: QueueName
    field: str
    change: str  # in a word


class ResumedQueue(NamedTuple):
    queue: QueueName


class ResumedLocalQueue(NamedTuple):
    local_queue: LocalQueueKey


class OtherLocalQueue(NamedTuple):
    """Those of its namespace."""

    local_queues: tuple[LocalQueueKey, ...]


class OtherQueue(NamedTuple):
    """A LocalQueue that leads to one of these."""

    queues: tuple[QueueName, ...]


class OtherNamespace(NamedTuple):
    """One of those that the queue admits from."""

    namespaces: tuple[str, ...]


class OtherResources(NamedTuple):
    """Only of what the queue covers."""

    resources: tuple[ResourceName, ...]


class ToleratedTaint(NamedTuple):
    flavor: FlavorName
    taint: str


class MatchingLabels(NamedTuple):
    """A node selector or affinity that goes with the labels of the flavor."""

    flavor: FlavorName
    labels: tuple[tuple[str, str], ...]


WayIn = (
    ResumedQueue
    | ResumedLocalQueue
    | OtherLocalQueue
    | OtherQueue
    | OtherNamespace
    | OtherResources
)
Help = (
    MoreQuota
    | OwnQuota
    | AnyOf
    | AllOf
    | FitsNow
    | HigherPriority
    | SmallerRequest
    | LowerMinimum
    | HigherBorrowingLimit
    | OtherSetting
    | ToleratedTaint
    | MatchingLabels
    | WayIn
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    workload: WorkloadKey
    phase: Phase
    queue: QueueName | None  # where it waits or holds quota
    assignment: Assignment | None = None
    obstacles: tuple[Obstacle, ...] = ()  # all that keeps it from running; empty when it may
    position: int | None = None  # in its queue, from 0; None when it does not wait in one
    ahead: tuple[WorkloadKey, ...] = ()  # the next ones before it, nearest last
    would_preempt: tuple[WorkloadKey, ...] = ()  # whom it would preempt if it were decided now
    holders: tuple[Holder, ...] = ()  # of what is missing, biggest first
    left_by_owners: tuple[LeftByOwners, ...] = ()  # where that is too little for it
    is_owner: bool = False  # nobody may begin to borrow what it waits for
    helps: tuple[Help, ...] = ()
    history: tuple[FlavorTrial, ...] = ()
    is_preemptor: bool = False
    stake: Stake | None = None  # of one that runs
    threats: tuple[Threat, ...] = ()  # to one that runs
    boost: int = 0  # as how much more priority its waiting counts in line
    past: PastUsage | None = None  # of its local queue, where that counts
    deactivated_for: Cause | None = None  # None: it is active, or its user wants it so


FIRST: QueueOrder = (-(2**63), 0, 0.0, "", 0)  # before everybody
_OF_AMOUNTS = (ExceedsCapacity, Shortfall)
_OF_QUOTA = (MoreQuota, OwnQuota, HigherBorrowingLimit)  # an administrator's helps: told last
_BARRED = {
    Preemptability.FORBIDDEN: Refusal.BEYOND_QUOTA,
    Preemptability.NO_VICTIMS: Refusal.NOT_ENOUGH,
}
SHOWN = 20  # how many of those ahead, of holders and of helpful workloads are listed


def explain(
    state: ClusterState, key: WorkloadKey, now: float | None = None, *, is_brief: bool = False
) -> Explanation:
    """Everything that keeps a workload from running at this moment.

    What was decided stands until the next cycle, but what a preemption would cost grows: it is told
    as of `now` (None: of the last cycle). In brief: without who holds what is missing and what
    would help, which costs most of all.
    """
    entry = state.entries[key]
    status = entry.status
    now = state.now if now is None else max(now, state.now)
    match entry.phase:
        case Phase.PENDING:
            return _explain_pending(state, entry, now, is_brief)
        case Phase.RESERVED:
            obstacles: tuple[Obstacle, ...] = (ChecksOpen(_open_checks(state, entry)),)
        case Phase.EVICTING:
            assert status.eviction is not None
            obstacles = (LettingGo(status.eviction.reason),)
        case _:
            obstacles = ()
    return Explanation(
        workload=key,
        phase=entry.phase,
        queue=entry.queue,
        assignment=status.assignment,
        obstacles=obstacles,
        history=status.history,
        stake=stake_of(state, entry, now),
        threats=tuple(_threats(state, entry)),
        deactivated_for=_why_inactive(entry),
    )


def stake_of(state: ClusterState, entry: Entry, now: float) -> Stake | None:
    queue = _queue_of(state, entry)
    if queue is None or entry.phase is not Phase.ADMITTED:
        return None
    protection = protection_of(entry.status, queue)
    return Stake(
        run_time_s(entry.status, now),
        work_lost_s(entry, now),
        protection if protection is not None and protection.until > now else None,
        disruption_cost(entry, state.local_queues, now),
    )


def _threats(state: ClusterState, entry: Entry) -> Iterator[Threat]:
    """Whose preemptors it may have to make way for: its own queue's, and owners of what is lent."""
    queue = _queue_of(state, entry)
    if queue is None or entry.phase is not Phase.ADMITTED:
        return
    is_borrowing = not is_within_quota(queue.node, tuple(entry.usage), queue.tree.usage)
    for other in queue.tree.queues[:SHOWN]:
        preemption = other.spec.preemption
        if other is queue and preemption.within_queue is not Policy.NEVER:
            yield Threat(other.spec.name, VictimRule.IN_QUEUE)
        elif other is not queue and is_borrowing and preemption.reclaim is not Policy.NEVER:
            yield Threat(other.spec.name, VictimRule.RECLAIM)


def _why_inactive(entry: Entry) -> Cause | None:
    if entry.workload.active:
        return None
    evicted = entry.status.eviction.cause if entry.status.eviction is not None else None
    return evicted or entry.workload.to_deactivate


def _open_checks(state: ClusterState, entry: Entry) -> tuple[tuple[CheckName, CheckState], ...]:
    queue, status = _queue_of(state, entry), entry.status
    if queue is None or status.assignment is None:
        return ()
    checks = queue.checks_for(status.assignment)
    states = ((check, status.checks.get(check, CheckState.PENDING)) for check in checks)
    return tuple(pair for pair in states if pair[1] is not CheckState.READY)


def _explain_pending(state: ClusterState, entry: Entry, now: float, is_brief: bool) -> Explanation:
    key, queue = entry.workload.key, _queue_of(state, entry)
    if queue is None:
        obstacle = why_in_no_queue(state, entry)
        return Explanation(
            workload=key,
            phase=entry.phase,
            queue=None,
            obstacles=(obstacle,),
            helps=tuple(_ways_in(state, entry, obstacle)),
        )
    before = _before(state, queue, entry)
    head = _as_head(state, entry, queue)
    first = min(before)[1].workload.key if before else None
    outside = _outside_quota(state, head, first)
    is_owner = not outside and _is_owner(state, head)
    obstacles = (*outside, *head.reasons)
    left = () if is_brief else tuple(_left_by_owners(state, head))
    helps = () if is_brief else _all_helps(state, head, outside, left)
    return Explanation(
        workload=key,
        phase=entry.phase,
        queue=queue.spec.name,
        obstacles=obstacles,
        position=len(before),
        ahead=tuple(other.workload.key for _, other in reversed(nlargest(SHOWN, before))),
        would_preempt=tuple(victim.entry.workload.key for victim in head.victims),
        holders=() if is_brief else tuple(_holders(state, head, now)[:SHOWN]),
        left_by_owners=left,
        is_owner=is_owner,
        helps=helps,
        history=entry.status.history,
        is_preemptor=entry.status.claim is not None,
        boost=state.boost_of(entry),
        past=past_usage(state, entry.workload.local_queue, now),
    )


def _as_head(state: ClusterState, entry: Entry, queue: QueueState) -> Head:
    """What would be found if it were looked at now."""
    found = Nominator(state, entry, queue, queue.tree.snapshot).nominate(is_resumed=False)
    return Head(entry, queue, found)


def _outside_quota(
    state: ClusterState, head: Head, first: WorkloadKey | None
) -> tuple[Obstacle, ...]:
    """What keeps it waiting though there were quota; `first` is the head of the line before it."""
    entry, queue, fits = head.entry, head.queue, head.nomination.mode is Mode.FIT
    obstacles: tuple[Obstacle, ...] = tuple(_before_quota(state, entry, queue))
    if fits and state.config.gates.hold_for_preemptor:
        blocking = find_blocking(state, head, queue.tree.snapshot)
        if blocking is not None:
            obstacles = (*obstacles, HeldForPreemptor(blocking.preemptor))
    if fits and state.unready:
        obstacles = (*obstacles, PodsNotReady(min(state.unready)))
    if queue.spec.strategy is Strategy.STRICT_FIFO and first is not None:
        obstacles = (*obstacles, BehindHead(first))
    return obstacles


class Glance(NamedTuple):
    """Why somebody waits, without who holds what is missing and what would help."""

    obstacles: tuple[Obstacle, ...]  # empty: it is looked at next
    position: int | None  # in its queue, from 0; None: in no queue, or far back
    queue: QueueName | None = None


def glances(
    state: ClusterState, keys: Iterable[WorkloadKey], line_max: int
) -> dict[WorkloadKey, Glance]:
    """Of those among the keys that wait; positions are counted up to `line_max`.

    It costs a nomination for each, and of each queue a look at who is in line.
    """
    lines: dict[QueueName, dict[WorkloadKey, int]] = {}
    found: dict[WorkloadKey, Glance] = {}
    for key in keys:
        entry = state.entries.get(key)
        if entry is None or entry.phase is not Phase.PENDING:
            continue
        queue = _queue_of(state, entry)
        if queue is None:
            found[key] = Glance((why_in_no_queue(state, entry),), None)
            continue
        name = queue.spec.name
        if name not in lines:
            waiting = waiting_line(state, queue, line_max)
            lines[name] = {one.workload.key: place for place, one in enumerate(waiting)}
        first = next(iter(lines[name]), None)
        head = _as_head(state, entry, queue)
        outside = _outside_quota(state, head, None if first == key else first)
        found[key] = Glance((*outside, *head.reasons), lines[name].get(key), name)
    return found


def past_usage(state: ClusterState, key: LocalQueueKey, now: float) -> PastUsage | None:
    """What a local queue has used; None: that does not count in its queue."""
    policy, local_queue = state.config.history, state.local_queues.get(key)
    if policy is None or local_queue is None or not state.counts_history(local_queue.queue):
        return None
    history, name = state.history, local_queue.queue
    siblings = [other for other in state.local_queues.values() if other.queue == name]
    used = {lq.key: weighed(history.used(lq.key, now, policy), policy) for lq in siblings}
    total, weights = sum(used.values()), sum(lq.weight for lq in siblings)
    entitled = total * local_queue.weight / weights if weights else 0.0
    return PastUsage(
        key,
        history.usage(key, local_queue.weight, now, policy),
        used[key] / entitled if entitled else None,
        policy.half_life_s,
        history.consumed(key, now, policy),
        history.is_growing(key),
    )


def waiting_line(state: ClusterState, queue: QueueState, limit: int | None = None) -> list[Entry]:
    """Who waits in a queue, in its order, parked or not; the first `limit` of them, if given."""
    line = _in_line(state, queue)
    if limit is not None and limit < len(line):
        return [entry for _, entry in nsmallest(limit, line)]
    return [entry for _, entry in sorted(line, key=itemgetter(0))]


def _before(state: ClusterState, queue: QueueState, entry: Entry) -> list[tuple[Rank, Entry]]:
    """Who waits before it, in no order: a long line is not sorted for the sake of one."""
    own = queue.pending.rank(*_placed(state, queue, entry))
    return [item for item in _in_line(state, queue) if item[0] < own]


def _in_line(state: ClusterState, queue: QueueState) -> list[tuple[Rank, Entry]]:
    """Who waits in a queue, each with what orders them; no two ranks are equal."""
    pending, usage = queue.pending, queue.pending.usage_of
    everybody = (*pending.active(), *pending.parked())
    placed = (
        entry.place if entry.place and entry is not pending.pinned else _placed(state, queue, entry)
        for entry in everybody
    )
    return list(placed) if usage is None else [(pending.rank(*item), item[1]) for item in placed]


def _placed(state: ClusterState, queue: QueueState, entry: Entry) -> tuple[QueueOrder, Entry]:
    if entry is queue.pending.pinned:
        return FIRST, entry
    return entry.place or (state.order_of(entry), entry)


def _queue_of(state: ClusterState, entry: Entry) -> QueueState | None:
    """The queue where it waits or whose quota it holds, as the next cycle will see it."""
    if entry.queue is None or entry.queue not in state.queues:
        return None
    return state.queue_now(entry.queue)


def why_in_no_queue(state: ClusterState, entry: Entry) -> Obstacle:
    key = entry.workload.local_queue
    local_queue = state.local_queues.get(key)
    if local_queue is None:
        return NoLocalQueue(key)
    if local_queue.stop_policy is not StopPolicy.NONE:
        return LocalQueueStopped(key)
    return NoQueue(local_queue.queue)


def inactivity(state: ClusterState, queue: QueueState, why: Inactive) -> QueueInactive:
    """Why a queue is not active, with the names of what it lacks."""
    spec = queue.spec
    missing: Iterable[str] = ()
    match why:
        case Inactive.FLAVOR_NOT_FOUND:
            flavors = (quotas.flavor for group in spec.groups for quotas in group.flavors)
            missing = (flavor for flavor in flavors if flavor not in state.flavors)
        case Inactive.CHECK_NOT_FOUND:
            missing = (check.name for check in spec.checks if check.name not in state.checks)
        case Inactive.CHECK_INACTIVE:
            missing = (check.name for check in spec.checks if not state.checks.get(check.name))
        case _:
            pass
    return QueueInactive(spec.name, why, tuple(dict.fromkeys(missing)))


def _ways_in(state: ClusterState, entry: Entry, obstacle: Obstacle) -> Iterator[Help]:
    """What would bring a workload into a queue at all."""
    match obstacle:
        case LocalQueueStopped():
            yield ResumedLocalQueue(obstacle.local_queue)
        case NoLocalQueue():
            place = f"{entry.workload.namespace}/"
            found = sorted(key for key in state.local_queues if key.startswith(place))
            if found:
                yield OtherLocalQueue(tuple(found[:SHOWN]))
        case NoQueue():
            if state.queues:
                yield OtherQueue(tuple(sorted(state.queues)[:SHOWN]))
        case _:
            pass


def _ways_round(
    state: ClusterState, queue: QueueState, obstacles: Iterable[Obstacle]
) -> Iterator[Help]:
    """What would help against that which is no matter of free quota."""
    for obstacle in obstacles:
        match obstacle:
            case QueueInactive(why=Inactive.STOPPED):
                yield ResumedQueue(obstacle.queue)
            case NamespaceNotAdmitted():
                if found := _admitted_namespaces(state, queue):
                    yield OtherNamespace(found)
            case NotCovered():
                yield OtherResources(
                    tuple(r for group in queue.spec.groups for r in group.resources)
                )
            case FlavorMismatch(kind=MismatchKind.TAINT):
                yield ToleratedTaint(obstacle.flavor, obstacle.detail)
            case FlavorMismatch(kind=MismatchKind.AFFINITY):
                flavor = state.flavors.get(obstacle.flavor)
                if flavor is not None:
                    yield MatchingLabels(flavor.name, tuple(sorted(flavor.labels.items())))
            case PreemptsLater():
                yield OtherSetting(queue.spec.name, "triggerAfterWorkloadWaitingSeconds", "lower")
            case VictimsProtected():
                queues = {state.entries[key].queue for key in obstacle.victims}
                for name in sorted(name for name in queues if name is not None):
                    yield OtherSetting(name, "minRuntimeSeconds", "lower")
            case BudgetSpent():
                yield OtherSetting(queue.spec.name, "budget", "larger")
            case _:
                pass


def _admitted_namespaces(state: ClusterState, queue: QueueState) -> tuple[str, ...]:
    selector = queue.spec.namespaces
    if selector is None:
        return ()
    names = (name for name, labels in state.namespaces.items() if selector.admits(labels))
    return tuple(nsmallest(SHOWN, names))


def _before_quota(state: ClusterState, entry: Entry, queue: QueueState) -> Iterator[Obstacle]:
    """What keeps it out whatever the quota."""
    workload, status = entry.workload, entry.status
    if queue.inactive is not None:
        yield inactivity(state, queue, queue.inactive)
        if status.eviction is not None and state.waits_for_restart(entry, queue):
            yield EvictedByStop(status.eviction.reason)
    if status.requeue_at is not None:
        yield BackingOff(status.requeue_at, status.requeue_count)
    labels = state.namespaces.get(workload.namespace)
    selector = queue.spec.namespaces
    if selector is None or labels is None or not selector.admits(labels):
        yield NamespaceNotAdmitted(workload.namespace)
    if workload.defect is not None:
        yield Defective(workload.defect)


def _missing(nomination: Nomination) -> dict[FlavorResource, int]:
    """The largest shortfall of each cell that is short."""
    missing: dict[FlavorResource, int] = {}
    for reason in nomination.reasons:
        if isinstance(reason, Shortfall):
            missing[reason.cell] = max(missing.get(reason.cell, 0), reason.missing)
    return missing


def _holders(state: ClusterState, head: Head, now: float) -> list[Holder]:
    missing = _missing(head.nomination)
    if not missing:
        return []
    need = Need(preemptor=head.entry, queue=head.queue, amounts=missing, contested=tuple(missing))
    barred = _barred(head)
    found = []
    for queue in head.queue.tree.queues:
        for order in queue.holders:
            entry = order.entry
            held = tuple((cell, entry.usage[cell]) for cell in missing if entry.usage.get(cell))
            if held:
                borrowed = () if queue is head.queue else tuple(_borrowed(queue, missing))
                verdict, stake = _verdict(need, queue, entry), stake_of(state, entry, now)
                if isinstance(verdict, VictimRule) and stake is not None and stake.protection:
                    verdict = Refusal.PROTECTED
                elif isinstance(verdict, VictimRule):
                    verdict = barred.get(verdict is VictimRule.IN_QUEUE, verdict)
                key, name = entry.workload.key, queue.spec.name
                found.append(Holder(key, name, held, verdict, borrowed, stake))
    return sorted(found, key=lambda h: (-sum(amount for _, amount in h.amounts), h.workload))


def _barred(head: Head) -> dict[bool, Refusal]:
    """Why nobody is taken though some might be: of its own queue (True), and of others."""
    if any(not isinstance(reason, Shortfall) for reason in head.reasons):
        return {}  # something else keeps it from preempting, and may pass
    ways = {reason.preemption for reason in head.reasons if isinstance(reason, Shortfall)}
    if len(ways) != 1 or not ways <= _BARRED.keys():
        return {}
    why = _BARRED[ways.pop()]
    return {True: Refusal.NOT_ENOUGH, False: why}


def _borrowed(
    queue: QueueState, cells: Iterable[FlavorResource]
) -> Iterator[tuple[FlavorResource, int]]:
    for cell in cells:
        amount = queue.used.get(cell, 0) - queue.node.nominal(cell)
        if amount > 0:
            yield cell, amount


def _verdict(need: Need, queue: QueueState, holder: Entry) -> VictimRule | Refusal:
    """May this holder be taken, looked at alone?"""
    preemption = need.queue.spec.preemption
    own = queue is need.queue
    policy = preemption.within_queue if own else preemption.reclaim
    if holder.phase is Phase.EVICTING:
        return Refusal.LETTING_GO
    if policy is Policy.NEVER:
        return Refusal.POLICY
    if not own and queue.inactive is not None:
        return Refusal.QUEUE_STOPPED
    if not own and is_within_quota(queue.node, need.contested, queue.tree.usage):
        return Refusal.NOT_BORROWING
    if not may_preempt(policy, need.preemptor, holder):
        return Refusal.PRIORITY
    return VictimRule.IN_QUEUE if own else VictimRule.RECLAIM


def _helps(state: ClusterState, head: Head, left: tuple[LeftByOwners, ...]) -> Iterator[Help]:
    nomination, queue = head.nomination, head.queue
    for reason in nomination.reasons:
        if isinstance(reason, ExceedsCapacity):
            if reason.capacity:
                yield SmallerRequest(reason.cell, reason.capacity)
            yield MoreQuota(reason.cell, reason.earlier + reason.requested - reason.capacity)
            if _is_held_back(queue.node, reason.cell):
                yield HigherBorrowingLimit(queue.spec.name, reason.cell)
    missing = _missing(nomination)
    short = {reason.pod_set for reason in nomination.reasons if isinstance(reason, _OF_AMOUNTS)}
    for pod_set in head.entry.workload.pod_sets:
        if pod_set.name in short and pod_set.min_count is not None and pod_set.min_count > 1:
            yield LowerMinimum(pod_set.name, pod_set.min_count)
    for wanted in left:
        yield from _quota_beside_owners(queue, wanted, missing.get(wanted.cell, 0))
    refused = {wanted.cell: wanted.asked for wanted in left}
    for cell, amount in sorted(missing.items()):
        if cell not in refused:
            yield MoreQuota(cell, amount)
    if nomination.mode is Mode.PREEMPT:
        yield from _finishes_that_help(state, head, nomination.usage)
    elif missing:
        # No flavor was nominated: look at the one that is least short.
        flavor = min(missing, key=lambda cell: (missing[cell], cell)).flavor
        short_of = {
            cell: amount + queue.tree.snapshot.available(queue.node, cell)
            for cell, amount in missing.items()
            if cell.flavor == flavor
        }
        yield from _finishes_that_help(state, head, short_of)
    elif refused:
        first = {left[0].cell: left[0].asked}
        yield from _owners_whose_end_helps(state, head, first)
        yield from _finishes_that_help(state, head, first)


def _all_helps(
    state: ClusterState,
    head: Head,
    outside: tuple[Obstacle, ...],
    left: tuple[LeftByOwners, ...],
) -> tuple[Help, ...]:
    """What its user could do at once, then what others could, then what an administrator could."""
    obstacles = (*outside, *head.reasons)
    return (
        *_ways_round(state, head.queue, obstacles),
        *_better_requests(state, head, outside),
        *sorted(_helps(state, head, left), key=lambda help: isinstance(help, _OF_QUOTA)),
    )


def _better_requests(
    state: ClusterState, head: Head, outside: tuple[Obstacle, ...]
) -> Iterator[Help]:
    """What its user could ask for instead, and have now."""
    missing = _missing(head.nomination)
    if outside or not missing or head.victims:
        return
    if fitting := most_that_fits(state, head, missing):
        yield FitsNow(*fitting)
    if found := least_priority(state, head):
        yield HigherPriority(*found)


def _is_held_back(node: Node, cell: FlavorResource) -> bool:
    """Does a node's own limit keep it from what its cohort could lend?"""
    if node.parent is None or cell not in node.borrowing_limit:
        return False
    return potential(node, cell) < node.kept.get(cell, 0) + potential(node.parent, cell)


def _finishes_that_help(state: ClusterState, head: Head, wanted: Amounts) -> Iterator[Help]:
    """Whose end would free enough: single workloads, or else the biggest together."""
    queue, snapshot = head.queue, head.queue.tree.snapshot

    def is_enough() -> bool:
        if not snapshot.fits(queue.node, wanted):
            return False
        owners = Owners(state, queue.tree, is_what_if=True)
        return owners.refuse(head.entry, queue, wanted, snapshot) is None

    short = [c for c, amount in wanted.items() if amount > snapshot.available(queue.node, c)]
    holders = [
        (order.entry, other)
        for other in queue.tree.queues
        for order in other.holders
        if any(cell in order.entry.usage for cell in short or wanted)
    ]
    holders.sort(key=lambda pair: (-sum(pair[0].usage.get(c, 0) for c in wanted), pair[0].serial))
    enough = []
    for entry, other in holders:
        with snapshot.trial():
            snapshot.release(other.node, entry.usage)
            if is_enough():
                enough.append(entry.workload.key)
        if len(enough) == SHOWN:
            break
    if enough:
        yield AnyOf(tuple(enough))
        return
    together: list[WorkloadKey] = []
    with snapshot.trial():
        for entry, other in holders:
            snapshot.release(other.node, entry.usage)
            together.append(entry.workload.key)
            if is_enough():
                yield AllOf(tuple(together))
                return


# --- owners first ---


def _is_owner(state: ClusterState, head: Head) -> bool:
    """Whether it waits for quota of its own queue, which nobody else begins to borrow then."""
    node, usage = head.queue.node, head.queue.tree.usage
    if node.parent is None or not state.config.gates.owners_first or not _missing(head.nomination):
        return False
    demand = demand_of(state, head.entry, head.queue)
    return bool(demand) and all(
        any(
            all(n <= available_in(node, node, cell, usage) for cell, n in c.items())
            for c in choices
        )
        for choices in demand
    )


def _left_by_owners(state: ClusterState, head: Head) -> Iterator[LeftByOwners]:
    """Where owners keep it from borrowing, though it be the only thing that does."""
    entry, queue, missing = head.entry, head.queue, _missing(head.nomination)
    refused = {reason.cell for reason in head.reasons if isinstance(reason, WaitsForOwner)}
    if not (refused or missing) or not state.config.gates.owners_first:
        return
    owners, snapshot = Owners(state, queue.tree), queue.tree.snapshot
    choices = [choice for group in demand_of(state, entry, queue) for choice in group]
    for cell in sorted(refused | missing.keys()):
        for asked in sorted({choice[cell] for choice in choices if cell in choice}):
            if owners.refuse(entry, queue, {cell: asked}, snapshot) is not None:
                ways = (
                    OwnersRefusal(queue.spec.name, cell, top.index, ())
                    for top in queue.node.ancestors()
                )
                left = max((owners.left(way) for way in ways), default=0)
                yield LeftByOwners(cell, asked, left)
                break


def _quota_beside_owners(queue: QueueState, wanted: LeftByOwners, missing: int) -> Iterator[Help]:
    """Enough for the owners and for it, or enough of its own."""
    cell, asked, left = wanted
    more = max(asked - left, missing)
    own = queue.used.get(cell, 0) + asked - queue.node.nominal(cell)
    yield MoreQuota(cell, more)
    if own != more and own >= missing:
        yield OwnQuota(queue.spec.name, cell, own)


def _owners_whose_end_helps(state: ClusterState, head: Head, wanted: Amounts) -> Iterator[Help]:
    """For whom it waits: the one whose end would be enough, or those who together are."""
    queue, owners = head.queue, Owners(state, head.queue.tree)
    gone = owners.settled
    while len(gone) <= SHOWN:
        refused = owners.refuse(head.entry, queue, wanted, queue.tree.snapshot)
        if refused is None:
            yield AnyOf(tuple(gone)) if len(gone) == 1 else AllOf(tuple(gone))
            return
        owner = state.entries[refused.owner]
        alike = state.queue_of(owner).pending.alike(owner)
        others = [other for other in alike if other.workload.key not in gone]
        if owner.phase is not Phase.PENDING or not others:
            return  # it is on its way out, and will wait again
        first = min(others, key=state.order_of)
        gone[first.workload.key] = first
