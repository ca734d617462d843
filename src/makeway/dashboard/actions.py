"""What a reader may do to a job from its page: with his own client, so with his own rights.

Each does the same as the command of its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from makeway.api.kinds import JOBS, PODS, WORKLOADS
from makeway.api.labels import CANCELLED_BY, HELD_BY, HOLD, PRIORITY_CLASS, QUEUE_NAME
from makeway.client import Client
from makeway.client.workloads import set_active
from makeway.dashboard.details import pods_of
from makeway.dashboard.units import Unit
from makeway.translate.job_targets import JOB, POD

HOLD_IT, RESUME, CANCEL, PRIORITY = "hold", "resume", "cancel", "priority"
ACTIONS = (HOLD_IT, RESUME, CANCEL, PRIORITY)


class WrongAction(Exception):
    """It can't be done to such a job; the text is for the reader."""


class Doing:
    """What one reader does; the client's errors are the answer where the server refuses."""

    def __init__(self, client: Client, reader: str, *, keeps: bool) -> None:
        """`keeps`: a Job that says it is cancelled is ended and stays; else it is deleted."""
        self._client, self._reader, self._keeps = client, reader, keeps

    async def act(self, unit: Unit, workload: str, action: str, value: str) -> None:
        if action in (HOLD_IT, RESUME):
            await self._hold_or_resume(unit, workload, is_active=action == RESUME)
        elif action == CANCEL:
            await self._cancel(unit, workload)
        elif action == PRIORITY:
            await self._set_priority(unit, value)
        else:
            raise WrongAction(f"{action!r} is no action; there are: {', '.join(ACTIONS)}")

    async def _hold_or_resume(self, unit: Unit, workload: str, *, is_active: bool) -> None:
        noted: dict[str, str | None] = {HELD_BY: None if is_active else self._reader}
        if workload:
            await set_active(self._client, workload, unit.namespace, is_active=is_active)
        elif unit.kind != JOB:
            raise WrongAction(f"{unit.name} has no Workload, so it is in no queue yet")
        if is_active or not workload:  # its Workload, which is not there yet, begins so
            noted[HOLD] = None if is_active else "true"
        if unit.kind == JOB:
            await self._note(unit, noted)

    async def _cancel(self, unit: Unit, workload: str) -> None:
        """A pod's Workload goes with it; a group's would wait for other pods."""
        if unit.kind == JOB:
            await self._cancel_job(unit)
            return
        for pod in await pods_of(self._client, unit):
            await self._client.delete(PODS, pod["metadata"]["name"], unit.namespace)
        if unit.kind != POD and workload:
            await self._client.delete(WORKLOADS, workload, unit.namespace)

    async def _cancel_job(self, unit: Unit) -> None:
        job = await self._client.get(JOBS, unit.name, unit.namespace)
        if self._keeps and QUEUE_NAME in (job["metadata"].get("labels") or {}):
            await self._note(unit, {CANCELLED_BY: self._reader})
        else:
            await self._client.delete(JOBS, unit.name, unit.namespace)

    async def _set_priority(self, unit: Unit, name: str) -> None:
        if unit.kind != JOB:
            raise WrongAction(f"{unit.kind} {unit.name} belongs to no Job; only a Job has a class")
        patch = {"metadata": {"labels": {PRIORITY_CLASS: name}}}
        await self._client.patch(JOBS, unit.name, unit.namespace, patch=patch)

    async def _note(self, unit: Unit, noted: Mapping[str, str | None]) -> None:
        """On a Job: who did it, or nobody any more."""
        patch = {"metadata": {"annotations": dict(noted)}}
        await self._client.patch(JOBS, unit.name, unit.namespace, patch=patch)
