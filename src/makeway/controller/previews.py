"""What would become of an object, or of everybody with other queues: asked, not done."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from makeway.api import queueing
from makeway.api.batch import Job
from makeway.api.codec import decode_unconverted
from makeway.api.intake import take_in
from makeway.api.kinds import (
    COHORTS,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    QUEUES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import QUEUE_NAME
from makeway.api.times import format_time, in_whole_seconds
from makeway.client.client import Document
from makeway.controller.admission import Admission
from makeway.controller.job_priorities import Classes, Missing
from makeway.controller.job_workload import new_workload, wanted_of
from makeway.controller.set_aside import gpus_waited_for
from makeway.engine.model import Workload
from makeway.engine.preview import LAST_UID, difference, preview
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from makeway.translate.data import as_data, obstacle_data, pieces_data
from makeway.translate.places import set_aside_lines
from makeway.translate.previews import Outcome, difference_lines, outcome_of, preview_lines
from makeway.translate.queues import changed
from makeway.translate.words import Line

QueueParts = queueing.ResourceFlavor | queueing.ClusterQueue | queueing.Cohort | queueing.LocalQueue
_RESOURCES: dict[type, Resource] = {
    queueing.ResourceFlavor: FLAVORS,
    queueing.ClusterQueue: QUEUES,
    queueing.Cohort: COHORTS,
    queueing.LocalQueue: LOCAL_QUEUES,
}


class NotPreviewed(Exception):
    """Nothing can be said about it; the text is for the user."""


class Previews:
    def __init__(self, admission: Admission, picture: Picture, clock: Callable[[], float]) -> None:
        self._admission, self._picture, self._clock = admission, picture, clock
        self._classes = Classes(picture)

    def preview(self, document: Mapping[str, Any]) -> Document:
        """What would become of a Job or Workload, complete as the server would store it."""
        now = self._clock()
        workload = self._workload_in(document, now)
        with _uncollected():
            found = preview(self._admission.engine, workload, now)
        explanation = found.explanation
        gpus = gpus_waited_for(self._picture, explanation.queue, explanation.obstacles)
        outcome = Outcome.WAITS if gpus else outcome_of(found)
        lines = [*preview_lines(found, outcome, now, in_whole_seconds), *set_aside_lines(gpus)]
        metadata = document.get("metadata") or {}
        return {
            "apiVersion": "makeway.dev/v1",
            "kind": "Preview",
            "metadata": {name: metadata.get(name, "") for name in ("name", "namespace")},
            "outcome": outcome.value,
            "queue": found.queue,
            "assignment": as_data(found.assignment),
            "victims": as_data(found.victims),
            "losers": as_data(found.losers),
            "obstacles": [obstacle_data(one, now) for one in explanation.obstacles],
            "position": explanation.position,
            **_lines(lines),
        }

    def _workload_in(self, document: Mapping[str, Any], now: float) -> Workload:
        if document.get("kind") == JOBS.kind:
            document = self._made_for(document, now)
        elif document.get("kind") != WORKLOADS.kind:
            raise NotPreviewed(f"{document.get('kind')}: only a Job or a Workload is previewed")
        view = take_in(document).object
        if not isinstance(view, queueing.Workload):
            raise NotPreviewed("its Workload would not be accepted")
        return replace(self._admission.workload_in(view), uid=LAST_UID, created_at=now)

    def _made_for(self, document: Mapping[str, Any], now: float) -> Document:
        """The Workload that a Job would get."""
        job = decode_unconverted(Job, document).object
        if job is None:
            raise NotPreviewed("the Job can't be read")
        if not job.metadata.labels.get(QUEUE_NAME):
            raise NotPreviewed(f"the Job is in no queue: it has no label {QUEUE_NAME}")
        priority = self._classes.priority_of(job.metadata.labels, job.spec.template.spec)
        if isinstance(priority, Missing):
            raise NotPreviewed(str(priority))
        made = new_workload(job, wanted_of(job), priority)
        stamps = {"uid": LAST_UID, "creationTimestamp": format_time(int(now))}
        return {**made, "metadata": {**made["metadata"], **stamps}}

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Document:
        """What would change for whom, were these queue objects applied now."""
        edited, events, left_out = [], [], []
        for document in documents:
            taken = take_in(document)
            if taken.object is None:
                raise NotPreviewed("; ".join(map(str, taken.errors)))
            view, metadata = taken.object, taken.object.metadata
            at = Key(metadata.namespace, metadata.name)
            named = {"kind": document.get("kind"), "name": str(at)}
            if not isinstance(view, QueueParts):
                left_out.append(named)
                continue
            event, known = changed(view), self._picture.find(_RESOURCES[type(view)], at)
            if known is None or known.view is None or changed(known.view) != event:
                edited.append(named)
                events.append(event)
        with _uncollected():
            found = difference(self._admission.engine, events, self._clock())
        return {
            "apiVersion": "makeway.dev/v1",
            "kind": "Difference",
            "objects": edited,
            "leftOut": left_out,
            "changes": as_data(found.changes),
            "losers": as_data(found.losers),
            **_lines(list(difference_lines(found))),
        }


@contextmanager
def _uncollected() -> Iterator[None]:
    """A twin is many objects at once, of which none is garbage: let nobody look for any."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _lines(lines: Sequence[Line]) -> Document:
    pieces = [pieces_data(line) for line in lines]
    return {"lines": [str(line) for line in lines], "pieces": pieces}
