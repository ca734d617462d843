"""Which job a user means at a moment of the past: it may be deleted, and its name another's now."""

from __future__ import annotations

import contextlib

from makeway.api.batch import Job
from makeway.api.labels import NAME
from makeway.cli.command import RequestRefused
from makeway.cli.connect import is_name
from makeway.cli.deleted_jobs import find_gone_job, gone_jobs
from makeway.cli.references import find_target
from makeway.cli.views import fetch, fetch_all
from makeway.client import Client, NotFound
from makeway.controller.job_workload import name_of
from makeway.journal.past import Name, name_in
from makeway.translate.job_names import NUMBER


async def workload_then(client: Client, namespace: str, word: str, at: float) -> Name:
    """The Workload of the job; the word itself, if the server knows no such job."""
    named = name_in(word, namespace)
    called = None if NUMBER.fullmatch(word) else await _called_then(client, named, at)
    if called is not None:
        return Name(called.metadata.namespace, name_of(called), word)
    try:
        target = await find_target(client, namespace, word)
    except RequestRefused:
        if (gone := await find_gone_job(client, namespace, word)) is not None:
            return Name(gone.metadata.namespace, name_of(gone), word)
        return named._replace(word=word)
    if target.workload is not None:
        return Name(target.namespace, target.workload.metadata.name, word)
    return Name(target.namespace, target.name if target.job is None else name_of(target.job), word)


async def _called_then(client: Client, named: Name, at: float) -> Job | None:
    """The latest of that name that had come by then; None: no such."""
    namespace, name = named.namespace, named.name
    if not is_name(name) or not is_name(namespace):
        return None
    found = await fetch_all(client, Job, namespace, label_selector=f"{NAME}={name}")
    found += await _gone_of(client, named)
    with contextlib.suppress(NotFound):
        found.append(await fetch(client, Job, name, namespace))
    there = [job for job in found if _came_at(job) <= at]
    return max(there, key=_came_at, default=None)


async def _gone_of(client: Client, named: Name) -> list[Job]:
    jobs = await gone_jobs(client, named.namespace)
    return [job for job in jobs if named.name in (job.metadata.name, job.metadata.labels.get(NAME))]


def _came_at(job: Job) -> float:
    return job.metadata.creation_timestamp or 0.0
