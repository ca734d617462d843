"""A cluster as Kueue leaves it when its controller stops: kinds in two versions, objects, webhooks.

The kinds are reduced to what matters here: an old version in which some objects are stored, a new
one in which the others are, and a translation between them that nobody answers any more.
"""

from __future__ import annotations

from typing import Any

from makeway.api.kinds import Resource
from makeway.client import ApiError, Client, Unavailable
from makeway.client.client import Document
from makeway.deploy.applying import CRDS
from tests.harness import documents
from tests.kube.installing import Cluster, job

GROUP = "kueue.x-k8s.io"
OLD, NEW = "v1beta1", "v1beta2"
IN_USE = f"{GROUP}/resource-in-use"
NAMESPACE = "kueue-system"
SERVICE = {"namespace": NAMESPACE, "name": "kueue-webhook-service"}
KINDS = {
    "AdmissionCheck": ("admissionchecks", "Cluster"),
    "ClusterQueue": ("clusterqueues", "Cluster"),
    "Cohort": ("cohorts", "Cluster"),
    "LocalQueue": ("localqueues", "Namespaced"),
    "ResourceFlavor": ("resourceflavors", "Cluster"),
    "Topology": ("topologies", "Cluster"),
    "Workload": ("workloads", "Namespaced"),
    "WorkloadPriorityClass": ("workloadpriorityclasses", "Cluster"),
}
RUNNING, PENDING = "job-running-0a1b2", "job-pending-3c4d5"
SOLO, PAIR, ROLE = "pod-solo-6e7f8", "pair", "5d2c7a91"  # pod sets of a group are named by a hash
CONTROLS = {"controller": True, "blockOwnerDeletion": True}
SPOILED, CLASS_SOURCE = "spoiled", f"{GROUP}/workloadpriorityclass"


def definition(kind: str, stored: str) -> Document:
    plural, scope = KINDS[kind]
    open_part = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == stored,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": open_part},
        }
        for name in (OLD, NEW)
    ]
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": dict(SERVICE)}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/kueue-serving-cert"},
        },
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": versions,
        },
    }


def build(cluster: Cluster) -> None:
    """Everything that Kueue has left; its webhooks last, since nobody answers them."""
    for kind in KINDS:
        cluster.create(definition(kind, stored=OLD))
    create_when_served(cluster, queue(OLD, "speech", {"cohort": "lab"}))
    create_when_served(cluster, _old_workload("stored-in-old-words", CLASS_SOURCE))
    create_when_served(cluster, _old_workload(SPOILED, "a kind of class that never was"))
    for kind in KINDS:
        cluster.do(lambda client, kind=kind: _store_in_new(client, kind))  # type: ignore[misc]
    create_when_served(cluster, flavor())
    create_when_served(cluster, queue(NEW, "vision", {"cohortName": "lab"}))
    create_when_served(cluster, queue(NEW, "pods", {}))
    for name, of in (("team", "vision"), ("pods", "pods")):
        create_when_served(cluster, thing(NEW, "LocalQueue", name, {"clusterQueue": of}))
    _admitted(cluster)
    _pending(cluster)
    _of_another_kind(cluster)
    _running_pods(cluster)
    for document in (*_programs(), *_webhooks()):
        cluster.create(document)


async def _store_in_new(client: Client, kind: str) -> None:
    wanted = definition(kind, stored=NEW)

    def edit(current: Document) -> Document:
        return {**current, "spec": wanted["spec"]}

    await client.update(CRDS, wanted["metadata"]["name"], edit=edit)


def create_when_served(cluster: Cluster, document: Document) -> Document:
    """A change to a kind takes a moment; until then, writing would need a translation."""
    made: list[Document] = []

    def is_made() -> bool:
        try:
            made.append(cluster.create(document))
        except (ApiError, Unavailable):
            return False
        return True

    cluster.until(f"{document['metadata']['name']} can be made", is_made)
    return made[0]


