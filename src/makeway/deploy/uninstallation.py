"""Uninstalling: what runs goes on, and nothing is left that waits for a controller that is gone."""

from __future__ import annotations

from dataclasses import replace

from makeway.api.kinds import FLAVORS, PODS, QUEUES, WORKLOADS
from makeway.api.labels import IN_USE, MANAGED
from makeway.client import Client, NotFound
from makeway.client.client import Document
from makeway.deploy.applying import DEPLOYMENTS, Tell, delete_all, until_stopped, without_finalizer
from makeway.deploy.installation import NAME, Site, controller, crds, lease, policies


def removal(site: Site, *, has_crds: bool) -> list[Document]:
    """What to delete, in this order: policies first, lest they hold back Jobs for ever."""
    # However it was installed: any configuration is deleted, and the service.
    site = replace(site, configuration="-", exposes_metrics=True)
    parts = [*policies(site), *reversed(controller(site)), lease(site)]
    return [_bare(document) for document in (*parts, *(crds() if has_crds else ()))]


def _bare(document: Document) -> Document:
    metadata = {k: v for k, v in document["metadata"].items() if k in ("name", "namespace")}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}


async def uninstall(client: Client, site: Site, tell: Tell, *, has_crds: bool) -> None:
    """Delete it all; what we held by finalizers is freed once the controller is gone."""
    try:
        deployment: Document | None = await client.get(DEPLOYMENTS, NAME, site.namespace)
    except NotFound:
        deployment = None
    parts = removal(site, has_crds=has_crds)
    kinds = [document["kind"] for document in parts]
    last = kinds.index("Deployment") + 1
    await delete_all(client, parts[:last], tell)
    if deployment is not None:
        await until_stopped(client, deployment)
    for resource in (WORKLOADS, QUEUES, FLAVORS):
        try:
            count = await without_finalizer(client, resource, IN_USE, has_leaving=True)
        except NotFound:
            count = 0  # there is no such kind
        tell(f"{count} {resource.kind}s are no longer held by a finalizer")
    count = await without_finalizer(client, PODS, MANAGED, has_leaving=True)
    tell(f"{count} pods are no longer held by a finalizer")
    await delete_all(client, parts[last:], tell)
