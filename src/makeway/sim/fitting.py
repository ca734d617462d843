"""Which jobs can never fit: those that would wait even if nobody else were there.

The engine itself is asked, on a copy of the cluster in which nothing runs and nobody waits. What
is short for a while (quota in use, machines that don't come, a check that takes its time) is no
obstacle there; what is one there remains one, as nobody edits queues in a simulation.

Cost: one admission for each shape of jobs in each queue, however many jobs have it.
"""

from __future__ import annotations

from dataclasses import replace

from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Reserve
from makeway.engine.engine import Engine
from makeway.engine.explain import Explanation
from makeway.engine.model import Workload
from makeway.sim.cluster import SimulatedCluster
from makeway.translate.categories import can_never_run

AT = 0.0  # time stands still in there


class EmptyCluster:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._engine = Engine(cluster.config)
        self._known: dict[object, Explanation | None] = {}  # by queue and shape
        for event in cluster.events:
            self._engine.apply(event)

    def why_never(self, workload: Workload, shape: object) -> Explanation | None:
        """Why the job will never run; None if it can. `shape` stands for queue and pod sets."""
        try:
            found = self._known[shape]
        except KeyError:
            found = self._known[shape] = self._ask(workload)
        return None if found is None else replace(found, workload=workload.key)

    def _ask(self, workload: Workload) -> Explanation | None:
        engine = self._engine
        engine.apply(ev.WorkloadSeen(workload))
        explanation = None if self._is_admitted() else engine.explain(workload.key)
        engine.apply(ev.WorkloadRemoved(workload.key))
        if explanation is None or not can_never_run(explanation.obstacles):
            return None  # it fits, or waits for something else, as a queue that is stopped
        return explanation

    def _is_admitted(self) -> bool:
        while True:
            cycle = self._engine.run_cycle(AT)
            if any(isinstance(decision, Admit | Reserve) for decision in cycle.decisions):
                return True
            if cycle.next_at != AT:
                return False
