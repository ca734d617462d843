"""What a Job's progress says about its Workload: every line of status that isn't the queues'.

A `Draft` gathers what is due, so that it is one write; the queues write the same list of
conditions, so that write holds only for the document it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from makeway.api.batch import Job
from makeway.api.errors import Unsupported
from makeway.api.indexes import parse_indexes
from makeway.api.kinds import WORKLOADS
from makeway.api.meta import Condition, find_condition, is_true
from makeway.api.queueing import Workload
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, without_condition
from makeway.controller.job_workload import count_of
from makeway.controller.workload_conditions import WorkloadConditions
from makeway.controller.workload_writes import workload_patch
from makeway.engine.model import Cause
from makeway.plane.writes import Patch, Say, status_patch
from makeway.translate import messages
from makeway.translate.words import due_to
from makeway.translate.workloads import TO_DEACTIVATE

TIME_IS_UP = Cause.TIME_IS_UP.value
_ENDS = {"Complete": "Succeeded", "Failed": "Failed"}


class Draft:
    def __init__(self, document: Document, workload: Workload, now: float) -> None:
        self.document, self.workload, self._now = document, workload, now
        self._before: Document = document.get("status") or {}
        generation = workload.metadata.generation
        self._conditions = WorkloadConditions(conditions_of(document), generation, now)
        self._fields: Document = {}
        self._sayings: tuple[Say, ...] = ()

    def patch(self) -> Patch | None:
        """The write; None if everything is as it should be.

        Whose time is up is switched off as soon as its status tells that.
        """
        changes = {
            name: value for name, value in self._fields.items() if self._before.get(name) != value
        }
        if self._conditions.all != conditions_of(self.document):
            changes["conditions"] = self._conditions.all
        if changes:
            return replace(status_patch(WORKLOADS, self.document, changes), then=self._sayings)
        if self.workload.spec.active and _is_time_up(self.workload):
            return workload_patch(self.document, spec={"active": False})
        return None

    def set(self, type: str, status: str, reason: str, message: str) -> None:
        there = find_condition(self.workload.status.conditions, type)
        told = status, reason, message
        if there is None or (there.status, there.reason, there.message) != told:
            self._conditions.tell(type, *told)

    def note_unsupported(self, parts: Iterable[Unsupported]) -> None:
        """Silence about what is asked for and not done would be a lie."""
        # The template of the Workload is the Job's, and told of there.
        texts = sorted(str(part) for part in parts if "].template." not in part.path)
        if texts:
            self.set("UnsupportedField", "True", "UnsupportedField", "; ".join(texts))
        elif is_true(self.workload.status.conditions, "UnsupportedField"):
            self.set("UnsupportedField", "False", "Supported", messages.ALL_SUPPORTED)

    def note_reclaimable(self, counts: Mapping[str, int]) -> None:
        """Succeeded pods that nobody replaces give their quota back; counted by pod set."""
        value = [{"name": name, "count": count} for name, count in counts.items() if count]
        self._fields["reclaimablePods"] = value or None

    def readiness(self) -> Condition | None:
        """What was said last about the pods of this admission."""
        conditions = self.workload.status.conditions
        said = find_condition(conditions, "PodsReady")
        if said is not None and _is_of_earlier(said, find_condition(conditions, "Admitted")):
            return None
        return said

    def have_been_ready(self) -> bool:
        said = self.readiness()
        return said is not None and (said.status == "True" or said.reason == "WaitForRecovery")

    def note_readiness(self, *, are_ready: bool) -> None:
        """Tell whether the pods of this admission are ready, or have been."""
        before, have_been_ready = self.readiness(), self.have_been_ready()
        if are_ready:
            if before is None or before.status != "True":
                reason = "Recovered" if have_been_ready else "Started"
                self.set("PodsReady", "True", reason, messages.READY)
        elif have_been_ready:
            self.set("PodsReady", "False", "WaitForRecovery", messages.NO_LONGER_READY)
        else:
            self.set("PodsReady", "False", "WaitForStart", messages.NOT_READY)

    def finish(self, reason: str, message: str) -> None:
        self.set("Finished", "True", reason, message)

    def release(self) -> None:
        """Give the quota back: the last pod is gone."""
        self._fields["admission"] = None
        self._fields["accumulatedPastExecutionTimeSeconds"] = self._time_spent()
        requeue = self.workload.status.requeue_state
        backs_off = requeue is not None and requeue.requeue_at is not None
        self._conditions.release(is_active=self.workload.spec.active, backs_off=backs_off)
        if find_condition(self.workload.status.conditions, "PodsReady") is not None:
            self.set("PodsReady", "False", "WaitForStart", messages.NOT_READY)
        if not self.workload.spec.active:
            self._conditions.all = without_condition(self._conditions.all, TO_DEACTIVATE)

    def _time_spent(self) -> int | None:
        """The time admitted so far, where it is limited; a Workload switched off starts afresh."""
        spec = self.workload.spec
        if spec.maximum_execution_time_seconds is None or not spec.active:
            return None
        evicted = find_condition(self.workload.status.conditions, "Evicted")
        until = evicted.last_transition_time if evicted is not None else None
        return round(spent_s(self.workload, self._now if until is None else until))

    def note_time(self) -> float | None:
        """Note that its time is up; else return when that will be."""
        limit_s = self.workload.spec.maximum_execution_time_seconds
        if limit_s is None:
            return None
        left_s = limit_s - spent_s(self.workload, self._now)
        if left_s > 0:
            return self._now + left_s
        if not _is_time_up(self.workload):
            self.set(TO_DEACTIVATE, "True", TIME_IS_UP, due_to(Cause.TIME_IS_UP))
            message = messages.TIME_IS_UP.format(limit_s)
            about = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
            about = {**about, "metadata": self.document["metadata"]}
            self._sayings = (Say(about=about, reason=TIME_IS_UP, message=message, type="Warning"),)
        return None


def _is_time_up(workload: Workload) -> bool:
    noted = find_condition(workload.status.conditions, TO_DEACTIVATE)
    return noted is not None and (noted.status, noted.reason) == ("True", TIME_IS_UP)


def _is_of_earlier(condition: Condition, admitted: Condition | None) -> bool:
    """Whether this was said about the pods of an earlier admission."""
    if admitted is None or condition.reason == "WaitForStart":
        return False
    return (condition.last_transition_time or 0.0) < (admitted.last_transition_time or 0.0)


def are_pods_ready(job: Job, *, have_been: bool) -> bool:
    """Whether as many pods as it has at once are ready or have succeeded.

    Some may have succeeded in an earlier admission. So until these have been ready for the first
    time, one of them at least has to be, while there is work left.
    """
    spec, ready, succeeded = job.spec, job.status.ready, job.status.succeeded
    if spec.suspend or ready + succeeded < count_of(job):
        return False
    total = count_of(job) if spec.completions is None else spec.completions
    return have_been or ready > 0 or succeeded >= total


def reclaimable_count(job: Job, workload: Workload) -> int:
    """How many of the pods that the Workload asks for nobody needs any more.

    Fewer completions may be left than that, since indexes have succeeded, or failed for good. The
    size that the Job has at the moment doesn't count: it may have been admitted with fewer pods.
    """
    spec, status = job.spec, job.status
    total = spec.completions if spec.completions is not None else spec.parallelism
    over = status.succeeded + len(parse_indexes(status.failed_indexes, total))
    if over == 0:
        return 0
    left = max(0, total - over)
    return max(0, workload.spec.pod_sets[0].count - left)


def ending_of(job: Job) -> tuple[str, str] | None:
    """Reason and message of its end; None while it may still run."""
    for condition in job.status.conditions:
        if condition.type in _ENDS and condition.status == "True":
            message = condition.message or f"Job {_ENDS[condition.type].lower()}"
            return _ENDS[condition.type], message
    return None


def spent_s(workload: Workload, until: float) -> float:
    """How long it has been admitted by then, over all its admissions."""
    past_s = workload.status.accumulated_past_execution_time_seconds or 0
    admitted = find_condition(workload.status.conditions, "Admitted")
    if admitted is None or admitted.status != "True" or admitted.last_transition_time is None:
        return past_s
    return past_s + max(0.0, until - admitted.last_transition_time)


def is_at_rest(job: Job, *, has_pods: bool) -> bool:
    """Whether a stopped Job has nothing left that runs, nor anybody who could still start it.

    Who creates its pods says so by the condition Suspended, or before there is one by the time of
    its start; while the Job has begun, pods may be on their way that nobody has seen.
    """
    suspended = next((c for c in job.status.conditions if c.type == "Suspended"), None)
    return (
        job.spec.suspend
        and not has_pods
        and job.status.active == 0
        and job.status.terminating == 0
        and (job.status.start_time is None if suspended is None else suspended.status == "True")
    )
