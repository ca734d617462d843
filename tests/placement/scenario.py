"""A cluster for stories: builders that default what the story does not mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from makeway.engine.matching import Constraints, Taint, Toleration
from makeway.engine.model import ResourceName, WorkloadKey
from makeway.placement.decisions import BindPods, PlacementDecision, PreemptUnits, WaitForNodes
from makeway.placement.events import (
    BudgetSeen,
    GangSeen,
    NodeGone,
    NodeSeen,
    PlacementEvent,
    PodGone,
    PodSeen,
)
from makeway.placement.model import (
    Apart,
    Budget,
    BudgetKey,
    DisruptionMode,
    Gang,
    GangKey,
    Node,
    NodeName,
    Pod,
    PodKey,
    PodShape,
    Selector,
    Spread,
    gang_unit,
    pod_unit,
)
from makeway.placement.state import PlacementState
from makeway.selectors import Requirement
from tests.placement.one import place_one

CPU, GPU, PODS = ResourceName("cpu"), ResourceName("gpu"), ResourceName("pods")


class Cluster:
    """Names are short: pods and gangs live in the namespace `lab` unless they say otherwise."""

    def __init__(self, **nodes: int) -> None:
        self.state = PlacementState()
        self.gangs: dict[str, Gang] = {}
        self.now = 0.0
        for name, cpu in nodes.items():
            self.node(name, cpu=cpu)

    def tell(self, event: PlacementEvent) -> None:
        self.state.apply(event)
        self.check()

    def node(
        self,
        name: str,
        *,
        cpu: int = 4,
        gpu: int = 0,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        unschedulable: bool = False,
    ) -> None:
        node = Node(
            name=NodeName(name),
            capacity={CPU: cpu, GPU: gpu, PODS: pods},
            labels=labels or {},
            taints=tuple(taints),
            unschedulable=unschedulable,
        )
        self.tell(NodeSeen(node))

    def lose_node(self, name: str) -> None:
        self.tell(NodeGone(NodeName(name)))

    def gang(
        self,
        name: str,
        *,
        min_count: int = 1,
        priority: int = 100,
        preemption_priority: int | None = None,
        together: bool = False,
        may_preempt: bool = True,
        within: str | None = None,
    ) -> None:
        self.gangs[name] = Gang(
            key=GangKey(f"lab/{name}"),
            min_count=min_count,
            mode=DisruptionMode.GANG if together else DisruptionMode.POD,
            priority=priority,
            preemption_priority=preemption_priority,
            may_preempt=may_preempt,
            topology_key=within,
        )
        self.tell(GangSeen(self.gangs[name]))

    def pod(
        self,
        name: str,
        *,
        on: str | None = None,
        cpu: int = 4,
        gpu: int = 0,
        priority: int = 10,
        preemption_priority: int | None = None,
        gang: str | None = None,
        labels: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
        affinity: Sequence[Requirement] = (),
        tolerations: Sequence[Toleration] = (),
        apart: str | None = None,
        spread: str | Spread | None = None,
        nominated: str | None = None,
        leaving: bool = False,
        started: float | None = None,
        created: float = 0.0,
        workload: str | None = None,
    ) -> None:
        """A pod that runs `on` a node, or waits."""
        requests = [(CPU, cpu), (GPU, gpu)]
        constraints = Constraints(
            selector=tuple(sorted((selector or {}).items())),
            affinity=(tuple(affinity),) if affinity else (),
            tolerations=tuple(tolerations),
        )
        pod = Pod(
            key=PodKey(f"lab/{name}"),
            namespace="lab",
            shape=PodShape(
                tuple((resource, amount) for resource, amount in requests if amount),
                constraints,
                Apart(apart) if apart else None,
                Spread(spread) if isinstance(spread, str) else spread,
            ),
            priority=priority,
            preemption_priority=preemption_priority,
            gang=GangKey(f"lab/{gang}") if gang else None,
            node=NodeName(on) if on else None,
            nominated=NodeName(nominated) if nominated else None,
            terminating=leaving,
            labels=labels or {},
            created_at=created,
            started_at=started,
            workload=WorkloadKey(workload) if workload else None,
        )
        self.tell(PodSeen(pod))

    def members(
        self,
        gang: str,
        count: int,
        *,
        cpu: int = 4,
        apart: str | None = None,
        spread: str | None = None,
    ) -> None:
        """Pods of a gang that wait: gang-0, gang-1 and so on."""
        for i in range(count):
            self.pod(f"{gang}-{i}", gang=gang, cpu=cpu, apart=apart, spread=spread)

    def budget(self, name: str, *, allowed: int, **labels: str) -> None:
        requirements = tuple(Requirement(key, "In", (value,)) for key, value in labels.items())
        key = BudgetKey(f"lab/{name}")
        budget = Budget(key=key, namespace="lab", selector=Selector(requirements), allowed=allowed)
        self.tell(BudgetSeen(budget))

    def ended(self, *names: str) -> None:
        for name in names:
            self.tell(PodGone(PodKey(f"lab/{name}")))

    def place(self, name: str) -> PlacementDecision:
        if name in self.gangs:
            unit = gang_unit(GangKey(f"lab/{name}"))
        else:
            unit = pod_unit(PodKey(f"lab/{name}"))
        self.now += 1
        decision = place_one(self.state, unit, self.now)
        assert decision is not None, f"nothing of {name} waits"
        self.check()
        return decision

    def check(self) -> None:
        """What is used on each node is the sum of what its pods take; every map agrees."""
        state = self.state
        nodes, units = state._nodes, state._units
        used = np.zeros_like(nodes.used)
        for pod in state._pods.values():
            row = None if pod.node is None else nodes.row_of.get(pod.node)
            if row is not None:
                amounts = nodes.columns.amounts(pod.shape)
                used[row, : len(amounts)] += amounts
        assert (used == nodes.used).all()
        bound = {key for key, pod in state._pods.items() if pod.node is not None}
        assert set(units.slot_of) == bound
        waiting = {k for k, p in state._pods.items() if p.node is None and not p.terminating}
        assert state._waiting == waiting
        assert state._nominated == {k for k in waiting if state._pods[k].nominated is not None}
        for unit in units.unit_of.values():
            staying = [units.pods[slot] for slot in units.members[unit] if units.stays[slot]]
            assert units.size[unit] == len(staying)
            starts = [pod.started_at for pod in staying if pod and pod.started_at is not None]
            assert units.started[unit] == min(starts, default=np.inf)


def bound(decision: PlacementDecision) -> dict[str, str]:
    """Who is bound where, by short names."""
    assert isinstance(decision, BindPods), decision
    return {short(place.pod): str(place.node) for place in decision.placement}


def nominated(decision: PlacementDecision) -> dict[str, str]:
    assert isinstance(decision, PreemptUnits | WaitForNodes), decision
    places = decision.placement if isinstance(decision, PreemptUnits) else decision.nominated
    return {short(place.pod): str(place.node) for place in places}


def victims(decision: PlacementDecision) -> list[str]:
    assert isinstance(decision, PreemptUnits), decision
    return [short(key) for key in decision.pods]


def short(key: str) -> str:
    return key.rpartition("/")[2]
