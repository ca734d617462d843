"""What a reader may do to a job from its page: with his own client, so with his own rights."""

from __future__ import annotations

from makeway.api.kinds import JOBS, PODS, WORKLOADS
from makeway.api.labels import HOLD, PRIORITY_CLASS
from makeway.client import Client
from makeway.dashboard.details import pods_of
from makeway.dashboard.units import Unit
from makeway.translate.job_state import JOB, POD

HOLD_IT, RESUME, CANCEL, PRIORITY = "hold", "resume", "cancel", "priority"
ACTIONS = (HOLD_IT, RESUME, CANCEL, PRIORITY)


class WrongAction(Exception):
    """It can't be done to such a job; the text is for the reader."""


async def act(client: Client, unit: Unit, workload: str, action: str, value: str) -> None:
    """Do it; the client's errors are the answer where the server refuses."""
    if action in (HOLD_IT, RESUME):
        await _set_active(client, unit, workload, is_active=action == RESUME)
    elif action == CANCEL:
        await _cancel(client, unit, workload)
    elif action == PRIORITY:
        await _set_priority(client, unit, value)
    else:
        raise WrongAction(f"{action!r} is no action; there are: {', '.join(ACTIONS)}")


async def _set_active(client: Client, unit: Unit, workload: str, *, is_active: bool) -> None:
    if not workload:
        raise WrongAction(f"{unit.name} has no Workload, so it is in no queue yet")
    patch = {"spec": {"active": is_active}}
    await client.patch(WORKLOADS, workload, unit.namespace, patch=patch)
    if is_active and unit.kind == JOB:
        lifted = {"metadata": {"annotations": {HOLD: None}}}
        await client.patch(JOBS, unit.name, unit.namespace, patch=lifted)


async def _cancel(client: Client, unit: Unit, workload: str) -> None:
    """A pod's Workload goes with it; a group's would wait for other pods."""
    if unit.kind == JOB:
        await client.delete(JOBS, unit.name, unit.namespace)
        return
    for pod in await pods_of(client, unit):
        await client.delete(PODS, pod["metadata"]["name"], unit.namespace)
    if unit.kind != POD and workload:
        await client.delete(WORKLOADS, workload, unit.namespace)


async def _set_priority(client: Client, unit: Unit, name: str) -> None:
    if unit.kind != JOB:
        raise WrongAction(f"{unit.kind} {unit.name} belongs to no Job; only a Job has a class")
    patch = {"metadata": {"labels": {PRIORITY_CLASS: name}}}
    await client.patch(JOBS, unit.name, unit.namespace, patch=patch)
