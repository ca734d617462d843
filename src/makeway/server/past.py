"""Jobs that are over, and what their attempts have printed, when the objects tell it no more.

- `GET .../jobs?gone=true`: a JobList of those that were deleted;
- `GET .../jobs/NAME/attempts`: which pods ran for it, and how each ended;
- `GET .../jobs/NAME/log?pod=POD`: what a pod of it has printed, whether there still is such a pod;
- `DELETE .../jobs/NAME/log`: nobody wants to read that any more.

`?uid=` tells several jobs of one name apart; without it the one that exists is meant, or who went
last.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from makeway.api.kinds import JOBS
from makeway.api.labels import GONE_AT
from makeway.api.times import format_time
from makeway.history.archive import Archive, GoneJob, Run
from makeway.server import errors, messages
from makeway.server.logs import FileLogs
from makeway.server.messages import Request, Response, decode, json_response
from makeway.server.objects import Target
from makeway.store import Store

Clock = Callable[[], float]

SUBRESOURCES = ("attempts", "log")


class Past:
    def __init__(self, store: Store, archive: Archive, logs: FileLogs, clock: Clock) -> None:
        self._store, self._archive, self._logs, self._clock = store, archive, logs, clock

    def gone(self, namespace: str) -> Response:
        items = [_shown(job) for job in self._archive.gone_jobs(namespace)]
        return json_response({"apiVersion": JOBS.api_version, "kind": "JobList", "items": items})

    async def of_job(self, request: Request, target: Target) -> Response:
        match target.subresource, request.method:
            case "attempts", "GET":
                return json_response({"items": [*map(_attempt, self._runs(request, target))]})
            case "log", "GET":
                return Response(body=await self._log(request, target), content_type="text/plain")
            case "log", "DELETE":
                return self._remove(request, target)
        raise errors.method_not_allowed()

    async def _log(self, request: Request, target: Target) -> bytes | AsyncIterator[bytes]:
        asked = request.query.get("pod", "")
        for run in self._runs(request, target):
            if asked in (run.pod, run.pod_uid):
                return await self._logs.read(_pod(run), request)
        raise errors.bad_request(f"job {target.name} has no pod {asked[:100]!r}")

    def _remove(self, request: Request, target: Target) -> Response:
        """What pods have printed that are still there goes with them."""
        uid, runs = self._uid(request, target), self._runs(request, target)
        if any(run.ended_at is None for run in runs):
            raise errors.bad_request(f"job {target.name} runs; what it prints is kept")
        if not runs and uid != self._uid(replace(request, query={}), target):
            raise errors.not_found(JOBS, target.name)
        for run in runs:
            if run.is_gone:
                shutil.rmtree(self._logs.folder / run.pod_uid, ignore_errors=True)
        self._archive.forget_job(uid, self._clock())
        return json_response(messages.success())

    def _runs(self, request: Request, target: Target) -> list[Run]:
        runs = self._archive.runs_of(self._uid(request, target))
        return [run for run in runs if run.namespace == target.namespace]

    def _uid(self, request: Request, target: Target) -> str:
        if uid := request.query.get("uid", ""):
            return uid
        record = self._store.get(target.key)
        if record is not None:
            return str(decode(record.body)["metadata"]["uid"])
        gone = self._archive.gone_job(target.namespace, target.name)
        if gone is None:
            raise errors.not_found(JOBS, target.name)
        return gone.uid


def _shown(job: GoneJob) -> dict[str, Any]:
    document: dict[str, Any] = decode(job.body)
    annotations = document["metadata"].get("annotations") or {}
    document["metadata"]["annotations"] = {**annotations, GONE_AT: format_time(int(job.gone_at))}
    return document


def _attempt(run: Run) -> dict[str, Any]:
    return {
        "attempt": run.attempt,
        "pod": run.pod,
        "podUid": run.pod_uid,
        "containers": run.containers.split(),
        "startedAt": None if run.started_at is None else format_time(run.started_at),
        "endedAt": None if run.ended_at is None else format_time(run.ended_at),
        "exitCode": run.exit_code,
        "reason": run.reason,
        "isGone": run.is_gone,
    }


def _pod(run: Run) -> dict[str, Any]:
    """As much of the pod as it takes to read what it has printed."""
    containers = [{"name": name} for name in run.containers.split()]
    phase = "Running" if run.ended_at is None else "Failed" if run.exit_code else "Succeeded"
    return {
        "metadata": {"name": run.pod, "uid": run.pod_uid},
        "spec": {"containers": containers},
        "status": {"phase": phase, "reason": run.reason},
    }
