"""A driver that plays random worlds, and checks made apart from the engine.

`Play` feeds an engine what the maker of worlds invents, notes every step so that it can be played
again, and after each one compares the whole state (`check_state`) and every decision with
`Picture`: the formulas of quota written down once more, on plain dicts, as they are stated and not
as they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from makeway.engine import events as ev
from makeway.engine.decisions import (
    Admit,
    Cycle,
    Deactivate,
    Decision,
    Evict,
    HeadOutcome,
    HeadResult,
    Preempt,
    Reserve,
    Victim,
    VictimRule,
    Wait,
    WaitingForVictims,
)
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry
from makeway.engine.model import (
    HOLDING,
    CheckState,
    Config,
    EvictionReason,
    FlavorResource,
    Phase,
    Policy,
    Preemption,
    Queue,
    QueueName,
    RequeueTime,
    ResourceName,
    StopPolicy,
    Workload,
    WorkloadKey,
)
from makeway.engine.state import ClusterState
from makeway.engine.upkeep import tend
from tests.harness.engine import charged, check_state, forest_of
from tests.harness.quota_forest import QuotaForest
from tests.harness.random_worlds import CHECK, NAMESPACE, Worldmaker, local_queue_of

Amounts = dict[FlavorResource, int]


# --- who holds how much ---


class Holding(NamedTuple):
    queue: QueueName
    usage: Mapping[FlavorResource, int]


class Picture(QuotaForest[FlavorResource]):
    """Queues, cohorts, and who holds how much: the facts and what follows from them."""

    def __init__(
        self,
        like: QuotaForest[FlavorResource],
        holdings: Mapping[WorkloadKey, Holding],
    ) -> None:
        super().__init__(like)
        self.holdings = holdings
        for queue, usage in holdings.values():
            self.charge(queue, usage)

    def having(
        self,
        *,
        gone: Iterable[WorkloadKey] = (),
        more: Iterable[tuple[WorkloadKey, QueueName, Mapping[FlavorResource, int]]] = (),
    ) -> Picture:
        """The same without some, and with others."""
        left = set(gone)
        holdings = {key: held for key, held in self.holdings.items() if key not in left}
        for key, queue, usage in more:
            assert key not in holdings
            holdings[key] = Holding(queue, usage)
        return Picture(self, holdings)


def picture_of(state: ClusterState) -> Picture:
    holdings = {
        key: Holding(entry.queue, charged(entry))
        for key, entry in state.entries.items()
        if entry.phase in HOLDING and entry.queue in state.queues
    }
    return Picture(forest_of(state), holdings)


# --- playing ---

Step = ev.Event | float  # something happens, or a cycle runs at this time


class Play:
    """An engine, its clock, and everything that has happened, in order."""

    def __init__(self, maker: Worldmaker) -> None:
        self.maker = maker
        self.rng = maker.rng
        self.world = maker.world()
        self.engine = Engine(self.world.config)
        self.now = 0.0
        self.steps: list[Step] = []
        self.cycles: list[Cycle] = []
        self.last_heads: dict[QueueName, HeadOutcome] = {}
        self.fresh: set[WorkloadKey] = set()  # decided upon in the last cycle, nothing heard since
        self.on_cycle: list[Callable[[Before, Cycle], None]] = []
        self.submitted = 0
        for event in self.world.events():
            self.apply(event)

    @property
    def state(self) -> ClusterState:
        return self.engine.state

    def apply(self, event: ev.Event) -> None:
        self.steps.append(event)
        self.engine.apply(event)
        check_state(self.state)

    def cycle(self) -> Cycle:
        self.steps.append(self.now)
        self.state.build_trees()
        upkeep = tend(self.state, self.now)  # no part of what is judged below
        before = Before(self.state)
        cycle = self.engine.run_cycle(self.now)
        cycle = cycle._replace(decisions=(*upkeep, *cycle.decisions))
        check_state(self.state)
        self.cycles.append(cycle)
        self.last_heads.update((outcome.queue, outcome) for outcome in cycle.order)
        self.fresh = {key for d in cycle.decisions for key in changed_by(d)}
        for look in self.on_cycle:
            look(before, cycle)
        return cycle

    def settle(self, most: int = 300, *, lets_go: bool = True) -> int:
        """Cycles until nothing more is to be done now; returns how many it took."""
        for number in range(most):
            cycle = self.cycle()
            if lets_go:
                self.let_all_go()
            if self.is_at_rest(cycle):
                return number + 1
        raise AssertionError(f"no rest after {most} cycles: {self.cycles[-4:]}")

    def is_at_rest(self, cycle: Cycle) -> bool:
        """Nothing is due, and nothing was heard since that cycle."""
        is_due = cycle.next_at is not None and cycle.next_at <= self.now
        return not is_due and self.steps[-1] == self.now

    def let_all_go(self) -> None:
        for key in self.keys(Phase.EVICTING):
            self.apply(ev.PodsGone(key))

    def keys(self, *phases: Phase) -> list[WorkloadKey]:
        return [key for key, entry in self.state.entries.items() if entry.phase in phases]

    # --- what people and machines do ---

    def submit(self, queue: QueueName | None = None) -> WorkloadKey:
        self.submitted += 1
        on = queue or self.rng.choice(self.world.queues).name
        workload = self.maker.workload(self.submitted, on, self.now)
        self.apply(ev.WorkloadSeen(workload))
        return workload.key

    def fill(self, most: int = 12) -> None:
        """Submit and run some, so that the world is crowded."""
        for _ in range(self.rng.randint(most // 2, most)):
            self.submit()
            if self.rng.random() < 0.5:
                self.cycle()
                self.now += 1

    def live(self, steps: int) -> None:
        """Anything may happen."""
        for _ in range(self.rng.randint(1, steps)):
            self.rng.choice(DEEDS)(self)

    def _some(self, *phases: Phase) -> WorkloadKey | None:
        keys = self.keys(*phases)
        return self.rng.choice(keys) if keys else None

    def _about(self, key: WorkloadKey | None, make: Callable[[WorkloadKey], ev.Event]) -> None:
        if key is not None:
            self.fresh.discard(key)
            self.apply(make(key))

    def run(self) -> None:
        self.cycle()
        self.now += 1

    def pass_time(self) -> None:
        self.now += self.rng.choice([1.0, 3.0, 10.0, 30.0])

    def let_one_go(self) -> None:
        self._about(self._some(Phase.EVICTING), ev.PodsGone)

    def finish(self) -> None:
        self._about(self._some(*HOLDING), ev.WorkloadFinished)

    def remove(self) -> None:
        self._about(self._some(*Phase), ev.WorkloadRemoved)

    def pods_change(self) -> None:
        are_ready = self.rng.random() < 0.6
        self._about(
            self._some(Phase.ADMITTED),
            lambda key: ev.PodsChanged(key, are_ready, self.now),
        )

    def answer(self) -> None:
        state = self.rng.choice([CheckState.READY, CheckState.READY, *CheckState])
        delay_s = self.rng.choice([0.0, 5.0]) if state is CheckState.RETRY else 0.0
        self._about(
            self._some(Phase.RESERVED),
            lambda key: ev.CheckAnswered(key, CHECK, state, delay_s),
        )

    def evict(self) -> None:
        reason = EvictionReason.PREEMPTED_IN_PLACEMENT
        self._about(
            self._some(Phase.RESERVED, Phase.ADMITTED),
            lambda key: ev.Evicted(key, reason, self.now),
        )

    def forget(self) -> None:
        """The write of a decision failed."""
        keys = [key for key in self.state.entries if key in self.fresh]
        if keys:
            self._about(self.rng.choice(keys), ev.Forgotten)

    def give_back(self) -> None:
        key = self._some(*HOLDING)
        if key is not None:
            pod_set = self.rng.choice(self.state.entries[key].workload.pod_sets)
            already = self.state.entries[key].status.reclaimable.get(pod_set.name, 0)
            if already < pod_set.count:
                counts = {**self.state.entries[key].status.reclaimable, pod_set.name: already + 1}
                self._about(key, lambda key: ev.PodsReclaimed(key, counts))

    def edit_workload(self) -> None:
        key = self._some(*Phase)
        if key is None:
            return
        workload = self.state.entries[key].workload
        match self.rng.randint(0, 3):
            case 0 | 1:
                workload = replace(workload, priority=self.rng.randint(0, 2))
            case 2:
                workload = replace(workload, active=not workload.active)
            case 3 if self.state.entries[key].phase is Phase.PENDING:
                queue = self.rng.choice(self.world.queues).name
                workload = replace(workload, local_queue=local_queue_of(queue).key)
        self._about(key, lambda _: ev.WorkloadEdited(workload))

    def edit_queue(self) -> None:
        rng, maker = self.rng, self.maker
        name = rng.choice(self.world.queues).name
        if name not in self.state.queues:
            return
        spec = self.state.queues[name].spec
        match rng.randint(0, 6):
            case 0 | 1:
                spec = replace(spec, groups=maker.groups(spec.cohort is not None))
            case 2:
                spec = replace(spec, preemption=maker.preemption())
            case 3 | 4:
                spec = replace(spec, stop_policy=rng.choice([*StopPolicy, StopPolicy.NONE]))
            case 5:
                fungibility = replace(spec.fungibility, fallbacks=maker.fallbacks())
                spec = replace(spec, fungibility=fungibility)
            case 6:
                cohort = rng.choice([None, *(c.name for c in self.world.cohorts)])
                spec = replace(spec, cohort=cohort, groups=maker.groups(cohort is not None))
        self.apply(ev.QueueChanged(spec))

    def edit_cohort(self) -> None:
        """New quotas under the same parent, or gone, or back again."""
        if self.world.cohorts:
            cohort = self.rng.choice(self.world.cohorts)
            if self.rng.random() < 0.2:
                self.apply(ev.CohortRemoved(cohort.name))
            else:
                self.apply(ev.CohortChanged(self.maker.cohort(cohort.name, cohort.parent)))

    def edit_surroundings(self) -> None:
        rng = self.rng
        name = rng.choice(self.world.queues).name
        match rng.randint(0, 6):
            case 0:
                stop = rng.choice([StopPolicy.NONE, *StopPolicy])
                self.apply(ev.LocalQueueChanged(local_queue_of(name, stop)))
            case 1:
                self.apply(ev.NamespaceChanged(NAMESPACE, {"team": rng.choice("ab")}))
            case 2:
                self.apply(ev.CheckChanged(CHECK, rng.random() < 0.6))
            case 3:
                self.apply(ev.FlavorRemoved(self.world.flavors[-1].name))
            case 4:
                self.apply(ev.FlavorChanged(self.world.flavors[-1]))
            case 5:
                self.apply(ev.QueueRemoved(name))
            case 6:
                spec = next(queue for queue in self.world.queues if queue.name == name)
                self.apply(ev.QueueChanged(spec))


DEEDS: list[Callable[[Play], object]] = [
    *[Play.submit] * 10,
    *[Play.run] * 12,
    *[Play.let_one_go] * 6,
    *[Play.finish] * 3,
    *[Play.pods_change] * 2,
    *[Play.answer] * 3,
    *[Play.edit_workload] * 2,
    *[Play.edit_queue] * 2,
    Play.pass_time,
    Play.remove,
    Play.evict,
    Play.forget,
    Play.give_back,
    Play.edit_cohort,
    Play.edit_surroundings,
]


def changed_by(decision: Decision) -> tuple[WorkloadKey, ...]:
    """Whose status has to be written because of a decision."""
    match decision:
        case Preempt():
            return tuple(victim.workload for victim in decision.victims if victim.is_new)
        case Admit() | Reserve() | Evict() | Deactivate():
            return (decision.workload,)
    return ()


# --- checks of one cycle ---


class Before:
    """How things stood before a cycle, as far as judging its decisions needs it."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.picture = picture_of(state)
        self.phases = {key: entry.phase for key, entry in state.entries.items()}
        self.order_times = {key: order_time(e, state.config) for key, e in state.entries.items()}
        self.preemptors = {
            key: (entry.queue, dict(entry.search.claimed_usage))
            for key, entry in state.entries.items()
            if entry.status.claim is not None
            and entry.search.claimed_usage
            and entry.queue is not None
        }
        self.is_stopped = {
            name for name, queue in state.queues.items() if _admits_nothing(state, queue.spec)
        }

    def preemption(self, queue: QueueName) -> Preemption:
        return self.state.queues[queue].spec.preemption

    def is_new(self, decision: Admit | Reserve) -> bool:
        """Did it get its quota just now, and not only the last of its checks?"""
        return self.phases[decision.workload] is Phase.PENDING


