"""Replacing Kueue: its objects stay, what runs goes on, its controller goes.

Kueue serves its kinds in several versions, and its controller translates between them. We serve
one. An object may still be stored in an old version, with fields of other names; served under the
new name as it is, it would lose those fields without a word. So where a kind was ever stored in
another version, its objects are first rewritten: for that time the kind is served in a version of
our own that has no schema, which shows exactly what is stored and leaves out nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass

from makeway.api import versions
from makeway.api.kinds import (
    CHECKS,
    COHORTS,
    LOCAL_QUEUES,
    PODS,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import IN_USE, MANAGED
from makeway.api.meta import OwnerReference, controller_of
from makeway.client import Client, NotFound
from makeway.client.client import Document
from makeway.deploy.applying import (
    CRDS,
    DEPLOYMENTS,
    InstallFailed,
    Tell,
    apply_all,
    delete_all,
    for_each,
    put_definitions,
    short_name,
    until,
    until_stopped,
    with_spec,
    without_finalizer,
)
from makeway.deploy.installation import Site, controller, crds, namespace, policies
from makeway.deploy.policies import API_VERSION as POLICY_VERSION

GROUP = versions.QUEUEING_GROUP
HUB = versions.HUB_VERSION
MOVING = "v1moving"  # the version in which objects are rewritten
VISIBILITY = f"visibility.{GROUP}"
WEBHOOK_SERVICE = "kueue-webhook-service"
API_SERVICES = Resource("apiregistration.k8s.io/v1", "apiservices", "APIService", False)
WEBHOOKS = tuple(
    Resource(POLICY_VERSION, f"{kind.lower()}s", kind, False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)
# The kinds on which Kueue leaves a finalizer that no controller would take away after it.
_KINDS_WITH_FINALIZER = (COHORTS, LOCAL_QUEUES, CHECKS, WORKLOAD_CLASSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueInstallation:
    """What there is of Kueue in a cluster."""

    deployments: tuple[Document, ...]
    webhooks: tuple[Document, ...]  # webhook configurations
    api_services: tuple[Document, ...]
    definitions: tuple[Document, ...]  # CRDs of kinds that Makeway has too
    others: tuple[str, ...]  # names of CRDs that only Kueue has
    owned_pods: int  # pods with a controller that wait or run in queues for themselves

    @property
    def is_installed(self) -> bool:
        """Whether Kueue runs here, or has left kinds that are not ours yet."""
        runs = any(found["spec"].get("replicas") != 0 for found in self.deployments)
        return runs or bool(self.webhooks) or any(map(_is_old, self.definitions))

    def steps(self) -> list[str]:
        """What would be done, a line per step."""
        return [
            *(
                f"scale {short_name(d)} in {d['metadata']['namespace']} to 0, wait for its end"
                for d in self.deployments
            ),
            "install Makeway's admission policies",
            *(f"delete {short_name(found)}" for found in self.webhooks),
            *(
                f"change {short_name(found)} to Makeway's: version {HUB} alone, no conversion"
                + "".join(f", objects in {old} rewritten first" for old in _old_versions(found))
                for found in self.definitions
            ),
            f"take the finalizer {IN_USE} off what Makeway lets go at once",
            *(f"delete {short_name(found)}" for found in self.api_services),
            "install Makeway's controller",
        ]

    def warnings(self) -> list[str]:
        found = [
            "don't remove Kueue by its manifests or its Helm chart: that would delete the "
            "CustomResourceDefinitions, and all queues and Workloads with them",
            "fields that Makeway doesn't know leave an object when it is next written",
        ]
        if not self.deployments:
            found.append(
                "no Deployment of Kueue was found: see to it that its controller is stopped"
            )
        if self.others:
            found.append(f"left as they are, and of no use to Makeway: {', '.join(self.others)}")
        if self.owned_pods:
            found.append(
                f"{self.owned_pods} queued pods belong to a Deployment, StatefulSet or the like; "
                "they go on, but Makeway doesn't queue those that come in their place"
            )
        return found


def _is_old(definition: Document) -> bool:
    """Whether a CRD is not as Makeway has it: of several versions, or of another."""
    return {version["name"] for version in definition["spec"]["versions"]} != {HUB}


async def find_kueue(client: Client) -> KueueInstallation:
    found = (await client.list(CRDS)).items
    definitions = [item for item in found if item["spec"]["group"] == GROUP]
    ours = {definition["metadata"]["name"] for definition in crds()}
    deployments = tuple(filter(_is_manager, (await client.list(DEPLOYMENTS)).items))
    services = {
        *((deployment["metadata"]["namespace"], WEBHOOK_SERVICE) for deployment in deployments),
        *filter(None, map(_conversion_service, definitions)),
    }
    configurations = [item for kind in WEBHOOKS for item in (await client.list(kind)).items]
    pods = (await client.list(PODS, label_selector=f"{MANAGED}=true")).items
    return KueueInstallation(
        deployments=deployments,
        webhooks=tuple(item for item in configurations if _calls(item, services)),
        api_services=tuple(
            item
            for item in (await client.list(API_SERVICES)).items
            if item["spec"].get("group") == VISIBILITY
        ),
        definitions=tuple(d for d in definitions if d["metadata"]["name"] in ours),
        others=tuple(
            d["metadata"]["name"] for d in definitions if d["metadata"]["name"] not in ours
        ),
        owned_pods=sum(controller_of(pod) is not None for pod in pods),
    )


def _is_manager(deployment: Document) -> bool:
    metadata = deployment["metadata"]
    labels = metadata.get("labels") or {}
    is_kueue = labels.get("app.kubernetes.io/name") == "kueue"
    return bool(
        metadata["name"] == "kueue-controller-manager"
        or (is_kueue and labels.get("control-plane") == "controller-manager")
    )


def _conversion_service(definition: Document) -> tuple[str, str] | None:
    """Namespace and name of the service that translates its versions."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    return _service(webhook.get("clientConfig") or {})


