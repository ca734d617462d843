"""What a Job needs now: pods created or let go, a status, an end. Pure.

It follows Kubernetes' documentation of batch/v1 Job. First: is it over? A rule of the job, too
many failures, the deadline, or enough successes end it. The decision is written down before
anything is done about it (FailureTarget, SuccessCriteriaMet), then the pods that still run are
deleted, and when none is left the job is Failed or Complete; if none is left to begin with, that is
one write. A job that is not over has as many pods as it may: if that is fewer than it has, some are
let go and deleted; if it is more, some are created, unless pods failed a short while ago.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, NamedTuple

from makeway.api.batch import Job, StatusCondition
from makeway.api.labels import LAST_END, STARTS
from makeway.api.times import parse_time
from makeway.backoff import backoff_s
from makeway.plane.writes import EventText
from makeway.runner.job_pods import JobPod, NewPod, pod_name
from makeway.runner.job_rules import is_rebooted, judge_failure, success_rule_met
from makeway.runner.job_status import (
    Conditions,
    start_time_of,
    status_patch,
    was_suspended,
    with_condition,
    written,
    written_conditions,
)
from makeway.runner.job_tally import (
    FAILURE,
    SUCCESS,
    Tally,
    has_failed,
    is_indexed,
    latest_by_index,
    replaces_only_failed,
    true_condition,
)

CREATED_MAX = 500  # pods per look; the remaining pods follow when these are there
BACKOFF_MAX_S = 360.0
_TERMINAL = {SUCCESS: "Complete", FAILURE: "Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job as far as it is known."""

    job: Job
    pods: Sequence[JobPod]
    now: float
    backoff_s: float = 10.0  # the wait after the first failure; it doubles with each further one
    # Names under which pods may have been created without our having seen them, and their indexes.
    unseen: Mapping[str, int | None] = field(default_factory=dict)
    is_taken: Callable[[str], bool] = lambda _: False  # tells whether a pod has this name
    was_refused: bool = False  # the server refused the last pod

    @property
    def tracked(self) -> tuple[JobPod, ...]:
        return tuple(pod for pod in self.pods if pod.is_tracked)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobActions:
    status: Mapping[str, Any] = field(default_factory=dict)  # a merge patch; empty: it is right
    create: tuple[NewPod, ...] = ()
    release: tuple[JobPod, ...] = ()  # pods to lose the tracking finalizer
    delete: tuple[JobPod, ...] = ()
    delete_job: bool = False
    next_at: float | None = None
    events: tuple[EventText, ...] = ()  # to be said once the status is written


def decide(facts: JobFacts) -> JobActions:
    job = facts.job
    if job.metadata.deletion_timestamp is not None:
        return JobActions(release=facts.tracked)
    finished = true_condition(job, *_TERMINAL.values())
    if finished is not None:
        return _after_the_end(facts, finished)
    counted = Tally(job, facts.pods)
    decided = _decided_end(job)
    ending = decided or _find_failure(facts, counted) or _find_success(job, counted)
    if ending is not None:
        return _bring_to_an_end(facts, counted, ending, is_decided=decided is not None)
    if job.spec.suspend:
        return _hold_back(facts, counted)
    return _carry_on(facts, counted)


# Over


def _after_the_end(facts: JobFacts, finished: StatusCondition) -> JobActions:
    """Nothing is counted any more: let every pod go; the job too when its time has come."""
    untracked = [pod for pod in facts.pods if pod.is_active and not pod.is_tracked]
    ttl_s = facts.job.spec.ttl_seconds_after_finished
    due_at = None if ttl_s is None else (finished.last_transition_time or 0.0) + ttl_s
    is_due = due_at is not None and due_at <= facts.now
    return JobActions(
        release=facts.tracked,
        delete=tuple(untracked),
        delete_job=is_due and not facts.tracked,
        next_at=None if is_due else due_at,
    )


class Ending(NamedTuple):
    type: str  # SUCCESS or FAILURE
    reason: str
    message: str


def _decided_end(job: Job) -> Ending | None:
    found = true_condition(job, SUCCESS, FAILURE)
    return Ending(found.type, found.reason, found.message) if found is not None else None


