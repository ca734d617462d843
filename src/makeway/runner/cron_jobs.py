"""Makes Jobs at the times of a CronJob's schedule, as Kubernetes' controller does.

Everything follows from the objects: a Job says for which time it was made, in an annotation and by
its name, so none is made twice, and after a crash the CronJob learns of it. Times that passed while
nobody looked come down to the latest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from makeway.api.batch import Job, owner_reference
from makeway.api.cron import CronJob
from makeway.api.kinds import CRON_JOBS, JOBS, Resource
from makeway.api.labels import ACCOUNT, SUBMITTED_BY
from makeway.api.meta import controller_of
from makeway.api.schedules import Every, Schedule, ScheduleError, parse_schedule, zone_of
from makeway.api.times import TimeError, format_time, parse_time
from makeway.client.client import ApiError, Document
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import (
    Create,
    Delete,
    EventText,
    Key,
    ObjectWrite,
    Say,
    Write,
    status_patch,
)

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MISSED_MAX = 100
AHEAD_MAX_S = 86_400.0  # clocks are set back, but not by more
_ENDS = ("Complete", "Failed")
_TOO_MANY = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
_STILL_ACTIVE = (
    "Not starting job because prior execution is running and concurrency policy is Forbid"
)


class Run(NamedTuple):
    """A Job of a CronJob."""

    name: str
    uid: str
    owner: str  # uid of the CronJob
    scheduled_at: float | None  # None: somebody made it by hand
    end: str  # Complete or Failed; empty: it has not ended
    began_at: float
    completed_at: float | None
    is_leaving: bool


class Due(NamedTuple):
    at: float | None  # the latest time that has come; None: none has, since the last one
    missed: int  # about how many times have come
    next_at: float | None  # None: never


class CronJobs(Reconciler):
    resources: tuple[Resource, ...] = (CRON_JOBS, JOBS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._runs = picture.index(JOBS, _run_of)  # by CronJob
        self._said: dict[Key, tuple[str, float]] = {}  # what was said last, and of which time

    def changed(self, change: Change) -> None:
        if change.resource == CRON_JOBS:
            self.mark(change.key)
        else:
            self.mark(*self._runs.touched(change))

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(CRON_JOBS, key)
        if found is None or found.view is None:
            self._said.pop(key, None)
            return NOTHING
        cron: CronJob = found.view
        runs = [run for run in self._runs.values(key) if run.owner == cron.metadata.uid]
        writes: list[Write] = [*_status_writes(found.document, cron, runs, now)]
        writes += _deletions(found.document, cron, runs)
        if cron.metadata.deletion_timestamp is not None or cron.spec.suspend:
            return Plan(writes)
        schedule, zone = _schedule_of(cron)
        if schedule is None:
            return Plan(writes)
        due = due_time(schedule, zone, cron, _last_scheduled(cron, runs, now), now)
        if due.at is not None:
            writes += self._begin(found, cron, runs, due, zone)
        return Plan(writes, due.next_at)

    def _begin(
        self, found: Object, cron: CronJob, runs: Sequence[Run], due: Due, zone: ZoneInfo | None
    ) -> list[Write]:
        assert due.at is not None
        name = f"{cron.metadata.name}-{int(due.at) // 60}"
        if self._picture.has(JOBS, Key(found.key.namespace, name)):
            return []
        writes: list[Write] = []
        if due.missed > MISSED_MAX:
            writes += self._say_once(
                found, due.at, EventText("TooManyMissedTimes", _TOO_MANY, "Warning")
            )
        active = [run for run in runs if _is_active(run)]
        if active and cron.spec.concurrency_policy == "Forbid":
            return writes + self._say_once(
                found, due.at, EventText("JobAlreadyActive", _STILL_ACTIVE)
            )
        if cron.spec.concurrency_policy == "Replace":
            writes += [_deletion(found.document, run) for run in active if not run.is_leaving]
        said = EventText("SuccessfulCreate", f"Created job {name}").about(found.document)
        document = _job_document(cron, name, due.at, zone)
        return [*writes, Create(resource=JOBS, document=document, then=(said,))]

    def _say_once(self, found: Object, at: float, event: EventText) -> list[Write]:
        if self._said.get(found.key) == (event.reason, at):
            return []
        self._said[found.key] = event.reason, at
        return [event.about(found.document)]

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        document = self._picture.get(CRON_JOBS, key)
        if not isinstance(write, Create) or document is None:
            return ()
        event = EventText("FailedCreate", f"Error creating job: {error.message}", "Warning")
        return (event.about(document),)


# Times


def due_time(
    schedule: Schedule, zone: ZoneInfo | None, cron: CronJob, last: float | None, now: float
) -> Due:
    """Which time is to be acted on now, after the last one that was."""
    since = last if last is not None else cron.metadata.creation_timestamp or now
    deadline_s = cron.spec.starting_deadline_seconds
    if deadline_s is not None and now - deadline_s > since:
        late_s = now - deadline_s - since
        if isinstance(schedule, Every):  # which counts from the time before, not from ours
            late_s -= late_s % schedule.delay_s
        since += late_s
    first = schedule.next_after(since, zone)
    second = None if first is None else schedule.next_after(first, zone)
    if first is None or now < first:
        return Due(None, 0, first)
    if second is None or now < second:
        return Due(first, 0, second)
    # Times may be many: all but the last are left out, as if they came as the first two do.
    pause_s = second - first
    missed = int((now - first) // pause_s) + 1
    latest, left_out = None, missed - 2
    while True:
        coming = schedule.next_after(first + left_out * pause_s, zone)
        if left_out == 0 or (coming is not None and coming <= now):
            break
        left_out //= 2  # they don't: the last one lies further back
    while coming is not None and coming <= now:
        latest, coming = coming, schedule.next_after(coming, zone)
    return Due(latest, missed, coming)


def _schedule_of(cron: CronJob) -> tuple[Schedule | None, ZoneInfo | None]:
    """None: it can't be understood, and was written before that was asked for."""
    zone = None if cron.spec.time_zone is None else zone_of(cron.spec.time_zone)
    try:
        schedule = parse_schedule(cron.spec.schedule)
    except ScheduleError:
        return None, None
    return (None, None) if cron.spec.time_zone is not None and zone is None else (schedule, zone)