def thing(version: str, kind: str, name: str, spec: Document, **metadata: Any) -> Document:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def flavor() -> Document:
    spec = {"nodeLabels": {"kind": "a100"}}
    return thing(NEW, "ResourceFlavor", "a100", spec, finalizers=[IN_USE])


def queue(version: str, name: str, more: Document) -> Document:
    quota = {"name": "cpu", "nominalQuota": {"vision": "2", "pods": "3"}.get(name, "0")}
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "a100", "resources": [quota]}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group], **more}
    return thing(version, "ClusterQueue", name, spec, finalizers=[IN_USE])


def _old_workload(name: str, source: str) -> Document:
    spec = {
        "queueName": "gone",
        "priority": 7,
        "priorityClassName": "urgent",
        "priorityClassSource": source,
        "podSets": [{"name": "main", "count": 1, "template": _template()}],
    }
    return thing(OLD, "Workload", name, spec)


def _template() -> Document:
    made: Document = job("any", cpu=2)["spec"]["template"]
    return made


def _admitted(cluster: Cluster) -> None:
    """A Job that runs: released, with what its flavor adds to its pods."""
    document = job("running", cpu=2)
    template = document["spec"]["template"]
    template["metadata"] = {
        "labels": {f"{GROUP}/podset": "main"},
        "annotations": {f"{GROUP}/workload": RUNNING},
    }
    template["spec"]["nodeSelector"] = {"kind": "a100"}
    made = cluster.create(document)
    _job_workload(cluster, made, RUNNING, _admission("vision", cpu=2))


def _pending(cluster: Cluster) -> None:
    made = cluster.create(job("pending", cpu=2, suspend=True))
    status = {"conditions": [_condition("QuotaReserved", "False", "Pending")]}
    _job_workload(cluster, made, PENDING, status)


def _of_another_kind(cluster: Cluster) -> None:
    owner: Document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set"}
    owner |= {"uid": "0b0ff7f4-5d0a-4a4e-9a3e-1c8f6f3f2b10", "controller": True}
    spec = {
        "queueName": "gone",
        "podSets": [{"name": "main", "count": 1, "template": _template()}],
    }
    create_when_served(cluster, thing(NEW, "Workload", "of-a-set", spec, ownerReferences=[owner]))


def pod(name: str, **labels: str) -> Document:
    """As its user writes it; `pod_group_name` and the like are labels of Kueue's."""
    named = {"queue-name": "pods", **{k.replace("_", "-"): text for k, text in labels.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {f"{GROUP}/{key}": text for key, text in named.items()},
            "annotations": {f"{GROUP}/pod-group-total-count": "2"},
        },
        "spec": job("any")["spec"]["template"]["spec"],
    }


def _running_pods(cluster: Cluster) -> None:
    """Admitted by Kueue: one for itself, two as a group, one that names its Workload."""
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "played"}})
    _start(cluster, pod("solo", podset="main"))
    solo = cluster.get("Pod", "solo")
    _pod_workload(cluster, SOLO, "main", [_reference(solo) | CONTROLS])
    owners = []
    for name in ("pair-a", "pair-b"):
        member = pod(name, pod_group_name=PAIR)
        member["metadata"]["annotations"][f"{GROUP}/role-hash"] = ROLE
        _start(cluster, member)
        owners.append(_reference(cluster.get("Pod", name)))
    _pod_workload(cluster, PAIR, ROLE, owners, {f"{GROUP}/is-group-workload": "true"})
    _start(cluster, pod("served", prebuilt_workload_name="of-a-set"))


