"""All about one job: why it waits, what it is, what happened to it, and its pods.

Asked for with the reader's own client, so that he reads what he may read, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from makeway.api.kinds import EVENTS, JOBS, PODS, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import GIT_REVISION, GROUP_NAME, JOB_NAME, MANAGED, SUBMITTED_FROM
from makeway.api.times import parse_time
from makeway.client import ApiError, Client, NotFound
from makeway.client.client import Document
from makeway.dashboard.units import Unit
from makeway.translate.job_targets import JOB, POD, POD_GROUP

EVENTS_SHOWN = 100
TAIL_LINES = "400"


async def details_of(client: Client, unit: Unit, workload: str) -> Document:
    """NotFound if it is gone; `workload` is the name of its Workload, empty if it has none."""
    job = await client.get(JOBS, unit.name, unit.namespace) if unit.kind == JOB else None
    queued = await _get(client, workload, unit.namespace) if workload else None
    pods = await pods_of(client, unit)
    lead = job or (pods[0] if pods else queued)
    if lead is None:
        raise NotFound(404, "NotFound", f"{unit.name} is gone")
    parts = [part for part in (job, queued, *pods[:8]) if part is not None]
    events, explanation, forecast, classes = await asyncio.gather(
        _events(client, unit.namespace, parts),
        _explanation(client, queued),
        _forecast(client, queued),
        _classes(client),
    )
    annotations = lead["metadata"].get("annotations") or {}
    return {
        "explanation": explanation,
        "forecast": forecast,
        "events": events,
        "conditions": [] if queued is None else _conditions(queued),
        "checks": [] if queued is None else (queued.get("status") or {}).get("admissionChecks", []),
        "active": queued is None or queued["spec"].get("active", True) is not False,
        "pods": [_pod(pod) for pod in pods],
        "command": _command(lead),
        "from": annotations.get(SUBMITTED_FROM, ""),
        "revision": annotations.get(GIT_REVISION, ""),
        "classes": classes,
    }


async def _get(client: Client, name: str, namespace: str) -> Document | None:
    try:
        return await client.get(WORKLOADS, name, namespace)
    except NotFound:
        return None


async def pods_of(client: Client, unit: Unit) -> list[Document]:
    if unit.kind == POD:
        try:
            return [await client.get(PODS, unit.name, unit.namespace)]
        except NotFound:
            return []
    selectors = {JOB: f"{JOB_NAME}={unit.name}", POD_GROUP: f"{MANAGED}=true"}
    if unit.kind not in selectors:
        return []
    found = await client.list(PODS, unit.namespace, label_selector=selectors[unit.kind])
    pods = found.items
    if unit.kind == POD_GROUP:
        pods = [pod for pod in pods if unit.name in _groups(pod["metadata"])]
    return sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))


def _groups(metadata: Document) -> set[str]:
    parts = (metadata.get("labels") or {}, metadata.get("annotations") or {})
    return {part[GROUP_NAME] for part in parts if GROUP_NAME in part}


async def _explanation(client: Client, workload: Document | None) -> list[Any]:
    """Lines of text and references; none where nobody explains."""
    if workload is None:
        return []
    metadata = workload["metadata"]
    try:
        found = await client.get(
            WORKLOADS, metadata["name"], metadata["namespace"], subresource="explanation"
        )
    except NotFound:
        return []
    return list(found["pieces"])


async def _forecast(client: Client, workload: Document | None) -> dict[str, Any] | None:
    """When it is expected to start and end; None where nobody says. Not current: it was made of how
    things stood before, and the next is being made."""
    if workload is None:
        return None
    metadata = workload["metadata"]
    try:
        found = await client.get(
            WORKLOADS, metadata["name"], metadata["namespace"], subresource="forecast"
        )
    except ApiError:
        return None
    times = {name: _times(found.get(name)) for name in ("start", "end")}
    failure = found.get("failure", "")
    is_current = found.get("isCurrent", False)
    return {"verdict": found["verdict"], "failure": failure, "isCurrent": is_current, **times}


def _times(quantiles: Document | None) -> list[float | None] | None:
    """Of ten runs, when one, five and nine had come so far; None: later than was looked."""
    if quantiles is None:
        return None
    return [_moment(quantiles.get(name)) for name in ("p10", "p50", "p90")]


async def _classes(client: Client) -> list[str]:
    """None for who may not list them: on a cluster, most."""
    try:
        return [item["metadata"]["name"] for item in (await client.list(WORKLOAD_CLASSES)).items]
    except ApiError:
        return []


async def _events(
    client: Client, namespace: str, parts: Sequence[Document]
) -> list[dict[str, Any]]:
    """What happened, oldest first."""
    found: list[Document] = []
    for part in parts:
        selector = f"involvedObject.uid={part['metadata']['uid']}"
        found += (await client.list(EVENTS, namespace, field_selector=selector)).items
    return sorted(map(_event, found), key=lambda event: (event["at"] or 0.0, event["revision"]))[
        -EVENTS_SHOWN:
    ]


def _event(event: Document) -> dict[str, Any]:
    revision = str(event["metadata"].get("resourceVersion") or "0")
    return {
        "at": _moment(event.get("lastTimestamp") or event.get("eventTime")),
        "revision": int(revision) if revision.isdecimal() else 0,
        "about": (event.get("involvedObject") or {}).get("kind", ""),
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
        "count": event.get("count") or 1,
    }


def _conditions(workload: Document) -> list[dict[str, Any]]:
    found = (workload.get("status") or {}).get("conditions") or []
    return [
        {
            "type": entry.get("type", ""),
            "status": entry.get("status", ""),
            "reason": entry.get("reason", ""),
            "message": entry.get("message", ""),
            "at": _moment(entry.get("lastTransitionTime")),
        }
        for entry in found
    ]


def _pod(pod: Document) -> dict[str, Any]:
    spec, status = pod["spec"], pod.get("status") or {}
    states = [entry.get("state") or {} for entry in status.get("containerStatuses") or ()]
    ended: Document = next((state["terminated"] for state in states if "terminated" in state), {})
    return {
        "name": pod["metadata"]["name"],
        "node": spec.get("nodeName", ""),
        "phase": "Ending" if pod["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        "containers": [container["name"] for container in spec.get("containers") or ()],
        "started": _moment(status.get("startTime")),
        "ended": _moment(ended.get("finishedAt")),
        "exitCode": ended.get("exitCode"),
        "reason": ended.get("reason") or status.get("reason", ""),
    }


def _command(lead: Mapping[str, Any]) -> list[str]:
    """Of the first container."""
    spec = lead.get("spec") or {}
    if "podSets" in spec:
        spec = (spec["podSets"] or [{}])[0]
    spec = (spec.get("template") or {}).get("spec") or spec
    container = (spec.get("containers") or [{}])[0]
    return [*(container.get("command") or ()), *(container.get("args") or ())]


def _moment(text: str | None) -> float | None:
    return parse_time(text) if text else None


def output_of(
    client: Client, namespace: str, pod: str, container: str, *, follows: bool
) -> AsyncIterator[bytes]:
    """The end of what a container has printed, and what it prints from now on."""
    query = {"container": container, "tailLines": TAIL_LINES}
    return client.logs(pod, namespace, {**query, "follow": "true"} if follows else query)
