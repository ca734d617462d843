"""Objects as users write them, the shortest that a server takes."""

from typing import Any

Document = dict[str, Any]

QUEUE_KINDS = "/apis/kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUES = f"{QUEUE_KINDS}/clusterqueues"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"


def container(**more: Any) -> Document:
    return {"name": "main", "image": "python", "command": ["python", "train.py"], **more}


def template(**spec: Any) -> Document:
    return {"spec": {"containers": [container()], "restartPolicy": "Never", **spec}}


def job(name: str = "train", metadata: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"template": template(), **spec},
    }


def pod(name: str = "p", metadata: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container()], **spec},
    }


def node(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
    }


def queueing(kind: str, name: str, **more: Any) -> Document:
    api_version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def group(*resources: str, flavor: str = "default", **quota: Any) -> Document:
    quotas = [{"name": name, "nominalQuota": 4, **quota} for name in resources]
    return {
        "coveredResources": list(resources),
        "flavors": [{"name": flavor, "resources": quotas}],
    }


def cluster_queue(name: str = "vision", **spec: Any) -> Document:
    return queueing("ClusterQueue", name, spec={"namespaceSelector": {}, **spec})


def queue(name: str, cpu: int | str, *, flavor: str = "default", **spec: Any) -> Document:
    """A ClusterQueue with so many CPUs of one flavor."""
    groups = [group("cpu", flavor=flavor, nominalQuota=str(cpu))]
    return cluster_queue(name, **{"resourceGroups": groups, **spec})


def local_queue(name: str, queue: str, namespace: str = "default") -> Document:
    made = queueing("LocalQueue", name, spec={"clusterQueue": queue})
    made["metadata"]["namespace"] = namespace
    return made


def flavor(name: str, **spec: Any) -> Document:
    return queueing("ResourceFlavor", name, spec=spec)


def requesting(cpu: int | str, **more: Any) -> Document:
    """A container that asks for so many CPUs."""
    return container(resources={"requests": {"cpu": str(cpu)}}, **more)


def workload(name: str, **spec: Any) -> Document:
    pod_sets = [{"name": "main", "count": 2, "template": template()}]
    return queueing("Workload", name, spec={"queueName": "team", "podSets": pod_sets, **spec})


def condition(type_: str, status: str = "True", **more: Any) -> Document:
    return {
        "type": type_,
        "status": status,
        "reason": "Story",
        "message": "told",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
        **more,
    }


def owned(document: Document, owner: Document, **more: Any) -> Document:
    """The same, with an owner."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    metadata = {**document["metadata"], "ownerReferences": [reference]}
    return {**document, "metadata": metadata}
