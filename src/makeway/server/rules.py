"""What the server fills in for each of Kubernetes' own kinds, and where it refuses changes.

Rules about the fields themselves are in `makeway.api.validation`; these need an identity, a clock
or other objects.
"""

from collections.abc import Callable, Mapping
from typing import Any

from makeway.api.errors import FieldError
from makeway.api.labels import QUEUE_NAME
from makeway.server import errors
from makeway.server.kinds import JOBS, PODS, Resource

Document = dict[str, Any]
Lookup = Callable[[], list[Document]]

_UID_LABEL = "batch.kubernetes.io/controller-uid"
_NAME_LABEL = "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"


def complete_new(resource: Resource, document: Document, priority_classes: Lookup) -> None:
    """Fill in what only the server knows, before the object is checked; in place."""
    match resource.store_kind:
        case "jobs.batch":
            _complete_job(document)
        case "pods":
            _complete_pod(document, priority_classes)
        case "namespaces":
            _complete_namespace(document)
        case _:
            pass


def _complete_job(document: Document) -> None:
    metadata, spec = document["metadata"], document.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("template"), dict):
        return  # refused later, with a word
    document.setdefault("status", {})
    if _is_queued(metadata):
        spec["suspend"] = True  # until it is admitted
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("backoffLimitPerIndex") is not None and spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 2**31 - 1  # each index has its own limit; the job has none
    if spec.get("manualSelector"):
        return
    template = spec["template"]
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    own = {_UID_LABEL: metadata["uid"], _OLD_UID_LABEL: metadata["uid"]}
    own |= {_NAME_LABEL: metadata["name"], _OLD_NAME_LABEL: metadata["name"]}
    wrong = [key for key, value in own.items() if labels.get(key, value) != value]
    if wrong or spec.get("selector"):
        found = [
            FieldError(
                path=f"spec.template.metadata.labels[{key}]",
                value=labels[key],
                problem="is set by the server",
                hint="leave it out",
            )
            for key in wrong
        ]
        if spec.get("selector"):
            found.append(
                FieldError(
                    path="spec.selector",
                    value=spec["selector"],
                    problem="is generated",
                    hint="leave it out, or write manualSelector: true",
                )
            )
        raise errors.invalid(JOBS, metadata["name"], found)
    labels.update(own)
    spec["selector"] = {"matchLabels": {_UID_LABEL: metadata["uid"]}}


def _complete_pod(document: Document, priority_classes: Lookup) -> None:
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    document["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    name = spec.get("priorityClassName", "")
    if spec.get("priority") is not None and not name:
        return
    for found in priority_classes():
        if found["metadata"]["name"] == name or (not name and found.get("globalDefault")):
            spec["priority"] = found["value"]
            if found.get("preemptionPolicy"):
                spec.setdefault("preemptionPolicy", found["preemptionPolicy"])
            if not name:
                spec["priorityClassName"] = found["metadata"]["name"]
            return
    if name:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden(PODS, document["metadata"]["name"], why)
    spec["priority"] = 0


def _quality(spec: Document) -> str:
    """Of service, as Kubernetes counts it, for cpu and memory only."""
    is_guaranteed, is_empty = True, True
    for container in spec.get("containers") or ():
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


def _complete_namespace(document: Document) -> None:
    metadata = document["metadata"]
    labels = metadata.setdefault("labels", {})
    if isinstance(labels, dict):
        labels["kubernetes.io/metadata.name"] = metadata["name"]
    document["spec"] = {"finalizers": ["kubernetes"]}
    document["status"] = {"phase": "Active"}


_JOB_FIXED = ("completions", "selector", "template", "completionMode", "podFailurePolicy")
# What a queue may set in the template of a job that is held back (KEP-2926).
_TEMPLATE_FREE = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
_POD_FREE = frozenset(
    (
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "schedulingGates",
        "nodeSelector",
        "affinity",
        "resources",
    )
)


def check_change(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse changes of fields that Kubernetes holds fixed."""
    found: list[FieldError] = []
    match resource.store_kind:
        case "jobs.batch":
            found = _job_changes(old["spec"], new.get("spec") or {})
        case "pods":
            found = _pod_changes(old["spec"], new.get("spec") or {})
        case _:
            pass
    if found:
        raise errors.invalid(resource, old["metadata"]["name"], found)


def check_release(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A job that waits in a queue is started by the queue, not by hand."""
    if resource is not JOBS or not _is_queued(new["metadata"]):
        return
    if old["spec"].get("suspend") and not (new.get("spec") or {}).get("suspend"):
        why = "a queued job is released by its queue only"
        raise errors.forbidden(JOBS, old["metadata"]["name"], why)


def _is_queued(metadata: Mapping[str, Any]) -> bool:
    """Whether a job waits in a queue for itself, not as part of something that does."""
    labels = metadata.get("labels")
    owners = metadata.get("ownerReferences")
    is_part = isinstance(owners, list) and any(
        isinstance(owner, dict) and owner.get("controller") for owner in owners
    )
    return isinstance(labels, dict) and bool(labels.get(QUEUE_NAME)) and not is_part


def _immutable(path: str, value: Any) -> FieldError:
    return FieldError(path=path, value=value, problem="field is immutable", hint="")


def _job_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    found = []
    for name in _JOB_FIXED:
        if old.get(name) == new.get(name):
            continue
        if name == "template" and old.get("suspend") and _same_but_free(old[name], new.get(name)):
            continue
        # An indexed job may change its size, both numbers together.
        is_sized = new.get("completions") == new.get("parallelism")
        if name == "completions" and old.get("completionMode") == "Indexed" and is_sized:
            continue
        found.append(_immutable(f"spec.{name}", new.get(name)))
    return found


def _same_but_free(old: Mapping[str, Any], new: Mapping[str, Any] | None) -> bool:
    return _without_free(old) == _without_free(new or {})


def _without_free(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod template without what may be set while the job is suspended."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key not in _TEMPLATE_FREE}
    kept["containers"] = [
        {k: v for k, v in container.items() if k != "resources"}
        for container in spec.get("containers") or ()
    ]
    rest = {k: v for k, v in metadata.items() if k not in ("labels", "annotations")}
    return {"metadata": rest, "spec": kept}


def _pod_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    for name in sorted({*old, *new} - _POD_FREE - {"containers", "initContainers"}):
        if old.get(name) != new.get(name):
            return [_pod_immutable(name)]
    for name in ("containers", "initContainers"):
        if _plain_containers(old.get(name)) != _plain_containers(new.get(name)):
            return [_pod_immutable(name)]
    return []


def _pod_immutable(name: str) -> FieldError:
    problem = (
        "pod updates may not change fields other than `spec.containers[*].image`, "
        "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations`, "
        "`spec.terminationGracePeriodSeconds`"
    )
    return FieldError(path="spec", value=name, problem=problem, hint="")


def _plain_containers(containers: Any) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in container.items() if k not in ("image", "resources")}
        for container in containers or ()
    ]