def _service(client_config: Document) -> tuple[str, str] | None:
    service = client_config.get("service")
    return (service["namespace"], service["name"]) if service else None


def _calls(configuration: Document, services: set[tuple[str, str]]) -> bool:
    """Whether a configuration has webhooks, and all of them are at these services."""
    called = [_service(webhook["clientConfig"]) for webhook in configuration.get("webhooks") or ()]
    return bool(called) and all(service in services for service in called)


def _old_versions(definition: Document) -> list[str]:
    """Versions other than ours in which objects may be stored."""
    stored = (definition.get("status") or {}).get("storedVersions") or ()
    return [version for version in stored if version != HUB]


async def replace_kueue(
    client: Client, kueue: KueueInstallation, site: Site, tell: Tell
) -> list[str]:
    """Take every step; returns notes for the user. May be repeated where it broke off.

    Policies come before Kueue's webhooks go, so that no queued Job starts in between.
    """
    for deployment in kueue.deployments:
        await _stop(client, deployment, tell)
    await apply_all(client, (namespace(site), *policies(site)), tell)
    await delete_all(client, kueue.webhooks, tell)
    for definition in kueue.definitions:
        await _leave_old_versions(client, definition["metadata"]["name"], tell)
    await put_definitions(client, crds(), tell)
    for resource in _KINDS_WITH_FINALIZER:
        count = await without_finalizer(client, resource, IN_USE, has_leaving=False)
        if count:
            tell(f"{count} {resource.plural} are no longer held by a finalizer")
    await delete_all(client, kueue.api_services, tell)
    await apply_all(client, controller(site), tell)
    return await _remaining_notes(client)


async def _stop(client: Client, deployment: Document, tell: Tell) -> None:
    metadata = deployment["metadata"]
    patch = {"spec": {"replicas": 0}}
    await client.patch(DEPLOYMENTS, metadata["name"], metadata["namespace"], patch=patch)
    await until_stopped(client, deployment)
    tell(f"{short_name(deployment)} stopped")


# Definitions


async def _leave_old_versions(client: Client, name: str, tell: Tell) -> None:
    """Store all objects of a kind in the hub's version, if any may be stored in another."""
    definition = await client.get(CRDS, name)
    if not _old_versions(definition):
        return
    await client.update(CRDS, name, edit=_without_schema)
    count = await _rewrite(client, definition)
    await client.update(CRDS, name, edit=_stored_in_hub, subresource="status")
    tell(f"{count} {definition['spec']['names']['plural']} rewritten in {HUB}")


def _without_schema(definition: Document) -> Document:
    """The kind in a version that shows what is stored, whichever version it is stored in."""
    spec = definition["spec"]
    names = {version["name"] for version in spec["versions"]} | {HUB, MOVING}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    opened = [
        {
            "name": name,
            "served": name in (HUB, MOVING),
            "storage": name == HUB,
            "schema": {"openAPIV3Schema": schema},
        }
        for name in sorted(names)
    ]
    return with_spec(definition, {**spec, "versions": opened, "conversion": {"strategy": "None"}})


def _stored_in_hub(definition: Document) -> Document:
    return {**definition, "status": {**definition["status"], "storedVersions": [HUB]}}


async def _rewrite(client: Client, definition: Document) -> int:
    """Store all objects of a kind anew, in the hub's version and words; returns how many."""
    spec = definition["spec"]
    resource = Resource(
        f"{GROUP}/{MOVING}",
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
    )

    async def is_served() -> bool:
        try:
            await client.list(resource)
        except NotFound:
            return False
        return True

    await until(f"{resource.plural} can be rewritten", is_served)
    items = (await client.list(resource)).items

    async def rewrite(item: Document) -> None:
        metadata = item["metadata"]
        where = metadata.get("namespace", "")
        with contextlib.suppress(NotFound):  # deleted meanwhile
            await client.update(resource, metadata["name"], where, edit=in_hub_version)

    await for_each(items, rewrite)
    return len(items)


def in_hub_version(document: Document) -> Document:
    """What is stored, with the names that fields have in the hub version.

    Fields that have those names already stay as they are, so it does no harm to do it twice.
    """
    old = {**document, "apiVersion": f"{GROUP}/v1beta1"}
    converted = versions.to_hub(old)
    if converted.errors:
        raise InstallFailed(f"{short_name(document)} can't be rewritten: {converted.errors[0]}")
    return {**converted.document, "apiVersion": document["apiVersion"]}


# What there is to say


async def _remaining_notes(client: Client) -> list[str]:
    owners: Counter[str] = Counter()
    for workload in (await client.list(WORKLOADS)).items:
        owner = controller_of(workload)
        if owner is not None and not _is_managed_by_makeway(owner) and not _is_finished(workload):
            owners[owner.kind] += 1
    leaving = [
        short_name(queue)
        for queue in (await client.list(QUEUES)).items
        if queue["metadata"].get("deletionTimestamp")
    ]
    return [
        *(
            f"Makeway doesn't start or stop a {kind}; what Workloads of that kind hold ({count} of "
            "them) counts until they are deleted"
            for kind, count in sorted(owners.items())
        ),
        *(
            f"{name} is being deleted; take its finalizer away when nothing of it runs any more"
            for name in leaving
        ),
    ]


def _is_managed_by_makeway(owner: OwnerReference) -> bool:
    """Whether Makeway starts and stops what such an object runs."""
    kind = owner.api_version.partition("/")[0], owner.kind
    return kind in (("batch", "Job"), ("v1", "Pod"))


def _is_finished(workload: Document) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
