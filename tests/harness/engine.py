"""Stories for the engine: queues and workloads in a few words, and a check of the whole state.

A `Scenario` defaults everything that a story does not mention, moves its own clock, drops the
namespace from names, and after every step compares all maps of the engine with each other and
with sums made here, apart from the engine's own arithmetic (`check_state`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.decisions import DeactivationReason, Reason, VictimRule
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry
from makeway.engine.matching import Constraints, Taint, Toleration
from makeway.engine.model import (
    HOLDING,
    Aging,
    Assignment,
    Changes,
    CheckName,
    CheckState,
    Cohort,
    CohortName,
    Config,
    EvictionReason,
    FailurePolicy,
    FallbackRule,
    Fallbacks,
    Flavor,
    FlavorName,
    FlavorQuotas,
    FlavorResource,
    FlavorTrial,
    Fungibility,
    Inactive,
    LocalQueue,
    LocalQueueKey,
    Milestone,
    NamespaceSelector,
    Phase,
    PodSet,
    PodSetAssignment,
    PodSetName,
    Policy,
    Preemption,
    Preference,
    Queue,
    QueueCheck,
    QueueName,
    Quota,
    ResourceGroup,
    ResourceName,
    Search,
    Sorting,
    StopPolicy,
    Strategy,
    Trigger,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.state import ClusterState
from makeway.engine.tree import Tree
from tests.harness.quota_forest import QuotaForest

NEVER, LOWER, NEWER_EQUAL, ANY = (
    Policy.NEVER,
    Policy.LOWER_PRIORITY,
    Policy.LOWER_OR_NEWER_EQUAL,
    Policy.ANY,
)
STRICT, BEST_EFFORT = Strategy.STRICT_FIFO, Strategy.BEST_EFFORT_FIFO
TRY_NEXT, MAY_STOP = Search.TRY_NEXT, Search.MAY_STOP
IN_QUEUE, RECLAIM, RECLAIM_WHILE_BORROWING = (
    VictimRule.IN_QUEUE,
    VictimRule.RECLAIM,
    VictimRule.RECLAIM_WHILE_BORROWING,
)
HOLD, HOLD_AND_DRAIN = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN
TIMEOUT, REJECTED = Trigger.TIMEOUT, Trigger.CHECK_REJECTED
RETRY_ALL = FailurePolicy.RETRY_ALL
DEFAULT = "default"  # the flavor, where a story has only one, and the namespace
MINUTE = 60.0

Amount = int | Quota
Offers = Amount | Mapping[str, Amount]  # of the default flavor, or by flavor


# --- objects in few words ---


def quota(nominal: int, *, borrow: int | None = None, lend: int | None = None) -> Quota:
    return Quota(nominal, borrow, lend)


def queue(
    name: str,
    *,
    cohort: str | None = None,
    strategy: Strategy = BEST_EFFORT,
    within: Policy = NEVER,
    reclaim: Policy = NEVER,
    borrow_within: bool = False,
    threshold: int | None = None,
    after_s: float = 0.0,
    sorting: Sequence[Sorting] = (),
    protects_s: float = 0.0,
    budget: int | None = None,
    aging: Aging | None = None,
    counts_history: bool = False,
    when_can_borrow: Search = MAY_STOP,
    when_can_preempt: Search = TRY_NEXT,
    preference: Preference | None = None,
    rules: Sequence[FallbackRule] = (),
    on_failure: FailurePolicy = FailurePolicy.DEACTIVATE,
    stop: StopPolicy = StopPolicy.NONE,
    checks: Sequence[str | QueueCheck] = (),
    namespaces: NamespaceSelector | None = NamespaceSelector(),  # noqa: B008
    weight: float = 1.0,
    **offers: Offers,
) -> Queue:
    """A queue with so much of each resource. Resources that list the same flavors are a group."""
    return Queue(
        name=QueueName(name),
        groups=_groups(offers),
        cohort=CohortName(cohort) if cohort is not None else None,
        strategy=strategy,
        namespaces=namespaces,
        fungibility=Fungibility(
            when_can_borrow=when_can_borrow,
            when_can_preempt=when_can_preempt,
            preference=preference,
            fallbacks=Fallbacks(rules=tuple(rules), failure_policy=on_failure),
        ),
        preemption=Preemption(
            within_queue=within,
            reclaim=reclaim,
            borrow_while_reclaiming=borrow_within,
            borrow_threshold=threshold,
            after_waiting_s=after_s,
            sorting=tuple(sorting),
            min_runtime_s=protects_s,
            evictions_per_hour=budget,
        ),
        aging=aging,
        counts_history=counts_history,
        stop_policy=stop,
        checks=tuple(c if isinstance(c, QueueCheck) else QueueCheck(CheckName(c)) for c in checks),
        weight=weight,
    )


def _groups(offers: Mapping[str, Offers]) -> tuple[ResourceGroup, ...]:
    by_flavors: dict[tuple[str, ...], dict[str, Mapping[str, Amount]]] = {}
    for resource, offer in offers.items():
        by_flavor = offer if isinstance(offer, Mapping) else {DEFAULT: offer}
        by_flavors.setdefault(tuple(by_flavor), {})[resource] = by_flavor
    return tuple(
        ResourceGroup(
            tuple(ResourceName(resource) for resource in resources),
            tuple(
                FlavorQuotas(
                    FlavorName(flavor),
                    {
                        ResourceName(resource): _as_quota(by_flavor[flavor])
                        for resource, by_flavor in resources.items()
                    },
                )
                for flavor in flavors
            ),
        )
        for flavors, resources in by_flavors.items()
    )


def _as_quota(amount: Amount) -> Quota:
    return amount if isinstance(amount, Quota) else Quota(amount)


def cohort(
    name: str, *, parent: str | None = None, weight: float = 1.0, **offers: Offers
) -> Cohort:
    quotas = {
        FlavorResource(FlavorName(flavor), ResourceName(resource)): _as_quota(amount)
        for resource, offer in offers.items()
        for flavor, amount in (offer if isinstance(offer, Mapping) else {DEFAULT: offer}).items()
    }
    return Cohort(
        name=CohortName(name),
        parent=CohortName(parent) if parent is not None else None,
        quotas=quotas,
        weight=weight,
    )


def flavor(name: str, *, taint: str | None = None, **labels: str) -> Flavor:
    return Flavor(
        name=FlavorName(name), labels=labels, taints=(Taint(taint),) if taint is not None else ()
    )


def rule(
    flavor: str,
    trigger: Trigger | None = TIMEOUT,
    *,
    minutes: float | None = None,
) -> FallbackRule:
    return FallbackRule(flavor, trigger, None if minutes is None else minutes * MINUTE)


def exempt(flavor: str) -> FallbackRule:
    """A rule with only a name: "*" does not concern this flavor."""
    return FallbackRule(flavor, None)


def pods(
    name: str,
    count: int = 1,
    *,
    at_least: int | None = None,
    selector: Mapping[str, str] | None = None,
    tolerates: str | None = None,
    **requests: int,
) -> PodSet:
    """A pod set; requests are those of one pod."""
    return replace(
        _pod_set(name, count, requests),
        min_count=at_least,
        constraints=Constraints(
            selector=tuple(sorted((selector or {}).items())),
            tolerations=(Toleration(tolerates, "Exists"),) if tolerates is not None else (),
        ),
    )


def _pod_set(name: str, count: int, requests: Mapping[str, int]) -> PodSet:
    return PodSet(
        name=PodSetName(name),
        count=count,
        requests=tuple(sorted((ResourceName(r), amount) for r, amount in requests.items())),
    )


# --- decisions in few words ---


@dataclass(frozen=True)
class Said:
    """One decision of a cycle, without what the story does not care about."""

    what: str
    workload: str
    details: tuple[tuple[str, object], ...] = ()

    def __repr__(self) -> str:
        details = "".join(f", {key}={value!r}" for key, value in self.details)
        return f"{self.what}({self.workload!r}{details})"


def _said(what: str, workload: str, **details: object) -> Said:
    return Said(what, workload, tuple((key, value) for key, value in details.items() if value))


def admit(workload: str, flavor: str = DEFAULT, *, pods: int | None = None) -> Said:
    """`flavor`: those held, joined by "+"; `pods`: how many, where it is fewer than asked for."""
    return _said("admit", workload, flavor=flavor, pods=pods)


def reserve(workload: str, flavor: str = DEFAULT, *, checks: Sequence[str]) -> Said:
    return _said("reserve", workload, flavor=flavor, checks=tuple(checks))


def preempt(
    workload: str,
    *,
    victims: Sequence[str] | Mapping[str, VictimRule],
    why: VictimRule = IN_QUEUE,
) -> Said:
    rules = victims if isinstance(victims, Mapping) else dict.fromkeys(victims, why)
    return _said("preempt", workload, victims=tuple(sorted(rules.items())))


def evict(
    workload: str,
    why: EvictionReason,
    *,
    flavors: Sequence[str] = (),
    until: float | None = None,
    again: bool = False,
) -> Said:
    return _said("evict", workload, why=why, flavors=tuple(flavors), until=until, again=again)


def fall_back(
    workload: str, *flavors: str, until: float | None = None, again: bool = False
) -> Said:
    """Evicted because these flavors are exhausted for it; `again`: and so all are open again."""
    why = EvictionReason.FLAVOR_FALLBACK
    return evict(workload, why, flavors=flavors, until=until, again=again)


def deactivate(workload: str, why: DeactivationReason) -> Said:
    return _said("deactivate", workload, why=why)


def requeue(workload: str) -> Said:
    return _said("requeue", workload)


def start_over(workload: str, *, until: float | None = None) -> Said:
    """It waited, ran out of flavors to try, and may try all of them again."""
    return _said("start_over", workload, until=until)


def _has_new_victims(decision: dec.Preempt) -> bool:
    """Otherwise the preemptor only goes on waiting for those who are leaving already."""
    return any(victim.is_new for victim in decision.victims)


def _name(key: str) -> str:
    return key.removeprefix(f"{DEFAULT}/")


def _key(name: str) -> WorkloadKey:
    return WorkloadKey(name if "/" in name else f"{DEFAULT}/{name}")


# --- the scenario ---


class Scenario:
    """An engine with queues, a clock that only the story moves, and everybody by short names."""

    def __init__(
        self,
        *parts: Queue | Cohort | Flavor,
        cohort: str | None = None,
        config: Config | None = None,
    ) -> None:
        self.engine = Engine(config)
        self.now = 0.0
        self.next_at: float | None = None  # when the engine wants to be called again
        self._waits: dict[str, dec.Wait] = {}
        self._last: dict[str, dec.Decision] = {}
        self._arrivals = 0
        self.apply(ev.NamespaceChanged(DEFAULT, {}))
        for part in parts:
            if isinstance(part, Queue):
                if cohort is not None and part.cohort is None:
                    part = replace(part, cohort=CohortName(cohort))
                self.change(part)
                key = LocalQueueKey(f"{DEFAULT}/{part.name}")
                self.apply(ev.LocalQueueChanged(LocalQueue(key=key, queue=part.name)))
            else:
                self.change(part)

    @property
    def state(self) -> ClusterState:
        return self.engine.state

    def apply(self, event: ev.Event) -> Changes:
        changes = self.engine.apply(event)
        check_state(self.state)
        return changes

    def later(self, seconds: float = 1.0) -> Scenario:
        self.now += seconds
        return self

    # --- what people declare and edit ---

    def change(self, part: Queue | Cohort | Flavor) -> None:
        """Add or replace; flavors that a queue names come into being with it."""
        match part:
            case Queue():
                for group in part.groups:
                    for quotas in group.flavors:
                        if quotas.flavor not in self.state.flavors:
                            self.apply(ev.FlavorChanged(Flavor(name=quotas.flavor)))
                self.apply(ev.QueueChanged(part))
            case Cohort():
                self.apply(ev.CohortChanged(part))
            case Flavor():
                self.apply(ev.FlavorChanged(part))

    def edit_queue(self, name: str, **changes: object) -> None:
        spec = self.state.queues[QueueName(name)].spec
        self.apply(ev.QueueChanged(replace(spec, **changes)))  # type: ignore[arg-type]

    def edit_fallbacks(self, name: str, *rules: FallbackRule) -> None:
        spec = self.state.queues[QueueName(name)].spec
        fallbacks = replace(spec.fungibility.fallbacks, rules=rules)
        self.edit_queue(name, fungibility=replace(spec.fungibility, fallbacks=fallbacks))

    def stop(self, name: str, policy: StopPolicy = HOLD) -> None:
        self.edit_queue(name, stop_policy=policy)

    def start(self, name: str) -> None:
        self.edit_queue(name, stop_policy=StopPolicy.NONE)

    def local_queue(
        self, name: str, *, to: str, stop: StopPolicy = StopPolicy.NONE, weight: float = 1.0
    ) -> None:
        key = LocalQueueKey(f"{DEFAULT}/{name}")
        found = LocalQueue(key=key, queue=QueueName(to), stop_policy=stop, weight=weight)
        self.apply(ev.LocalQueueChanged(found))

    def check_is(self, name: str, *, active: bool = True) -> None:
        self.apply(ev.CheckChanged(CheckName(name), active))

    # --- workloads ---

    def pending(
        self,
        name: str,
        *pod_sets: PodSet,
        on: str,
        tried: Iterable[FlavorTrial] = (),
        **fields: Any,
    ) -> None:
        """Somebody submits a workload now, with fields of `_workload`."""
        workload = self._workload(name, *pod_sets, on=on, **fields)
        self.apply(ev.WorkloadSeen(workload, WorkloadStatus(history=tuple(tried))))

    def running(
        self,
        name: str,
        *pod_sets: PodSet,
        on: str,
        flavor: str | None = None,
        reserved: float | None = None,
        ready: bool = True,
        **fields: Any,
    ) -> None:
        """A workload that was admitted before the story begins."""
        workload = self._workload(name, *pod_sets, on=on, **fields)
        local_queue = self.state.local_queues[workload.local_queue]
        spec = self.state.queues[local_queue.queue].spec
        at = self.now if reserved is None else reserved
        status = WorkloadStatus(
            assignment=_assigned(workload.pod_sets, spec, flavor),
            queue=spec.name,
            reserved_at=at,
            admitted_at=at,
            pods_ready=ready,
            ready_at=at if ready else None,
        )
        self.apply(ev.WorkloadSeen(workload, status))

    def _workload(
        self,
        name: str,
        *pod_sets: PodSet,
        on: str,
        priority: int = 0,
        as_victim: int | None = None,
        created: float | None = None,
        namespace: str = DEFAULT,
        milestones: Sequence[tuple[float, float]] = (),
        ends: bool = False,
        checkpoint: float | None = None,
        **requests: int,
    ) -> Workload:
        """Requests make it one pod set of one pod."""
        self._arrivals += 1
        return Workload(
            key=WorkloadKey(f"{namespace}/{name}"),
            uid=f"{self._arrivals:04}",  # at equal times, who comes first is first
            local_queue=LocalQueueKey(f"{DEFAULT}/{on}"),
            namespace=namespace,
            priority=priority,
            preemption_priority=as_victim,
            created_at=self.now if created is None else created,
            pod_sets=pod_sets or (_pod_set("main", 1, requests),),
            milestones=tuple(Milestone(*milestone) for milestone in milestones),
            ends_when_preempted=ends,
            checkpoint_at=checkpoint,
        )

    def edit(self, name: str, *, on: str | None = None, **changes: object) -> None:
        """Change fields of a workload; `on` moves it to another local queue."""
        workload = self.entry(name).workload
        if on is not None:
            changes["local_queue"] = LocalQueueKey(f"{DEFAULT}/{on}")
        self.apply(ev.WorkloadEdited(replace(workload, **changes)))  # type: ignore[arg-type]

    def remove(self, name: str) -> None:
        self.apply(ev.WorkloadRemoved(_key(name)))

    def finish(self, *names: str) -> None:
        for name in names:
            self.apply(ev.WorkloadFinished(_key(name)))

    def let_go(self, *names: str) -> None:
        """The pods of these evicted workloads are gone."""
        for name in names:
            assert self.entry(name).phase is Phase.EVICTING, f"{name} has not been evicted"
            self.apply(ev.PodsGone(_key(name)))

    def evicted(self, name: str, why: EvictionReason) -> None:
        """Somebody other than the engine stops it now."""
        self.apply(ev.Evicted(_key(name), why, self.now))

    def pods_ready(self, name: str) -> None:
        self.apply(ev.PodsChanged(_key(name), True, self.now))

    def pods_not_ready(self, name: str, *, but: Iterable[str] = ()) -> None:
        ready = frozenset(PodSetName(pod_set) for pod_set in but)
        self.apply(ev.PodsChanged(_key(name), False, self.now, ready))

    def give_back(self, name: str, **counts: int) -> None:
        """Pods that have succeeded and need their quota no more, by pod set."""
        reclaimable = {PodSetName(pod_set): count for pod_set, count in counts.items()}
        self.apply(ev.PodsReclaimed(_key(name), reclaimable))

    def answer(self, name: str, check: str, state: CheckState, *, retry_after: float = 0.0) -> None:
        self.apply(ev.CheckAnswered(_key(name), CheckName(check), state, retry_after))

    def forget(self, name: str) -> None:
        """The write of the last decision on this workload failed."""
        self.apply(ev.Forgotten(_key(name)))

    # --- what the engine says ---

    def cycle(self, now: float | None = None) -> list[Said]:
        """One cycle; returns what it did. Who waits, and why, is in `why`."""
        if now is not None:
            assert now >= self.now, "time never goes back"
            self.now = now
        holders = {key for key, entry in self.state.entries.items() if entry.phase in HOLDING}
        result = self.engine.run_cycle(self.now)
        self.next_at = result.next_at
        check_state(self.state)
        check_admissions(
            self.state,
            [
                decision.workload
                for decision in result.decisions
                if isinstance(decision, dec.Admit | dec.Reserve)
                if decision.workload not in holders
            ],
        )
        said = []
        for decision in result.decisions:
            if isinstance(decision, dec.Wait):
                self._waits[_name(decision.workload)] = decision
            elif not isinstance(decision, dec.Preempt) or _has_new_victims(decision):
                said.append(self._in_short(decision))
        return said

    def cycles(self, most: int = 20) -> list[Said]:
        """Cycles at this moment until nothing more happens; returns all that they did."""
        said: list[Said] = []
        for _ in range(most):
            said += self.cycle()
            if self.next_at is None or self.next_at > self.now:
                return said
        raise AssertionError(f"the engine does not come to rest: {said}")

    def settle(self, *, one_by_one: bool = False, most: int = 100) -> list[Said]:
        """Cycles at this moment, and whoever is evicted lets go, until nothing more happens."""
        said: list[Said] = []
        for _ in range(most):
            said += self.cycle()
            leaving = [_name(k) for k, e in self.state.entries.items() if e.phase is Phase.EVICTING]
            if leaving and not one_by_one:
                self.let_go(*leaving)
            elif self.next_at is not None and self.next_at <= self.now:
                continue
            elif leaving:
                self.let_go(leaving[0])
            else:
                return said
        raise AssertionError(f"no rest: {said}")

    def _in_short(self, decision: dec.Decision) -> Said:
        match decision:
            case dec.Admit():
                name, held = _name(decision.workload), decision.assignment
                asked = sum(ps.count for ps in self.entry(name).workload.pod_sets)
                got = sum(ps.count for ps in held.pod_sets)
                return admit(name, "+".join(held.flavors()), pods=got if got < asked else None)
            case dec.Reserve():
                flavors = "+".join(decision.assignment.flavors())
                return reserve(_name(decision.workload), flavors, checks=decision.checks)
            case dec.Preempt():
                victims = {_name(v.workload): v.rule for v in decision.victims if v.is_new}
                return preempt(_name(decision.preemptor), victims=victims)
            case dec.Evict():
                return evict(
                    _name(decision.workload),
                    decision.reason,
                    flavors=[failure.flavor for failure in decision.flavors],
                    until=decision.requeue_at,
                    again=decision.starts_over,
                )
            case dec.Deactivate():
                self._last[_name(decision.workload)] = decision
                return deactivate(_name(decision.workload), decision.reason)
            case dec.Requeue():
                return requeue(_name(decision.workload))
            case dec.StartOver():
                return start_over(_name(decision.workload), until=decision.requeue_at)
            case dec.Wait():
                raise AssertionError("who waits does nothing")

    def why(self, name: str) -> tuple[Reason, ...]:
        """The reasons that were given last for its waiting."""
        return self._waits[name].reasons

    def tried(self, name: str) -> tuple[FlavorTrial, ...]:
        """What the user is told when a workload is deactivated."""
        decision = self._last[name]
        assert isinstance(decision, dec.Deactivate)
        return decision.history

    # --- how things stand ---

    def entry(self, name: str) -> Entry:
        return self.state.entries[_key(name)]

    def phase(self, name: str) -> Phase:
        return self.entry(name).phase

    def flavors_of(self, name: str) -> dict[str, dict[str, str]]:
        """Pod set -> resource -> flavor."""
        assignment = self.entry(name).status.assignment
        assert assignment is not None, f"{name} holds nothing"
        return {ps.name: {str(r): str(f) for r, f in ps.flavors} for ps in assignment.pod_sets}

    def exhausted(self, name: str) -> list[str]:
        return [
            trial.flavor for trial in self.entry(name).status.history if trial.reason is not None
        ]

    def used(self, name: str, resource: str = "gpu", flavor: str = DEFAULT) -> int:
        cell = FlavorResource(FlavorName(flavor), ResourceName(resource))
        return self.state.queues[QueueName(name)].used.get(cell, 0)

    def line(self, name: str) -> list[str]:
        """Who stands in a queue and is not parked, first to last."""
        pending, order_of = self.state.queues[QueueName(name)].pending, self.state.order_of
        line = sorted(pending.active(), key=lambda entry: pending.rank(order_of(entry), entry))
        return [_name(entry.workload.key) for entry in line]

    def positions(self, name: str) -> list[str]:
        """Who waits in a queue, parked or not, first to last."""
        return [_name(key) for key in self.engine.waiting_in(QueueName(name))]

    def parked(self, name: str) -> list[str]:
        queue = self.state.queues[QueueName(name)]
        return sorted(_name(entry.workload.key) for entry in queue.pending.parked())

    def see_again(self, name: str) -> None:
        """The object is shown once more, as it is."""
        entry = self.entry(name)
        self.apply(ev.WorkloadSeen(entry.workload, entry.status))

    def restart(
        self, *, after_s: float = 0.0, clock_jump_s: float = 0.0, workloads_first: bool = False
    ) -> None:
        """A new engine, told what the objects say; nobody has looked at the pods yet."""
        old = self.state
        self.now += after_s + clock_jump_s
        self.engine = Engine(old.config)
        for event in objects_in(old, workloads_first=workloads_first):
            self.apply(event)


def objects_in(state: ClusterState, *, workloads_first: bool = False) -> list[ev.Event]:
    """What a driver tells a new engine of the objects there are."""
    workloads: list[ev.Event] = [
        ev.WorkloadSeen(entry.workload, entry.status) for entry in state.entries.values()
    ]
    rest: list[ev.Event] = [
        *(ev.NamespaceChanged(name, labels) for name, labels in state.namespaces.items()),
        *(ev.CheckChanged(name, active) for name, active in state.checks.items()),
        *(ev.FlavorChanged(flavor) for flavor in state.flavors.values()),
        *(ev.CohortChanged(cohort) for cohort in state.cohorts.values()),
        *(ev.QueueChanged(queue.spec) for queue in state.queues.values()),
        *(ev.LocalQueueChanged(local_queue) for local_queue in state.local_queues.values()),
        *(
            ev.UsageRecalled(key, state.history.used(key, state.now, policy), state.now)
            for key in state.local_queues
            if (policy := state.config.history) is not None
        ),
        *(ev.EvictionsCaused(q, state.budgets.spent(q, state.now)) for q in state.queues),
    ]
    return [*workloads, *rest] if workloads_first else [*rest, *workloads]


def _assigned(pod_sets: tuple[PodSet, ...], spec: Queue, flavor: str | None) -> Assignment:
    """The named flavor where a group has it, else the group's first."""

    def flavor_for(resource: ResourceName) -> FlavorName:
        group = next(g for g in spec.groups if resource in g.resources)
        names = [quotas.flavor for quotas in group.flavors]
        return FlavorName(flavor) if flavor in names and flavor is not None else names[0]

    return Assignment(
        tuple(
            PodSetAssignment(
                name=ps.name,
                count=ps.count,
                flavors=tuple((resource, flavor_for(resource)) for resource, _ in ps.requests),
                usage=tuple((resource, amount * ps.count) for resource, amount in ps.requests),
            )
            for ps in pod_sets
        )
    )


