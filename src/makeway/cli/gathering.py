"""Jobs put together from their objects, for servers that don't do it themselves: a cluster."""

from __future__ import annotations

import time
from typing import Any

from makeway.api.batch import Job, Pod
from makeway.api.labels import JOB_NAME
from makeway.api.queueing import Workload
from makeway.cli.references import managed_pods
from makeway.cli.views import fetch_all
from makeway.client import Client
from makeway.translate.job_names import id_of
from makeway.translate.job_rows import row_of
from makeway.translate.job_state import state_of, with_pods
from makeway.translate.job_targets import JobTarget, pods_by_job, units_of, workloads_by_job


async def gathered_rows(client: Client, namespace: str) -> list[dict[str, Any]]:
    """All jobs of a namespace, or of all, in the order in which they came."""
    jobs = await fetch_all(client, Job, namespace)
    workloads = await fetch_all(client, Workload, namespace)
    by_job, now = workloads_by_job(workloads), time.time()
    pods = pods_by_job(await fetch_all(client, Pod, namespace, label_selector=JOB_NAME))
    found = [
        with_pods(state_of(JobTarget(job, by_job.get(uid)), now), pods.get(uid, ()))
        for job in jobs
        for uid in (job.metadata.uid,)
    ]
    taken = {state.workload.metadata.uid for state in found if state.workload is not None}
    free = [workload for workload in workloads if workload.metadata.uid not in taken]
    units = units_of(await managed_pods(client, namespace), free)
    found += [with_pods(state_of(unit, now), unit.pods) for unit in units]
    found.sort(key=lambda s: (s.created_at, id_of(s.metadata) or 0, s.target.name))
    return [row_of(state) for state in found]
