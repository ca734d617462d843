"""What the server fills in before an object is checked: for each kind, one function.

Defaults hold for every write, or a client that sends an object without what was filled in would
change it. Some things are given once, when an object is new: labels by which it is found, a first
status, a priority. As Kubernetes' admission does, this refuses what contradicts those.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from makeway.api.defaults import with_defaults
from makeway.api.errors import FieldError
from makeway.api.kinds import JOBS, PODS, Resource
from makeway.api.labels import (
    ADMISSION_GATE,
    DEFAULT,
    JOB_NAME,
    MANAGED,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from makeway.api.meta import has_controller, is_part_of_a_job
from makeway.api.programs import FILE_MODE
from makeway.api.quantity import QuantityError, canonical
from makeway.api.services import LOOPBACK
from makeway.server import errors, gpu_defaults, limit_ranges, rbac
from makeway.server.surroundings import Surroundings

Document = dict[str, Any]

BACKOFF_UNLIMITED = 2**31 - 1  # each index has its own limit; the job has none
LABEL_MAX = 63
_UID_LABEL = "batch.kubernetes.io/controller-uid"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_VOLUMES = ("configMap", "downwardAPI", "projected", "secret")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def complete(
    resource: Resource, document: Document, around: Surroundings, *, is_new: bool
) -> Document:
    """Return the document with everything filled in; what is malformed is refused later."""
    fill = _FILL.get(resource.stored.full_name)
    if fill is not None:
        fill(document, is_new, around)
    return dict(with_defaults(document))


def _fill_job(job: Document, is_new: bool, around: Surroundings) -> None:
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    template = spec.get("template")
    if is_new and isinstance(template, dict):
        _fill_new_job(job, spec, template, around)
        if around.per_gpu and isinstance(template.get("spec"), dict):
            gpu_defaults.fill(template["spec"], around.per_gpu)
    if spec.get("backoffLimitPerIndex") is not None and spec.get("backoffLimit") is None:
        spec["backoffLimit"] = BACKOFF_UNLIMITED
    replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if not isinstance(template, dict):
        return
    if isinstance(template.get("spec"), dict):
        _fill_pod_spec(template["spec"])
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _fill_cron_job(cron: Document, _is_new: bool, _: Surroundings) -> None:
    spec = cron.get("spec")
    template = spec.get("jobTemplate") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(template, dict):
        return
    spec.setdefault("suspend", False)
    cron.setdefault("status", {})
    template.setdefault("metadata", {})
    template = (template.get("spec") or {}).get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        template.setdefault("metadata", {})
        _fill_pod_spec(template["spec"])


def _fill_new_job(job: Document, spec: Document, template: Document, around: Surroundings) -> None:
    metadata = job["metadata"]
    job.setdefault("status", {})
    if not is_part_of_a_job(metadata):
        _name_default_queue(metadata, around)
    if is_queued(JOBS, metadata, around):
        _name_default_class(metadata, around)
        spec["suspend"] = True  # until it is admitted
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("manualSelector"):
        return
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    own = {_UID_LABEL: metadata["uid"], _OLD_UID_LABEL: metadata["uid"]}
    own |= {JOB_NAME: metadata["name"], _OLD_NAME_LABEL: metadata["name"]}
    wrong = [key for key, value in own.items() if labels.get(key, value) != value]
    if wrong or spec.get("selector"):
        place, problem = "spec.template.metadata.labels", "is set by the server"
        found = [FieldError(f"{place}[{k}]", labels[k], problem, "leave it out") for k in wrong]
        if selector := spec.get("selector"):
            hint = "leave it out, or write manualSelector: true"
            found.append(FieldError("spec.selector", selector, "is generated", hint))
        raise errors.invalid(JOBS, metadata["name"], found)
    if len(metadata["name"]) > LABEL_MAX:
        problem = "is not a label value, and the pods carry the job's name as a label"
        hint = f"write a name of at most {LABEL_MAX} letters"
        too_long = FieldError("spec.template.labels", metadata["name"], problem, hint)
        raise errors.invalid(JOBS, metadata["name"], [too_long])
    labels.update(own)
    spec["selector"] = {"matchLabels": {_UID_LABEL: metadata["uid"]}}


def _fill_pod(pod: Document, is_new: bool, around: Surroundings) -> None:
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    if is_new:
        _fill_new_pod(pod, spec, around)
    _fill_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _fill_new_pod(pod: Document, spec: Document, around: Surroundings) -> None:
    if not has_controller(pod["metadata"]):
        _name_default_queue(pod["metadata"], around)
    if is_queued(PODS, pod["metadata"], around):
        _name_default_class(pod["metadata"], around)
        _hold_back(pod["metadata"], spec)
    limit_ranges.fill_pod(pod, spec, around)
    if around.per_gpu:
        gpu_defaults.fill(spec, around.per_gpu)
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            }
        ]
    name, asked, value = spec.get("priorityClassName", ""), spec.get("priority"), 0
    chosen = _priority_class(name, around)
    if chosen is not None:
        value = chosen["value"]
        spec["priorityClassName"] = chosen["metadata"]["name"]
        if chosen.get("preemptionPolicy"):
            spec.setdefault("preemptionPolicy", chosen["preemptionPolicy"])
    elif name:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden(PODS, pod["metadata"]["name"], why)
    if asked not in (None, value):
        why = (
            f"the integer value of priority ({asked}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden(PODS, pod["metadata"]["name"], why)
    spec["priority"] = value


def _hold_back(metadata: Document, spec: Document) -> None:
    """A queued pod waits for its admission, and doesn't go before it is counted."""
    if spec.get("nodeName"):
        problem = "doesn't go with a queue, which holds the pod back first"
        hint = f"leave it out, or the label {QUEUE_NAME}"
        wrong = FieldError("spec.nodeName", spec["nodeName"], problem, hint)
        raise errors.invalid(PODS, metadata["name"], [wrong])
    metadata.setdefault("labels", {})[MANAGED] = "true"
    metadata["finalizers"] = _with(MANAGED, metadata.get("finalizers"))
    spec["schedulingGates"] = _with({"name": ADMISSION_GATE}, spec.get("schedulingGates"))