# --- the whole state, checked apart from the code that keeps it ---


def check_state(state: ClusterState) -> None:
    """Every map agrees with every other, and usage with the sum of what its holders take."""
    for entry in state.entries.values():
        _check_entry(state, entry)
    for name, queue in state.queues.items():
        holders = [e for e in state.entries.values() if e.phase in HOLDING and e.queue == name]
        taken: Counter[FlavorResource] = Counter()
        for entry in holders:
            taken.update(entry.usage)
        assert _nonzero(queue.used) == _nonzero(taken), f"{name} is charged {queue.used}"
        assert queue.holders == sorted(queue.holders), f"holders of {name} are out of order"
        assert {o.entry.workload.key for o in queue.holders} == {h.workload.key for h in holders}
        assert len(queue.holders) == len(holders)
        lined_up = [*queue.pending.active(), *queue.pending.parked()]
        waiting = {e.workload.key for e in state.entries.values() if _waits_in(e, name)}
        assert len(lined_up) == len(waiting) == len(queue.pending), f"{name}: {lined_up}"
        assert {entry.workload.key for entry in lined_up} == waiting
    policy = state.config.pods_ready
    unready = {
        key
        for key, entry in state.entries.items()
        if entry.status.assignment is not None and not entry.status.pods_ready
    }
    blocks = policy is not None and policy.blocks_admission
    assert set(state.unready) == (unready if blocks else set())
    if not state.trees_are_stale:  # else the trees are built anew before the next cycle
        forest = forest_of(state)
        for tree in state.trees:
            _check_tree(state, tree, forest)
        assert sum(len(tree.queues) for tree in state.trees) == len(state.queues)


