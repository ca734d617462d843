"""The jobs of a journal as a trace: what came, how long it ran, who gave up.

With other queues others start at other times, so ends can't be taken from the journal: the run time
of a job is that of its last attempt, and the simulation says when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.model import (
    EvictionReason,
    LocalQueueKey,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.journal.file import Journal, Segment
from makeway.journal.past import job_name
from makeway.journal.records import Heard, Record
from makeway.sim.trace_jobs import Oddities, SimulationError, Trace, TraceJob, in_order


class RecordedJob:
    """A job as far as the journal tells of it."""

    def __init__(self, workload: Workload, queue: str) -> None:
        self.workload, self.queue = workload, queue
        self.began_at: float | None = None  # the attempt that runs
        self.run_s: float | None = None
        self.gave_up_at: float | None = None
        self.finished_at: float | None = None  # None: nobody has told when it did

    def ends(self, at: float) -> None:
        if self.run_s is None and self.began_at is not None:
            self.run_s = at - self.began_at


class RecordedJobs:
    """Takes the records of a journal in, first to last."""

    def __init__(self) -> None:
        self.told: dict[str, RecordedJob] = {}  # by uid
        self._uids: dict[WorkloadKey, str] = {}
        self._queues: dict[LocalQueueKey, QueueName] = {}
        self.last_at = 0.0

    def take(self, record: Record) -> None:
        self.last_at = max(self.last_at, record.at)
        if isinstance(record, Heard):
            self._hear(record.event, record.at)
        else:
            for decision in record.decisions:
                self._decide(decision, record.at)

    def _of(self, key: WorkloadKey) -> RecordedJob | None:
        return self.told.get(self._uids.get(key, ""))

    def _hear(self, event: ev.Event, at: float) -> None:
        match event:
            case ev.LocalQueueChanged():
                self._queues[event.local_queue.key] = event.local_queue.queue
            case ev.WorkloadSeen():
                self._see(event.workload, event.status, at)
            case ev.WorkloadEdited() if (job := self._of(event.workload.key)) is not None:
                job.workload = event.workload
            case ev.WorkloadFinished() if (job := self._of(event.key)) is not None:
                job.ends(at)
                job.finished_at = at
            case ev.WorkloadRemoved() if (job := self._of(event.key)) is not None:
                job.ends(at)
                if job.run_s is None:
                    job.gave_up_at = at
            case ev.PodsGone() | ev.Forgotten() if (job := self._of(event.key)) is not None:
                job.began_at = None

    def _see(self, workload: Workload, status: WorkloadStatus, at: float) -> None:
        job = self.told.get(workload.uid)
        if job is None:
            if status.finished:
                return  # it ran before anything was written down
            queue = self._queues.get(workload.local_queue, QueueName(""))
            job = self.told[workload.uid] = RecordedJob(workload, queue)
            self._uids[workload.key] = workload.uid
        if status.finished:
            job.ends(at)
        else:
            job.began_at = status.admitted_at

    def _decide(self, decision: dec.Decision, at: float) -> None:
        match decision:
            case dec.Admit() if (job := self._of(decision.workload)) is not None:
                job.began_at = at
            case dec.Preempt():
                for victim in decision.victims:
                    if victim.is_new and (job := self._of(victim.workload)) is not None:
                        job.began_at = None
            case dec.Evict() if decision.reason is not EvictionReason.DEACTIVATED:
                if (job := self._of(decision.workload)) is not None:
                    job.began_at = None


def recorded_trace(journal: Journal, segments: Iterable[Segment], until: float = 0.0) -> Trace:
    """What came in these segments; SimulationError if that is nothing.

    `until` is the time up to which it is known that nothing else happened.
    """
    jobs = RecordedJobs()
    for segment in segments:
        for record in journal.records(segment):
            jobs.take(record)
    if not jobs.told:
        raise SimulationError(f"{journal.path}: no job came in that time")
    origin = min(job.workload.created_at for job in jobs.told.values())
    oddities = Oddities()
    last_at = max(jobs.last_at, until)
    found = [_job(job, origin, last_at, oddities) for job in jobs.told.values()]
    return Trace(
        source=str(journal.path),
        layout="journal",
        jobs=in_order(job for job in found if job is not None),
        rows=len(found),
        origin=origin,
        oddities=oddities.all(),
    )


def _job(told: RecordedJob, origin: float, last_at: float, oddities: Oddities) -> TraceJob | None:
    workload, run_s = told.workload, told.run_s
    name = job_name(workload.key)
    if run_s is None and told.began_at is not None:
        run_s = last_at - told.began_at
        oddities.note("jobs that still run (they are taken to end with the journal)", name)
    if run_s is None and told.gave_up_at is None:
        what = "jobs that have not run yet, so that nobody knows for how long they would"
        oddities.note(what, name, is_left_out=True)
        return None
    amounts: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests:
            amounts[resource] = amounts.get(resource, 0) + amount * pod_set.count
    return TraceJob(
        name=name,
        queue=told.queue,
        submit_s=workload.created_at - origin,
        run_s=run_s or 0.0,
        amounts=tuple(sorted(amounts.items())),
        pods=sum(pod_set.count for pod_set in workload.pod_sets) or 1,
        priority=str(workload.priority),
        cancel_s=None if told.gave_up_at is None else told.gave_up_at - origin,
        user=workload.namespace,
    )
