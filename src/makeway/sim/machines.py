"""Simulated nodes: gangs of admitted jobs are placed on them, and preempted, by `placement`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from makeway.engine.matching import Constraints
from makeway.engine.model import ResourceName, WorkloadKey
from makeway.placement.decisions import BindPods, PlacementDecision
from makeway.placement.events import GangGone, GangSeen, NodeSeen, PodGone, PodSeen
from makeway.placement.model import (
    DisruptionMode,
    Gang,
    GangKey,
    Node,
    NodeName,
    Pod,
    PodKey,
    PodShape,
)
from makeway.placement.state import PlacementState
from makeway.sim.cluster import FLAVOR_LABEL
from makeway.sim.record import JobRun
from makeway.sim.settings import NodePool


class Machines:
    """Nodes by pool, and the jobs on them. Every job is one gang, placed and preempted whole."""

    def __init__(self, pools: tuple[NodePool, ...]) -> None:
        self.placement = PlacementState()
        self._pools = {pool.flavor: pool for pool in pools}
        self._pods: dict[WorkloadKey, tuple[Pod, ...]] = {}  # of jobs that have or want nodes
        self._nodes_of: dict[WorkloadKey, dict[PodKey, NodeName]] = {}
        for pool in pools:
            capacity = {ResourceName(name): amount for name, amount in pool.capacity.items()}
            for i in range(pool.count):
                name = NodeName(f"{pool.flavor}-{i}")
                labels = {FLAVOR_LABEL: pool.flavor}
                node = Node(name=name, capacity=capacity, labels=labels)
                self.placement.apply(NodeSeen(node))

    def pool_of(self, run: JobRun) -> NodePool | None:
        """The pool that a job's pods go to; None when its flavors have no nodes of their own."""
        return next((self._pools[f] for f in run.flavors if f in self._pools), None)

    def ask(
        self,
        run: JobRun,
        requests: Mapping[ResourceName, int],
        now: float,
        nodes: Sequence[str] = (),
    ) -> None:
        """The pods of a job want nodes, or have them already."""
        pool = self.pool_of(run)
        assert pool is not None, f"{run.key} holds {run.flavors}, which have no nodes"
        key = GangKey(str(run.key))
        gang = Gang(
            key=key,
            min_count=run.pods_admitted,
            mode=DisruptionMode.GANG,
            priority=run.priority,
            created_at=run.submitted_at,
        )
        wanted = sorted((r, n) for r, n in requests.items() if n and r in pool.capacity)
        shape = PodShape(
            requests=tuple(wanted), constraints=Constraints(selector=((FLAVOR_LABEL, pool.flavor),))
        )
        pods = tuple(
            Pod(
                key=PodKey(f"{run.key}-{i}"),
                namespace=run.key.partition("/")[0],
                shape=shape,
                priority=run.priority,
                gang=key,
                created_at=now,
                workload=run.key,
            )
            for i in range(run.pods_admitted)
        )
        self._pods[run.key] = pods
        self.placement.apply(GangSeen(gang))
        if nodes:
            names = map(NodeName, nodes)
            self._nodes_of[run.key] = dict(zip((pod.key for pod in pods), names, strict=True))
        for pod in pods:
            on = self._nodes_of[run.key][pod.key] if nodes else None
            self.placement.apply(PodSeen(replace(pod, node=on)))

    def nodes_of(self, key: WorkloadKey) -> tuple[str, ...]:
        """The nodes of a job's pods, in order; empty where they are on none."""
        nodes = self._nodes_of.get(key)
        return tuple(nodes[pod.key] for pod in self._pods[key]) if nodes else ()

    def leave(self, key: WorkloadKey) -> None:
        """The pods of a job are told to end; they take their room until they are gone."""
        for pod in self._pods.get(key, ()):
            node = self._nodes_of.get(key, {}).get(pod.key)
            self.placement.apply(PodSeen(replace(pod, node=node, terminating=True)))

    def release(self, key: WorkloadKey) -> None:
        """The pods of a job are gone."""
        pods = self._pods.pop(key, ())
        self._nodes_of.pop(key, None)
        for pod in pods:
            self.placement.apply(PodGone(pod.key))
        if pods:
            self.placement.apply(GangGone(GangKey(str(key))))

    def jobs_beside(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """The jobs on the first node of a job, itself among them."""
        nodes = self._nodes_of.get(key)
        if not nodes:
            return (key,)
        node = min(nodes.values())
        return tuple(other for other, on in self._nodes_of.items() if node in on.values())

    def place(self, now: float) -> list[PlacementDecision]:
        """Decide about every job that waits for nodes; what is bound stands there at once."""
        decisions = self.placement.place(now)
        for decision in decisions:
            if isinstance(decision, BindPods):
                key = WorkloadKey(decision.preemptor.key)
                nodes = self._nodes_of[key] = dict(decision.placement)
                for pod in self._pods[key]:
                    self.placement.apply(PodSeen(replace(pod, node=nodes[pod.key])))
        return decisions