def _waits_in(entry: Entry, queue: QueueName) -> bool:
    return entry.phase is Phase.PENDING and entry.queue == queue


def _nonzero(amounts: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    return {cell: amount for cell, amount in amounts.items() if amount}


def _check_entry(state: ClusterState, entry: Entry) -> None:
    key, phase = entry.workload.key, entry.phase
    holds = phase in HOLDING
    assert (entry.status.assignment is not None) == holds, f"{key} is {phase.value}"
    assert bool(entry.usage) <= holds, f"{key} is {phase.value} and charged {entry.usage}"
    if phase is Phase.RESERVED:
        assert entry.status.admitted_at is None, f"{key} is not admitted yet"
        assert entry.status.eviction is None, f"{key} was not evicted since it was reserved"
    if phase is Phase.ADMITTED:
        assert entry.status.admitted_at is not None, f"{key} was never admitted"
        assert entry.status.eviction is None, f"{key} was not evicted since it was admitted"
    if phase is Phase.EVICTING:
        assert entry.status.eviction is not None, f"{key} is on its way out for no reason"
    if holds:
        queue = state.queues.get(entry.queue) if entry.queue is not None else None
        assert (entry.victim_order is not None) == (queue is not None), f"{key}: {entry.queue}"
        if entry.victim_order is not None:
            assert entry.victim_order[:4] == (
                phase is not Phase.EVICTING,
                entry.workload.victim_priority,
                -(entry.status.reserved_at or 0.0),
                entry.workload.uid,
            ), f"{key} stands at {entry.victim_order[:4]}"
    else:
        assert entry.victim_order is None, f"{key} is {phase.value} and among the holders"
    if phase is Phase.PENDING:
        _check_waiting(state, entry)
    else:
        assert entry.place is None, f"{key} is {phase.value} and in line"
        assert entry.status.claim is None, f"{key} is {phase.value} and has a claim"
    if phase is Phase.INACTIVE:
        assert not entry.workload.active, f"{key} is wanted"


def _check_waiting(state: ClusterState, entry: Entry) -> None:
    key = entry.workload.key
    local_queue = state.local_queues.get(entry.workload.local_queue)
    goes_to = None
    if local_queue is not None and local_queue.stop_policy is StopPolicy.NONE:
        goes_to = local_queue.queue if local_queue.queue in state.queues else None
    assert entry.queue == goes_to, f"{key} waits in {entry.queue}, not in {goes_to}"
    assert entry.workload.active, f"{key} is not wanted, yet waits"
    if entry.queue is None:
        assert entry.place is None, f"{key} is in no queue, yet in line"
        return
    pending = state.queues[entry.queue].pending
    assert (entry.place is not None) != pending.is_set_aside(entry), f"{key} is in two places"
    if entry.place is not None:
        assert entry.place == (state.order_of(entry), entry), f"{key} stands where it stood once"


def _check_tree(state: ClusterState, tree: Tree, forest: QuotaForest[FlavorResource]) -> None:
    in_tree = {queue.spec.name for queue in tree.queues}
    held = {entry.workload.key for queue in tree.queues for entry in queue.pending.held()}
    preemptors = {
        entry.workload.key
        for entry in state.entries.values()
        if entry.status.claim is not None and entry.queue in in_tree
    } - held
    assert set(tree.preemptors) == preemptors, f"preemptors {set(tree.preemptors)}"
    if any(queue.inactive is Inactive.COHORT_CYCLE for queue in tree.queues):
        return  # no formula says what is used where everybody is above everybody
    cells = {cell for used in forest.used.values() for cell in used}
    for node in tree.nodes:
        if not node.is_queue:
            usage = {cell: forest.usage(f"cohort:{node.name}", cell) for cell in cells}
            assert _nonzero(tree.usage[node.index]) == _nonzero(usage), f"usage of {node.name}"


def check_admissions(state: ClusterState, admitted: Iterable[WorkloadKey]) -> None:
    """Whoever got quota in this cycle got what the tree had: no limit is broken on its way up."""
    forest = forest_of(state)
    for key in admitted:
        entry = state.entries[key]
        assert entry.queue is not None
        for cell in _nonzero(charged(entry)):
            forest.check_limits(entry.queue, cell)


def forest_of(state: ClusterState) -> QuotaForest[FlavorResource]:
    """What the objects say; of the engine's own sums nothing is taken over."""
    forest = QuotaForest[FlavorResource]()
    for queue in state.queues.values():
        add_queue(forest, queue.spec)
    for declared in state.cohorts.values():
        forest.add_cohort(declared.name, declared.parent, declared.quotas)
    for entry in state.entries.values():
        if entry.phase in HOLDING and entry.queue in state.queues:
            forest.charge(entry.queue, charged(entry))
    return forest


def add_queue(forest: QuotaForest[FlavorResource], spec: Queue) -> None:
    quotas = {
        FlavorResource(flavor, resource): quota
        for group in spec.groups
        for flavor, by_resource in group.flavors
        for resource, quota in by_resource.items()
    }
    forest.add_queue(spec.name, spec.cohort, quotas)


def charged(entry: Entry) -> dict[FlavorResource, int]:
    """The assignment of a holder less the pods that it has given back."""
    assert entry.status.assignment is not None
    asked = {pod_set.name: pod_set.count for pod_set in entry.workload.pod_sets}
    usage: Counter[FlavorResource] = Counter()
    for pod_set in entry.status.assignment.pod_sets:
        given_back = entry.status.reclaimable.get(pod_set.name, 0)
        left = max(0, min(pod_set.count, asked[pod_set.name] - given_back))
        flavors = dict(pod_set.flavors)
        for resource, amount in pod_set.usage:
            each = amount // pod_set.count if pod_set.count else 0
            usage[FlavorResource(flavors[resource], resource)] += each * left
    return dict(usage)