def _find_failure(facts: JobFacts, counted: Tally) -> Ending | None:
    job, now = facts.job, facts.now
    if counted.failing:
        return Ending(FAILURE, "PodFailurePolicy", counted.failing)
    if _is_past_limit(job, counted):
        message = f"Job has reached the specified backoff limit{_last_failure(facts)}"
        return Ending(FAILURE, "BackoffLimitExceeded", message)
    due_at = _deadline(job)
    if due_at is not None and due_at <= now:
        message = "Job was active longer than specified deadline"
        return Ending(FAILURE, "DeadlineExceeded", message)
    failed, most = len(counted.failed_indexes), job.spec.max_failed_indexes
    if most is not None and failed > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Ending(FAILURE, "MaxFailedIndexesExceeded", message)
    if failed and failed + len(counted.completed) >= (job.spec.completions or 0):
        return Ending(FAILURE, "FailedIndexes", "Job has failed indexes")
    return None


def _last_failure(facts: JobFacts) -> str:
    """What the last pod that failed says of it, where it says more than an exit code."""
    failed = [pod for pod in facts.pods if pod.status.phase == "Failed" and not is_rebooted(pod)]
    told = [pod for pod in failed if pod.status.message]
    if not told:
        return ""
    last = max(told, key=lambda pod: (pod.ended_at, pod.name))
    return f"; pod {last.name}: {last.status.message}"


def _is_past_limit(job: Job, counted: Tally) -> bool:
    limit = job.spec.backoff_limit
    if counted.failed > limit:
        return True
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(pod.restarts for pod in counted.active)
    return restarts > 0 and restarts >= limit


def _deadline(job: Job) -> float | None:
    allowed_s, start_at = job.spec.active_deadline_seconds, job.status.start_time
    if allowed_s is None or start_at is None or job.spec.suspend or was_suspended(job):
        return None
    return start_at + allowed_s


def _find_success(job: Job, counted: Tally) -> Ending | None:
    if is_indexed(job):
        place = success_rule_met(job, counted.completed)
        if place is not None:
            return Ending(SUCCESS, "SuccessPolicy", f"Matched rules at index {place}")
    needed = 1 if job.spec.completions is None else job.spec.completions
    if counted.succeeded >= needed and not counted.active:
        message = "Reached expected number of succeeded pods"
        return Ending(SUCCESS, "CompletionsReached", message)
    return None


def _bring_to_an_end(
    facts: JobFacts, counted: Tally, ending: Ending, *, is_decided: bool
) -> JobActions:
    job, now = facts.job, facts.now
    conditions = with_condition(written_conditions(job), ending.type, "True", *ending[1:], now=now)
    start_time = start_time_of(job, now)
    if counted.active or counted.terminating:
        # Deleted with their finalizer on, so that they are counted: as failed.
        return JobActions(
            status=status_patch(job, counted, conditions, start_time),
            release=counted.releasable,
            delete=counted.active if is_decided else (),
        )
    terminal = _TERMINAL[ending.type]
    conditions = with_condition(conditions, terminal, "True", *ending[1:], now=now)
    completion_time = None
    if ending.type == SUCCESS:
        completion_time = written(_completed_at(facts, start_time))
        event = EventText("Completed", "Job completed")
    else:
        event = EventText(*ending[1:], "Warning")
    # Nothing will be counted after this, so everything is.
    counted.count_all()
    status = status_patch(job, counted, conditions, start_time, completion_time=completion_time)
    return JobActions(status=status, events=(event,))


def _completed_at(facts: JobFacts, start_time: str | None) -> float:
    """When the last pod finished, which may have been while nobody looked."""
    ends = [pod.finished_at for pod in facts.pods if pod.has_succeeded]
    known = [end for end in ends if end is not None]
    if start_time is None or not known or len(known) < len(ends):
        return facts.now
    return min(facts.now, max(*known, parse_time(start_time)))


# Not over


def _hold_back(facts: JobFacts, counted: Tally) -> JobActions:
    """Let every pod go that runs. It is deleted once its finalizer is off; see job_tally."""
    conditions, events = _told_of_suspension(facts, "Suspended")
    kept = tuple(pod for pod in counted.active if pod.is_tracked)
    return JobActions(
        status=status_patch(facts.job, counted, conditions, None),
        release=(*counted.releasable, *kept),
        delete=_let_go(counted),
        events=events,
    )


