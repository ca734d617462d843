"""What a job is to wait for: `submit --after 12`, as the annotations that the controller reads."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from makeway.api.arrays import SAME_INDEX, Indexes
from makeway.api.batch import Job
from makeway.api.labels import AFTER, AFTER_ANY, AFTER_FAILED, ARRAY, ARRAY_INDEX
from makeway.cli.command import RequestRefused
from makeway.cli.deleted_jobs import find_gone_job
from makeway.cli.references import array_members, find_job
from makeway.client import Client

_OPTIONS = {"after": AFTER, "after_any": AFTER_ANY, "after_failed": AFTER_FAILED}


async def annotations_for(
    client: Client, namespace: str, arguments: argparse.Namespace, indexes: Indexes | None
) -> dict[str, str]:
    """Of all that is to be waited for; RequestRefused if some of it never was."""
    found: dict[str, str] = {}
    for option, annotation in _OPTIONS.items():
        words = [w for text in getattr(arguments, option) or () for w in text.split(",") if w]
        if words:
            names = [await _reference(client, namespace, word, indexes) for word in words]
            found[annotation] = ",".join(names)
    return found


async def _reference(client: Client, namespace: str, word: str, indexes: Indexes | None) -> str:
    if members := await array_members(client, namespace, word):
        _check(members[0], namespace, word)
        return _of_array(members, indexes)
    try:
        job = await find_job(client, namespace, word)
    except RequestRefused:
        gone = await find_gone_job(client, namespace, word)
        if gone is None:
            raise
        job = gone
    _check(job, namespace, word)
    return job.metadata.name


def _of_array(members: Sequence[Job], indexes: Indexes | None) -> str:
    """Index by index, if both have the same; else all of it."""
    labels: Mapping[str, str] = members[0].metadata.labels
    there = {int(job.metadata.labels[ARRAY_INDEX]) for job in members}
    if indexes is not None and there >= set(indexes.values):
        base = members[0].metadata.name.removesuffix(labels[ARRAY_INDEX])
        return f"{base}{SAME_INDEX}"
    return f"array/{labels[ARRAY]}"


def _check(job: Job, namespace: str, word: str) -> None:
    if job.metadata.namespace != namespace:
        where = f"namespace {job.metadata.namespace}"
        raise RequestRefused(f"job {word} is in {where}; one waits for jobs of one's own only")
