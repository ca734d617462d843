"""Gives pods their nodes: hears of pods, nodes, gangs and budgets, and does what placement decides.

`PlacementState` counts a decision at once; `errands.py` pursues it until the objects show it. A
write that is refused for good is taken back there (`BindFailed`, `EvictionFailed`), and the pods
that it was for stay out of the state for a while, so that the same is not tried again at once.
Where the fate of a write is unknown it is sent again, which does no harm, until a watch tells.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from makeway.api import batch, queueing
from makeway.api import gangs as written
from makeway.api.codec import decode, decode_own
from makeway.api.gangs import GangWorkload, PodGroup
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS
from makeway.api.meta import LabelSelector
from makeway.client.client import ApiError, Document, Resource
from makeway.client.resources import (
    BUDGETS,
    GANG_WORKLOADS,
    GANGS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.errands import (
    PodErrands,
    ToBind,
    ToEvict,
    ToTell,
    WorkloadEvictions,
    is_final,
)
from makeway.placement import decisions as dec
from makeway.placement.events import (
    BindFailed,
    BudgetGone,
    EvictionFailed,
    GangGone,
    GangSeen,
    NodeGone,
    PodGone,
)
from makeway.placement.model import BudgetKey, Gang, GangKey, NodeName, PodKey, Unit
from makeway.placement.state import PlacementState
from makeway.plane.parts import RETRY_MAX_S, RETRY_S, Failed, Outcome, Plan
from makeway.plane.picture import Picture
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
INCOMPLETE_S = 2.0  # in which the rest of a gang usually comes, and nobody need be told
_INCOMPLETE = (dec.WaitReason.GANG_MISSING, dec.WaitReason.MEMBERS_MISSING)
_CLASS_KINDS = (PRIORITY_CLASSES, WORKLOAD_CLASSES)


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
    ) -> None:
        """`schedulers` are the names for which pods are placed; None: all pods are.

        `gang_kinds` are those that the server knows; `distance_max` is how far
        a preemption priority may lie above the scheduling priority.
        """
        self.resources: tuple[Resource, ...] = (
            NODES,
            *_CLASS_KINDS,
            BUDGETS,
            *gang_kinds,
            WORKLOADS,
            PODS,
        )
        self.state = PlacementState()
        self._picture, self._schedulers, self._distance_max = picture, schedulers, distance_max
        self._evictions = WorkloadEvictions(picture)
        self._errands = PodErrands(picture, self._evictions)
        self._seen: dict[Key, _Seen] = {}
        self._classes: dict[tuple[Resource, Key], batch.PriorityClass] = {}
        self._class_list: Sequence[batch.PriorityClass] = ()
        self._by_class: set[Key] = set()  # pods whose numbers depend on classes
        self._budgets: dict[str, dict[Key, LabelSelector]] = {}  # by namespace
        self._gangs: dict[tuple[Resource, Key], tuple[GangKey, ...]] = {}
        self._replicas: dict[Key, Counter[str]] = {}  # of a Workload, by how many pods name them
        self._held: dict[Key, None] = {}  # pods that stay out of the state for a while
        self._release: list[tuple[float, Key]] = []
        self._refusals: dict[Key, int] = {}  # in a row
        self._is_stale = False  # something has happened since the last cycle
        self._are_classes_new = False

    # Hearing

    def changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        if resource == WORKLOADS and not self._holds_gangs(key, document):
            return
        self._is_stale = True
        if resource == PODS:
            self._pod_changed(key, document)
        elif resource in _CLASS_KINDS:
            self._class_changed(resource, key, document)
        elif resource == NODES:
            self._node_changed(key, document)
        elif resource == BUDGETS:
            self._budget_changed(key, document)
        else:
            self._gangs_changed(resource, key, document)

    def _pod_changed(self, key: Key, document: Document | None) -> None:
        pod_key = PodKey(str(key))
        uid = "" if document is None else str(document["metadata"]["uid"])
        if key in self._seen and self._seen[key].uid != uid:
            self._lose_pod(key)
        self._errands.touch(key)
        if document is None:
            return
        view = decode(document).object
        if not isinstance(view, batch.Pod):
            self.state.apply(PodGone(pod_key))
            return
        is_bound = bool(view.spec.node_name)
        if not is_bound and view.metadata.deletion_timestamp is not None:
            self._take_back_bind(pod_key)
        if is_bound:
            self._refusals.pop(key, None)
        replica = _replica_of(key, view)
        if replica is not None and key not in self._seen:
            self._note_replica(*replica)
        self._seen[key] = _Seen(uid, is_bound, replica)
        if view.spec.priority is None or PREEMPTION_PRIORITY_CLASS in view.metadata.annotations:
            self._by_class.add(key)
        if key in self._held and not is_bound:
            return
        self._feed(key, view)

    def _feed(self, key: Key, view: batch.Pod) -> None:
        events = seen_in_placement(
            view,
            self._class_list,
            schedulers=self._schedulers,
            distance_max=self._distance_max,
        )
        is_waiting = not view.spec.node_name and not isinstance(events[0], PodGone)
        refusal = refusal_of(view) if is_waiting else None
        if refusal is None:
            for event in events:
                self.state.apply(event)
            return
        self.state.apply(PodGone(PodKey(str(key))))
        told = ToTell(uid=view.metadata.uid, nominated=None, message=unplaceable(refusal))
        self._errands.give(key, told, 0.0)

    def _lose_pod(self, key: Key) -> None:
        pod_key = PodKey(str(key))
        seen = self._seen.pop(key)
        if not seen.is_bound:
            self._take_back_bind(pod_key)
        self.state.apply(PodGone(pod_key))
        self._errands.drop(key)
        self._by_class.discard(key)
        self._held.pop(key, None)
        self._refusals.pop(key, None)
        if seen.replica is not None:
            self._forget_replica(*seen.replica)

    def _take_back_bind(self, key: PodKey) -> None:
        """It leaves without having been seen on the node that we gave it."""
        pod = self.state.pod(key)
        if pod is not None and pod.node is not None:
            self.state.apply(BindFailed(key))

    def _note_replica(self, workload: Key, replica: str) -> None:
        """A new pod names a replica: of a key that nobody has named so far, that is a new gang."""
        named = self._replicas.setdefault(workload, Counter())
        named[replica] += 1
        document = self._picture.get(GANG_WORKLOADS, workload) if named[replica] == 1 else None
        if document is not None:
            self._gangs_changed(GANG_WORKLOADS, workload, document)

    def _forget_replica(self, workload: Key, replica: str) -> None:
        named = self._replicas[workload]
        named[replica] -= 1
        if named[replica] == 0:
            del named[replica]
        if not named:
            del self._replicas[workload]

    def _node_changed(self, key: Key, document: Document | None) -> None:
        view = None if document is None else decode(document).object
        if isinstance(view, batch.Node):
            for event in seen_in_placement(view, ()):
                self.state.apply(event)
        else:
            self.state.apply(NodeGone(NodeName(key.name)))

    def _budget_changed(self, key: Key, document: Document | None) -> None:
        view = None if document is None else decode(document).object
        selectors = self._budgets.setdefault(key.namespace, {})
        if isinstance(view, batch.PodDisruptionBudget):
            selectors[key] = view.spec.selector or LabelSelector()
            for event in seen_in_placement(view, ()):
                self.state.apply(event)
        else:
            selectors.pop(key, None)
            self.state.apply(BudgetGone(BudgetKey(str(key))))

    def _class_changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        view = None if document is None else decode(document).object
        match view:
            case batch.PriorityClass():
                self._classes[resource, key] = view
            case queueing.WorkloadPriorityClass():
                plain = batch.PriorityClass(metadata=view.metadata, value=view.value)
                self._classes[resource, key] = plain
            case _:
                self._classes.pop((resource, key), None)
        # Those of queues first: of two that share a name the one of Kubernetes counts.
        ordered = sorted(self._classes.items(), key=lambda item: item[0][0] == PRIORITY_CLASSES)
        self._class_list = [found for _, found in ordered]
        self._are_classes_new = True

    def _gangs_changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        is_over = document is None or (resource == WORKLOADS and not _is_admitted(document))
        gangs = () if document is None or is_over else self._described(resource, key, document)
        keys = tuple(gang.key for gang in gangs)
        for gone in self._gangs.pop((resource, key), ()):
            if gone not in keys:
                self.state.apply(GangGone(gone))
        for gang in gangs:
            self.state.apply(GangSeen(gang))
        if keys:
            self._gangs[resource, key] = keys
        if resource == WORKLOADS and self._evictions.is_under_way(key):
            self._evictions.mark(key)

    def _holds_gangs(self, key: Key, document: Document | None) -> bool:
        """Whether a queue Workload has gangs, or had: most of those that change only wait."""
        is_known = (WORKLOADS, key) in self._gangs or self._evictions.is_under_way(key)
        return is_known or (document is not None and _is_admitted(document))

    def _described(self, resource: Resource, key: Key, document: Document) -> Sequence[Gang]:
        classes, distance_max = self._class_list, self._distance_max
        if resource == WORKLOADS:
            workload = decode_own(queueing.Workload, _as_gangs(document)).object
            return [] if workload is None else gangs_held(workload, classes, distance_max)
        view = decode(document).object
        match view:
            case PodGroup() | written.Gang():
                return [gang_of(view, classes, distance_max)]
            case GangWorkload():
                replicas = replicas_of(view, self._replicas.get(key, ()))
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
            for decision in self.state.place(now):
                says += self._carry_out(decision, now)
        workloads = self._evictions.act(now)
        for key in self._evictions.take_freed():
            self._errands.touch(key)
        pods = self._errands.act(now)
        held_until = self._release[0][0] if self._release else None
        due = [at for at in (workloads.next_at, pods.next_at, held_until) if at is not None]
        return Plan([*says, *workloads.writes, *pods.writes], min(due, default=None))

    def _read_again(self) -> None:
        """Classes have changed, and with them the numbers of whoever names one."""
        self._are_classes_new = False
        for resource, key in list(self._gangs):
            self._gangs_changed(resource, key, self._picture.get(resource, key))
        for key in sorted(self._by_class):
            self._pod_changed(key, self._picture.get(PODS, key))

    def _carry_out(self, decision: dec.Decision, now: float) -> Iterable[Say]:
        match decision:
            case dec.Bind():
                for place in decision.placement:
                    key = _key(place.pod)
                    errand = ToBind(uid=self._seen[key].uid, node=place.node)
                    self._errands.give(key, errand, now)
                return ()
            case dec.Preempt():
                return self._preempt(decision, now)
            case dec.Wait():
                kept = dict(decision.nominated)
                wait_s = INCOMPLETE_S if decision.reason in _INCOMPLETE else 0.0
                self._tell(decision.preemptor, kept, wait_message(decision), now, wait_s)
                return ()
            case dec.Unwind():
                self._unwind(decision, now)
                return ()
            case _:
                assert_never(decision)

    def _preempt(self, plan: dec.Preempt, now: float) -> Iterable[Say]:
        workloads = tuple(_key(workload) for workload in plan.workloads)
        pods = tuple(map(_key, plan.pods))
        for workload in workloads:
            self._evictions.evict(workload, workload_text(plan), pods)
        preemptors = tuple(_key(place.pod) for place in plan.placement)
        for victim in plan.victims:
            for pod_key in victim.pods:
                key = _key(pod_key)
                errand = ToEvict(
                    uid=self._seen[key].uid,
                    reason=PREEMPTION,
                    event="Preempted",
                    message=victim_text(plan, self._node_of(pod_key)),
                    is_asked=victim.violations == 0 and self._is_covered(key),
                    preemptors=preemptors,
                    after=workloads,
                )
                self._errands.give(key, errand, now)
        self._tell(plan.preemptor, dict(plan.placement), LEAVING, now)
        first = self._picture.get(PODS, preemptors[0])
        if not plan.victims or first is None:
            return ()
        return (Say(about=first, reason="Preempting", message=preemptor_text(plan)),)

    def _unwind(self, decision: dec.Unwind, now: float) -> None:
        for pod_key in decision.pods:
            key = _key(pod_key)
            errand = ToEvict(
                uid=self._seen[key].uid,
                reason=UNWOUND,
                event=UNWOUND,
                message=unwound_text(decision),
                is_asked=False,
            )
            self._errands.give(key, errand, now)

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
            key = _key(pod_key)
            errand = ToTell(
                uid=self._seen[key].uid,
                nominated=nominated.get(pod_key),
                message=message,
                is_spokesman=index == 0,
                not_before=now + wait_s,
            )
            self._errands.give(key, errand, now)

    def _node_of(self, key: PodKey) -> str:
        pod = self.state.pod(key)
        assert pod is not None, key
        return str(pod.node)

    def _is_covered(self, key: Key) -> bool:
        pod = self.state.pod(PodKey(str(key)))
        selectors = self._budgets.get(key.namespace, {})
        return pod is not None and any(s.matches(pod.labels) for s in selectors.values())

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
                self._errands.give(key, replace(errand, is_asked=False), now)
                return ()
            case _ if not is_final(error):
                return ()
            case Bind(), ToBind():
                self._errands.drop(key)
                self.state.apply(BindFailed(pod_key))
                self._hold([key], now)
            case Delete() | Evict(), ToEvict():
                self._errands.drop(key)
                self.state.apply(EvictionFailed(pod_key))
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
            seen = self._seen.get(key)
            if seen is None or seen.is_bound or key in self._held:
                continue
            failures = self._refusals.get(key, 0)
            self._refusals[key] = failures + 1
            self._held[key] = None
            self.state.apply(PodGone(PodKey(str(key))))
            wait_s = min(RETRY_S * 2.0 ** min(failures, 16), RETRY_MAX_S)
            heapq.heappush(self._release, (now + wait_s, key))

    def _release_held(self, now: float) -> None:
        while self._release and self._release[0][0] <= now:
            _, key = heapq.heappop(self._release)
            if key in self._held:
                del self._held[key]
                self._is_stale = True
                self._pod_changed(key, self._picture.get(PODS, key))


def _as_gangs(document: Document) -> Document:
    """A queue Workload without what its pods are like, which is most of it."""
    spec = document["spec"]
    pod_sets = [{**pod_set, "template": {}} for pod_set in spec.get("podSets") or ()]
    return {**document, "spec": {**spec, "podSets": pod_sets}}


def _is_admitted(document: Document) -> bool:
    """Whether a queue Workload may run; told without reading all of it."""
    true = true_types(conditions_of(document))
    return "Admitted" in true and true.isdisjoint(("Evicted", "Finished"))


def _replica_of(key: Key, view: batch.Pod) -> tuple[Key, str] | None:
    ref = view.spec.workload_ref
    return None if ref is None else (Key(key.namespace, ref.name), ref.pod_group_replica_key)


def _key(name: str) -> Key:
    namespace, _, rest = name.partition("/")
    return Key(namespace, rest)