def _start(cluster: Cluster, document: Document) -> None:
    """What Kueue and a node do to a pod until it runs."""
    metadata, spec = document["metadata"], document["spec"]
    metadata["labels"][f"{GROUP}/managed"] = "true"
    metadata["finalizers"] = [f"{GROUP}/managed"]
    placed = {"nodeName": "played", "nodeSelector": {"kind": "a100"}}
    cluster.create({**document, "spec": {**spec, **placed}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.patch("Pod", metadata["name"], {"status": status}, subresource="status")


def _reference(document: Document) -> Document:
    metadata = document["metadata"]
    kind = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    return {**kind, "name": metadata["name"], "uid": metadata["uid"]}


def _pod_workload(
    cluster: Cluster,
    name: str,
    pod_set: str,
    owners: list[Document],
    annotations: Document | None = None,
) -> None:
    template, count = {"spec": pod("any")["spec"]}, len(owners)
    status = _admission("pods", count, pod_set, count)
    metadata: Document = {"ownerReferences": owners, "annotations": annotations}
    _workload(cluster, name, "pods", template, status, pod_set, **metadata)


def _job_workload(cluster: Cluster, owner: Document, name: str, status: Document) -> None:
    labels = {f"{GROUP}/job-uid": owner["metadata"]["uid"]}
    metadata: Document = {"ownerReferences": [_reference(owner) | CONTROLS], "labels": labels}
    _workload(cluster, name, "team", _template(), status, **metadata)


def _workload(
    cluster: Cluster,
    name: str,
    queue: str,
    template: Document,
    status: Document,
    pod_set: str = "main",
    **metadata: Any,
) -> None:
    """As Kueue writes it: one pod for each owner."""
    pods = {"name": pod_set, "count": len(metadata["ownerReferences"]), "template": template}
    spec = {"active": True, "queueName": queue, "priority": 0, "podSets": [pods]}
    metadata["finalizers"] = [IN_USE]
    create_when_served(cluster, thing(NEW, "Workload", name, spec, **metadata))
    cluster.patch("Workload", name, {"status": status}, subresource="status")


def _admission(queue: str, cpu: int, pod_set: str = "main", count: int = 1) -> Document:
    """The status of what is admitted."""
    assigned = {
        "name": pod_set,
        "count": count,
        "flavors": {"cpu": "a100"},
        "resourceUsage": {"cpu": str(cpu)},
    }
    return {
        "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        "conditions": [
            _condition("QuotaReserved", "True", "QuotaReserved"),
            _condition("Admitted", "True", "Admitted"),
        ],
    }


def _condition(type_: str, status: str, reason: str) -> Document:
    then = "2026-11-15T10:00:00Z"
    return documents.condition(
        type_, status, reason=reason, message="", lastTransitionTime=then, observedGeneration=1
    )


# Programs and who calls them

DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment", True)
HOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)
API_SERVICES = Resource("apiregistration.k8s.io/v1", "apiservices", "APIService", False)
HOOK, STRANGE_HOOK = "kueue-validating-webhook-configuration", "somebody-elses"
MANAGER, VISIBILITY = "kueue-controller-manager", f"v1beta2.visibility.{GROUP}"


def _programs() -> list[Document]:
    labels = {"control-plane": "controller-manager", "app.kubernetes.io/name": "kueue"}
    container = {"name": "manager", "image": "kueue"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service = {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": VISIBILITY},
        "spec": {
            "group": f"visibility.{GROUP}",
            "version": "v1beta2",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": NAMESPACE, "name": "kueue-visibility-server"},
            "insecureSkipTLSVerify": True,
        },
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, deployment, service]


def _webhooks() -> list[Document]:
    return [
        _webhook(HOOK, "batch", "jobs", SERVICE),
        _webhook(STRANGE_HOOK, "example.com", "things", {**SERVICE, "namespace": "elsewhere"}),
    ]


def _webhook(name: str, group: str, resource: str, service: dict[str, str]) -> Document:
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}
    return {
        "apiVersion": HOOKS.api_version,
        "kind": HOOKS.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "v.kb.io",
                "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
                "clientConfig": {"service": dict(service)},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 1,
            }
        ],
    }