def order_time(entry: Entry, config: Config) -> float:
    """Queue-order time as design section 6 states it."""
    eviction = entry.status.eviction
    if eviction is None:
        return entry.workload.created_at
    by_reason = {
        EvictionReason.ADMISSION_CHECK: RequeueTime.EVICTION,
        EvictionReason.PREEMPTED: config.after_preemption,
        EvictionReason.PREEMPTED_IN_PLACEMENT: config.after_preemption,
        EvictionReason.PODS_READY_TIMEOUT: config.after_pods_ready_timeout,
        EvictionReason.FLAVOR_FALLBACK: config.after_pods_ready_timeout,
    }
    by = by_reason.get(eviction.reason, RequeueTime.CREATION)
    return eviction.at if by is RequeueTime.EVICTION else entry.workload.created_at


def _admits_nothing(state: ClusterState, queue: Queue) -> bool:
    return (
        queue.stop_policy is not StopPolicy.NONE
        or any(f.flavor not in state.flavors for group in queue.groups for f in group.flavors)
        or any(not state.checks.get(check.name) for check in queue.checks)
    )


def wanted(workload: Workload, entry: Entry, *, least: bool = False) -> dict[ResourceName, int]:
    """What a workload asks for in all, or at least, by resource."""
    total: dict[ResourceName, int] = {}
    for pod_set in workload.pod_sets:
        count = pod_set.count - entry.status.reclaimable.get(pod_set.name, 0)
        if least and pod_set.min_count is not None:
            count = min(count, pod_set.min_count)
        for resource, amount in pod_set.requests:
            total[resource] = total.get(resource, 0) + amount * max(0, count)
    return total


