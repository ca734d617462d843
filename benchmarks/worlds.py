"""Clusters to measure on, told to an engine event by event as a driver would.

One flavor has cpu and memory; a workload is one pod set of one pod that asks for 1 cpu and 1 GiB
(or a multiple of both), so that amounts can be counted in pods. Every workload has values of its
own, as if each had been read from its object, lest memory look better than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from makeway.engine import events as ev
from makeway.engine.engine import Engine
from makeway.engine.model import (
    Assignment,
    Cohort,
    CohortName,
    Config,
    Flavor,
    FlavorName,
    FlavorQuotas,
    FlavorResource,
    LocalQueue,
    LocalQueueKey,
    PodSet,
    PodSetAssignment,
    PodSetName,
    Policy,
    Preemption,
    Queue,
    QueueName,
    Quota,
    ResourceGroup,
    ResourceName,
    Strategy,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.preview import LAST_UID, Preview, preview
from makeway.engine.upkeep import tend

NAMESPACE = "team"
FLAVOR = FlavorName("default")
RESOURCES = (ResourceName("cpu"), ResourceName("memory"))
UNITS = {RESOURCES[0]: 1_000, RESOURCES[1]: 1 << 30}  # of one pod
NOW = 1_000_000.0

STRICT, BEST_EFFORT = Strategy.STRICT_FIFO, Strategy.BEST_EFFORT_FIFO
NO_PREEMPTION = Preemption()
LOWER_ONLY = Preemption(within_queue=Policy.LOWER_PRIORITY, reclaim=Policy.LOWER_PRIORITY)
LOWER_OR_NEWER = Preemption(within_queue=Policy.LOWER_OR_NEWER_EQUAL)
LOWER_OR_BORROWED = Preemption(within_queue=Policy.LOWER_PRIORITY, reclaim=Policy.ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One queue and what it holds. Sizes are in pods."""

    name: str
    quota: int
    running: int = 0  # workloads of one pod
    running_low: int = 0  # how many of those have a priority below zero
    pending: tuple[int, ...] = ()  # the size of each
    priority: int = 0
    cohort: str | None = None


class World:
    def __init__(self, config: Config | None = None) -> None:
        self.engine = Engine(config)
        self.now = NOW
        self._count = 0
        self.engine.apply(ev.NamespaceChanged(NAMESPACE, {}))
        self.engine.apply(ev.FlavorChanged(Flavor(name=FLAVOR)))

    def add_cohort(self, name: str, parent: str | None, quota: int = 0) -> None:
        cohort = Cohort(
            name=CohortName(name),
            parent=CohortName(parent) if parent is not None else None,
            quotas={FlavorResource(FLAVOR, r): Quota(quota * UNITS[r]) for r in RESOURCES},
        )
        self.engine.apply(ev.CohortChanged(cohort))

    def add(self, load: Load, strategy: Strategy, preemption: Preemption) -> None:
        quotas = {resource: Quota(load.quota * UNITS[resource]) for resource in RESOURCES}
        queue = Queue(
            name=QueueName(load.name),
            groups=(ResourceGroup(RESOURCES, (FlavorQuotas(FLAVOR, quotas),)),),
            cohort=CohortName(load.cohort) if load.cohort is not None else None,
            strategy=strategy,
            preemption=preemption,
        )
        self.engine.apply(ev.QueueChanged(queue))
        local_queue = LocalQueue(key=_local_queue(load.name), queue=queue.name)
        self.engine.apply(ev.LocalQueueChanged(local_queue))
        for i in range(load.running):
            self.run(load.name, -1 if i < load.running_low else 0)
        for pods in load.pending:
            self.submit(load.name, pods, load.priority)

    def run(self, queue: str, priority: int = 0) -> WorkloadKey:
        """A workload of one pod that was admitted before we looked."""
        workload = self._workload(queue, 1, priority)
        assigned = PodSetAssignment(
            name=PodSetName("main"),
            count=1,
            flavors=tuple((resource, FLAVOR) for resource in RESOURCES),
            usage=tuple(UNITS.items()),
        )
        status = WorkloadStatus(
            assignment=Assignment((assigned,)),
            queue=QueueName(queue),
            reserved_at=workload.created_at,
            admitted_at=workload.created_at,
        )
        self.engine.apply(ev.WorkloadSeen(workload, status))
        return workload.key

    def submit(self, queue: str, pods: int = 1, priority: int = 0) -> WorkloadKey:
        workload = self._workload(queue, pods, priority)
        self.engine.apply(ev.WorkloadSeen(workload))
        return workload.key

    def preview(self, queue: str, pods: int, priority: int = 0) -> Preview:
        """What would become of one more."""
        workload = replace(self._workload(queue, pods, priority), uid=LAST_UID)
        return preview(self.engine, workload, self.now)

    def _workload(self, queue: str, pods: int, priority: int) -> Workload:
        self._count += 1
        name = f"workload-{self._count}"
        pod_set = PodSet(
            name=PodSetName("main"),
            count=1,
            requests=tuple((resource, pods * unit) for resource, unit in UNITS.items()),
        )
        return Workload(
            key=WorkloadKey(f"{NAMESPACE}/{name}"),
            uid=f"uid-{self._count:08d}",
            local_queue=_local_queue(queue),
            namespace=NAMESPACE,
            priority=priority,
            created_at=NOW - 1_000_000 + self._count,
            pod_sets=(pod_set,),
        )

    def cycle(self) -> bool:
        """Run one; is there anything for another to do?"""
        self.now += 1
        return bool(self.engine.run_cycle(self.now).decisions)


