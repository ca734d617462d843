"""CPU time of one placement decision, by size of the cluster and the gang.

Every node has 40 cpu; with preemption it runs ten pods of 4 cpu and a member of the gang wants a
whole node, which is the set-up for which kube-scheduler's times are known. Without preemption the
ten pods take 1 cpu each and a member wants 4.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tests.placement.one import place_one

from makeway.engine.model import ResourceName
from makeway.placement.candidates import find_candidates, freed
from makeway.placement.decisions import BindPods, PlacementDecision, PreemptUnits
from makeway.placement.events import BudgetSeen, GangSeen, NodeSeen, PodSeen
from makeway.placement.model import (
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
    gang_unit,
    pod_unit,
)
from makeway.placement.packing import find_place, shapes_of
from makeway.placement.state import PlacementState
from makeway.placement.trials import PlacedTrial, put_back_all
from makeway.selectors import Requirement

CPU, PODS = ResourceName("cpu"), ResourceName("pods")
PODS_PER_NODE = 10
HIGH = 1_000
NOW = 1_000_000.0
# By nodes and gang: CPU seconds of kube-scheduler's own code for the decision alone, the middle of
# the ranges in the shared notes (section 11). Not measured in this run: the ratio is a rough one.
KUBE_SCHEDULER_S = {
    (100, 10): 0.037,
    (100, 100): 0.18,
    (500, 10): 0.135,
    (500, 100): 1.18,
    (1000, 10): 0.31,
    (1000, 100): 3.1,
    (5000, 10): 1.8,
    (5000, 100): 16.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    nodes: int
    gang: int  # 0: a pod by itself
    preempts: bool
    victim_gangs: bool = False  # victims come in gangs of ten, spread over the nodes
    levels: int = 1  # of priority among the victims
    rack: int = 0  # nodes per rack, within one of which the gang has to be; 0: anywhere
    budgets: int = 0  # how many share the victims among them


def build(case: Case) -> PlacementState:
    """A full (or nearly empty) cluster with one gang that waits."""
    dice = random.Random(5)
    state = PlacementState()
    capacity = {CPU: 40_000, PODS: 110}
    for n in range(case.nodes):
        labels = {"rack": f"{n // case.rack:04}"} if case.rack else {}
        name = NodeName(f"node-{n:05}")
        state.apply(NodeSeen(Node(name=name, capacity=capacity, labels=labels)))
    for b in range(case.budgets):
        app = Selector((Requirement("app", "In", (str(b),)),))
        key = BudgetKey(f"low/{b}")
        state.apply(BudgetSeen(Budget(key=key, namespace="low", selector=app, allowed=10)))
    small = PodShape(((CPU, 4_000 if case.preempts else 1_000),))
    priorities = [10 * (1 + dice.randrange(case.levels)) for _ in range(case.nodes)]
    if case.victim_gangs:
        for n, priority in enumerate(priorities):
            gang = Gang(
                key=GangKey(f"low/gang-{n:05}"), mode=DisruptionMode.GANG, priority=priority
            )
            state.apply(GangSeen(gang))
    for n in range(case.nodes):
        for i in range(PODS_PER_NODE):
            # Gang n has its ten pods on node n and the nine after it.
            of_gang = (n - i) % case.nodes
            gang_key = GangKey(f"low/gang-{of_gang:05}") if case.victim_gangs else None
            pod = Pod(
                key=PodKey(f"low/pod-{n:05}-{i}"),
                namespace="low",
                shape=small,
                priority=10 * (1 + dice.randrange(case.levels)),
                gang=gang_key,
                node=NodeName(f"node-{n:05}"),
                started_at=float(dice.randrange(10_000)),
                labels={"app": str(n % case.budgets)} if case.budgets else {},
            )
            state.apply(PodSeen(pod))
    top = Gang(
        key=GangKey("top/gang"),
        min_count=max(1, case.gang),
        priority=HIGH,
        topology_key="rack" if case.rack else None,
    )
    state.apply(GangSeen(top))
    whole = PodShape(((CPU, 40_000 if case.preempts else 4_000),))
    for i in range(max(1, case.gang)):
        pod = Pod(
            key=PodKey(f"top/member-{i:04}"),
            namespace="top",
            shape=whole,
            priority=HIGH,
            gang=GangKey("top/gang") if case.gang else None,
        )
        state.apply(PodSeen(pod))
    return state


def measure(case: Case) -> tuple[float, PlacementDecision]:
    """CPU seconds of the first decision after the cluster was built, and the decision."""
    state = build(case)
    single = pod_unit(PodKey("top/member-0000"))
    unit = gang_unit(GangKey("top/gang")) if case.gang else single
    started = time.process_time()
    decision = place_one(state, unit, NOW)
    spent = time.process_time() - started
    assert decision is not None
    return spent, decision


def victims_of(decision: PlacementDecision) -> tuple[int, int, float]:
    """How many pods go, and their highest and mean preemption priority."""
    if not isinstance(decision, PreemptUnits) or not decision.victims:
        return 0, 0, 0.0
    weights = [len(victim.pods) for victim in decision.victims]
    priorities = [victim.priority for victim in decision.victims]
    return sum(weights), max(priorities), float(np.average(priorities, weights=weights))


def without_bound(case: Case) -> tuple[int, int, float]:
    """How many pods a search without the priority bound would take, highest and mean priority.

    This is what kube-scheduler does: one placement with all candidates gone, on the first nodes
    that take a member, then everybody comes back who fits around it, the most important first.
    """
    cluster = build(case)._cluster()
    room = cluster.nodes.room()
    member = Pod(key=PodKey("top/member"), namespace="top", shape=PodShape(((CPU, 40_000),)))
    shapes = shapes_of([member] * case.gang, (), cluster.nodes, room.node_rows)
    candidates = find_candidates(cluster.units, HIGH, room, shapes[0].suits)
    everyone = np.ones(len(candidates), dtype=np.bool_)
    free = freed(candidates, room.free, everyone)
    packing = find_place(shapes, free, case.gang)
    assert packing is not None
    gone = put_back_all(PlacedTrial(shapes, packing, free, candidates), everyone)
    sizes = cluster.units.size[candidates.units[gone]]
    priorities = candidates.priority[gone]
    return int(sizes.sum()), int(priorities.max()), float(np.average(priorities, weights=sizes))


def outcome(decision: PlacementDecision) -> str:
    match decision:
        case BindPods():
            return f"bound {len(decision.placement)}"
        case PreemptUnits():
            number, highest, mean = victims_of(decision)
            return f"{number} victims, highest {highest}, mean {mean:.0f}"
        case _:
            return "waits"


def print_table(title: str, cases: Sequence[Case]) -> None:
    print(title)
    print(f"  {'nodes':>6} {'pods':>6} {'gang':>5} {'victims':>8} {'levels':>6} {'CPU ms':>8}  ")
    for case in cases:
        spent, decision = measure(case)
        known = KUBE_SCHEDULER_S.get((case.nodes, case.gang))
        beside = ""
        if known is not None and case.preempts and not case.victim_gangs and case.levels == 1:
            beside = f"  (kube-scheduler {known * 1000:.0f} ms: {known / spent:.0f} times as much)"
        if case.levels > 1:
            number, highest, mean = without_bound(case)
            beside = f"  (without the bound {number}, highest {highest}, mean {mean:.0f})"
        kind = "-" if not case.preempts else "gangs" if case.victim_gangs else "pods"
        print(
            f"  {case.nodes:>6} {case.nodes * PODS_PER_NODE:>6} {case.gang:>5} {kind:>8}"
            f" {case.levels:>6} {spent * 1000:>8.1f}  {outcome(decision)}{beside}"
        )
    print()


def main(arguments: Sequence[str] = ()) -> None:
    small = "--small" in arguments
    measure(Case(nodes=20, gang=5, preempts=True))  # so that the first row does not pay for imports
    sizes = (100, 500) if small else (100, 500, 1000, 5000)
    gangs = (10, 100) if small else (10, 100, 1000)
    fitting = [(n, g) for n in sizes for g in gangs if g <= n]
    print_table(
        "placement without preemption", [Case(nodes=n, gang=g, preempts=False) for n, g in fitting]
    )
    for levels in (1, 50):
        for victim_gangs in (False, True):
            print_table(
                f"preemption, victims as {'gangs of 10' if victim_gangs else 'single pods'}, "
                f"{levels} priority level{'s' if levels > 1 else ''}",
                [
                    Case(nodes=n, gang=g, preempts=True, victim_gangs=victim_gangs, levels=levels)
                    for n, g in fitting
                ],
            )
    growth = (100, 250, 500) if small else (1000, 2500, 5000)
    print_table(
        "growth with the cluster: a gang of 100, fifty levels",
        [Case(nodes=n, gang=100, preempts=True, levels=50) for n in growth],
    )
    largest = Case(nodes=sizes[-1], gang=20, preempts=True)
    print_table("a gang of 20 within a rack of 40 nodes", [replace(largest, rack=40)])
    print_table("a pod by itself", [replace(largest, gang=0)])
    print_table("a gang of 20, all victims under 100 budgets", [replace(largest, budgets=100)])


if __name__ == "__main__":
    main(sys.argv[1:])