def _with(item: Any, items: Any) -> Any:
    """The list with this item in it; what is no list is refused later, with a word."""
    if items is None:
        return [item]
    return items if not isinstance(items, list) or item in items else [*items, item]


def _priority_class(name: str, around: Surroundings) -> Document | None:
    """The class of that name; without a name, the one that is the default."""
    for found in around.priority_classes():
        if found["metadata"]["name"] == name or (not name and found.get("globalDefault")):
            return found
    return None


def _quality(spec: Document) -> str:
    """Of service, as Kubernetes counts it, for cpu and memory only."""
    is_guaranteed, is_empty = True, True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") if isinstance(container, dict) else None
        resources = resources if isinstance(resources, dict) else {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        if not isinstance(requests, dict) or not isinstance(limits, dict):
            return "BestEffort"
        for name in ("cpu", "memory"):
            if name in requests or name in limits:
                is_empty = False
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                is_guaranteed = False
    if is_empty:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _fill_pod_spec(spec: Document) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for place in ("containers", "initContainers"):
        for container in _objects(spec.get(place)):
            _fill_container(container)
    for volume in _objects(spec.get("volumes")):
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
        if isinstance(volume.get("hostPath"), dict):
            volume["hostPath"].setdefault("type", "")
        for kind in _FILE_VOLUMES:
            if isinstance(volume.get(kind), dict):
                volume[kind].setdefault("defaultMode", FILE_MODE)
                _fill_fields(volume[kind])


def _fill_fields(files: Document) -> None:
    """References to fields of the pod, in a volume or in the parts of one that is projected."""
    for item in _objects(files.get("items")):
        if isinstance(item.get("fieldRef"), dict):
            item["fieldRef"].setdefault("apiVersion", "v1")
    for source in _objects(files.get("sources")):
        if isinstance(source.get("downwardAPI"), dict):
            _fill_fields(source["downwardAPI"])


def _fill_container(container: Document) -> None:
    image = container.get("image")
    if isinstance(image, str) and image:
        container.setdefault("imagePullPolicy", _pull_policy(image))
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for variable in _objects(container.get("env")):
        source = variable.get("valueFrom")
        if isinstance(source, dict) and isinstance(source.get("fieldRef"), dict):
            source["fieldRef"].setdefault("apiVersion", "v1")
    for name in _PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            for key, value in _PROBE.items():
                probe.setdefault(key, value)
    if isinstance(container["resources"], dict):
        _fill_resources(container["resources"])


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    _, _, tag = name.partition(":")
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def _fill_resources(resources: Document) -> None:
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


def _fill_node(node: Document, _is_new: bool, _: Surroundings) -> None:
    status = node.get("status")
    if isinstance(status, dict) and isinstance(status.get("capacity"), dict):
        status.setdefault("allocatable", dict(status["capacity"]))


def _fill_namespace(namespace: Document, is_new: bool, _: Surroundings) -> None:
    metadata = namespace["metadata"]
    labels = metadata.setdefault("labels", {})
    if isinstance(labels, dict):
        labels["kubernetes.io/metadata.name"] = metadata["name"]
    if is_new:
        namespace["spec"] = {"finalizers": ["kubernetes"]}
        namespace["status"] = {"phase": "Active"}


def _fill_secret(secret: Document, _is_new: bool, _: Surroundings) -> None:
    """What was written as text is kept like everything else, and never shown as text."""
    texts = secret.pop("stringData", None)
    if texts and isinstance(secret.get("data", {}), dict):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


def _fill_service(service: Document, is_new: bool, _: Surroundings) -> None:
    """All have the one address that there is, unless they want none."""
    spec = service.get("spec")
    if not isinstance(spec, dict):
        return
    if is_new:
        service["status"] = {"loadBalancer": {}}
    for port in _objects(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    spec.setdefault("sessionAffinity", "None")
    if spec.get("type") != "ExternalName":
        spec["clusterIP"] = spec.get("clusterIP") or LOOPBACK
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def _fill_limit_range(limits: Document, _is_new: bool, _: Surroundings) -> None:
    limit_ranges.fill_limit_range(limits)


def _fill_event(event: Document, _is_new: bool, _: Surroundings) -> None:
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")


def _fill_budget(budget: Document, is_new: bool, _: Surroundings) -> None:
    if is_new:
        counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
        budget["status"] = dict.fromkeys(counts, 0)


def _fill_binding(binding: Document, _is_new: bool, _: Surroundings) -> None:
    """What kubectl leaves out of roles and subjects."""
    for part in (binding.get("roleRef"), *_objects(binding.get("subjects"))):
        if isinstance(part, dict) and part.get("kind") != "ServiceAccount":
            part.setdefault("apiGroup", rbac.GROUP)


def _name_default_queue(metadata: Document, around: Surroundings) -> None:
    """Who names no queue stands in the one that is the default, where a namespace has such."""
    if queue := around.default_queue(metadata["namespace"]):
        _name_if_none(metadata, QUEUE_NAME, queue)


def _name_default_class(metadata: Document, around: Surroundings) -> None:
    if around.has_default_class():
        _name_if_none(metadata, PRIORITY_CLASS)


def _name_if_none(metadata: Document, label: str, name: str = DEFAULT) -> None:
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict) and not labels.get(label):
        metadata["labels"] = {**labels, label: name}


def is_queued(resource: Resource, metadata: Mapping[str, Any], around: Surroundings) -> bool:
    """Whether a job or pod waits in a queue for itself, not as part of a job that does.

    A pod that belongs to something else waits if it names a queue, and never because all have to:
    whatever serves a cluster consists of such pods.
    """
    labels, namespace = metadata.get("labels"), metadata["namespace"]
    if is_part_of_a_job(metadata):
        return False
    if isinstance(labels, dict) and labels.get(QUEUE_NAME):
        return around.manages(namespace)
    may_be_free = resource is PODS and has_controller(metadata)
    return not may_be_free and around.holds_all_back(namespace)


def _objects(items: Any) -> Iterable[Document]:
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else ()


def _fill_gang_workload(workload: Document, is_new: bool, around: Surroundings) -> None:
    """The class that holds for whoever names none is written down, as for pods."""
    spec = workload.get("spec")
    if is_new and isinstance(spec, dict) and not spec.get("priorityClassName"):
        default = _priority_class("", around)
        if default is not None:
            spec["priorityClassName"] = default["metadata"]["name"]


_FILL: Mapping[str, Callable[[Document, bool, Surroundings], None]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _fill_binding,
    "cronjobs.batch": _fill_cron_job,
    "events": _fill_event,
    "jobs.batch": _fill_job,
    "limitranges": _fill_limit_range,
    "namespaces": _fill_namespace,
    "nodes": _fill_node,
    "poddisruptionbudgets.policy": _fill_budget,
    "pods": _fill_pod,
    "rolebindings.rbac.authorization.k8s.io": _fill_binding,
    "secrets": _fill_secret,
    "services": _fill_service,
    "workloads.scheduling.k8s.io": _fill_gang_workload,
}
