"""What Kubernetes fills in wherever a part of its own kinds is written: defaults of pods and jobs.

Unlike the rules for new objects these hold for every write, or a client that sends an object
without what the server has filled in would change it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from makeway.api.kinds import Resource
from makeway.api.quantity import QuantityError, canonical

Document = dict[str, Any]

BACKOFF_LIMIT = 6
BACKOFF_UNLIMITED = 2**31 - 1  # with a limit per index
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def complete_spec(resource: Resource, document: Document) -> None:
    """Write out defaults, in place; what is malformed is left for others to refuse."""
    complete = _COMPLETE.get(resource.full_name)
    if complete is not None:
        complete(document)


def _complete_pod(pod: Document) -> None:
    spec = pod.get("spec")
    if isinstance(spec, dict):
        _complete_pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)


def _complete_job(job: Document) -> None:
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    is_per_index = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", BACKOFF_UNLIMITED if is_per_index else BACKOFF_LIMIT)
    replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    if isinstance(template.get("spec"), dict):
        _complete_pod_spec(template["spec"])
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _complete_pod_spec(spec: Document) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in _objects(spec.get("containers")):
        _complete_container(container)
    for container in _objects(spec.get("initContainers")):
        _complete_container(container)
    for volume in _objects(spec.get("volumes")):
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
        if isinstance(volume.get("hostPath"), dict):
            volume["hostPath"].setdefault("type", "")


def _complete_container(container: Document) -> None:
    image = container.get("image")
    if isinstance(image, str) and image:
        container.setdefault("imagePullPolicy", _pull_policy(image))
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for name in _PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            for key, value in _PROBE.items():
                probe.setdefault(key, value)
    if isinstance(container["resources"], dict):
        _complete_resources(container["resources"])


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    _, _, tag = name.partition(":")
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def _complete_resources(resources: Document) -> None:
    limits, requests = resources.get("limits"), resources.get("requests")
    if isinstance(limits, dict) and limits and isinstance(requests, dict | None):
        resources["requests"] = {**limits, **(requests or {})}
    for part in ("limits", "requests"):
        if isinstance(resources.get(part), dict):
            _write_quantities(resources[part])


def _write_quantities(amounts: Document) -> None:
    """In the one way in which Kubernetes writes them: 1024Mi is 1Gi."""
    for name, value in amounts.items():
        try:
            amounts[name] = canonical(value)
        except QuantityError:
            continue


def _complete_node(node: Document) -> None:
    status = node.get("status")
    if isinstance(status, dict) and isinstance(status.get("capacity"), dict):
        status.setdefault("allocatable", dict(status["capacity"]))


def _complete_namespace(namespace: Document) -> None:
    metadata = namespace["metadata"]
    labels = metadata.setdefault("labels", {})
    if isinstance(labels, dict):
        labels["kubernetes.io/metadata.name"] = metadata["name"]


def _complete_event(event: Document) -> None:
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")


def _objects(items: Any) -> Iterable[Document]:
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else ()


_COMPLETE: Mapping[str, Callable[[Document], None]] = {
    "events": _complete_event,
    "jobs.batch": _complete_job,
    "namespaces": _complete_namespace,
    "nodes": _complete_node,
    "pods": _complete_pod,
}