def check_admissions_fit(before: Before, cycle: Cycle) -> None:
    """Alone each fits into what was free, and all together break no limit on the way up."""
    admitted = [
        (d, before.state.entries[d.workload])
        for d in cycle.decisions
        if isinstance(d, Admit | Reserve) and before.is_new(d)
    ]
    picture = before.picture
    if not before.state.config.gates.hold_for_preemptor:  # Kueue counts on victims letting go
        preempts = [d for d in cycle.decisions if isinstance(d, Preempt)]
        picture = picture.having(gone={v.workload for d in preempts for v in d.victims})
    for decision, entry in admitted:
        usage = charged(entry)
        assert picture.fits(decision.queue, usage), f"{decision} did not fit"
        assert decision.queue not in before.is_stopped, f"{decision} in a stopped queue"
        check_amounts(entry, usage)
    after = picture.having(more=[(d.workload, d.queue, charged(e)) for d, e in admitted])
    for decision, entry in admitted:
        for cell, amount in charged(entry).items():
            if amount:
                after.check_limits(decision.queue, cell)


def check_amounts(entry: Entry, usage: Amounts) -> None:
    """A workload is charged what it asked for, in one flavor per resource and pod set."""
    by_resource: dict[ResourceName, int] = {}
    for cell, amount in usage.items():
        by_resource[cell.resource] = by_resource.get(cell.resource, 0) + amount
    most, least = wanted(entry.workload, entry), wanted(entry.workload, entry, least=True)
    for resource, amount in by_resource.items():
        assert least[resource] <= amount <= most[resource], f"{entry.workload.key}: {usage}"