def _last_scheduled(cron: CronJob, runs: Iterable[Run], now: float) -> float | None:
    """What a Job says of a time that is far ahead was written by somebody else."""
    times = (cron.status.last_schedule_time, *(run.scheduled_at for run in runs))
    return max((at for at in times if at is not None and at <= now + AHEAD_MAX_S), default=None)


# Jobs


def _run_of(job: Object) -> tuple[Key, Run] | None:
    owner = controller_of(job.document)
    if owner is None or owner.kind != CronJob.KIND or job.view is None:
        return None
    view: Job = job.view
    metadata, conditions = view.metadata, view.status.conditions
    ends = [one.type for one in conditions if one.type in _ENDS and one.status == "True"]
    return Key(job.key.namespace, owner.name), Run(
        name=metadata.name,
        uid=metadata.uid,
        owner=owner.uid,
        scheduled_at=_time_in(metadata.annotations.get(SCHEDULED, "")),
        end=ends[0] if ends else "",
        began_at=view.status.start_time or metadata.creation_timestamp or 0.0,
        completed_at=view.status.completion_time,
        is_leaving=metadata.deletion_timestamp is not None,
    )


def _time_in(text: str) -> float | None:
    """None: it is none, or beyond the years that a calendar has."""
    try:
        at = parse_time(text)
        format_time(at)
    except (TimeError, OverflowError, ValueError):
        return None
    return at


def _is_active(run: Run) -> bool:
    return not run.end and run.scheduled_at is not None


def _job_document(cron: CronJob, name: str, at: float, zone: ZoneInfo | None) -> Document:
    template: Document = dict(cron.spec.job_template.document or {})
    written = template.get("metadata") or {}
    moment = datetime.fromtimestamp(at, zone).astimezone(zone).isoformat(timespec="seconds")
    signed = {
        key: value
        for key, value in cron.metadata.annotations.items()
        if key in (SUBMITTED_BY, ACCOUNT)
    }
    scheduled = {SCHEDULED: moment.replace("+00:00", "Z")}
    metadata = {
        "name": name,
        "namespace": cron.metadata.namespace,
        "labels": dict(written.get("labels") or {}),
        "annotations": {**(written.get("annotations") or {}), **signed, **scheduled},
        "ownerReferences": [owner_reference(cron)],
    }
    return {
        "apiVersion": Job.API_VERSION,
        "kind": Job.KIND,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def _deletions(about: Document, cron: CronJob, runs: Sequence[Run]) -> list[Write]:
    """Of those that have ended, the latest are kept."""
    found: list[Write] = []
    for end, kept in (
        ("Complete", cron.spec.successful_jobs_history_limit),
        ("Failed", cron.spec.failed_jobs_history_limit),
    ):
        ended = sorted((run for run in runs if run.end == end), key=lambda run: run.began_at)
        surplus = ended[: len(ended) - kept] if len(ended) > kept else []
        found += [_deletion(about, run) for run in surplus if not run.is_leaving]
    return found


def _deletion(about: Document, run: Run) -> Delete:
    said = EventText("SuccessfulDelete", f"Deleted job {run.name}").about(about)
    key = Key(about["metadata"]["namespace"], run.name)
    return Delete(resource=JOBS, key=key, uid=run.uid, then=(said,))


# Telling


def _status_writes(about: Document, cron: CronJob, runs: Sequence[Run], now: float) -> list[Write]:
    before = about.get("status") or {}
    namespace = cron.metadata.namespace
    status: Document = {"active": [_reference(run, namespace) for run in runs if _is_active(run)]}
    if (last := _last_scheduled(cron, runs, now)) is not None:
        status["lastScheduleTime"] = format_time(last)
    successes = [run.completed_at for run in runs if run.end == "Complete"]
    known = (cron.status.last_successful_time, *successes)
    if done := [at for at in known if at is not None]:
        status["lastSuccessfulTime"] = format_time(max(done))
    if all((before.get(name) or []) == value for name, value in status.items()):
        return []
    then = tuple(event.about(about) for event in _ends_seen(cron, runs))
    return [replace(status_patch(CRON_JOBS, about, status), then=then)]


def _reference(run: Run, namespace: str) -> Document:
    named = {"name": run.name, "namespace": namespace, "uid": run.uid}
    return {"apiVersion": Job.API_VERSION, "kind": Job.KIND, **named}


def _ends_seen(cron: CronJob, runs: Sequence[Run]) -> Iterable[EventText]:
    by_uid = {run.uid: run for run in runs}
    for reference in cron.status.active:
        run = by_uid.get(str(reference.get("uid")))
        if run is None:
            yield EventText("MissingJob", f"Active job went missing: {reference.get('name')}")
        elif run.end:
            message = f"Saw completed job: {run.name}, condition: {run.end}"
            yield EventText("SawCompletedJob", message)
