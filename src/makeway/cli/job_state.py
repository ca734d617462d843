"""How a job stands: one word, since when, and why it waits; from the Job and its Workload.

What stands in a queue without a Job stands alike: a pod, a group of pods, a Workload for itself.

    pending ──► reserved ──► admitted ──► running ──► succeeded, failed
       ▲  ▲                                  │
held ──┘  └──────────── evicting ◄───────────┘
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from makeway.api.labels import (
    GROUP_NAME,
    GROUP_TOTAL,
    IS_GROUP,
    JOB_UID,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from makeway.api.times import format_time
from makeway.cli.reading import (
    Document,
    annotation,
    at,
    condition,
    count_at,
    is_so,
    items_at,
    label,
    moment_at,
    name_of,
    namespace_of,
    text_at,
    uid_of,
)

ID = "makeway.dev/id"  # label of a Job: its short number
SUBMITTED_BY = "makeway.dev/submitted-by"  # annotations of a Job
SUBMITTED_FROM = "makeway.dev/submitted-from"
GIT_REVISION = "makeway.dev/git-revision"
JOB_NAME = "batch.kubernetes.io/job-name"  # label of a pod

HELD, PENDING, RESERVED, ADMITTED = "held", "pending", "reserved", "admitted"
RUNNING, EVICTING, SUSPENDED = "running", "evicting", "suspended"
SUCCEEDED, FAILED, ENDING = "succeeded", "failed", "ending"
ENDED = frozenset((SUCCEEDED, FAILED))
OPEN = ("Pending", "Retry", "Rejected")  # states of admission checks that are not ready
NOT_BEGUN = frozenset((HELD, PENDING, RESERVED, ADMITTED, SUSPENDED))
JOB, POD, POD_GROUP, WORKLOAD = "Job", "Pod", "PodGroup", "Workload"  # what may stand in a queue
STYLES: Mapping[str, str] = {
    HELD: "dim",
    PENDING: "yellow",
    RESERVED: "blue",
    ADMITTED: "blue",
    RUNNING: "green",
    EVICTING: "red",
    SUCCEEDED: "dim",
    FAILED: "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    job: Document  # the first of its pods, or else its Workload, where there is no Job
    workload: Document | None  # None: nobody has made one
    kind: str = JOB
    pods: tuple[Document, ...] = ()  # where there is no Job
    status: str
    reason: str  # why it does not run; empty when it does, or has
    wait_s: float | None  # until it was admitted, or until now; None: it is in no queue
    run_s: float | None  # None: it has not begun

    @property
    def name(self) -> str:
        return (group_of(self.job) if self.kind == POD_GROUP else "") or name_of(self.job)

    @property
    def queue(self) -> str:
        return label(self.job, QUEUE_NAME) or text_at(self.workload, "spec", "queueName")

    @property
    def created_at(self) -> float:
        return moment_at(self.job, "metadata", "creationTimestamp") or 0.0

    @property
    def ended_at(self) -> float | None:
        return _end_of(self.kind, self.job, self.workload)

    @property
    def priority(self) -> int | None:
        found = at(self.workload, "spec", "priority")
        return found if isinstance(found, int) else None

    @property
    def evictions(self) -> int:
        """How often it was stopped, as far as its Workload remembers."""
        stats = items_at(self.workload, "status", "schedulingStats", "evictions")
        requeues = count_at(self.workload, "status", "requeueState", "count")
        return sum(count_at(entry, "count") for entry in stats) or requeues

    def as_row(self) -> Document:
        """For programs."""
        ended = self.ended_at
        return {
            "id": id_of(self.job),
            "name": self.name,
            "kind": self.kind,
            "namespace": namespace_of(self.job),
            "queue": self.queue or None,
            "status": self.status,
            "reason": self.reason or None,
            "priority": self.priority,
            "priorityClass": label(self.job, PRIORITY_CLASS) or None,
            "submittedBy": annotation(self.job, SUBMITTED_BY) or None,
            "createdAt": text_at(self.job, "metadata", "creationTimestamp"),
            "endedAt": None if ended is None else format_time(ended),
            "waitSeconds": self.wait_s,
            "runSeconds": self.run_s,
            "evictions": self.evictions,
            "workload": None if self.workload is None else name_of(self.workload),
        }


def state_of(job: Document, workload: Document | None, now: float) -> JobState:
    status = _status(job, workload)
    bare = JobState(
        job=job,
        workload=workload,
        status=status,
        reason=_reason(job, workload, status, now),
        wait_s=None,
        run_s=None,
    )
    return _with_spans(bare, now)


def state_without_job(
    pods: tuple[Document, ...], workload: Document | None, now: float
) -> JobState:
    """Of what stands in a queue for itself; there are pods or there is a Workload."""
    lead = pods[0] if pods else workload
    assert lead is not None
    group = is_group(pods, workload)
    status = _status_without_job(pods, workload)
    bare = JobState(
        job=lead,
        workload=workload,
        kind=POD_GROUP if group else POD if pods else WORKLOAD,
        pods=pods,
        status=status,
        reason=_reason_without_job(pods, workload, status, now),
        wait_s=None,
        run_s=None,
    )
    return _with_spans(bare, now)


def _with_spans(state: JobState, now: float) -> JobState:
    admitted, ended = _admitted_at(state.job, state.workload), state.ended_at
    waited_until = admitted if admitted is not None else ended if ended is not None else now
    waited = max(0.0, waited_until - state.created_at)
    started = None if state.status in NOT_BEGUN else _started_at(state, admitted)
    ran = None if started is None else max(0.0, (now if ended is None else ended) - started)
    return replace(state, wait_s=waited if state.queue else None, run_s=ran)


def _status(job: Document, workload: Document | None) -> str:
    if is_so(job, "Complete"):
        return SUCCEEDED
    if is_so(job, "Failed"):
        return FAILED
    if at(job, "metadata", "deletionTimestamp"):
        return ENDING
    if workload is None:
        return _without_workload(job)
    return _by_workload(workload, is_ready=bool(count_at(job, "status", "ready")))


def _status_without_job(pods: tuple[Document, ...], workload: Document | None) -> str:
    if is_so(workload, "Finished"):
        is_well = text_at(condition(workload, "Finished"), "reason") == "Succeeded"
        return SUCCEEDED if is_well else FAILED
    if workload is not None and _is_evicting(workload):
        return EVICTING
    if all(at(found, "metadata", "deletionTimestamp") for found in pods or (workload,)):
        return ENDING
    if workload is None:
        return PENDING
    are_ready = any(is_so(pod, "Ready") for pod in pods)
    return _by_workload(workload, is_ready=are_ready or is_so(workload, "PodsReady"))


def _is_evicting(workload: Document) -> bool:
    return is_so(workload, "QuotaReserved") and is_so(workload, "Evicted")


def _by_workload(workload: Document, *, is_ready: bool) -> str:
    if _is_evicting(workload):
        return EVICTING
    if is_so(workload, "Admitted"):
        return RUNNING if is_ready else ADMITTED
    if at(workload, "spec", "active") is False:
        return HELD
    return RESERVED if is_so(workload, "QuotaReserved") else PENDING


def _without_workload(job: Document) -> str:
    if not at(job, "spec", "suspend"):
        return RUNNING if count_at(job, "status", "ready") else PENDING
    return PENDING if label(job, QUEUE_NAME) else SUSPENDED


def _reason(job: Document, workload: Document | None, status: str, now: float) -> str:
    if status == FAILED:
        return _said(condition(job, "Failed"))
    if status in (RUNNING, SUCCEEDED, ENDING):
        return ""
    if workload is None:
        return "no Workload was made for it yet" if label(job, QUEUE_NAME) else "in no queue"
    return _why_it_waits(workload, status, now)


def _reason_without_job(
    pods: tuple[Document, ...], workload: Document | None, status: str, now: float
) -> str:
    if status == FAILED:
        return _said(condition(workload, "Finished"))
    if status in (RUNNING, SUCCEEDED, ENDING):
        return ""
    if workload is None:
        total = annotation(pods[0], GROUP_TOTAL) or label(pods[0], GROUP_TOTAL)
        if is_group(pods, workload) and total:
            return f"{len(pods)} of {total} pods of its group are there"
        return "no Workload was made for it yet"
    return _why_it_waits(workload, status, now)


def _why_it_waits(workload: Document, status: str, now: float) -> str:
    if status == EVICTING:
        return _said(condition(workload, "Evicted"))
    if status == HELD:
        rejected = check_texts(workload, ("Rejected",))
        evicted = condition(workload, "Evicted")
        said = _said(evicted) if is_so(workload, "Evicted") else ""
        return ", ".join(rejected) or said or "held"
    if status in (RESERVED, ADMITTED):
        return "" if status == ADMITTED else _checks_text(workload)
    return _why_pending(workload, now)


def _why_pending(workload: Document, now: float) -> str:
    again_at = moment_at(workload, "status", "requeueState", "requeueAt")
    if again_at is not None and again_at > now:
        return f"backs off until {format_time(int(again_at))}"
    rejected = check_texts(workload, ("Rejected", "Retry"))
    if rejected and is_so(workload, "Evicted"):
        return ", ".join(rejected)
    reserved, evicted = condition(workload, "QuotaReserved"), condition(workload, "Evicted")
    if _said(reserved):
        return _said(reserved)
    return _said(evicted) if is_so(workload, "Evicted") else "not looked at yet"


def _checks_text(workload: Document) -> str:
    """Which admission checks keep it from starting, and what they say themselves."""
    return ", ".join(check_texts(workload)) or _said(condition(workload, "Admitted"))


def check_texts(workload: Document, states: Collection[str] = OPEN) -> list[str]:
    texts = []
    for check in items_at(workload, "status", "admissionChecks"):
        if text_at(check, "state") in states:
            message = " ".join(text_at(check, "message").split())
            said = f": {message}" if message else ""
            texts.append(f"admission check {text_at(check, 'name')} is {check['state']}{said}")
    return texts


def _said(found: Document | None) -> str:
    """A condition in one line; its reason where it has no message."""
    message = " ".join(text_at(found, "message").split())
    return message or text_at(found, "reason")


def _started_at(state: JobState, admitted: float | None) -> float | None:
    """Since when its pods run, as far as anybody has noted it; None: they never have."""
    ready = condition(state.workload, "PodsReady")
    # Later transitions tell of pods that were lost or have ended, not of the beginning.
    if is_so(state.workload, "PodsReady") and text_at(ready, "reason") == "Started":
        return moment_at(ready, "lastTransitionTime")
    started = moment_at(state.job, "status", "startTime")
    return admitted if started is None else started


def _admitted_at(job: Document, workload: Document | None) -> float | None:
    """Since when it has what it needs; None while it waits."""
    if workload is not None and is_so(workload, "Admitted"):
        return moment_at(condition(workload, "Admitted"), "lastTransitionTime")
    return moment_at(job, "status", "startTime")


def ended_at(job: Document) -> float | None:
    for type_ in ("Complete", "Failed"):
        if is_so(job, type_):
            completed = moment_at(job, "status", "completionTime")
            return completed or moment_at(condition(job, type_), "lastTransitionTime")
    return None


def _end_of(kind: str, job: Document, workload: Document | None) -> float | None:
    if kind == JOB:
        return ended_at(job)
    finished = condition(workload, "Finished") if is_so(workload, "Finished") else None
    return moment_at(finished, "lastTransitionTime")


def with_pods(state: JobState, pods: Iterable[Document]) -> JobState:
    """Why a job that may run does not: what its pods say of nodes and containers."""
    if state.status not in (ADMITTED, PENDING) or is_so(state.workload, "Evicted"):
        return state
    for pod in pods:
        scheduled = condition(pod, "PodScheduled")
        is_held_back = text_at(scheduled, "reason") == "SchedulingGated"
        if scheduled is not None and not is_held_back and not is_so(pod, "PodScheduled"):
            return replace(state, reason=f"no node for its pods: {_said(scheduled)}")
    return state


# --- pods without a Job ---


def group_of(pod: Document) -> str:
    """The group that a pod is admitted with; empty: none."""
    return label(pod, GROUP_NAME) or annotation(pod, GROUP_NAME)


def is_group(pods: tuple[Document, ...], workload: Document | None) -> bool:
    if pods:
        return bool(group_of(pods[0]))
    return workload is not None and annotation(workload, IS_GROUP) == "true"


# --- a Job and its Workload ---


def is_of(workload: Document, job: Document) -> bool:
    uid = uid_of(job)
    if not uid:
        return False
    owners = items_at(workload, "metadata", "ownerReferences")
    return label(workload, JOB_UID) == uid or any(owner.get("uid") == uid for owner in owners)


def workloads_by_job(workloads: Iterable[Document]) -> dict[str, Document]:
    """By the uid of the Job; of several, the one made last."""
    found: dict[str, Document] = {}
    for workload in sorted(workloads, key=lambda w: text_at(w, "metadata", "creationTimestamp")):
        uids = [text_at(o, "uid") for o in items_at(workload, "metadata", "ownerReferences")]
        for uid in (*uids, label(workload, JOB_UID)):
            if uid:
                found[uid] = workload
    return found


def pods_by_job(pods: Iterable[Document]) -> dict[str, list[Document]]:
    """By the uid of the Job."""
    found: dict[str, list[Document]] = {}
    for pod in pods:
        for owner in items_at(pod, "metadata", "ownerReferences"):
            found.setdefault(text_at(owner, "uid"), []).append(pod)
    return found


def id_of(job: Document) -> int | None:
    """The short number of a job; None for one that was not submitted by `makeway submit`."""
    text = label(job, ID)
    return int(text) if text.isdecimal() and text.isascii() else None


def job_text(job: Document) -> str:
    """`job 12 (train-x7k2p)`, or `job train` where there is no number."""
    number = id_of(job)
    return f"job {name_of(job)}" if number is None else f"job {number} ({name_of(job)})"


def short_text(job: Document) -> str:
    """What a user types for it."""
    number = id_of(job)
    return name_of(job) if number is None else str(number)