def _local_queue(queue: str) -> LocalQueueKey:
    return LocalQueueKey(f"{NAMESPACE}/{queue}")


def one_queue(
    load: Load,
    strategy: Strategy = BEST_EFFORT,
    preemption: Preemption = NO_PREEMPTION,
) -> World:
    world = World()
    world.add(load, strategy, preemption)
    world.engine.state.build_trees()
    tend(world.engine.state, world.now)
    return world


def forest(
    loads: Iterable[Load],
    strategy: Strategy = BEST_EFFORT,
    preemption: Preemption = NO_PREEMPTION,
    *,
    cohorts: Sequence[tuple[str, str | None, int]] = (),
    is_fair: bool = False,
) -> World:
    """Many queues. Cohorts that have a parent or quota of their own are listed with them."""
    world = World(Config(fair_sharing=is_fair))
    for cohort in cohorts:
        world.add_cohort(*cohort)
    for load in loads:
        world.add(load, strategy, preemption)
    world.engine.state.build_trees()
    tend(world.engine.state, world.now)
    return world


def full_and_free(queues: int, cohorts: int, shapes: int = 1) -> list[Load]:
    """Ten running and ten pending per queue, with room for all of them."""
    return [
        Load(
            name=f"queue-{i}",
            cohort=f"cohort-{i % cohorts}",
            quota=10 + 10 * shapes,
            running=10,
            pending=sizes(10, shapes),
        )
        for i in range(queues)
    ]


def full(queues: int, cohorts: int, shapes: int = 1, low: int = 0) -> list[Load]:
    """Ten running and ten pending per queue, and not a pod of room anywhere.

    Every other queue has lent half of its quota to its neighbour, so that with preemption on there
    is somebody to look at for those who want it back. With `low` of those who run in a borrowing
    queue less important than the rest, the pending ones ask for a pod more than these could free.
    """
    asked = 1 + low * queues // cohorts // 2
    return [
        Load(
            name=f"queue-{i}",
            cohort=f"cohort-{i // 2 % cohorts}",
            quota=10,
            running=5 if i % 2 else 15,
            running_low=0 if i % 2 else low,
            pending=tuple(asked - 1 + size for size in sizes(10, shapes)),
        )
        for i in range(queues)
    ]


def lent_out(queues: int, cohorts: int, owners: int, roots: int) -> tuple[list[Load], int]:
    """Owners run nothing and want their ten pods; all others run beyond their own ten.

    What they run beyond comes from the owners and from a pool at each of the roots, whose size in
    pods is returned too. Nothing is free. Owners are spread evenly.
    """
    borrowers = queues - owners
    extra = -(-10 * owners // borrowers)
    loads = []
    for i in range(queues):
        is_owner = i * owners % queues < owners
        loads.append(
            Load(
                name=f"queue-{i}",
                cohort=f"cohort-{i * cohorts // queues}",
                quota=10,
                running=0 if is_owner else 10 + extra,
                pending=(10,) if is_owner else (),
            )
        )
    return loads, (borrowers * extra - 10 * owners) // roots


def sizes(count: int, shapes: int) -> tuple[int, ...]:
    return tuple(1 + i % shapes for i in range(count))
