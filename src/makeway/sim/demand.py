"""The jobs of a trace as workloads of a cluster: queues, resources and priorities are looked up.

What the trace asks for and the cluster does not know is counted and named, as rows that don't
parse are: a simulation that silently leaves out a queue is worse than none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from makeway.engine.model import (
    PODS,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    PodSet,
    PodSetName,
    ResourceName,
    Workload,
    WorkloadKey,
)
from makeway.sim.allowed_flavors import AllowedFlavors
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.record import JobRun
from makeway.sim.settings import SimulationSpec, setting_for
from makeway.sim.successors import without_circles
from makeway.sim.trace_jobs import (
    CPUS,
    GPUS,
    MEMORY,
    Oddities,
    Oddity,
    SimulationError,
    Trace,
    TraceJob,
)

RESOURCES: Mapping[str, str] = {GPUS: "nvidia.com/gpu", CPUS: "cpu", MEMORY: "memory"}
POD_SET = PodSetName("main")


class Demand:
    def __init__(
        self,
        cluster: SimulatedCluster,
        trace: Trace,
        explained: Collection[str] = (),
        queue: str | None = None,
    ) -> None:
        self.cluster = cluster
        self._oddities = Oddities()
        self._resource_of = resource_names(cluster, trace)
        self._has_pod_quota = any(cell.resource == PODS for cell in cluster.cells())
        self.main_resource = self._main_resource(trace)
        self._queues_taken_in: set[str] = set()  # named in the trace, with no queue of that name
        self._queue_of = self._find_queues(trace, queue)
        self._pod_size_max = pod_size_max(cluster.settings)
        self._pod_sets: dict[object, tuple[PodSet, ...]] = {}
        self._flavors = AllowedFlavors(cluster, trace, self.main_resource)
        self._speeds = {s.flavor: float(s.factor) for s in cluster.settings.speeds}
        self.runs = list(self._make_runs(trace, explained))  # by time of submission
        self._link(self.runs)
        if not self.runs:
            what = "; ".join(f"{o.count} {o.what}" for o in self._oddities.all())
            raise SimulationError(f"{trace.source}: no job to simulate ({what})")

    @property
    def all_runs(self) -> list[JobRun]:
        """By index."""
        return self.runs

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        return (*self._oddities.all(), *self._flavors.oddities)

    def workload(self, run: JobRun) -> Workload:
        job = run.job
        key = self._queue_of[job.queue]
        assert key is not None
        return Workload(
            key=run.key,
            uid=f"{run.index:08}",
            local_queue=key,
            namespace=key.partition("/")[0],
            priority=run.priority,
            created_at=run.submitted_at,
            pod_sets=self._pod_sets_of(job),
            ends_when_preempted=run.ends_when_preempted,
        )

    def shape_of(self, run: JobRun) -> tuple[object, ...]:
        """Equal for jobs that ask for the same in the same queue."""
        job = run.job
        return (self._queue_of[job.queue], job.amounts, job.pods, job.pods_min, job.flavors)

    def speed_on(self, run: JobRun, usage: Mapping[FlavorResource, int]) -> float:
        """How much faster than in the trace it runs where it is; of its main resource, if any."""
        if not self._speeds and not run.job.run_on:
            return 1.0
        cells = sorted(usage, key=lambda cell: cell.resource != self.main_resource)
        flavor = cells[0].flavor if cells else FlavorName("")
        for word, run_s in run.job.run_on:
            if flavor in self.cluster.flavors_named(word):
                return run.job.run_s / run_s
        return self._speeds.get(flavor, 1.0)

    def _link(self, runs: list[JobRun]) -> None:
        """Who has to end before whom; jobs that wait for each other never come."""
        if not any(run.job.after for run in runs):
            return
        index_of = {run.job.name: run.index for run in reversed(runs)}
        for run in runs:
            known = [index_of[name] for name in run.job.after if name in index_of]
            if len(known) < len(run.job.after):
                self._oddities.note("jobs that follow upon jobs which are not there", run.job.name)
            run.before = tuple(dict.fromkeys(known))
        can_come = without_circles([run.before for run in runs])
        for run in runs:
            if run.index not in can_come:
                what = "jobs that wait for each other's end (they come when the trace says so)"
                self._oddities.note(what, run.job.name)
                run.before = ()

    def pod_requests(self, run: JobRun) -> dict[ResourceName, int]:
        """What one pod of a job asks for."""
        return dict(self._pod_sets_of(run.job)[0].requests)

    def _make_runs(self, trace: Trace, explained: Collection[str]) -> Iterator[JobRun]:
        names: set[str] = set()
        words = dict.fromkeys(word for job in trace.jobs for word, _ in job.run_on)
        missing = [word for word in words if not self.cluster.flavors_named(word)]
        for job in trace.jobs:
            local_queue = self._queue_of[job.queue]
            if local_queue is None:
                what = f"jobs of queue {job.queue or '(none)'}, which the configuration lacks"
                self._oddities.note(what, is_left_out=True)
                continue
            if not self._asks_for_quota(job):
                what = "jobs that ask for nothing the queues have quota for"
                self._oddities.note(what, job.name, is_left_out=True)
                continue
            if job.queue in self._queues_taken_in:
                queue_name = self.cluster.local_queues[local_queue].queue
                self._oddities.note(f"jobs of queue {job.queue} go to queue {queue_name}")
            if self._flavors.why_not(job) is not None:
                what = f"jobs that need flavor {self._flavors.why_not(job)}, which no queue has"
                self._oddities.note(what, job.name, is_left_out=True)
                continue
            name = job.name
            if name in names:
                self._oddities.note("jobs with a name that was taken (numbered)", name)
                name = f"{name}~{len(names)}"
            names.add(name)
            run = self._job_run(job, len(names) - 1, name, local_queue)
            if name in explained or run.key in explained:
                run.story = []
            for word in missing:
                if any(word == told for told, _ in job.run_on):
                    what = f"jobs with a run time on flavor {word}, which is not configured"
                    self._oddities.note(what, name)
            yield run
        for name in explained:
            if name not in names and name.partition("/")[2] not in names:
                raise SimulationError(
                    f"{trace.source}: no job {name} (there are {_examples(names)})"
                )

    def _job_run(self, job: TraceJob, index: int, name: str, local_queue: LocalQueueKey) -> JobRun:
        namespace = local_queue.partition("/")[0]
        queue = self.cluster.local_queues[local_queue].queue
        run = JobRun(job, index, WorkloadKey(f"{namespace}/{name}"), queue)
        run.submitted_at = job.submit_s
        run.priority = self._priority(job)
        (pod_set,) = self._pod_sets_of(job)
        run.pods_asked = pod_set.count
        if any(amount % pod_set.count for word, amount in job.amounts if self._is_main(word)):
            self._oddities.note("jobs that don't divide evenly into pods (rounded up)", name)
        run.size = sum(amount for word, amount in job.amounts if self._is_main(word))
        checkpoints = setting_for(self.cluster.settings.checkpoints, queue)
        run.checkpoint_s = job.checkpoint_s
        if run.checkpoint_s is None and checkpoints is not None:
            run.checkpoint_s = checkpoints.interval
        ending = setting_for(self.cluster.settings.on_preemption, queue)
        run.ends_when_preempted = ending is not None and ending.policy == "Terminate"
        return run

    def _asks_for_quota(self, job: TraceJob) -> bool:
        """Jobs that don't would start at once everywhere, and dilute every figure."""
        return self._has_pod_quota or any(word in self._resource_of for word, _ in job.amounts)

    def _is_main(self, word: str) -> bool:
        return self._resource_of.get(word) == self.main_resource

    def _priority(self, job: TraceJob) -> int:
        priority = self.cluster.priority_of(job.priority)
        if priority is None:
            what = f"jobs of priority {job.priority}, which no class defines (0 counts)"
            self._oddities.note(what, job.name)
            return 0
        return priority

    def _find_queues(self, trace: Trace, queue: str | None) -> dict[str, LocalQueueKey | None]:
        words = dict.fromkeys(job.queue for job in trace.jobs)
        default = self.cluster.only_queue()
        if queue is not None:
            default = self.cluster.find_queue(queue)
            if default is None:
                known = ", ".join(self.cluster.queues)
                raise SimulationError(
                    f"--queue {queue}: there is no such queue (there are {known})"
                )
        found = {word: (self.cluster.find_queue(word) if word else None) for word in words}
        if not any(found.values()) and default is None:
            known, asked = ", ".join(self.cluster.queues), ", ".join(map(repr, words)) or "none"
            raise SimulationError(
                f"{trace.source}: none of its queues is configured: it has {asked},"
                f" {self.cluster.source} has {known}; name one for all jobs with --queue"
            )
        is_for_all = queue is not None or len(self.cluster.queues) == 1
        if is_for_all:
            self._queues_taken_in = {word for word, key in found.items() if word and key is None}
        return {w: key or (default if is_for_all or not w else None) for w, key in found.items()}

    def _main_resource(self, trace: Trace) -> str:
        """The resource by which sizes and shares are told: GPUs before CPUs before the rest."""
        asked = {word for job in trace.jobs for word, _ in job.amounts}
        order = sorted(asked, key=lambda w: (w != GPUS, "/" not in w, w != CPUS, w))
        covered = {cell.resource for cell in self.cluster.cells()}
        for word in order:
            resource = self._resource_of.get(word)
            if resource is not None and resource in covered:
                return resource
        known = ", ".join(sorted(covered))
        raise SimulationError(
            f"{trace.source}: its jobs ask for {', '.join(order) or 'nothing'}, but the queues of"
            f" {self.cluster.source} have quota for {known} only; say what is what with"
            " spec.resources of a Simulation object"
        )

    def _pod_sets_of(self, job: TraceJob) -> tuple[PodSet, ...]:
        shape = (job.amounts, job.pods, job.pods_min, job.flavors)
        found = self._pod_sets.get(shape)
        if found is None:
            found = self._pod_sets[shape] = (self._pod_set(job),)
        return found

    def _pod_set(self, job: TraceJob) -> PodSet:
        totals = {
            ResourceName(self._resource_of[word]): amount
            for word, amount in job.amounts
            if word in self._resource_of
        }
        count = job.pods
        for resource, most in self._pod_size_max.items():
            count = max(count, -(-totals.get(ResourceName(resource), 0) // most))
        requests = {resource: -(-total // count) for resource, total in totals.items()}
        return PodSet(
            name=POD_SET,
            count=count,
            requests=tuple(sorted(requests.items())),
            min_count=job.pods_min,
            constraints=self._flavors.constraints(job),
        )


def pod_size_max(settings: SimulationSpec) -> dict[str, int]:
    """How big a pod may be; with simulated nodes, by default no bigger than any of them."""
    most: dict[str, int] = {}
    for pool in settings.nodes:
        for resource, amount in pool.capacity.items():
            most[resource] = min(amount, most.get(resource, amount))
    return {**most, **settings.pod_size_max}


def resource_names(cluster: SimulatedCluster, trace: Trace) -> dict[str, str]:
    """What the words of the trace mean; words that no queue has quota for are left out."""
    covered = {str(cell.resource) for cell in cluster.cells()}
    names = {**RESOURCES, **cluster.settings.resources}
    like_gpus = sorted(name for name in covered if "gpu" in name.lower())
    if names[GPUS] not in covered and len(like_gpus) == 1:
        names[GPUS] = like_gpus[0]
    asked = dict.fromkeys(word for job in trace.jobs for word, _ in job.amounts)
    found = {word: names.get(word, word) for word in asked}
    return {word: name for word, name in found.items() if name in covered}


def _examples(names: Collection[str]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (" …" if len(names) > len(first) else "")
