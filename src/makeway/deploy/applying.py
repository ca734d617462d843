"""Bringing objects to a server and away from it, telling each as it is done."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from makeway.api.kinds import PODS, Resource
from makeway.client import Client, NotFound
from makeway.client.client import Document
from makeway.deploy.policies import API_VERSION, MUTATING_SINCE, VALIDATING_SINCE, KubeVersion

CRDS = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment", True)
AT_ONCE_MAX = 16
WAIT_MAX_S = 120.0
_POLL_S = 0.2

Tell = Callable[[str], None]


class InstallFailed(Exception):
    """The installation can't go on, and what was done stays; the text is for the user."""


async def apply_all(client: Client, documents: Iterable[Document], tell: Tell) -> None:
    """Server-side, in order; fields that others have set are ours again."""
    for document in documents:
        resource = await client.resource(document["apiVersion"], document["kind"])
        await client.apply(resource, document, force=True)
        tell(f"{short_name(document)} applied")


async def put_definitions(client: Client, definitions: Sequence[Document], tell: Tell) -> None:
    """Have CRDs that are exactly these, and wait until they are served.

    Not applied: what is no longer said of a kind would stay, if others had once said it too.
    """
    for wanted in definitions:
        name = wanted["metadata"]["name"]
        try:
            await client.update(CRDS, name, edit=partial(_as_wanted, wanted))
        except NotFound:
            await client.create(CRDS, wanted)
        tell(f"{short_name(wanted)} applied")
    for wanted in definitions:
        await _until_established(client, wanted["metadata"]["name"])


def _as_wanted(wanted: Document, definition: Document) -> Document:
    return with_spec(definition, {**wanted["spec"], "conversion": {"strategy": "None"}})


def with_spec(definition: Document, spec: Document) -> Document:
    """A CRD with another spec, and without the annotation for cert-manager's conversion webhook."""
    metadata = dict(definition["metadata"])
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: value for key, value in annotations.items() if not key.startswith("cert-manager.io/")
    }
    return {**definition, "metadata": metadata, "spec": spec}


async def delete_all(client: Client, documents: Iterable[Document], tell: Tell) -> None:
    """In order; what isn't there, or is of a kind that the server doesn't know, is passed over."""
    for document in documents:
        metadata = document["metadata"]
        try:
            resource = await client.resource(document["apiVersion"], document["kind"])
            await client.delete(resource, metadata["name"], metadata.get("namespace", ""))
        except NotFound:
            continue
        tell(f"{short_name(document)} deleted")


def short_name(document: Document) -> str:
    """As people point at an object: deployment/makeway-controller"""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


async def until(what: str, is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait; InstallFailed after a while."""
    deadline = time.monotonic() + WAIT_MAX_S
    while not await is_so():
        if time.monotonic() > deadline:
            raise InstallFailed(f"after {WAIT_MAX_S:.0f} s it still was not so that {what}")
        await asyncio.sleep(_POLL_S)


async def policies_known(client: Client) -> KubeVersion:
    """The oldest version that has the kinds of policies which this server has."""
    kinds = {resource.kind for resource in await client.resources(API_VERSION)}
    if "MutatingAdmissionPolicy" in kinds:
        return MUTATING_SINCE
    return VALIDATING_SINCE if "ValidatingAdmissionPolicy" in kinds else KubeVersion(1, 0)


async def _until_established(client: Client, name: str) -> None:
    async def is_served() -> bool:
        status = (await client.get(CRDS, name)).get("status") or {}
        return any(
            (condition["type"], condition["status"]) == ("Established", "True")
            for condition in status.get("conditions") or ()
        )

    await until(f"{name} is served", is_served)


async def until_stopped(client: Client, deployment: Document) -> None:
    """Until no pod of a Deployment is left."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    namespace = deployment["metadata"]["namespace"]

    async def is_gone() -> bool:
        return not (await client.list(PODS, namespace, label_selector=selector)).items

    await until(f"the pods of {short_name(deployment)} are gone", is_gone)


async def for_each(
    items: Iterable[Document], work: Callable[[Document], Awaitable[object]]
) -> None:
    """Do the work for all items, several at once."""
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(item: Document) -> None:
        async with slots:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def without_finalizer(
    client: Client, resource: Resource, name: str, *, has_leaving: bool
) -> int:
    """Take a finalizer away wherever it stands; returns how often it did.

    What is being deleted and only waited for this is gone then; it is left out unless
    `has_leaving`.
    """
    held = [
        item
        for item in (await client.list(resource)).items
        if name in (item["metadata"].get("finalizers") or ())
        and (has_leaving or not item["metadata"].get("deletionTimestamp"))
    ]

    def edit(document: Document) -> Document | None:
        left = list(document["metadata"].get("finalizers") or ())
        if name not in left:
            return None
        left.remove(name)
        return {**document, "metadata": {**document["metadata"], "finalizers": left}}

    async def release(item: Document) -> None:
        metadata = item["metadata"]
        where = metadata.get("namespace", "")
        with contextlib.suppress(NotFound):  # gone by itself
            await client.update(resource, metadata["name"], where, edit=edit)

    await for_each(held, release)
    return len(held)
