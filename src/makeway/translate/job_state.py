"""The state of a job: one word, since when, and why it waits; from the Job and its Workload.

A pod, a group of pods or a Workload that is in a queue without a Job has a state as well.

    pending ──► reserved ──► admitted ──► running ──► succeeded, failed
       ▲  ▲                                  │
held ──┘  └──────────── evicting ◄───────────┘

A job that somebody ends becomes `ending` and then `cancelled`, from wherever it stood.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from math import floor

from makeway.api.batch import ENDED_PHASES, Job, Node, Pod, PodSpec, StatusCondition, pod_requests
from makeway.api.devices import GPUS, DeviceId, gpu_count, parse_devices
from makeway.api.labels import (
    AFTER,
    AFTER_ANY,
    AFTER_FAILED,
    ARRAY_LIMIT,
    CANCELLED_BY,
    GONE_AT,
    GROUP_TOTAL,
    HELD_BY,
    HOLD,
    QUEUE_NAME,
    SUBMITTED_BY,
)
from makeway.api.meta import Condition, ObjectMeta
from makeway.api.queueing import AdmissionCheckState, ClusterQueue, Workload
from makeway.api.times import format_time, parse_time
from makeway.translate.job_targets import JobTarget, Lead

HELD, PENDING, RESERVED, ADMITTED = "held", "pending", "reserved", "admitted"
RUNNING, EVICTING, SUSPENDED = "running", "evicting", "suspended"
SUCCEEDED, FAILED, ENDING = "succeeded", "failed", "ending"
CANCELLED, DELETED = "cancelled", "deleted"  # by `makeway cancel`; before its end, by others
ENDED = frozenset((SUCCEEDED, FAILED, CANCELLED, DELETED))
OPEN = ("Pending", "Retry", "Rejected")  # states of admission checks that are not ready
NOT_BEGUN = frozenset((HELD, PENDING, RESERVED, ADMITTED, SUSPENDED))
NO_NODE = "no node for its pods"  # begins such a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    target: JobTarget
    status: str
    reason: str  # why the job does not run; empty when it runs or has run
    admitted_at: float | None = None  # None: it waits, or has never been admitted
    started_at: float | None = None  # None: the job has not begun
    wait_s: float | None = None  # until admission, or until now; None: not in a queue
    run_s: float | None = None  # None: the job has not begun
    pods: tuple[Pod, ...] = ()  # as far as they were looked at

    @property
    def metadata(self) -> ObjectMeta:
        return self.target.metadata

    @property
    def workload(self) -> Workload | None:
        return self.target.workload

    @property
    def queue(self) -> str:
        named = "" if self.workload is None else self.workload.spec.queue_name
        return self.metadata.labels.get(QUEUE_NAME) or named

    @property
    def created_at(self) -> float:
        return self.metadata.creation_timestamp or 0.0

    @property
    def submitted_by(self) -> str:
        return self.metadata.annotations.get(SUBMITTED_BY, "")

    @property
    def ended_at(self) -> float | None:
        if self.target.job is not None:
            return ended_at(self.target.job)
        finished = _if_true(self.workload, "Finished")
        return None if finished is None else finished.last_transition_time

    @property
    def priority(self) -> int | None:
        return None if self.workload is None else self.workload.spec.priority

    @property
    def evictions(self) -> int:
        """How often the job was stopped, as far as its Workload remembers."""
        if self.workload is None:
            return 0
        stats, requeues = self.workload.status.scheduling_stats, self.workload.status.requeue_state
        stopped = 0 if stats is None else sum(entry.count for entry in stats.evictions)
        return stopped or (0 if requeues is None else requeues.count or 0)

    @property
    def requests(self) -> dict[str, int]:
        """What all pods together ask for, as far as it is known."""
        total: dict[str, int] = {}
        for count, template in self._templates():
            for resource, amount in pod_requests(template).items():
                total[resource] = total.get(resource, 0) + count * amount
        return total

    def _templates(self) -> Iterator[tuple[int, PodSpec]]:
        if self.workload is not None:
            yield from ((part.count, part.template.spec) for part in self.workload.spec.pod_sets)
        elif self.target.job is not None:
            yield self.target.job.spec.parallelism, self.target.job.spec.template.spec
        else:
            yield from ((1, pod.spec) for pod in self.target.pods)

    @property
    def gpus(self) -> int:
        return gpu_count(self.requests)

    @property
    def present_pods(self) -> tuple[Pod, ...]:
        """Those that have not ended; of a job that has, all."""
        if self.status in ENDED:
            return self.pods
        return tuple(pod for pod in self.pods if pod.status.phase not in ENDED_PHASES)

    @property
    def devices(self) -> dict[str, tuple[DeviceId, ...]]:
        """The GPUs that its pods hold, or held; by node, where there are several of them."""
        found: dict[str, tuple[DeviceId, ...]] = {}
        for pod in self.present_pods:
            held = parse_devices(pod.metadata.annotations.get(GPUS, ""))
            for devices in held.values():
                node = pod.spec.node_name
                found[node] = (*found.get(node, ()), *devices)
        return found

    @property
    def limit_s(self) -> float | None:
        """For how long it may run from now on, counted from its start; None: without limit."""
        job, workload = self.target.job, self.workload
        limits: list[float] = []
        if job is not None and job.spec.active_deadline_seconds is not None:
            limits.append(job.spec.active_deadline_seconds)
        if workload is not None and workload.spec.maximum_execution_time_seconds is not None:
            past = workload.status.accumulated_past_execution_time_seconds or 0
            limits.append(workload.spec.maximum_execution_time_seconds - past)
        return min(limits, default=None)

    @property
    def until(self) -> float | None:
        """When it is ended at the latest; None: it does not run, or may run for ever."""
        if self.started_at is None or self.limit_s is None or self.status != RUNNING:
            return None
        return self.started_at + self.limit_s

    @property
    def held_by(self) -> str:
        """Who said that it shall wait; empty: nobody did, or it is not known."""
        if self.status != HELD:
            return ""
        named = self.metadata.annotations.get(HELD_BY, "")
        is_own = self.metadata.annotations.get(HOLD) == "true"
        return named or (self.submitted_by if is_own else "")


def state_of(target: JobTarget, now: float) -> JobState:
    job, workload = target.job, target.workload
    status = _status_without_job(target.pods, workload) if job is None else _status(job, workload)
    bare = JobState(target=target, status=status, reason=_reason(target, status, now))
    admitted, ended = _admitted_at(target), bare.ended_at
    waited_until = admitted if admitted is not None else ended if ended is not None else now
    waited = max(0.0, waited_until - bare.created_at)
    started = None if status in NOT_BEGUN else _started_at(target, admitted)
    ran = None if started is None else _ran_s(started, ended, now)
    return replace(
        bare,
        admitted_at=admitted,
        started_at=started,
        wait_s=waited if bare.queue else None,
        run_s=ran,
    )


def _ran_s(started: float, ended: float | None, now: float) -> float:
    """Objects tell the end in whole seconds, so the start counts as such, too."""
    return max(0.0, now - started if ended is None else ended - floor(started))


def _status(job: Job, workload: Workload | None) -> str:
    if is_true(job, "Complete"):
        return SUCCEEDED
    if (failed := _if_true(job, "Failed")) is not None:
        return CANCELLED if failed.reason == "Cancelled" else FAILED
    if GONE_AT in job.metadata.annotations:
        return DELETED
    is_cancelled = CANCELLED_BY in job.metadata.annotations
    if job.metadata.deletion_timestamp is not None or is_cancelled:
        return ENDING
    if workload is not None:
        return _by_workload(workload, is_ready=bool(job.status.ready))
    if not job.spec.suspend:
        return RUNNING if job.status.ready else PENDING
    return PENDING if job.metadata.labels.get(QUEUE_NAME) else SUSPENDED


def _status_without_job(pods: tuple[Pod, ...], workload: Workload | None) -> str:
    finished = _if_true(workload, "Finished")
    if finished is not None:
        return SUCCEEDED if finished.reason == "Succeeded" else FAILED
    if workload is not None and _is_evicting(workload):
        return EVICTING
    parts = pods or ((workload,) if workload is not None else ())
    if all(part.metadata.deletion_timestamp is not None for part in parts):
        return ENDING
    if workload is None:
        return PENDING
    are_ready = any(is_true(pod, "Ready") for pod in pods)
    return _by_workload(workload, is_ready=are_ready or is_true(workload, "PodsReady"))


def _is_evicting(workload: Workload) -> bool:
    return is_true(workload, "QuotaReserved") and is_true(workload, "Evicted")


def _by_workload(workload: Workload, *, is_ready: bool) -> str:
    if _is_evicting(workload):
        return EVICTING
    if is_true(workload, "Admitted"):
        return RUNNING if is_ready else ADMITTED
    if not workload.spec.active:
        return HELD
    return RESERVED if is_true(workload, "QuotaReserved") else PENDING


def _reason(target: JobTarget, status: str, now: float) -> str:
    job, workload = target.job, target.workload
    if status in (FAILED, CANCELLED):
        ended = condition(job, "Failed") if job is not None else condition(workload, "Finished")
        return _text_of(ended)
    if status in (RUNNING, SUCCEEDED, ENDING, DELETED):
        return ""
    if workload is not None:
        return _why_it_waits(workload, status, now)
    if job is not None and not job.metadata.labels.get(QUEUE_NAME):
        return "in no queue"
    if job is not None and (waits_for := _dependencies_of(job)):
        limit = job.metadata.annotations.get(ARRAY_LIMIT)
        return f"waits for {waits_for}" + (f", and its array ({limit} at once)" * bool(limit))
    if job is not None and (limit := job.metadata.annotations.get(ARRAY_LIMIT)):
        return f"ArrayLimit: {limit} of its array at once"
    if target.group:
        annotations, labels = target.metadata.annotations, target.metadata.labels
        total = annotations.get(GROUP_TOTAL) or labels.get(GROUP_TOTAL)
        if total:
            return f"{len(target.pods)} of {total} pods of its group are there"
    return "no Workload was made for it yet"


def _dependencies_of(job: Job) -> str:
    """What it has been told to wait for, in the words of its annotations."""
    notes = job.metadata.annotations
    rules = ((AFTER, "success"), (AFTER_ANY, "end"), (AFTER_FAILED, "failure"))
    told = [f"the {word} of {notes[rule]}" for rule, word in rules if rule in notes]
    return ", ".join(told)


def _why_it_waits(workload: Workload, status: str, now: float) -> str:
    checks = workload.status.admission_checks
    if status == ADMITTED:
        return ""
    if status == RESERVED:
        return ", ".join(check_texts(checks)) or _text_of(condition(workload, "Admitted"))
    evicted = _text_of(_if_true(workload, "Evicted"))
    if status == EVICTING:
        return evicted
    if status == HELD:
        return ", ".join(check_texts(checks, ("Rejected",))) or evicted or "held"
    requeue = workload.status.requeue_state
    if requeue is not None and requeue.requeue_at is not None and requeue.requeue_at > now:
        return f"backs off until {format_time(int(requeue.requeue_at))}"
    rejected = check_texts(checks, ("Rejected", "Retry"))
    if rejected and is_true(workload, "Evicted"):
        return ", ".join(rejected)
    return _text_of(condition(workload, "QuotaReserved")) or evicted or "not looked at yet"


def check_texts(checks: Iterable[AdmissionCheckState], states: Collection[str] = OPEN) -> list[str]:
    """What the admission checks in these states say."""
    texts = []
    for check in checks:
        if check.state in states:
            message = " ".join(check.message.split())
            texts.append(
                f"admission check {check.name} is {check.state}" + (f": {message}" * bool(message))
            )
    return texts


# --- conditions ---


def condition(
    view: Lead | ClusterQueue | Node | None, type_: str
) -> Condition | StatusCondition | None:
    conditions = () if view is None else view.status.conditions
    return next((found for found in conditions if found.type == type_), None)


def _if_true(view: Lead | None, type_: str) -> Condition | StatusCondition | None:
    found = condition(view, type_)
    return found if found is not None and found.status == "True" else None


def is_true(view: Lead | None, type_: str) -> bool:
    return _if_true(view, type_) is not None


def _text_of(found: Condition | StatusCondition | None) -> str:
    """A condition in one line; its reason where it has no message."""
    return "" if found is None else " ".join(found.message.split()) or found.reason


# --- times ---


def _started_at(target: JobTarget, admitted: float | None) -> float | None:
    """Since when the pods run, as far as the objects tell; None: they never have."""
    ready = _if_true(target.workload, "PodsReady")
    # Later transitions tell of pods that were lost or have ended, not of the beginning.
    if ready is not None and ready.reason == "Started":
        return ready.last_transition_time
    started = _start_time(target.lead)
    return admitted if started is None else started


def _admitted_at(target: JobTarget) -> float | None:
    """Since when the job has what it needs; None while it waits."""
    admitted = _if_true(target.workload, "Admitted")
    return _start_time(target.lead) if admitted is None else admitted.last_transition_time


def _start_time(lead: Lead) -> float | None:
    return None if isinstance(lead, Workload) else lead.status.start_time


def ended_at(job: Job) -> float | None:
    ended = _if_true(job, "Complete") or _if_true(job, "Failed")
    if ended is None:
        gone_at = job.metadata.annotations.get(GONE_AT)
        return None if gone_at is None else parse_time(gone_at)
    return job.status.completion_time or ended.last_transition_time


def with_pods(state: JobState, pods: Iterable[Pod]) -> JobState:
    """The state with its pods; why a job that may run does not: what they say of nodes."""
    state = replace(state, pods=tuple(pods))
    if state.status not in (ADMITTED, PENDING) or is_true(state.workload, "Evicted"):
        return state
    for pod in state.pods:
        if pod.status.phase == "Pending" and pod.status.message:
            return replace(state, reason=pod.status.message)
        scheduled = condition(pod, "PodScheduled")
        if (
            scheduled is not None
            and scheduled.status != "True"
            and scheduled.reason != "SchedulingGated"
        ):
            return replace(state, reason=f"{NO_NODE}: {_text_of(scheduled)}")
    return state
