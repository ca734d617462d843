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

from makeway.api.batch import Job, StatusCondition
from makeway.api.indexes import parse_indexes
from makeway.runner.job_pods import JobPod
from makeway.runner.job_rules import Judgement, judge_failure

SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"  # conditions: the end is decided


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


class Tally:
    """What a Job's pods and its status come to; costs the job's own pods once over."""

    def __init__(self, job: Job, pods: Sequence[JobPod]) -> None:
        status, notes = job.status, job.status.uncounted_terminated_pods
        self._job, self._pods = job, pods
        self._completions = job.spec.completions or 0
        self._completed_before = parse_indexes(status.completed_indexes, self._completions)
        self.completed = set(self._completed_before)  # indexes
        self._failed_indexes = set(parse_indexes(status.failed_indexes, self._completions))
        tracked = {pod.uid for pod in pods if pod.is_tracked}
        # The uids that are to stand in the status beside the counters.
        self.noted_succeeded = [uid for uid in notes.succeeded if uid in tracked]
        self.noted_failed = [uid for uid in notes.failed if uid in tracked]
        # What the counters may say now.
        gone_succeeded = len(notes.succeeded) - len(self.noted_succeeded)
        self.counter_succeeded = status.succeeded + gone_succeeded
        self.counter_failed = status.failed + len(notes.failed) - len(self.noted_failed)
        self.failing = ""  # why a rule of the job says that it has failed; empty if none does
        self._is_ending = true_condition(job, SUCCESS, FAILURE) is not None
        self._released: list[JobPod] = []
        noted = {*notes.succeeded, *notes.failed}
        for pod in pods:
            if pod.is_tracked:
                self._take(pod, is_noted=pod.uid in noted)
        if is_indexed(job):
            self.counter_succeeded = len(self.completed)
        self.active = tuple(pod for pod in pods if pod.is_active)
        self.terminating = tuple(pod for pod in pods if pod.is_terminating)

    def _take(self, pod: JobPod, *, is_noted: bool) -> None:
        if is_noted:
            self._released.append(pod)
        elif pod.has_succeeded:
            self._take_success(pod)
        elif has_failed(self._job, pod):
            self._take_failure(pod, judge_failure(self._job, pod))

    def _take_success(self, pod: JobPod) -> None:
        if not is_indexed(self._job):
            self.noted_succeeded.append(pod.uid)
        elif pod.index is not None and self._is_new(pod.index):
            self.completed.add(pod.index)
        else:
            self._released.append(pod)

    def _is_new(self, index: int) -> bool:
        return index < self._completions and index not in self._completed_before

    def _take_failure(self, pod: JobPod, judgement: Judgement) -> None:
        if judgement.action == "Ignore":
            self._released.append(pod)
            return
        self.noted_failed.append(pod.uid)
        if judgement.action == "FailJob":
            self.failing = self.failing or judgement.message
        limit = self._job.spec.backoff_limit_per_index
        index = pod.index
        if limit is None or index is None or not self._is_new(index) or self._is_ending:
            return  # what is stopped because the job ends is no fault of its index
        if judgement.action == "FailIndex" or pod.failures_before >= limit:
            self._failed_indexes.add(index)

    @property
    def succeeded(self) -> int:
        """All that are known, whether in the counters already or not."""
        if is_indexed(self._job):
            return len(self.completed)
        return self.counter_succeeded + len(self.noted_succeeded)

    @property
    def failed(self) -> int:
        return self.counter_failed + len(self.noted_failed)

    @property
    def failed_indexes(self) -> set[int]:
        return self._failed_indexes - self.completed

    def count_all(self) -> None:
        """Put everything into the counters, without notes: for the write that ends a job."""
        self.counter_succeeded, self.counter_failed = self.succeeded, self.failed
        self.noted_succeeded, self.noted_failed = [], []

    @property
    def releasable(self) -> tuple[JobPod, ...]:
        """Pods on whose finalizer nothing depends any more.

        Where each index has a limit, the last pod of one that goes on stays until replaced: it
        alone tells how often its index has failed. (If it is replaced, then deleted by a user, and
        the replacement is let go by a suspension, its index begins anew. So in Kubernetes.)
        """
        if self._job.spec.backoff_limit_per_index is None:
            return tuple(self._released)
        last = latest_by_index(self._pods)
        decided = self.completed | self._failed_indexes
        return tuple(
            pod
            for pod in self._released
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
