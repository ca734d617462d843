"""Gives pods their nodes: hears of pods, nodes, gangs and budgets, and does what placement decides.

`PlacementState` counts a decision at once; `errands.py` pursues it until the objects show it. A
write that is refused for good is taken back there (`BindFailed`, `EvictionFailed`), and the pods
that it was for stay out of the state for a while, so that the same is not tried again at once.
Where the fate of a write is unknown it is sent again, which does no harm, until a watch tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from makeway.api import batch, queueing
from makeway.api import gangs as written
from makeway.api.gangs import GangWorkload, PodGroup
from makeway.api.kinds import (
    BUDGETS,
    GANG_WORKLOADS,
    GANGS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS
from makeway.client.client import ApiError, Document
from makeway.controller.budgets import selector_of
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.discretion import told_name
from makeway.controller.errands import (
    PodErrands,
    ToBind,
    ToEvict,
    ToTell,
    WorkloadEvictions,
    is_final,
)
from makeway.controller.placement_metrics import INCOMPLETE, PlacementMetrics
from makeway.placement import decisions as dec
from makeway.placement import events as ev
from makeway.placement.model import BudgetKey, Gang, GangKey, NodeName, PodKey, Unit
from makeway.placement.state import PlacementState
from makeway.plane.outbox import Outbox
from makeway.plane.parts import RETRY_S, Failed, Outcome, Plan
from makeway.plane.picture import Change, Object, Picture, in_one_group
from makeway.plane.writes import Bind, Delete, Evict, Key, ObjectWrite, Say, Write
from makeway.translate.placement import (
    gang_of,
    gangs_held,
    gangs_of,
    replicas_of,
    seen_in_placement,
)
from makeway.translate.places import (
    LEAVING,
    Message,
    preemptor_text,
    refusal_of,
    unplaceable,
    unwound_text,
    victim_text,
    wait_message,
    workload_text,
)

GANG_KINDS = (GANG_WORKLOADS, POD_GROUPS, GANGS)  # that describe gangs, beside queue Workloads
PREEMPTION = "PreemptionByScheduler"  # reasons of the condition DisruptionTarget
UNWOUND = "GangNotPlaced"
RELEASED_MAX = 1_000  # pods that are tried again at once
INCOMPLETE_S = 2.0  # in which the rest of a gang usually comes, and nobody need be told
# Of two classes that share a name the later one counts, that of Kubernetes.
_CLASS_KINDS = (WORKLOAD_CLASSES, PRIORITY_CLASSES)
_GONE: dict[Resource, Callable[[Key], ev.PlacementEvent]] = {
    NODES: lambda key: ev.NodeGone(NodeName(key.name)),
    BUDGETS: lambda key: ev.BudgetGone(BudgetKey(str(key))),
}


class _Seen(NamedTuple):
    """A pod as the server last showed it."""

    uid: str
    is_bound: bool
    replica: tuple[Key, str] | None  # of a Workload, by the key that the pod names it with


class Placing:
    def __init__(
        self,
        picture: Picture,
        *,
        schedulers: frozenset[str] | None = None,
        gang_kinds: tuple[Resource, ...] = GANG_KINDS,
        distance_max: int | None = None,
        is_shared: bool = False,
    ) -> None:
        """`schedulers` are the names for which pods are placed; None: all pods are.

        `gang_kinds` are those that the server knows, `distance_max` is how far a preemption
        priority may lie above that of scheduling. Where people share a server (`is_shared`), pods
        of others are not called by their names.
        """
        self._is_shared = is_shared
        self.resources: tuple[Resource, ...] = (
            NODES,
            *_CLASS_KINDS,
            BUDGETS,
            *gang_kinds,
            WORKLOADS,
            PODS,
        )
        self.state = PlacementState()
        self._picture, self._schedulers = picture, schedulers
        self._distance_max = distance_max
        self.observer: PlacementMetrics | None = None
        self._evictions = WorkloadEvictions(picture)
        self._errands = PodErrands(picture, self._evictions)
        self._pods = picture.index(PODS, _seen)  # True: the numbers of these depend on classes
        self._budgets = picture.index(BUDGETS, selector_of)  # by namespace
        self._classes = [picture.index(kind, in_one_group) for kind in _CLASS_KINDS]
        self._class_list: Sequence[batch.PriorityClass] = ()
        self._gangs: dict[tuple[Resource, Key], tuple[GangKey, ...]] = {}
        self._replicas: dict[Key, Counter[str]] = {}  # of a Workload, by how many pods name them
        self._held: set[Key] = set()  # pods that stay out of the state until `_release` has them
        self._release: Outbox[Key] = Outbox(RETRY_S)
        self._is_stale = False  # something has happened since the last cycle
        self._are_classes_new = False

    # Hearing

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOADS and not self._holds_gangs(change):
            return
        self._is_stale = True
        if change.resource == PODS:
            self._pod_changed(change)
        elif change.resource in _CLASS_KINDS:
            self._classes_changed()
        elif change.resource in _GONE:
            view = None if change.new is None else change.new.view
            gone = _GONE[change.resource](change.key)
            for event in (gone,) if view is None else seen_in_placement(view, ()):
                self.state.apply(event)
        else:
            self._gangs_changed(change.resource, change.key, change.new)

    def _pod_changed(self, change: Change) -> None:
        key, pod, before = change.key, change.new, self._pods.entry(change.old)
        if before is not None and (pod is None or before[1].uid != pod.uid):
            self._lose_pod(key, before[1])
            before = None
        self._errands.touch(key)
        if pod is None:
            return
        after = self._pods.entry(pod)
        if after is None:
            self.state.apply(ev.PodGone(PodKey(str(key))))
            return
        seen = after[1]
        if not seen.is_bound and pod.view.metadata.deletion_timestamp is not None:
            self._take_back_bind(PodKey(str(key)))
        if seen.is_bound:
            self._release.calm(key)
        if seen.replica is not None and before is None:
            self._note_replica(*seen.replica)
        self._read_pod(pod)

    def _read_pod(self, pod: Object | None) -> None:
        view = None if pod is None else pod.view
        if pod is None or view is None or (pod.key in self._held and not view.spec.node_name):
            return
        events = seen_in_placement(
            view,
            self._class_list,
            schedulers=self._schedulers,
            distance_max=self._distance_max,
        )
        is_waiting = not view.spec.node_name and not isinstance(events[0], ev.PodGone)
        refusal = refusal_of(view) if is_waiting else None
        if refusal is not None:
            events = (ev.PodGone(PodKey(str(pod.key))),)
            told = ToTell(uid=view.metadata.uid, nominated=None, message=unplaceable(refusal))
            self._errands.assign(pod.key, told, 0.0)
        for event in events:
            self.state.apply(event)

    def _lose_pod(self, key: Key, seen: _Seen) -> None:
        pod_key = PodKey(str(key))
        if not seen.is_bound:
            self._take_back_bind(pod_key)
        self.state.apply(ev.PodGone(pod_key))
        self._errands.drop(key)
        self._held.discard(key)
        self._release.forget(key)
        if seen.replica is not None:
            self._forget_replica(*seen.replica)

    def _take_back_bind(self, key: PodKey) -> None:
        """It leaves without having been seen on the node that we gave it."""
        pod = self.state.pod(key)
        if pod is not None and pod.node is not None:
            self.state.apply(ev.BindFailed(key))

    def _note_replica(self, workload: Key, replica: str) -> None:
        """A new pod names a replica: of a key that nobody has named so far, that is a new gang."""
        named = self._replicas.setdefault(workload, Counter())
        named[replica] += 1
        found = self._picture.find(GANG_WORKLOADS, workload) if named[replica] == 1 else None
        if found is not None:
            self._gangs_changed(GANG_WORKLOADS, workload, found)

    def _forget_replica(self, workload: Key, replica: str) -> None:
        named = self._replicas[workload]
        named[replica] -= 1
        if named[replica] == 0:
            del named[replica]
        if not named:
            del self._replicas[workload]

    def _classes_changed(self) -> None:
        views = [view for index in self._classes for view in index.values(None)]
        self._class_list = [
            batch.PriorityClass(metadata=view.metadata, value=view.value)
            if isinstance(view, queueing.WorkloadPriorityClass)
            else view
            for view in views
        ]
        self._are_classes_new = True

    def _gangs_changed(self, resource: Resource, key: Key, found: Object | None) -> None:
        is_over = found is None or (resource == WORKLOADS and not _is_admitted(found.document))
        gangs = () if found is None or is_over else self._described(found)
        keys = tuple(gang.key for gang in gangs)
        for gone in self._gangs.pop((resource, key), ()):
            if gone not in keys:
                self.state.apply(ev.GangGone(gone))
        for gang in gangs:
            self.state.apply(ev.GangSeen(gang))
        if keys:
            self._gangs[resource, key] = keys
        if resource == WORKLOADS and self._evictions.is_under_way(key):
            self._evictions.mark(key)

    def _holds_gangs(self, change: Change) -> bool:
        """Whether a queue Workload has gangs, or had: most of those that change only wait."""
        key, new = change.key, change.new
        is_known = (WORKLOADS, key) in self._gangs or self._evictions.is_under_way(key)
        return is_known or (new is not None and _is_admitted(new.document))

    def _described(self, found: Object) -> Sequence[Gang]:
        view, classes, distance_max = found.view, self._class_list, self._distance_max
        match view:
            case queueing.Workload():
                return gangs_held(view, classes, distance_max)
            case PodGroup() | written.Gang():
                return [gang_of(view, classes, distance_max)]
            case GangWorkload():
                replicas = replicas_of(view, self._replicas.get(found.key, ()))
                return gangs_of(view, classes, replicas, distance_max)
            case _:
                return []

    # Acting

    def act(self, now: float) -> Plan:
        self._release_held(now)
        if self._are_classes_new:
            self._read_again()
        says: list[Write] = []
        if self._is_stale:
            self._is_stale = False
            for decision in self._decide(now):
                says += self._carry_out(decision, now)
        workloads = self._evictions.act(now)
        for key in self._evictions.take_freed():
            self._errands.touch(key)
        pods = self._errands.act(now)
        moments = workloads.next_at, pods.next_at, self._release.next_at(now)
        due = [at for at in moments if at is not None]
        return Plan([*says, *workloads.writes, *pods.writes], min(due, default=None))

    def _decide(self, now: float) -> Sequence[dec.PlacementDecision]:
        if self.observer is not None:
            self.observer.begins()
        decisions = tuple(self.state.place(now))
        if self.observer is not None:
            self.observer.ended(decisions)
        return decisions

    def _read_again(self) -> None:
        """Classes have changed, and with them the numbers of whoever names one."""
        self._are_classes_new = False
        for resource, key in list(self._gangs):
            self._gangs_changed(resource, key, self._picture.find(resource, key))
        for key in self._pods.keys(True):
            self._read_pod(self._picture.find(PODS, key))

    def _carry_out(self, decision: dec.PlacementDecision, now: float) -> Iterable[Say]:
        match decision:
            case dec.BindPods():
                for place in decision.placement:
                    key = Key.parse(place.pod)
                    errand = ToBind(uid=self._uid_of(key), node=place.node)
                    self._errands.assign(key, errand, now)
            case dec.PreemptUnits():
                return self._preempt(decision, now)
            case dec.WaitForNodes():
                kept = dict(decision.nominated)
                wait_s = INCOMPLETE_S if decision.reason in INCOMPLETE else 0.0
                self._tell(decision.preemptor, kept, wait_message(decision), now, wait_s)
            case dec.Unwind():
                self._unwind(decision, now)
            case _:
                assert_never(decision)
        return ()

    def _preempt(self, plan: dec.PreemptUnits, now: float) -> Iterable[Say]:
        workloads = tuple(Key.parse(workload) for workload in plan.workloads)
        pods = tuple(map(Key.parse, plan.pods))
        told = self._discreet(plan)
        for workload in workloads:
            self._evictions.evict(workload, workload_text(told), pods)
        preemptors = tuple(Key.parse(place.pod) for place in plan.placement)
        for victim in plan.victims:
            for pod_key in victim.pods:
                key = Key.parse(pod_key)
                errand = ToEvict(
                    uid=self._uid_of(key),
                    reason=PREEMPTION,
                    event="Preempted",
                    message=victim_text(told, self._node_of(pod_key)),
                    is_asked=victim.violations == 0 and self._is_covered(key),
                    preemptors=preemptors,
                    after=workloads,
                )
                self._errands.assign(key, errand, now)
        self._tell(plan.preemptor, dict(plan.placement), LEAVING, now)
        first = self._picture.get(PODS, preemptors[0])
        if not plan.victims or first is None:
            return ()
        return (Say(about=first, reason="Preempting", message=preemptor_text(told)),)

    def _discreet(self, plan: dec.PreemptUnits) -> dec.PreemptUnits:
        """The same for the eyes of others, who know jobs by account and number only."""
        if not self._is_shared:
            return plan
        unit = plan.preemptor
        if not unit.is_gang:
            unit = unit._replace(key=told_name(self._picture, unit.key))
        victims = tuple(
            victim._replace(pods=tuple(PodKey(told_name(self._picture, p)) for p in victim.pods))
            for victim in plan.victims
        )
        return replace(plan, preemptor=unit, victims=victims)

    def _unwind(self, decision: dec.Unwind, now: float) -> None:
        for pod_key in decision.pods:
            key = Key.parse(pod_key)
            errand = ToEvict(
                uid=self._uid_of(key),
                reason=UNWOUND,
                event=UNWOUND,
                message=unwound_text(decision),
                is_asked=False,
            )
            self._errands.assign(key, errand, now)

    def _tell(
        self,
        unit: Unit,
        nominated: dict[PodKey, NodeName],
        message: Message,
        now: float,
        wait_s: float = 0.0,
    ) -> None:
        """Every pod of a unit says why it waits; the first one has the event."""
        for index, pod_key in enumerate(self.state.waiting(unit)):
            key = Key.parse(pod_key)
            errand = ToTell(
                uid=self._uid_of(key),
                nominated=nominated.get(pod_key),
                message=message,
                has_event=index == 0,
                not_before=now + wait_s,
            )
            self._errands.assign(key, errand, now)

    def _uid_of(self, key: Key) -> str:
        seen = self._pods.entry(self._picture.find(PODS, key))
        assert seen is not None, f"{key} is gone, and placement was not told"
        return seen[1].uid

    def _node_of(self, key: PodKey) -> str:
        pod = self.state.pod(key)
        assert pod is not None, key
        return str(pod.node)

    def _is_covered(self, key: Key) -> bool:
        pod = self.state.pod(PodKey(str(key)))
        selectors = self._budgets.values(key.namespace)
        return pod is not None and any(selector.matches(pod.labels) for selector in selectors)

    # What became of it

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        if write.resource == WORKLOADS:
            return self._evictions.settled(write, outcome, now)
        errand = self._errands.of(write.key)
        says = self._errands.settled(write, outcome, now)
        if isinstance(outcome, Failed) and not outcome.is_unknown:
            error = outcome.error
            assert isinstance(error, ApiError), error
            return (*says, *self._refused(write, errand, error, now))
        return says

    def _refused(
        self, write: ObjectWrite, errand: object, error: ApiError, now: float
    ) -> Sequence[Say]:
        """What the server will never have: take back what we counted on; try again later."""
        key, pod_key = write.key, PodKey(str(write.key))
        match write, errand:
            case Evict(), ToEvict() if error.code == 429:
                # The budget allows it no more. Budgets are kept where possible, and no further.
                self._errands.assign(key, replace(errand, is_asked=False), now)
                return ()
            case _ if not is_final(error):
                return ()
            case Bind(), ToBind():
                self._errands.drop(key)
                self.state.apply(ev.BindFailed(pod_key))
                self._hold([key], now)
            case Delete() | Evict(), ToEvict():
                self._errands.drop(key)
                self.state.apply(ev.EvictionFailed(pod_key))
                self._hold(errand.preemptors, now)
            case _:
                return ()
        self._is_stale = True
        document = self._picture.get(PODS, key)
        if document is None:
            return ()
        text = f"{type(write).__name__} was refused: {error}"
        return (Say(about=document, reason="FailedScheduling", message=text, type="Warning"),)

    def _hold(self, keys: Iterable[Key], now: float) -> None:
        """Leave pods without a node out of the state until it is worth trying again."""
        for key in keys:
            seen = self._pods.entry(self._picture.find(PODS, key))
            if seen is None or seen[1].is_bound or key in self._held:
                continue
            self._held.add(key)
            self._release.failed(key, now)
            self.state.apply(ev.PodGone(PodKey(str(key))))

    def _release_held(self, now: float) -> None:
        for key in self._release.take(now, RELEASED_MAX):
            self._held.remove(key)
            self._is_stale = True
            self._read_pod(self._picture.find(PODS, key))


def _is_admitted(document: Document) -> bool:
    """Whether a queue Workload may run; told without reading all of it."""
    true = true_types(conditions_of(document))
    return "Admitted" in true and true.isdisjoint(("Evicted", "Finished"))


def _seen(pod: Object) -> tuple[bool, _Seen] | None:
    view = pod.view
    if view is None:
        return None
    ref = view.spec.workload_ref
    replica = None if ref is None else (Key(pod.key.namespace, ref.name), ref.pod_group_replica_key)
    annotations = view.metadata.annotations
    needs_classes = view.spec.priority is None or PREEMPTION_PRIORITY_CLASS in annotations
    return needs_classes, _Seen(view.metadata.uid, bool(view.spec.node_name), replica)
