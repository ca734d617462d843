"""How many of a Job's pods have succeeded and failed: each end counted exactly once.

A pod may be deleted as soon as it has ended, counters may be written and their answer be lost, and
we may be restarted between any two writes. Still no end may be missed or counted twice. Kubernetes'
way, which is followed here:

1. A pod is created with a finalizer, so that it stays, ended and deleted or not, until we let go.
   Only pods with the finalizer ("tracked") are looked at; one without it was dealt with.
2. An end is first noted: the uid goes into `uncountedTerminatedPods` of the status.
3. Only when the server's own copy of the status has the note is the finalizer taken off.
4. Only when the finalizer is off, or the pod gone, does the note become a number, in one write that
   removes the uid and raises the counter.

Nothing is lost: before 2 the pod is still there, after 2 the note is. Nothing is counted twice: a
tracked pod with a note is not noted again, a note turns into a number in one atomic write, and by
then the pod can't come up again, because finalizers are never put back. Every status write names
the revision that it was derived from, so one that happened although its answer was lost makes the
next one fail, and we look again. Every finalizer is taken off by revision too, so a pod that ended
after we last saw it is not let go unnoticed. After a restart everything is listed before anything
is decided, and our earlier writes have ended by then, so pods and status are of one past.

Two short cuts save writes where the same holds without notes. A succeeded index is a member of a
set, which can be added twice without harm: 2 and 4 are one write. And the write that ends a job
counts everything at once: what is finished is never counted again, only let go.

What is not counted: a pod that we let go while it ran, because the job was suspended or shrunk. It
is on its way out then, and how it ends says nothing of the job. A pod that somebody else deletes
counts as failed, at once or, where only failed pods are replaced, when it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from makeway.api.batch import Job, StatusCondition
from makeway.runner.job_indexes import parse_indexes
from makeway.runner.job_pods import JobPod
from makeway.runner.job_rules import Judgement, judge_failure

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"  # conditions: the end is decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    succeeded: int  # all that are known, whether in the counters already or not
    failed: int
    counter_succeeded: int  # what the counters may say now
    counter_failed: int
    noted_succeeded: tuple[str, ...]  # uids that are to stand in the status beside the counters
    noted_failed: tuple[str, ...]
    completed: frozenset[int]  # indexes
    failed_indexes: frozenset[int]
    failing: str  # why a rule of the job says that it has failed; empty if none does
    active: tuple[JobPod, ...]
    terminating: tuple[JobPod, ...]
    releasable: tuple[JobPod, ...]  # nothing depends on their finalizer any more

    def all_counted(self) -> Tally:
        """The same with everything in the counters and no notes: for the write that ends a job."""
        return replace(
            self,
            counter_succeeded=self.succeeded,
            counter_failed=self.failed,
            noted_succeeded=(),
            noted_failed=(),
        )


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def true_condition(job: Job, *types: str) -> StatusCondition | None:
    for condition in job.status.conditions:
        if condition.type in types and condition.status == "True":
            return condition
    return None


def replaces_only_failed(job: Job) -> bool:
    """Whether a pod counts as failed when it has ended, not when it is told to."""
    policy = job.spec.pod_replacement_policy
    if policy is None:
        return job.spec.pod_failure_policy is not None
    return policy == "Failed"


def has_failed(job: Job, pod: JobPod) -> bool:
    if pod.has_succeeded:
        return False
    return pod.is_over or (pod.is_leaving and not replaces_only_failed(job))


def tally(job: Job, pods: Sequence[JobPod]) -> Tally:
    """Count; costs the job's own pods once over."""
    counting = _Counting(job, pods)
    for pod in pods:
        if pod.is_tracked:
            counting.take(pod)
    return counting.result(pods)