def _told_of_suspension(facts: JobFacts, word: str) -> tuple[Conditions, tuple[EventText, ...]]:
    """The conditions of a Job that is suspended or resumed, and what is said if that is new."""
    conditions, is_suspended = written_conditions(facts.job), facts.job.spec.suspend
    if is_suspended == was_suspended(facts.job):
        return conditions, ()
    told = "Suspended", str(is_suspended), f"Job{word}", f"Job {word.lower()}"
    return with_condition(conditions, *told, now=facts.now), (EventText(word, told[-1]),)


def _carry_on(facts: JobFacts, counted: Tally) -> JobActions:
    """First it is said that the job has begun, and pods are created when that is known.

    Else one who suspends it meanwhile could believe that nothing of it is on its way, and let it
    begin anew with other nodes; pods that come late would still be bound for the old ones.
    """
    job, now = facts.job, facts.now
    conditions, events = _told_of_suspension(facts, "Resumed")
    surplus = _surplus(job, counted)
    create, next_at = ((), None) if surplus else _wanted_pods(facts, counted)
    due = [at for at in (next_at, _deadline(job)) if at is not None]
    create = tuple(replace(new, **_run(facts, counted)) for new in create)
    created = 0 if facts.was_refused else len(create)
    return JobActions(
        status=status_patch(job, counted, conditions, start_time_of(job, now), created=created),
        create=() if was_suspended(job) or job.status.start_time is None else create,
        release=(*counted.releasable, *surplus),
        delete=_let_go(counted),
        next_at=min(due, default=None),
        events=events,
    )


def _run(facts: JobFacts, counted: Tally) -> dict[str, Any]:
    """Which attempt a pod that is created now belongs to, and how the one before it ended."""
    annotations, began_at = facts.job.metadata.annotations, facts.job.status.start_time or 0.0
    failed = (pod for pod in facts.pods if pod.status.phase == "Failed" and not pod.was_let_go)
    is_retry = any(pod.ended_at >= began_at for pod in failed)
    starts = annotations.get(STARTS, "")
    return {
        "attempt": (int(starts) if starts.isdecimal() else 1) + counted.failed,
        "last_end": "Failed" if is_retry else annotations.get(LAST_END, ""),
    }


def _let_go(counted: Tally) -> tuple[JobPod, ...]:
    return tuple(pod for pod in counted.active if not pod.is_tracked)


def _wanted_active(job: Job, counted: Tally) -> int:
    if job.spec.completions is None:
        # A work queue: the first success says that there is no more work to begin.
        return len(counted.active) if counted.succeeded else job.spec.parallelism
    left = job.spec.completions - counted.succeeded - len(counted.failed_indexes)
    return max(0, min(left, job.spec.parallelism))


def _surplus(job: Job, counted: Tally) -> tuple[JobPod, ...]:
    """The pods to let go, those first that have done the least."""
    kept = sorted((pod for pod in counted.active if pod.is_tracked), key=_worth)
    wrong: list[JobPod] = []
    if is_indexed(job):
        kept, wrong = _by_place(job, counted, kept)
    over = len(kept) - _wanted_active(job, counted)
    return (*wrong, *kept[: max(0, over)])


def _by_place(
    job: Job, counted: Tally, pods: Sequence[JobPod]
) -> tuple[list[JobPod], list[JobPod]]:
    """Part pods into the worthiest of each index that needs one, and the others."""
    filled = set(counted.completed | counted.failed_indexes)
    right: list[JobPod] = []
    wrong: list[JobPod] = []
    for pod in reversed(pods):
        index = pod.index
        if index is None or index in filled or index >= (job.spec.completions or 0):
            wrong.append(pod)
        else:
            filled.add(index)
            right.append(pod)
    return right[::-1], wrong


def _worth(pod: JobPod) -> tuple[bool, bool, bool, float, str]:
    created_at = pod.metadata.creation_timestamp or 0.0
    is_running = pod.status.phase == "Running"
    return bool(pod.node_name), is_running, pod.is_ready, -created_at, pod.name


# New pods


