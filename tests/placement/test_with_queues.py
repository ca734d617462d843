"""Quota and nodes together: engine and placement are told of each other, with one clock."""

from __future__ import annotations

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.engine import Engine
from makeway.engine.model import (
    Backoff,
    Config,
    EvictionReason,
    LocalQueue,
    LocalQueueKey,
    PodSet,
    PodSetName,
    QueueName,
    ResourceName,
    Workload,
    WorkloadKey,
)
from makeway.placement.decisions import BindPods, PreemptUnits
from makeway.placement.events import NodeSeen, PodGone, PodSeen
from makeway.placement.model import DisruptionMode, Node, NodeName, Pod, PodKey, PodShape
from makeway.placement.state import PlacementState
from makeway.translate.placement import evictions, gangs_admitted, gangs_ended, pod_set_gang
from tests.placement.scenario import CPU, PODS
from tests.scenario import flavor, queue

BACKOFF_S = 60


class Lab:
    """One queue with more quota than the nodes have room for, and a driver for both."""

    def __init__(self, quota: int, **nodes: int) -> None:
        self.now = 0.0
        self.engine = Engine(Config(backoff=Backoff(base_s=BACKOFF_S)))
        self.placement = PlacementState()
        self.workloads: dict[WorkloadKey, Workload] = {}
        self.modes: dict[WorkloadKey, DisruptionMode] = {}
        self.told: list[ev.Event] = []  # to the engine, by placement
        local_queue = LocalQueue(key=LocalQueueKey("default/q"), queue=QueueName("q"))
        for event in (
            ev.FlavorChanged(flavor("default")),
            ev.QueueChanged(queue("q", cpu=quota)),
            ev.LocalQueueChanged(local_queue),
            ev.NamespaceChanged("default", {}),
        ):
            self.engine.apply(event)
        for name, cpu in nodes.items():
            node = Node(name=NodeName(name), capacity={CPU: cpu, PODS: 110})
            self.placement.apply(NodeSeen(node))

    def submit(
        self, name: str, pods: int, *, priority: int, mode: DisruptionMode = DisruptionMode.GANG
    ) -> None:
        """A job whose every pod wants a node of 4 cpu."""
        pod_set = PodSet(name=PodSetName("main"), count=pods, requests=((ResourceName("cpu"), 4),))
        workload = Workload(
            key=WorkloadKey(f"default/{name}"),
            uid=name,
            local_queue=LocalQueueKey("default/q"),
            namespace="default",
            priority=priority,
            created_at=self.now,
            pod_sets=(pod_set,),
        )
        self.workloads[workload.key] = workload
        self.modes[workload.key] = mode
        self.engine.apply(ev.WorkloadSeen(workload))

    def run(self, now: float) -> list[str]:
        """Drive both until nothing moves; return what happened."""
        self.now = now
        story: list[str] = []
        while True:
            cycle = self.engine.run_cycle(now)
            for decision in cycle.decisions:
                if isinstance(decision, dec.Admit):
                    story.append(f"admitted {decision.workload.removeprefix('default/')}")
                    self._start(decision)
            answers = self.placement.place(now)
            for answer in answers:
                story.extend(self._carry_out(answer))
            if not any(isinstance(answer, BindPods | PreemptUnits) for answer in answers):
                return story

    def _start(self, admit: dec.Admit) -> None:
        workload = self.workloads[admit.workload]
        for event in gangs_admitted(admit, workload, self.modes[admit.workload]):
            self.placement.apply(event)
        (assigned,) = admit.assignment.pod_sets
        for index in range(assigned.count):
            pod = Pod(
                key=PodKey(f"{workload.key}-{index}"),
                namespace="default",
                shape=PodShape(((CPU, 4),)),
                priority=workload.priority,
                gang=pod_set_gang(workload.key, assigned.name),
                workload=workload.key,
            )
            self.placement.apply(PodSeen(pod))

    def _carry_out(self, answer: object) -> list[str]:
        match answer:
            case BindPods():
                pods = ", ".join(f"{_short(p.pod)} on {p.node}" for p in answer.placement)
                return [f"bound {pods}"]
            case PreemptUnits():
                told = evictions(answer, self.now)
                for event in told:
                    self.told.append(event)
                    self.engine.apply(event)
                for pod in answer.pods:  # gone at once
                    self.placement.apply(PodGone(pod))
                for event in told:
                    for gone in gangs_ended(self.workloads[event.key]):
                        self.placement.apply(gone)
                    self.engine.apply(ev.PodsGone(event.key))
                return [f"preempted {', '.join(map(_short, answer.pods))}"]
        return []

    def finish(self, name: str) -> None:
        key = WorkloadKey(f"default/{name}")
        self.engine.apply(ev.WorkloadFinished(key))
        for index in range(self.workloads[key].pod_sets[0].count):
            self.placement.apply(PodGone(PodKey(f"{key}-{index}")))


def _short(key: str) -> str:
    return key.rpartition("/")[2]


def test_a_job_preempted_on_its_nodes_comes_back_after_a_pause() -> None:
    lab = Lab(quota=100, n1=4, n2=4)
    lab.submit("low", pods=2, priority=10)
    assert lab.run(now=0) == ["admitted low", "bound low-0 on n1, low-1 on n2"]

    lab.submit("high", pods=2, priority=50)
    assert lab.run(now=10) == [
        "admitted high",
        "preempted low-0, low-1",
        "bound high-0 on n1, high-1 on n2",
    ]
    low = WorkloadKey("default/low")
    assert lab.told == [ev.Evicted(low, EvictionReason.PREEMPTED_IN_PLACEMENT, 10)]
    assert lab.run(now=20) == []  # back-off, though there is quota

    lab.finish("high")
    assert lab.run(now=10 + BACKOFF_S) == ["admitted low", "bound low-0 on n1, low-1 on n2"]


def test_a_job_that_loses_only_a_pod_keeps_its_quota() -> None:
    lab = Lab(quota=100, n1=4, n2=4)
    lab.submit("low", pods=2, priority=10, mode=DisruptionMode.POD)
    lab.run(now=0)
    lab.submit("high", pods=1, priority=50)
    (admitted, preempted, _) = lab.run(now=10)
    assert (admitted, preempted) == ("admitted high", "preempted low-1")
    assert lab.told == []
