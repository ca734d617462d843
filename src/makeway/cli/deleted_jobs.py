"""Jobs that were deleted: only Makeway's own server tells of them."""

from __future__ import annotations

import argparse
import time
from typing import Any

from makeway.api.batch import Job
from makeway.api.labels import GONE_AT, ID
from makeway.cli.command import RequestRefused
from makeway.cli.references import find_target
from makeway.cli.user import user_name
from makeway.cli.views import readable
from makeway.client import ApiError, Client
from makeway.translate.job_names import NUMBER
from makeway.translate.job_rows import row_of
from makeway.translate.job_state import state_of
from makeway.translate.job_targets import JobTarget


async def gone_jobs(client: Client, namespace: str) -> list[Job]:
    """Who went last comes last. A server that knows none shows jobs that are there: passed over."""
    try:
        found = await client.gone_jobs(namespace)
    except ApiError:
        return []
    return [job for job in readable(Job, found) if GONE_AT in job.metadata.annotations]


async def gone_rows(
    client: Client, namespace: str, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Those that pass the filters of a command, as rows of a table."""
    from makeway.controller.job_workload import name_of

    where = "" if arguments.all_namespaces else namespace
    gone, now = await gone_jobs(client, where), time.time()
    return [
        {**row_of(state), "workload": name_of(job)}
        for job in gone
        for state in (state_of(JobTarget(job, None), now),)
        if arguments.queue in ("", state.queue)
        if not arguments.me or state.submitted_by == user_name()
    ]


async def find_gone_job(client: Client, namespace: str, word: str) -> Job | None:
    """The deleted job of that number, or else of that name; None if there was none."""
    name = word.removeprefix("job/")
    if NUMBER.fullmatch(word):
        # Not everybody may look into all namespaces.
        found = await gone_jobs(client, "") or await gone_jobs(client, namespace)
        numbered = [job for job in found if job.metadata.labels.get(ID) == word]
        if numbered:
            return numbered[-1]
    named = [job for job in await gone_jobs(client, namespace) if job.metadata.name == name]
    return named[-1] if named else None


async def find_even_gone(client: Client, namespace: str, word: str) -> JobTarget:
    """A job that is there, or else one that was deleted."""
    try:
        return await find_target(client, namespace, word)
    except RequestRefused:
        gone = await find_gone_job(client, namespace, word)
        if gone is None:
            raise
        return JobTarget(gone, None)


async def find_present(client: Client, namespace: str, word: str) -> JobTarget:
    """A job that is there; of one that is deleted it is said who tells of it."""
    target = await find_even_gone(client, namespace, word)
    if GONE_AT in target.metadata.annotations:
        told = f"`makeway why {word}` tells what happened to it"
        raise RequestRefused(f"{target.text} is deleted; {told}")
    return target
