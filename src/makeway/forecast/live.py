"""What a server has now, as a simulation can begin with it: its objects become values.

They are read as a controller reads them that has just started. Time begins now: what was before is
negative. What the objects do not tell is what a simulation assumes by default: pods start and stop
at once, and checks that are still open say yes. Jobs whose objects are gone come from a journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, TypeVar

from makeway.api.batch import Job
from makeway.api.codec import decode_hub, encode
from makeway.api.configuration import Configuration, ResourcesConfiguration
from makeway.api.kinds import (
    CHECKS,
    COHORTS,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import SUBMITTED_BY
from makeway.api.manifests import Manifest, Position
from makeway.api.meta import ObjectMeta, find_condition
from makeway.api.queueing import ClusterQueue, LocalQueue, Workload
from makeway.engine import events as ev
from makeway.engine.model import WorkloadStatus
from makeway.forecast.arrivals import Arrivals
from makeway.forecast.forecasting import Situation, running_in
from makeway.forecast.recorded_past import EndedJob
from makeway.forecast.run_times import PastJob, RunTimes
from makeway.sim.beginning import Beginning, OpenJob
from makeway.sim.cluster import SimulatedCluster, build_cluster
from makeway.sim.time_axes import moved_memory, moved_status, moved_workload
from makeway.sim.trace_jobs import TraceJob
from makeway.translate.queues import recalled
from makeway.translate.workloads import status_of, workload_of

Document = Mapping[str, Any]
ViewT = TypeVar("ViewT", Workload, Job)
SOURCE = "the server"
# Which objects are read; the queue objects among them make the cluster.
QUEUE_KINDS: tuple[Resource, ...] = (FLAVORS, COHORTS, QUEUES, LOCAL_QUEUES, NAMESPACES, CHECKS)
READ: tuple[Resource, ...] = (*QUEUE_KINDS, WORKLOADS, JOBS)


class Ended(NamedTuple):
    job: PastJob
    at: float
    is_gone: bool = False  # its objects are: the journal tells of it


class LiveState(NamedTuple):
    manifests: tuple[Manifest, ...]  # queue objects, to lay others over them
    beginning: Beginning  # at zero
    ended: tuple[Ended, ...]  # in the order in which they ended
    now: float  # what zero is, in seconds since 1970

    @property
    def past(self) -> list[PastJob]:
        """Who has come, in order."""
        there = [PastJob(job.job, job.workload) for job in self.beginning.jobs]
        return sorted([*there, *(one.job for one in self.ended)], key=lambda p: p.job.submit_s)

    def cluster(self) -> SimulatedCluster:
        return build_cluster(self.manifests, SOURCE)

    def situation(self, cluster: SimulatedCluster) -> Situation:
        run_times = RunTimes()
        for one in self.ended:
            run_times.learn(one.job)
        run_times.see_running(running_in(self.beginning))
        return Situation(
            cluster=cluster,
            beginning=self.beginning,
            run_times=run_times,
            arrivals=Arrivals(self.past, self.beginning.at),
        )


def live_state(
    documents: Iterable[Document],
    now: float,
    configuration: Configuration,
    recorded: Iterable[EndedJob] = (),
) -> LiveState:
    """`recorded` are jobs that a journal tells of; objects that are there tell more."""
    by_kind: dict[str, list[Document]] = {}
    for document in documents:
        by_kind.setdefault(str(document.get("kind")), []).append(document)
    queue_documents = [d for kind in QUEUE_KINDS for d in by_kind.get(kind.kind, ())]
    queues = {d["metadata"]["name"] for d in by_kind.get(QUEUES.kind, ())}
    kept = [d for d in queue_documents if _is_in(d, queues)]
    local_queues = {_key(d) for d in kept if d["kind"] == LOCAL_QUEUES.kind}
    jobs = {job.metadata.uid: job for job in _views(by_kind.get(JOBS.kind, ()), Job)}
    found = [
        _Seen(view, jobs, now, configuration.resources)
        for view in _views(by_kind.get(WORKLOADS.kind, ()), Workload)
        if f"{view.metadata.namespace}/{view.spec.queue_name}" in local_queues
    ]
    found.sort(key=lambda seen: (seen.job.submit_s, seen.workload.uid))
    ended = [one for seen in found if (one := seen.ended()) is not None]
    there = {seen.workload.uid for seen in found}
    ended += [
        _gone(job, now)
        for job in recorded
        if job.workload.uid not in there and job.workload.local_queue in local_queues
    ]
    return LiveState(
        manifests=tuple(_manifests([*kept, encode(configuration)])),
        beginning=Beginning(
            0.0,
            tuple(seen.open_job() for seen in found if not seen.status.finished),
            tuple(_memory(kept, -now)),
        ),
        ended=tuple(sorted(ended, key=lambda one: one.at)),
        now=now,
    )


def _is_in(document: Document, queues: set[str]) -> bool:
    """A LocalQueue may name a ClusterQueue that is not there yet."""
    if document["kind"] != LOCAL_QUEUES.kind:
        return True
    return (document.get("spec") or {}).get("clusterQueue") in queues


def _key(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace')}/{metadata['name']}"


def _views(documents: Iterable[Document], kind: type[ViewT]) -> Iterator[ViewT]:
    for document in documents:
        view = decode_hub(document).object
        if isinstance(view, kind):
            yield view


def _manifests(documents: Sequence[Document]) -> Iterator[Manifest]:
    for index, document in enumerate(documents):
        yield Manifest(document=document, index=index, position=Position(SOURCE, 0))


def _memory(
    documents: Iterable[Document], by_s: float
) -> Iterator[ev.EvictionsCaused | ev.UsageRecalled]:
    for document in documents:
        view = decode_hub(document).object
        if isinstance(view, ClusterQueue | LocalQueue):
            for event in recalled(view):
                assert isinstance(event, ev.EvictionsCaused | ev.UsageRecalled)
                yield moved_memory(event, by_s)


def _gone(recorded: EndedJob, now: float) -> Ended:
    workload = moved_workload(recorded.workload, -now)
    job = TraceJob(
        name=recorded.name,
        queue=workload.local_queue.rpartition("/")[2],
        submit_s=workload.created_at,
        run_s=max(0.0, recorded.run_s),
        amounts=(),
        priority=str(workload.priority),
    )
    return Ended(PastJob(job, workload), recorded.ended_at - now, is_gone=True)


class _Seen:
    """A Workload and the Job behind it."""

    def __init__(
        self,
        view: Workload,
        jobs: Mapping[str, Job],
        now: float,
        resources: ResourcesConfiguration,
    ) -> None:
        self._view, self._now = view, now
        self.workload = moved_workload(workload_of(view, resources), -now)
        self.status: WorkloadStatus = moved_status(status_of(view), -now)
        owner = next((o for o in view.metadata.owner_references if o.uid in jobs), None)
        job = None if owner is None else jobs[owner.uid]
        about: ObjectMeta = view.metadata if job is None else job.metadata
        limits = [
            float(limit)
            for limit in (
                view.spec.maximum_execution_time_seconds,
                None if job is None else job.spec.active_deadline_seconds,
            )
            if limit is not None
        ]
        self.job = TraceJob(
            name=about.name,
            queue=view.spec.queue_name,
            submit_s=self.workload.created_at,
            run_s=inf,
            amounts=(),
            priority=str(self.workload.priority),
            user=about.annotations.get(SUBMITTED_BY, ""),
            requested_s=min(limits, default=None),
        )

    def open_job(self) -> OpenJob:
        """Pods run since they are ready; where nobody tells of that, since they may."""
        status = self.status
        is_running = status.admitted_at is not None and status.eviction is None
        tells = find_condition(self._view.status.conditions, "PodsReady") is not None
        run_from = status.ready_at if tells else status.admitted_at
        return OpenJob(
            job=self.job,
            workload=self.workload,
            status=status,
            machines_from=status.admitted_at,
            run_from=run_from if is_running else None,
            first_run_at=run_from if is_running else None,
        )

    def ended(self) -> Ended | None:
        """How long it ran, the last time; None where that can't be told, or it goes on."""
        conditions = self._view.status.conditions
        finished = find_condition(conditions, "Finished")
        admitted = find_condition(conditions, "Admitted")
        if finished is None or finished.status != "True" or admitted is None:
            return None
        end, start = finished.last_transition_time, admitted.last_transition_time
        if end is None or start is None or admitted.status != "True":
            return None
        job = self.job._replace(run_s=max(0.0, end - start))
        return Ended(PastJob(job, self.workload), end - self._now)