def _wanted_pods(facts: JobFacts, counted: Tally) -> tuple[tuple[NewPod, ...], float | None]:
    """The pods to create now, and when to look again for those that have to wait."""
    job = facts.job
    room = _wanted_active(job, counted) - len(counted.active)
    if replaces_only_failed(job):
        room -= len(counted.terminating)
    room = min(room, 1 if facts.was_refused else CREATED_MAX)
    if room <= 0:
        return (), None
    if job.spec.backoff_limit_per_index is not None:
        return _wanted_of_indexes(facts, counted, room)
    create_at = _create_at(facts)
    if create_at > facts.now:
        return (), create_at
    names = _Names(facts)
    if is_indexed(job):
        indexes = islice(_pending_indexes(job, counted), room)
        return tuple(NewPod(names.of(index), index) for index in indexes), None
    first = counted.succeeded + counted.failed
    return tuple(NewPod(names.of(None, first)) for _ in range(room)), None


def _wanted_of_indexes(
    facts: JobFacts, counted: Tally, room: int
) -> tuple[tuple[NewPod, ...], float | None]:
    """Each index waits after its own failures only."""
    latest, names = latest_by_index(facts.pods), _Names(facts)
    create: list[NewPod] = []
    waits: list[float] = []
    for index in _pending_indexes(facts.job, counted):
        if len(create) == room:
            break
        failures, ignored, create_at = _history(facts, latest.get(index))
        if create_at > facts.now:
            waits.append(create_at)
        else:
            create.append(NewPod(names.of(index), index, failures, ignored))
    return tuple(create), min(waits, default=None)


def _history(facts: JobFacts, last: JobPod | None) -> tuple[int, int, float]:
    """Of an index: its failures, those that were ignored, and when it may be tried again."""
    if last is None:
        return 0, 0, 0.0
    failures, ignored = last.failures_before, last.ignored_before
    if not has_failed(facts.job, last) or last.was_let_go:
        return failures, ignored, 0.0
    if judge_failure(facts.job, last).action == "Ignore":
        ignored += 1
    else:
        failures += 1
    return failures, ignored, last.ended_at + _delay_s(facts, failures + ignored)


def _pending_indexes(job: Job, counted: Tally) -> Iterator[int]:
    """Indexes that need a pod, lowest first."""
    taken = counted.completed | counted.failed_indexes | {pod.index for pod in counted.active}
    if replaces_only_failed(job):
        taken |= {pod.index for pod in counted.terminating}
    return (index for index in range(job.spec.completions or 0) if index not in taken)


def _create_at(facts: JobFacts) -> float:
    """When pods may be created again: the more failures since the last success, the later."""
    started_at = facts.job.status.start_time or 0.0
    ended = [
        pod
        for pod in facts.pods
        if (pod.has_succeeded or has_failed(facts.job, pod))
        and not (is_rebooted(pod) and pod.ended_at <= started_at)  # it was queued again since
    ]
    success_at = max((pod.ended_at for pod in ended if pod.has_succeeded), default=float("-inf"))
    failures = [
        pod.ended_at
        for pod in ended
        if not pod.has_succeeded and pod.ended_at > success_at and not pod.was_let_go
    ]
    return max(failures) + _delay_s(facts, len(failures)) if failures else 0.0


def _delay_s(facts: JobFacts, failures: int) -> float:
    return backoff_s(failures, facts.backoff_s, BACKOFF_MAX_S)


class _Names:
    """Names for new pods: first those that may be in use already, by a pod we haven't seen.

    Others are the first free ones of a fixed sequence. So whoever asks again in the same position
    gets the same names, and what was created after all collides.
    """

    def __init__(self, facts: JobFacts) -> None:
        self._facts = facts
        self._unseen: dict[int | None, list[str]] = {}
        for name, index in facts.unseen.items():
            self._unseen.setdefault(index, []).append(name)
        self._given: set[str] = set(facts.unseen)
        self._next: dict[int | None, int] = {}

    def of(self, index: int | None, first: int = 0) -> str:
        if self._unseen.get(index):
            return self._unseen[index].pop(0)
        for ordinal in count(self._next.get(index, first)):
            name = pod_name(self._facts.job, index, ordinal)
            if name not in self._given and not self._facts.is_taken(name):
                self._given.add(name)
                self._next[index] = ordinal + 1
                return name
        raise AssertionError("the ordinals have no end")