class _Counting:
    def __init__(self, job: Job, pods: Sequence[JobPod]) -> None:
        status = job.status
        self.job = job
        self.completions = job.spec.completions or 0
        self.completed_before = parse_indexes(status.completed_indexes, self.completions)
        self.completed = set(self.completed_before)
        self.failed_indexes = set(parse_indexes(status.failed_indexes, self.completions))
        tracked = {pod.uid for pod in pods if pod.is_tracked}
        notes = status.uncounted_terminated_pods
        self.noted = {*notes.succeeded, *notes.failed}
        self.succeeded = [uid for uid in notes.succeeded if uid in tracked]
        self.failed = [uid for uid in notes.failed if uid in tracked]
        self.counter_succeeded = status.succeeded + len(notes.succeeded) - len(self.succeeded)
        self.counter_failed = status.failed + len(notes.failed) - len(self.failed)
        self.failing = ""
        self.is_ending = true_condition(job, SUCCESS, FAILURE) is not None
        self.releasable: list[JobPod] = []

    def take(self, pod: JobPod) -> None:
        if pod.uid in self.noted:
            self.releasable.append(pod)
        elif pod.has_succeeded:
            self._take_success(pod)
        elif has_failed(self.job, pod):
            self._take_failure(pod, judge_failure(self.job, pod))

    def _take_success(self, pod: JobPod) -> None:
        if not is_indexed(self.job):
            self.succeeded.append(pod.uid)
        elif pod.index is not None and self._is_new(pod.index):
            self.completed.add(pod.index)
        else:
            self.releasable.append(pod)

    def _is_new(self, index: int) -> bool:
        return index < self.completions and index not in self.completed_before

    def _take_failure(self, pod: JobPod, judgement: Judgement) -> None:
        if judgement.action == "Ignore":
            self.releasable.append(pod)
            return
        self.failed.append(pod.uid)
        if judgement.action == "FailJob":
            self.failing = self.failing or judgement.message
        limit = self.job.spec.backoff_limit_per_index
        index = pod.index
        if limit is None or index is None or not self._is_new(index) or self.is_ending:
            return  # what is stopped because the job ends is no fault of its index
        if judgement.action == "FailIndex" or pod.failures_before >= limit:
            self.failed_indexes.add(index)

    def result(self, pods: Sequence[JobPod]) -> Tally:
        if is_indexed(self.job):
            succeeded = self.counter_succeeded = len(self.completed)
        else:
            succeeded = self.counter_succeeded + len(self.succeeded)
        return Tally(
            succeeded=succeeded,
            failed=self.counter_failed + len(self.failed),
            counter_succeeded=self.counter_succeeded,
            counter_failed=self.counter_failed,
            noted_succeeded=tuple(self.succeeded),
            noted_failed=tuple(self.failed),
            completed=frozenset(self.completed),
            failed_indexes=frozenset(self.failed_indexes - self.completed),
            failing=self.failing,
            active=tuple(pod for pod in pods if pod.is_active),
            terminating=tuple(pod for pod in pods if pod.is_terminating),
            releasable=self._without_last_failures(pods),
        )

    def _without_last_failures(self, pods: Sequence[JobPod]) -> tuple[JobPod, ...]:
        """Where each index has a limit, the last pod of one that goes on stays until replaced.

        It alone tells how often its index has failed. (If it is replaced, then deleted by a user,
        and the replacement is let go by a suspension, its index begins anew. So in Kubernetes.)
        """
        if self.job.spec.backoff_limit_per_index is None:
            return tuple(self.releasable)
        last = latest_by_index(pods)
        decided = self.completed | self.failed_indexes
        return tuple(
            pod
            for pod in self.releasable
            if pod.index is None or pod.index in decided or last[pod.index] is not pod
        )


def latest_by_index(pods: Sequence[JobPod]) -> Mapping[int, JobPod]:
    latest: dict[int, JobPod] = {}
    for pod in pods:
        if pod.index is not None:
            known = latest.get(pod.index)
            if known is None or _age(known) < _age(pod):
                latest[pod.index] = pod
    return latest


def _age(pod: JobPod) -> tuple[int, float, str]:
    created_at = pod.metadata.creation_timestamp or 0.0
    return pod.failures_before + pod.ignored_before, created_at, pod.name
