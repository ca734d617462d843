"""Short numbers for jobs: small, per server, none given twice.

The last number given is an annotation of the namespace `default`, which every server has and
cannot be deleted. A number is taken by writing the next number there; a second writer gets a
conflict and tries again. A number whose job was never created is lost, which does no harm.
"""

from __future__ import annotations

import random

from makeway.api.labels import ID
from makeway.cli.plain import JOBS, NAMESPACES, plain
from makeway.client import ApiError, Client, Conflict
from makeway.client.client import Document
from makeway.translate.job_names import id_of

LAST_ID = "makeway.dev/last-id"
KEEPER = "default"
_ATTEMPTS = 50  # of ten conflicts each
_PAUSE_S = 0.05


async def take_number(client: Client) -> int | None:
    """The next number; None where the server does not let us count (a cluster of others)."""
    for attempt in range(_ATTEMPTS):
        try:
            return await _take(client)
        except Conflict:
            await client.sleep(_PAUSE_S * (attempt + 1) * random.random())
        except ApiError as error:
            if error.is_forbidden:
                return None
            raise
    return None


async def _take(client: Client) -> int:
    before = await client.get(NAMESPACES, KEEPER)
    least = 0
    if not _last_id(before).isdecimal():
        # There is no count yet, or a user has removed it: go on after the jobs that are there.
        jobs = (await client.list(JOBS, label_selector=ID)).items
        least = max((id_of(plain(job)) or 0 for job in jobs), default=0)
    taken = 0

    def count_up(document: Document) -> Document:
        nonlocal taken
        written = _last_id(document)
        taken = max(int(written) if written.isdecimal() else 0, least) + 1
        annotations = document["metadata"].get("annotations") or {}
        document["metadata"]["annotations"] = {**annotations, LAST_ID: str(taken)}
        return document

    await client.update(NAMESPACES, KEEPER, edit=count_up)
    return taken


def _last_id(namespace: Document) -> str:
    return str((namespace["metadata"].get("annotations") or {}).get(LAST_ID, ""))