class Stand(NamedTuple):
    """One head that was promised a place, and what those before it had been promised."""

    workload: WorkloadKey
    queue: QueueName
    amounts: Amounts
    preempt: Preempt | None
    picture: Picture  # without the victims of earlier heads, with what these were promised
    is_exact: bool  # False: an earlier head may have reserved what only the engine knows


def stands(before: Before, cycle: Cycle) -> list[Stand]:
    """In the order in which the cycle took the heads."""
    decisions = {d.preemptor: d for d in cycle.decisions if isinstance(d, Preempt)}
    gone: set[WorkloadKey] = set()
    promised: list[tuple[WorkloadKey, QueueName, Amounts]] = []
    found: list[Stand] = []
    is_exact = True
    for outcome in cycle.order:
        key, entry = outcome.workload, before.state.entries[outcome.workload]
        match outcome.result:
            case HeadResult.ADMITTED:
                amounts = charged(entry)
            case HeadResult.PREEMPTING | HeadResult.PENDING_PREEMPTION:
                assert entry.search.claimed_usage is not None, f"{key} preempts for nothing"
                claimed = entry.search.claimed_usage
                amounts = {cell: amount for cell, amount in claimed.items() if amount}
            case HeadResult.NO_CANDIDATES:
                is_exact = False
                continue
            case _:
                continue
        if outcome.result is HeadResult.PENDING_PREEMPTION:
            gone |= _leaving_before(cycle, key)
        picture = before.picture.having(gone=gone, more=promised)
        preempt = decisions.get(key)
        found.append(Stand(key, outcome.queue, amounts, preempt, picture, is_exact))
        promised.append((key, outcome.queue, amounts))
        if preempt is not None:
            gone |= {victim.workload for victim in preempt.victims}
    return found


