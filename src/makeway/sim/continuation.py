"""The jobs of a simulation that goes on from a beginning: those that are there, and who comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from makeway.engine.model import FlavorName, FlavorResource, ResourceName, Workload, WorkloadKey
from makeway.sim.beginning import Beginning
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.record import JobRun
from makeway.sim.settings import setting_for
from makeway.sim.trace_jobs import Oddity, TraceJob


class Arrival(NamedTuple):
    """A job that is still to come: what it does, and what the engine is told of it."""

    job: TraceJob
    workload: Workload


class Continuation:
    """In place of the demand that a trace makes."""

    oddities: tuple[Oddity, ...] = ()

    def __init__(
        self,
        cluster: SimulatedCluster,
        beginning: Beginning,
        jobs: Mapping[WorkloadKey, TraceJob],
        arrivals: Iterable[Arrival] = (),
    ) -> None:
        """`jobs` says what each open job will do: its run time, and when its user gives up."""
        self.cluster, self.beginning = cluster, beginning
        self.main_resource = main_resource(cluster)
        self._speeds = {s.flavor: float(s.factor) for s in cluster.settings.speeds}
        self._workloads: list[Workload] = []
        self.open_runs = [self._add(jobs[o.workload.key], o.workload) for o in beginning.jobs]
        self.runs: list[JobRun] = []
        self.all_runs = [*self.open_runs]  # by index
        self.extend(arrivals)

    def extend(self, arrivals: Iterable[Arrival]) -> Sequence[JobRun]:
        """More are to come, all after those that are known already; returns them in that order."""
        coming = sorted(arrivals, key=lambda arrival: arrival.job.submit_s)
        more = [self._add(job, workload) for job, workload in coming]
        self.runs += more
        self.all_runs += more
        return more

    def _add(self, job: TraceJob, workload: Workload) -> JobRun:
        self._workloads.append(workload)
        queue = self.cluster.local_queues[workload.local_queue].queue
        checkpoints = setting_for(self.cluster.settings.checkpoints, queue)
        run = JobRun(job, len(self._workloads) - 1, workload.key, queue)
        run.submitted_at, run.priority = workload.created_at, workload.priority
        run.pods_asked = sum(pod_set.count for pod_set in workload.pod_sets)
        run.size = _amount_of(workload, self.main_resource)
        run.checkpoint_s = job.checkpoint_s
        if run.checkpoint_s is None and checkpoints is not None:
            run.checkpoint_s = checkpoints.interval
        run.ends_when_preempted = workload.ends_when_preempted
        return run

    def workload(self, run: JobRun) -> Workload:
        return self._workloads[run.index]

    def shape_of(self, run: JobRun) -> tuple[object, ...]:
        workload = self._workloads[run.index]
        return (workload.local_queue, workload.pod_sets)

    def speed_on(self, run: JobRun, usage: Mapping[FlavorResource, int]) -> float:
        if not self._speeds:
            return 1.0
        cells = sorted(usage, key=lambda cell: cell.resource != self.main_resource)
        return self._speeds.get(cells[0].flavor if cells else FlavorName(""), 1.0)

    def pod_requests(self, run: JobRun) -> dict[ResourceName, int]:
        return dict(self._workloads[run.index].pod_sets[0].requests)


def main_resource(cluster: SimulatedCluster) -> str:
    """The resource by which sizes are told: GPUs before CPUs before the rest."""
    found: Sequence[str] = [cell.resource for cell in cluster.cells()]
    return min(found, key=lambda name: ("gpu" not in name.lower(), name != "cpu"), default="cpu")


def _amount_of(workload: Workload, resource: str) -> int:
    return sum(
        pod_set.count * amount
        for pod_set in workload.pod_sets
        for name, amount in pod_set.requests
        if name == resource
    )
