"""Jobs and queues as plain documents, for commands that ask a question or two.

The typed views of objects take longer to load than such a command to answer. What is not plain to
see is left to `references`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from makeway.api.labels import ID, NAME, SUBMITTED_BY
from makeway.api.resource import Resource
from makeway.cli.connect import is_name
from makeway.cli.user import user_name
from makeway.client import ApiError, Client, NotFound
from makeway.client.client import Document
from makeway.translate.job_names import NUMBER, id_of

# As the table of kinds has them, without their views.
JOBS = Resource("batch/v1", "jobs", "Job")
LOCAL_QUEUES = Resource("kueue.x-k8s.io/v1beta2", "localqueues", "LocalQueue")
NAMESPACES = Resource("v1", "namespaces", "Namespace", is_namespaced=False)
HELP = (
    "a number (12, of an array 12_4), a name, NAMESPACE/NAME, job/NAME, pod/NAME, the name of a "
    "Workload or of a group of pods, or @ for your latest"
)
LATEST = ("@", "last")


class Plain(NamedTuple):
    """The metadata of an object."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def plain(document: Document) -> Plain:
    metadata = document["metadata"]
    return Plain(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        uid=metadata.get("uid") or "",
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


async def list_seen(
    client: Client, resource: Resource, namespace: str, label_selector: str = ""
) -> list[Document]:
    """Of all namespaces; of one where the server shows no others."""
    try:
        return (await client.list(resource, label_selector=label_selector)).items
    except ApiError as error:
        if not error.is_forbidden:
            raise
    return (await client.list(resource, namespace, label_selector=label_selector)).items


async def plain_job(client: Client, namespace: str, word: str) -> Plain | None:
    """The Job that a number, a name or `@` means; None: to find out takes more."""
    if word in LATEST:
        latest = await latest_job(client, namespace)
        return None if latest is None else plain(latest)
    if NUMBER.fullmatch(word):
        number = word if "_" in word else str(int(word))
        found = await list_seen(client, JOBS, namespace, f"{ID}={number}")
        return plain(found[0]) if found else None
    if not is_name(word):
        return None
    called = (await client.list(JOBS, namespace, label_selector=f"{NAME}={word}")).items
    if called:
        return plain(called[0]) if len(called) == 1 else None
    try:
        return plain(await client.get(JOBS, word, namespace))
    except NotFound:
        return None


async def latest_job(client: Client, namespace: str) -> Document | None:
    """Of this user: on a shared machine, somebody else's would be a nasty surprise.

    Where not everybody may count, on a cluster, jobs have no numbers.
    """
    jobs = await list_seen(client, JOBS, namespace, ID)
    jobs += (await client.list(JOBS, namespace, label_selector=f"!{ID}")).items
    user = user_name()
    mine = [job for job in jobs if plain(job).annotations.get(SUBMITTED_BY, "") == user]
    return max(mine, key=_age, default=None)


def _age(job: Document) -> tuple[str, int]:
    return job["metadata"]["creationTimestamp"], id_of(plain(job)) or 0