def _leaving_before(cycle: Cycle, key: WorkloadKey) -> set[WorkloadKey]:
    """For whom a head waits who was on the way out when the cycle began."""
    preempts = [d for d in cycle.decisions if isinstance(d, Preempt)]
    new = {victim.workload for d in preempts for victim in d.victims if victim.is_new}
    waits = [d for d in cycle.decisions if isinstance(d, Wait) and d.workload == key]
    reasons = [r for wait in waits for r in wait.reasons if isinstance(r, WaitingForVictims)]
    return {victim for reason in reasons for victim in reason.victims} - new


def check_victims_suffice(before: Before, cycle: Cycle) -> None:
    """Once all victims of the cycle have gone, everybody who was promised a place has one."""
    for stand in stands(before, cycle):
        victims = stand.preempt.victims if stand.preempt is not None else ()
        picture = stand.picture.having(gone=[victim.workload for victim in victims])
        check_amounts(before.state.entries[stand.workload], stand.amounts)
        assert picture.fits(stand.queue, stand.amounts), f"{stand} lacks room in the end"


def check_nobody_is_superfluous(before: Before, cycle: Cycle) -> None:
    """Give any single victim back, and the preemptor does not fit any more.

    A head whose victims an earlier one took was nominated again on a changed picture: it may be
    judged by either. Victims of other queues may be had only by staying inside the nominal quota:
    where they were looked at, fitting means that (even if in the end none of them is needed). With
    OwnersFirst somebody may take more than it lacks, so as to exchange instead of borrowing; with
    fair sharing shares decide.
    """
    if before.state.config.gates.owners_first or before.state.config.fair_sharing:
        return
    for stand in stands(before, cycle):
        if stand.preempt is not None:
            reclaims = before.preemption(stand.queue).reclaim is not Policy.NEVER
            assert (
                _is_minimal(before.picture, stand.preempt, stand.amounts, reclaims)
                or not stand.is_exact
                or _is_minimal(stand.picture, stand.preempt, stand.amounts, reclaims)
            ), f"somebody is superfluous in {stand.preempt}, who needs {stand.amounts}"


