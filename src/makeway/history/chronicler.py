"""Notes in the archive what becomes of jobs and of their pods.

It hears of Jobs and pods like every part of the control plane, and wants nothing written to the
server. After a restart all of them are heard of again, and noted again, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from makeway.api.kinds import JOBS, PODS, Resource
from makeway.api.labels import ATTEMPT, EXIT_CODE, ID, LAST_END, LET_GO
from makeway.api.meta import controller_of
from makeway.api.times import TimeError, parse_time
from makeway.client.client import Document
from makeway.clocks import Clock
from makeway.history.archive import Archive, GoneJob, Run
from makeway.plane.parts import NOTHING, Outcome, Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, ObjectWrite, Say


class Chronicler:
    resources: tuple[Resource, ...] = (JOBS, PODS)

    def __init__(self, picture: Picture, archive: Archive, clock: Clock = time.time) -> None:
        self._picture, self._archive, self._clock = picture, archive, clock

    def changed(self, change: Change) -> None:
        if change.resource == PODS:
            self._hear_pod(change)
        elif change.new is None and change.old is not None:
            runs = self._archive.runs_of(change.old.uid)
            code = runs[-1].exit_code if runs else None
            self._archive.note_gone(_gone_job(change.old, code, self._clock()))

    def act(self, now: float) -> Plan:
        return NOTHING

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        raise AssertionError(f"{write} is not ours")

    def _hear_pod(self, change: Change) -> None:
        run = self._run_of(change.new or change.old)
        if run is None:
            return
        if change.new is None:
            ended_at = run.ended_at or self._clock()
            self._archive.note_run(run._replace(ended_at=ended_at, is_gone=True))
        elif run != self._run_of(change.old):
            self._archive.note_run(run)

    def _run_of(self, pod: Object | None) -> Run | None:
        """None: it is no pod of a Job, or was not given to a node yet."""
        owner = None if pod is None else controller_of(pod.document)
        if pod is None or owner is None or owner.kind != JOBS.kind:
            return None
        spec, metadata = pod.document.get("spec") or {}, pod.document["metadata"]
        if not spec.get("nodeName"):
            return None
        job = self._picture.get(JOBS, Key(pod.key.namespace, owner.name)) or {"metadata": {}}
        annotations = metadata.get("annotations") or {}
        end = _end_of(pod.document)
        if LET_GO in annotations:
            last_end = (job["metadata"].get("annotations") or {}).get(LAST_END, "")
            end |= {"reason": last_end or "Stopped"}
        attempt = annotations.get(ATTEMPT, "")
        names = (found["name"] for found in spec.get("containers") or ())
        return Run(
            pod_uid=pod.uid,
            job_uid=owner.uid,
            namespace=pod.key.namespace,
            job=owner.name,
            number=_number(job),
            attempt=int(attempt) if attempt.isdecimal() else 1,
            pod=pod.key.name,
            containers=" ".join(names),
            started_at=_moment((pod.document.get("status") or {}).get("startTime")),
            **end,
        )


def _end_of(pod: Document) -> dict[str, Any]:
    """How its containers ended; of several that failed, the first counts."""
    status = pod.get("status") or {}
    states = [found.get("state") or {} for found in status.get("containerStatuses") or ()]
    ended = [state["terminated"] for state in states if "terminated" in state]
    if not ended or len(ended) < len(states):
        return {}
    failed = [end for end in ended if end.get("exitCode")]
    told = min(failed or ended, key=lambda end: end.get("finishedAt") or "")
    return {
        "ended_at": max((_moment(end.get("finishedAt")) or 0.0 for end in ended), default=None),
        "exit_code": told.get("exitCode"),
        "reason": status.get("reason") or told.get("reason") or "",
    }


def _gone_job(job: Object, exit_code: int | None, now: float) -> GoneJob:
    metadata = {k: v for k, v in job.document["metadata"].items() if k != "managedFields"}
    if exit_code is not None:
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, EXIT_CODE: str(exit_code)}
    spec = dict(job.document.get("spec") or {})
    spec["template"] = _without_environment(spec.get("template") or {})
    body = orjson.dumps({**job.document, "metadata": metadata, "spec": spec})
    return GoneJob(job.uid, job.key.namespace, job.key.name, _number(job.document), now, body)


def _without_environment(template: Document) -> Document:
    """Variables are many, often secret, and nobody asks for them afterwards."""
    spec = template.get("spec") or {}
    containers = [
        {name: value for name, value in found.items() if name != "env"}
        for found in spec.get("containers") or ()
    ]
    return {**template, "spec": {**spec, "containers": containers}}


def _number(job: Document) -> int | None:
    text = (job["metadata"].get("labels") or {}).get(ID, "")
    return int(text) if text.isdecimal() and text.isascii() else None


def _moment(text: object) -> float | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except TimeError:
        return None
