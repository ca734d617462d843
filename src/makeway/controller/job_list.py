"""All jobs at a glance, for people: one answer in place of three lists of whole objects.

Only so many are told of at once: whoever has a hundred thousand jobs reads no list of them, and
the server has others to serve. What is needed to choose them is noted when an object changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from makeway.api.batch import Pod
from makeway.api.codec import decode_unconverted
from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.api.labels import ID, JOB_UID, MANAGED, QUEUE_NAME, SUBMITTED_BY
from makeway.api.meta import controller_of
from makeway.api.times import parse_time
from makeway.client.client import Document
from makeway.controller.set_aside import gpus_waited_for
from makeway.engine.engine import Engine
from makeway.engine.model import WorkloadKey
from makeway.plane.picture import Object, Picture
from makeway.plane.writes import Key
from makeway.translate.brief import NEVER, cut
from makeway.translate.job_rows import Row, row_of
from makeway.translate.job_state import ENDED, PENDING, JobState, state_of, with_pods
from makeway.translate.job_targets import JobTarget, units_of
from makeway.translate.obstacles import obstacles_in_brief

LIMIT, LIMIT_MAX = 500, 5000  # jobs in one answer
_NO_JOB = ""


class Asked(NamedTuple):
    """Which jobs somebody wants to see."""

    namespace: str = ""  # empty: of all
    queue: str = ""  # empty: of all
    user: str = ""  # empty: of all
    name: str = ""  # of one Job; empty: of all
    number: str = ""  # the short number of one; empty: of all
    ended: str = "false"  # "true": those that have ended, too; "only": no others
    limit: int = LIMIT


def asked_in(namespace: str, query: Mapping[str, str]) -> Asked:
    """As a request says it; what is no number counts as none."""
    limit = query.get("limit", "")
    return Asked(
        namespace=namespace,
        queue=query.get("queue", ""),
        user=query.get("user", ""),
        name=query.get("name", ""),
        number=query.get("number", ""),
        ended=query.get("ended", "false"),
        limit=min(int(limit), LIMIT_MAX) if limit.isdecimal() and len(limit) < 9 else LIMIT,
    )


class _Mark(NamedTuple):
    """What is noted of a Job: enough to choose and to sort."""

    created_at: float
    number: str
    queue: str
    user: str

    @property
    def order(self) -> tuple[float, int]:
        return self.created_at, int(self.number) if self.number.isdecimal() else 0


class JobList:
    def __init__(self, engine: Engine, picture: Picture, clock: Callable[[], float]) -> None:
        self._engine, self._picture, self._clock = engine, picture, clock
        self._jobs = picture.index(JOBS, lambda job: (_has_ended(job.document), _mark(job)))
        self._workloads = picture.index(WORKLOADS, lambda one: (_owner(one), None))
        self._pods = picture.index(PODS, lambda pod: (_owner(pod), None))
        self._single = picture.index(
            PODS, lambda pod: (True, None) if MANAGED in _labels(pod.document) else None
        )

    def answer(self, asked: Asked) -> Document:
        chosen, more = self._chosen(asked)
        states = [state for state in map(self._state, chosen) if state is not None]
        if not asked.name and not asked.number:
            states += self._without_job(asked)
        broken = [f"Job {key}: {why}" for key in chosen if (why := self._defect(key))]
        metadata = {"remainingItemCount": more, "unreadable": broken}
        return {
            "apiVersion": "visibility.makeway.dev/v1",
            "kind": "JobList",
            "metadata": {name: value for name, value in metadata.items() if value},
            "items": self._rows(states),
        }

    def _chosen(self, asked: Asked) -> tuple[list[Key], int]:
        """Those that fit the question, and how many more there are; in the order they came.

        Of those that wait or run the oldest, of those that have ended the latest.
        """
        waiting = [] if asked.ended == "only" else self._found(asked, False)
        over = [] if asked.ended == "false" else self._found(asked, True)
        left = max(0, asked.limit - len(waiting))
        chosen = sorted((*waiting[: asked.limit], *over[len(over) - min(left, len(over)) :]))
        return [key for _, key in chosen], len(waiting) + len(over) - len(chosen)

    def _found(self, asked: Asked, has_ended: bool) -> list[tuple[tuple[float, int], Key]]:
        marks = self._jobs.items(has_ended)
        return sorted((mark.order, key) for key, mark in marks if _fits(key, mark, asked))

    def _defect(self, key: Key) -> str:
        found = self._picture.find(JOBS, key)
        errors = () if found is None else found.read.errors
        return str(errors[0]) if errors else ""

    def _state(self, key: Key) -> JobState | None:
        job = self._view(JOBS, key)
        if job is None:
            return None
        uid = job.metadata.uid
        workloads = filter(None, (self._view(WORKLOADS, k) for k in self._workloads.keys(uid)))
        newest = max(workloads, key=lambda w: w.metadata.creation_timestamp or 0.0, default=None)
        state = state_of(JobTarget(job, newest), self._clock())
        return with_pods(state, filter(None, map(self._pod, self._pods.keys(uid))))

    def _without_job(self, asked: Asked) -> Iterator[JobState]:
        """Pods, groups of pods and Workloads that are in a queue without a Job."""
        pods = [pod for pod in map(self._pod, self._single.keys(True)) if pod is not None]
        alone = self._workloads.keys(_NO_JOB)[: asked.limit]
        workloads = [w for w in (self._view(WORKLOADS, key) for key in alone) if w is not None]
        for unit in units_of(pods, workloads):
            state = with_pods(state_of(unit, self._clock()), unit.pods)
            mark = _Mark(0.0, "", state.queue, state.submitted_by)
            has_ended = state.status in ENDED
            is_wanted = asked.ended == "true" or has_ended == (asked.ended == "only")
            if is_wanted and _fits(Key(unit.namespace, unit.name), mark, asked):
                yield state

    def _rows(self, states: Iterable[JobState]) -> list[Row]:
        states = list(states)
        keys = {id(s): _workload_key(s) for s in states if s.status == PENDING}
        found = self._engine.glances(key for key in keys.values() if key is not None)
        rows, now = [], self._clock()
        for state in states:
            key = keys.get(id(state))
            glance = None if key is None else found.get(key)
            if glance is None:
                rows.append(row_of(state))
                continue
            position = glance.position
            why = obstacles_in_brief(glance.obstacles, state.requests, position or 0, now)
            if why.startswith(NEVER):
                gpus = gpus_waited_for(self._picture, glance.queue, glance.obstacles)
                why = cut(str(gpus[0])) if gpus else why
            rows.append(row_of(state, why, position))
        return rows

    def _view(self, resource: Resource, key: Key) -> Any:
        found = self._picture.find(resource, key)
        return None if found is None else found.view

    def _pod(self, key: Key) -> Pod | None:
        document = self._picture.get(PODS, key)
        return None if document is None else decode_unconverted(Pod, document).object


def _fits(key: Key, mark: _Mark, asked: Asked) -> bool:
    wanted = (
        (asked.namespace, key.namespace),
        (asked.name, key.name),
        (asked.queue, mark.queue),
        (asked.user, mark.user),
        (asked.number, mark.number),
    )
    return all(not one or one == other for one, other in wanted)


def _mark(job: Object) -> _Mark:
    metadata = job.document["metadata"]
    labels, annotations = _labels(job.document), metadata.get("annotations") or {}
    created = metadata.get("creationTimestamp")
    return _Mark(
        parse_time(created) if created else 0.0,
        str(labels.get(ID, "")),
        str(labels.get(QUEUE_NAME, "")),
        str(annotations.get(SUBMITTED_BY, "")),
    )


def _labels(document: Document) -> Document:
    labels: Document = document["metadata"].get("labels") or {}
    return labels


def _has_ended(job: Document) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions
    )


def _owner(found: Object) -> str:
    """The uid of the Job that an object belongs to; that of a pod's Workload is the pod's own."""
    owner = controller_of(found.document)
    if owner is not None:
        return owner.uid if owner.kind == "Job" else _NO_JOB
    return str(_labels(found.document).get(JOB_UID, _NO_JOB))


def _workload_key(state: JobState) -> WorkloadKey | None:
    workload = state.workload
    if workload is None:
        return None
    return WorkloadKey(f"{workload.metadata.namespace}/{workload.metadata.name}")
