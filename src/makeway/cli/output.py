"""The pods of a job, and the streams that they print."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.batch import Job, Pod
from makeway.api.labels import JOB_NAME
from makeway.cli.views import fetch_all
from makeway.client import Client
from makeway.translate.job_targets import age_key, owners_of


async def pods_of(client: Client, job: Job) -> list[Pod]:
    """The pods of this very Job and not of an earlier Job of its name; oldest first."""
    selector = f"{JOB_NAME}={job.metadata.name}"
    found = await fetch_all(client, Pod, job.metadata.namespace, label_selector=selector)
    return sorted((pod for pod in found if is_pod_of(pod, job)), key=age_key)


def is_pod_of(pod: Pod, job: Job) -> bool:
    owners = owners_of(pod.metadata)
    return not owners or job.metadata.uid in owners


def streams_of(pod: Pod, container: str = "") -> Iterator[tuple[str, str]]:
    """The containers of a pod, or the named one, each with the name of its output."""
    several = len(pod.spec.containers) > 1
    for name in [container] if container else [found.name for found in pod.spec.containers]:
        yield name, f"{pod.metadata.name}/{name}" if several else pod.metadata.name