def _is_minimal(picture: Picture, decision: Preempt, amounts: Amounts, reclaims: bool) -> bool:
    queue = decision.queue
    victims = [victim.workload for victim in decision.victims]
    without_all = picture.having(gone=victims)
    if not without_all.fits(queue, amounts):
        return False
    stays_inside = reclaims and without_all.fits_unborrowed(queue, amounts)
    fits = Picture.fits_unborrowed if stays_inside else Picture.fits
    return not any(
        fits(picture.having(gone=[v for v in victims if v != spared]), queue, amounts)
        for spared in victims
    )


def check_policy_allows(before: Before, cycle: Cycle) -> None:
    """Each victim may be taken: by the policy, its priority, and because its queue borrows."""
    for stand in stands(before, cycle):
        if stand.preempt is None:
            continue
        taken: list[WorkloadKey] = []
        for victim in stand.preempt.victims:
            _check_priority(before, stand.preempt, victim)
            _check_cells(before, victim, stand.amounts)
            if victim.queue != stand.queue:
                _check_borrows(before, stand, victim, taken)
                _check_entitled(before, stand, victim)
            taken.append(victim.workload)


def _check_priority(before: Before, decision: Preempt, victim: Victim) -> None:
    mine = before.state.entries[decision.preemptor].workload.priority
    workload = before.state.entries[victim.workload].workload
    theirs = workload.priority
    if workload.preemption_priority is not None:
        theirs = workload.preemption_priority
    preemption = before.preemption(decision.queue)
    own = victim.queue == decision.queue
    label = f"{decision.preemptor} ({mine}) takes {victim} ({theirs})"
    assert own == (victim.rule is VictimRule.IN_QUEUE), label
    match preemption.within_queue if own else preemption.reclaim:
        case Policy.NEVER:
            raise AssertionError(f"{label}, which is forbidden")
        case Policy.LOWER_PRIORITY:
            assert theirs < mine, label
        case Policy.LOWER_OR_NEWER_EQUAL:
            times = before.order_times
            is_newer = times[decision.preemptor] < times[victim.workload]
            assert theirs < mine or (theirs == mine and is_newer), label


def _check_cells(before: Before, victim: Victim, amounts: Amounts) -> None:
    held = before.picture.holdings[victim.workload]
    assert held.queue == victim.queue, victim
    assert victim.cells, f"{victim} holds nothing of what is short"
    assert all(cell in held.usage and cell in amounts for cell in victim.cells), victim


def _check_borrows(before: Before, stand: Stand, victim: Victim, taken: list[WorkloadKey]) -> None:
    """Of another queue only while that borrows, and every cohort on the way does too."""
    label = f"{stand.workload} takes {victim}"
    assert victim.queue not in before.is_stopped, label
    mine = before.picture.path(f"queue:{stand.queue}")
    theirs = before.picture.path(f"queue:{victim.queue}")
    assert mine[-1] == theirs[-1], f"{label} of another tree"
    cells: Iterable[FlavorResource] = stand.amounts
    below = [node for node in theirs if node not in mine]
    if before.state.config.fair_sharing:  # shares are over all cells, and decide about cohorts
        cells = {cell for held in before.picture.holdings.values() for cell in held.usage}
        below = below[:1]
    pictures = [picture.having(gone=taken) for picture in (before.picture, stand.picture)]
    counts_reservations = not before.state.config.gates.hold_for_preemptor  # as Kueue does
    if counts_reservations and not stand.is_exact:
        return
    for node in below:
        assert any(p.borrows(node, cells) for p in pictures), f"{label}, {node} does not borrow"


