"""Our picture of nodes and pods; it changes only in `apply` and by own decisions.

A decision is counted at once (the pods stand on their nodes, the victims are leaving, the
nominations hold), before the driver has written it. What the driver then sees confirms it;
`BindFailed` and `EvictionFailed` take it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar, assert_never

from makeway.engine.model import WorkloadKey
from makeway.placement.asks import Ask, ClusterView, is_unnominated_pod
from makeway.placement.budgets import Budgets
from makeway.placement.decisions import (
    NO_ROOM,
    BindPods,
    PlacementDecision,
    PreemptUnits,
    Unwind,
    WaitForNodes,
)
from makeway.placement.events import (
    BindFailed,
    BudgetGone,
    BudgetSeen,
    EvictionFailed,
    GangGone,
    GangSeen,
    NodeGone,
    NodeSeen,
    PlacementEvent,
    PodGone,
    PodSeen,
)
from makeway.placement.lacks import without_gang
from makeway.placement.model import (
    Gang,
    GangKey,
    Node,
    NodeName,
    Pod,
    PodKey,
    PodShape,
    Unit,
    gang_unit,
    pod_unit,
)
from makeway.placement.nodes import Columns, NodeTable
from makeway.placement.plan import decide
from makeway.placement.units import NOWHERE, UnitTable

_K = TypeVar("_K")


class _Bound(NamedTuple):
    node: NodeName
    together: tuple[PodKey, ...]  # the pods that the same decision bound


class PlacementState:
    def __init__(self) -> None:
        columns = Columns()
        self._nodes = NodeTable(columns)
        self._units = UnitTable(columns)
        self._budgets = Budgets()
        self._gangs: dict[GangKey, Gang] = {}
        self._pods: dict[PodKey, Pod] = {}  # as we count them: decisions included
        self._members: dict[GangKey, set[PodKey]] = {}
        self._on_node: dict[NodeName, set[PodKey]] = {}  # bound pods, also of unknown nodes
        self._of_workload: dict[WorkloadKey, set[PodKey]] = {}  # bound pods
        self._waiting: set[PodKey] = set()  # exactly the pods without a node that aren't leaving
        self._nominated: set[PodKey] = set()  # the waiting pods with a nomination
        self._assumed: dict[PodKey, _Bound] = {}  # pods bound by us, not confirmed yet
        self._assumed_leaving: set[PodKey] = set()  # pods evicted by us, not gone yet
        self._nominations: dict[PodKey, NodeName | None] = {}  # ours count before seen ones
        # By gang: the pods that were bound together with a pod whose bind failed.
        self._short: dict[GangKey, set[PodKey]] = {}
        self._given_up = 0  # nominations given up so far
        self._changes = 0  # changes so far that could give a place to a waiting pod
        self._parked: dict[Unit, int] = {}  # `_changes` when the unit had to wait
        self._due: set[Unit] = set()  # units that changed themselves since the last cycle
        self._changes_seen = -1  # `_changes` at the last cycle

    # What happens.

    def apply(self, event: PlacementEvent) -> None:
        match event:
            case NodeSeen(node):
                self._see_node(node)
            case NodeGone(name):
                self._lose_node(name)
            case PodSeen(pod):
                self._see_pod(pod)
            case PodGone(key):
                self._lose_pod(key)
            case GangSeen(gang):
                self._see_gang(gang.key, gang)
            case GangGone(key):
                self._see_gang(key, None)
            case BudgetSeen(budget):
                self._budgets.put(budget)
                self._changes += 1
            case BudgetGone(key):
                self._budgets.remove(key)
                self._changes += 1
            case BindFailed(key):
                self._take_back_bind(key)
            case EvictionFailed(key):
                if key in self._assumed_leaving:
                    self._assumed_leaving.discard(key)
                    self._budgets.forget(key)
                    self._put(replace(self._pods[key], terminating=False))
            case _:
                assert_never(event)

    def _see_node(self, node: Node) -> None:
        row = self._nodes.row_of.get(node.name)
        if row is not None and self._nodes.facts[row] == node:
            return
        row, is_new = self._nodes.put(node)
        if is_new:
            for key in self._on_node.get(node.name, ()):
                self._stand_on(key, row)
        self._changes += 1

    def _lose_node(self, name: NodeName) -> None:
        if name not in self._nodes.row_of:
            return
        self._nodes.remove(name)
        for key in self._on_node.get(name, ()):
            self._units.row[self._units.slot_of[key]] = NOWHERE
        self._changes += 1  # a nominated placement may have become void

    def _stand_on(self, key: PodKey, row: int) -> None:
        self._units.row[self._units.slot_of[key]] = row
        self._nodes.charge(row, self._nodes.columns.amounts(self._pods[key].shape))

    def _see_pod(self, pod: Pod) -> None:
        """Count a pod as it is seen, but for our decisions that are not confirmed yet."""
        key = pod.key
        if pod.node is not None:
            self._assumed.pop(key, None)
        elif key in self._assumed:
            pod = replace(pod, node=self._assumed[key].node)
        if key in self._assumed_leaving:
            pod = replace(pod, terminating=True)
        if key in self._nominations:
            pod = replace(pod, nominated=self._nominations[key])
        if self._pods.get(key) != pod:
            self._put(pod)

    def _lose_pod(self, key: PodKey) -> None:
        if key in self._pods:
            self._take_out(key)
        self._assumed.pop(key, None)
        self._assumed_leaving.discard(key)
        self._nominations.pop(key, None)
        self._budgets.forget(key)

    def _see_gang(self, key: GangKey, gang: Gang | None) -> None:
        if self._gangs.get(key) == gang:
            return
        members = [self._pods[member] for member in sorted(self._members.get(key, ()))]
        for member in members:
            self._take_out(member.key)
        if gang is None:
            del self._gangs[key]
        else:
            self._gangs[key] = gang
        for member in members:
            self._put(member)
        self._wake(gang_unit(key))

    def _take_back_bind(self, key: PodKey) -> None:
        bound = self._assumed.pop(key, None)
        if bound is None:
            return
        pod = self._pods[key]
        self._put(replace(pod, node=None, started_at=None))
        if pod.gang is not None:
            self._short.setdefault(pod.gang, set()).update(bound.together)

    # Where a pod is filed.

    def _put(self, pod: Pod) -> None:
        key = pod.key
        if key in self._pods:
            self._take_out(key)
        self._pods[key] = pod
        self._nodes.columns.amounts(pod.shape)  # from now on every resource of the pod has a column
        if pod.gang is not None:
            self._members.setdefault(pod.gang, set()).add(key)
        if pod.node is None:
            if not pod.terminating:
                self._waiting.add(key)
                if pod.nominated is not None:
                    self._nominated.add(key)
                self._wake(self._unit_of(pod))
            return
        gang = None if pod.gang is None else self._gangs.get(pod.gang)
        row = self._nodes.row_of.get(pod.node, NOWHERE)
        self._units.add(pod, row, gang)
        self._on_node.setdefault(pod.node, set()).add(key)
        if pod.workload is not None:
            self._of_workload.setdefault(pod.workload, set()).add(key)
        if row != NOWHERE:
            self._nodes.charge(row, self._nodes.columns.amounts(pod.shape))
        self._wake(self._unit_of(pod))  # a gang has one member less to place
        if pod.terminating:
            self._changes += 1

    def _take_out(self, key: PodKey) -> None:
        pod = self._pods.pop(key)
        if pod.gang is not None:
            _discard(self._members, pod.gang, key)
        self._waiting.discard(key)
        if pod.node is None:
            if key in self._nominated:
                self._nominated.discard(key)
                self._changes += 1  # the nominated room is free again
            return
        self._units.remove(key)
        _discard(self._on_node, pod.node, key)
        if pod.workload is not None:
            _discard(self._of_workload, pod.workload, key)
        row = self._nodes.row_of.get(pod.node)
        if row is not None:
            self._nodes.charge(row, self._nodes.columns.amounts(pod.shape), sign=-1)
        self._changes += 1

    def _wake(self, unit: Unit) -> None:
        self._parked.pop(unit, None)
        self._due.add(unit)

    def _unit_of(self, pod: Pod) -> Unit:
        """What the pod is placed with: its gang, or itself alone."""
        gang = None if pod.gang is None else self._gangs.get(pod.gang)
        if pod.gang is None or (gang is not None and gang.min_count == 0):
            return pod_unit(pod.key)
        return gang_unit(pod.gang)

    # What we answer.

    def place(self, now: float) -> list[PlacementDecision]:
        """Decide about every waiting unit for which something may have changed.

        A unit that gives up a nomination may leave room for a unit whose turn is over: then there
        is another round. So a driver need not call again before something happens.
        """
        decisions: list[PlacementDecision] = list(self._unwind())
        while True:
            given_up = self._given_up
            decisions.extend(self._decide_in_turn(now))
            if self._given_up == given_up:
                return decisions

    def _decide_in_turn(self, now: float) -> list[PlacementDecision]:
        """Units of higher priority go first, then units created earlier."""
        decisions: list[PlacementDecision] = []
        asks: list[Ask] = []
        for unit in self._units_to_look_at():
            ask = self._ask(unit)
            if ask is not None:
                asks.append(ask)
            elif unit.is_gang and GangKey(unit.key) not in self._gangs and self.waiting(unit):
                self._parked[unit] = self._changes
                decisions.append(without_gang(unit))
        asks.sort(key=lambda ask: (-ask.priority, ask.created_at, ask.unit))
        refused: dict[PodShape, tuple[int, WaitForNodes]] = {}
        changes_asked = self._changes
        for first_ask in asks:
            # A unit before this may have taken members from it.
            is_stale = self._changes != changes_asked
            ask = self._ask(first_ask.unit) if is_stale else first_ask
            assert ask is not None, first_ask  # a waiting unit waits until its turn
            shape = ask.members[0].shape
            changes, earlier = refused.get(shape, (None, None))
            if earlier is not None and changes == self._changes and is_unnominated_pod(ask):
                # A pod of the same shape and higher priority found no place, so neither does this.
                decisions.append(replace(earlier, preemptor=ask.unit))
                self._parked[ask.unit] = self._changes
                continue
            decision = self._settle(ask, now)
            decisions.append(decision)
            if (
                isinstance(decision, WaitForNodes)
                and is_unnominated_pod(ask)
                and decision.reason in NO_ROOM
            ):
                refused[shape] = self._changes, decision
        return decisions

    def _units_to_look_at(self) -> list[Unit]:
        """Units for which something changed since the last cycle: of their own, or for all."""
        if self._changes == self._changes_seen:
            units = sorted(self._due)
        else:
            units = sorted({self._unit_of(self._pods[key]) for key in self._waiting})
        self._due.clear()
        self._changes_seen = self._changes
        return [unit for unit in units if self._parked.get(unit) != self._changes]

    def waiting(self, unit: Unit) -> tuple[PodKey, ...]:
        """The pods of a unit that have no node, by key; also of an unknown gang."""
        members = self._members.get(GangKey(unit.key), ()) if unit.is_gang else [PodKey(unit.key)]
        return tuple(key for key in sorted(members) if key in self._waiting)

    def pod(self, key: PodKey) -> Pod | None:
        """A pod as we count it."""
        return self._pods.get(key)

    def _cluster(self) -> ClusterView:
        self._nodes.fit_columns()
        self._units.fit_columns()
        nominated = tuple(self._pods[key] for key in sorted(self._nominated))
        return ClusterView(self._nodes, self._units, self._budgets, self._gangs, nominated)

    def _ask(self, unit: Unit) -> Ask | None:
        if not unit.is_gang:
            pod = self._pods.get(PodKey(unit.key))
            if pod is None or pod.key not in self._waiting or self._unit_of(pod) != unit:
                return None
            group = None if pod.gang is None else self._gangs.get(pod.gang)
            return Ask(
                unit=unit,
                priority=(group or pod).priority,
                may_preempt=(group or pod).may_preempt,
                members=(pod,),
                needed=1,
                created_at=pod.created_at,
            )
        gang = self._gangs.get(GangKey(unit.key))
        if gang is None or gang.min_count == 0:
            return None
        pods = [self._pods[key] for key in sorted(self._members.get(gang.key, ()))]
        waiting = tuple(pod for pod in pods if pod.key in self._waiting)
        running = tuple(pod for pod in pods if pod.node is not None and not pod.terminating)
        if not waiting:
            return None
        return Ask(
            unit=unit,
            priority=gang.priority,
            may_preempt=gang.may_preempt,
            members=waiting,
            running=running,
            needed=max(0, gang.min_count - len(running)),
            topology_key=gang.topology_key,
            created_at=gang.created_at,
        )

    def _settle(self, ask: Ask, now: float) -> BindPods | PreemptUnits | WaitForNodes:
        decision = decide(ask, self._cluster())
        match decision:
            case BindPods():
                for member in ask.members:  # members left over lose their nomination
                    self._nominate(member.key, None)
                together = tuple(place.pod for place in decision.placement)
                for place in decision.placement:
                    self._assumed[place.pod] = _Bound(place.node, together)
                    pod = self._pods[place.pod]
                    started_at = now if pod.started_at is None else pod.started_at
                    self._put(replace(pod, node=place.node, started_at=started_at))
            case PreemptUnits():
                decision = replace(decision, workloads=self._workloads_lost(decision.pods))
                self._count_as_leaving(decision.pods)
                places = dict(decision.placement)
                for member in ask.members:
                    self._nominate(member.key, places.get(member.key))
                self._parked[ask.unit] = self._changes
            case WaitForNodes():
                kept = dict(decision.nominated)
                for member in ask.members:
                    self._nominate(member.key, kept.get(member.key))
                self._parked[ask.unit] = self._changes
            case _:
                assert_never(decision)
        return decision

    def _count_as_leaving(self, keys: Iterable[PodKey]) -> None:
        for key in keys:
            self._assumed_leaving.add(key)
            self._budgets.charge(self._pods[key])
            self._pods[key] = replace(self._pods[key], terminating=True)
            self._units.leave(self._pods[key])
        self._changes += 1

    def _nominate(self, key: PodKey, node: NodeName | None) -> None:
        pod = self._pods[key]
        self._nominations[key] = node
        if pod.nominated == node:
            return
        if node is None:
            self._nominated.discard(key)
            self._given_up += 1
            self._changes += 1
        else:
            self._nominated.add(key)
        self._pods[key] = replace(pod, nominated=node)

    def _workloads_lost(self, victims: Iterable[PodKey]) -> tuple[WorkloadKey, ...]:
        """The queue Workloads of which no pod is left to run."""
        gone = set(victims)
        touched = {workload for key in gone if (workload := self._pods[key].workload) is not None}
        return tuple(
            workload
            for workload in sorted(touched)
            if all(k in gone or self._pods[k].terminating for k in self._of_workload[workload])
        )

    def _unwind(self) -> Iterable[Unwind]:
        """Gangs of which a bind failed and that now run with too few members.

        Members that ran before go on: that others ended, or that more are asked for by now, is no
        reason to stop them.
        """
        for key, together in sorted(self._short.items()):
            gang = self._gangs.get(key)
            stay = [
                member
                for member in sorted(self._members.get(key, ()))
                if self._pods[member].node is not None and not self._pods[member].terminating
            ]
            pods = tuple(member for member in stay if member in together)
            if gang is not None and pods and len(stay) < gang.min_count:
                self._count_as_leaving(pods)
                yield Unwind(gang=key, pods=pods)
        self._short.clear()


def _discard(sets: dict[_K, set[PodKey]], key: _K, pod: PodKey) -> None:
    sets[key].discard(pod)
    if not sets[key]:
        del sets[key]