def _check_entitled(before: Before, stand: Stand, victim: Victim) -> None:
    """Does the preemptor end up within quota that is nearer to it than to the victim?"""
    state, preemption = before.state, before.preemption(stand.queue)
    label = f"{stand.workload} takes {victim}"
    if victim.rule is VictimRule.FAIR_SHARING:
        assert state.config.fair_sharing, label
    elif victim.rule is VictimRule.RECLAIM_WHILE_BORROWING:
        priority = state.entries[victim.workload].workload.victim_priority
        threshold = preemption.borrow_threshold
        assert not state.config.fair_sharing, label
        assert preemption.borrow_while_reclaiming, label
        assert priority < state.entries[stand.workload].workload.priority, label
        assert threshold is None or priority <= threshold, label
    else:
        cells = victim.cells if state.config.fair_sharing else tuple(stand.amounts)
        theirs = before.picture.path(f"queue:{victim.queue}")
        below = [n for n in before.picture.path(f"queue:{stand.queue}") if n not in theirs]
        assert any(not p.borrows(n, cells) for p in _in_the_end(before, stand) for n in below), (
            f"{label}, but would borrow itself"
        )


def _in_the_end(before: Before, stand: Stand) -> list[Picture]:
    """With the preemptor in the place of its victims."""
    assert stand.preempt is not None
    gone = [victim.workload for victim in stand.preempt.victims]
    place = (stand.workload, stand.queue, stand.amounts)
    return [p.having(gone=gone, more=[place]) for p in (before.picture, stand.picture)]


def check_places_are_kept(before: Before, cycle: Cycle) -> None:
    """With HoldForPreemptor: who waits for victims still fits once they are gone.

    Unless somebody has passed who borrows less far or is of higher priority, or it fitted no more
    before the cycle.
    """
    state = before.state
    if not state.config.gates.hold_for_preemptor:
        return
    evicting = [key for key, phase in before.phases.items() if phase is Phase.EVICTING]
    cleared = picture = before.picture.having(gone=evicting)
    promised = []
    for key in sorted(before.preemptors, key=lambda key: _precedence(before, key)):
        queue, amounts = before.preemptors[key]
        assert queue is not None
        if picture.fits(queue, amounts):
            picture = picture.having(more=[(key, queue, amounts)])
            promised.append(key)
    admitted = [d for d in cycle.decisions if isinstance(d, Admit | Reserve) and before.is_new(d)]
    leaving = [key for key, entry in state.entries.items() if entry.phase is Phase.EVICTING]
    after = picture_of(state).having(gone=leaving)
    for key in promised:
        entry = state.entries[key]
        queue, amounts = before.preemptors[key]
        if queue is None or entry.status.claim is None or entry.search.claimed_usage != amounts:
            continue
        if any(_may_pass(before, stand, key, cleared) for stand in stands(before, cycle)):
            return  # somebody nearer or of higher priority has come first, or been promised a place
        assert after.fits(queue, amounts), (
            f"{key} lost its place to one of {[d.workload for d in admitted]}"
        )
        after = after.having(more=[(key, queue, amounts)])


def _may_pass(before: Before, stand: Stand, preemptor: WorkloadKey, cleared: Picture) -> bool:
    """Who borrows less far may, higher priorities, and preemptors that come first."""
    key = stand.workload
    priorities = [before.state.entries[k].workload.priority for k in (key, preemptor)]
    queue, amounts = before.preemptors[preemptor]
    assert queue is not None
    if cleared.level(stand.queue, stand.amounts) < cleared.level(queue, amounts):
        return True
    if key in before.preemptors:
        return _precedence(before, key) < _precedence(before, preemptor)
    return priorities[0] > priorities[1]


def _precedence(before: Before, key: WorkloadKey) -> tuple[int, float, int]:
    entry = before.state.entries[key]
    return -entry.workload.priority, before.order_times[key], entry.serial


CYCLE_CHECKS = (
    check_admissions_fit,
    check_victims_suffice,
    check_policy_allows,
    check_places_are_kept,
)
