"""Where the server refuses new objects and changes of Kubernetes' own kinds.

Rules about the fields themselves are in `makeway.api.validation`; these need what was there before
or other objects.
"""

from collections.abc import Mapping
from typing import Any

from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import (
    EVENTS,
    GANG_WORKLOADS,
    JOBS,
    NEW_EVENTS,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from makeway.api.labels import ADMISSION_GATE
from makeway.api.priorities import SYSTEM_PRIORITIES
from makeway.server import errors, events
from makeway.server.defaulting import is_queued
from makeway.server.surroundings import Surroundings

Document = dict[str, Any]


def check_new(resource: Resource, new: Document, around: Surroundings) -> None:
    """Refuse what only a new object can get wrong."""
    if resource is PRIORITY_CLASSES:
        _check_one_default(new, around)
    elif resource.stored is EVENTS:
        _check_event(new)
    elif resource is GANG_WORKLOADS:
        _check_classes(resource, new, around)
    if resource is NEW_EVENTS and (found := events.problems_of_new(new)):
        raise errors.invalid(EVENTS, new["metadata"]["name"], found)


def _check_one_default(document: Document, around: Surroundings) -> None:
    if not document.get("globalDefault"):
        return
    for other in around.priority_classes():
        if other.get("globalDefault"):
            name = other["metadata"]["name"]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise errors.forbidden(PRIORITY_CLASSES, document["metadata"]["name"], why)


def _check_classes(resource: Resource, new: Document, around: Surroundings) -> None:
    """A workload of gangs, like a pod, names only classes that there are."""
    spec = new.get("spec") or {}
    named = [spec.get("priorityClassName"), spec.get("preemptionPriorityClassName")]
    known = {cls["metadata"]["name"] for cls in around.priority_classes()} | set(SYSTEM_PRIORITIES)
    for name in named:
        if name and name not in known:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(resource, new["metadata"]["name"], why)


def _check_event(document: Document) -> None:
    metadata, about = document["metadata"], document.get("involvedObject")
    namespace = about.get("namespace") if isinstance(about, dict) else None
    if namespace and namespace != metadata["namespace"]:
        problem, hint = "is not the namespace of the event", f"write {metadata['namespace']}"
        wrong = FieldError("involvedObject.namespace", namespace, problem, hint)
        raise errors.invalid(EVENTS, metadata["name"], [wrong])


_JOB_FIXED = (
    "completions",
    "selector",
    "template",
    "completionMode",
    "podFailurePolicy",
    "managedBy",
)
# What a queue may set in the template of a job that is held back (KEP-2926).
_TEMPLATE_FREE = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
_POD_FREE = frozenset(
    ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
)
_GATED_FREE = ("nodeSelector", "affinity")


def check_change(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse changes of fields that Kubernetes holds fixed."""
    found: list[FieldError] = []
    if resource is JOBS:
        found = _job_changes(old, new.get("spec") or {})
    elif resource is PODS:
        found = _pod_changes(old["spec"], new.get("spec") or {})
    if found:
        raise errors.invalid(resource, old["metadata"]["name"], found)


def check_release(
    resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any], around: Surroundings
) -> None:
    """A job or pod that waits in a queue is started by the queue, not by hand."""
    if resource is PODS and _is_gated(old) and not _is_gated(new):
        why = "a queued pod is released by its queue only"
        raise errors.forbidden(PODS, old["metadata"]["name"], why)
    if resource is not JOBS or not is_queued(JOBS, new["metadata"], around):
        return
    if old["spec"].get("suspend") and not (new.get("spec") or {}).get("suspend"):
        why = "a queued job is released by its queue only"
        raise errors.forbidden(JOBS, old["metadata"]["name"], why)


def _is_gated(pod: Mapping[str, Any]) -> bool:
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _may_set_template(job: Mapping[str, Any]) -> bool:
    """Whether a job is held back and none of its pods is left."""
    status = job.get("status") or {}
    is_suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    never_ran = not status.get("startTime")
    return bool(
        job["spec"].get("suspend") and (never_ran or is_suspended) and not status.get("active")
    )


def _job_changes(job: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldError]:
    found, old = [], job["spec"]
    for name in _JOB_FIXED:
        if old.get(name) == new.get(name):
            continue
        is_free = name == "template" and _may_set_template(job)
        if is_free and _without_free(old[name]) == _without_free(new.get(name) or {}):
            continue
        # An indexed job may change its size, both numbers together.
        is_sized = new.get("completions") == new.get("parallelism")
        if name == "completions" and old.get("completionMode") == "Indexed" and is_sized:
            continue
        found.append(FieldError(f"spec.{name}", new.get(name), "field is immutable"))
    return found


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
    free = {*_POD_FREE, *(_GATED_FREE if old.get("schedulingGates") else ())}
    with_images = {"containers", "initContainers"}
    if any(old.get(name) != new.get(name) for name in {*old, *new} - free - with_images) or any(
        _plain_containers(old.get(name)) != _plain_containers(new.get(name)) for name in with_images
    ):
        return [FieldError("spec", ABSENT, _POD_FIXED)]
    return [
        *_deadline_changes(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")),
        *_toleration_changes(old.get("tolerations") or [], new.get("tolerations") or []),
        *_gate_changes(old.get("schedulingGates") or [], new.get("schedulingGates") or []),
        *_selector_changes(old.get("nodeSelector") or {}, new.get("nodeSelector") or {}),
    ]


_POD_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only "
    "additions to existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def _deadline_changes(old: int | None, new: int | None) -> list[FieldError]:
    """A deadline may be set, and come nearer."""
    if old is None or (new is not None and new <= old):
        return []
    return [FieldError("spec.activeDeadlineSeconds", new, "is later")]


def _toleration_changes(old: list[Document], new: list[Document]) -> list[FieldError]:
    if all(toleration in new for toleration in old):
        return []
    return [FieldError("spec.tolerations", ABSENT, "existing toleration can not be modified")]


def _gate_changes(old: list[Document], new: list[Document]) -> list[FieldError]:
    for index, gate in enumerate(new):
        if gate not in old:
            path = f"spec.schedulingGates[{index}].name"
            return [FieldError(path, ABSENT, "only deletion is allowed")]
    return []


def _selector_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[FieldError]:
    """While a pod is gated, its choice of nodes may get narrower."""
    if all(new.get(key) == value for key, value in old.items()):
        return []
    problem = "only additions to spec.nodeSelector are allowed (no deletions or mutations)"
    return [FieldError("spec.nodeSelector", dict(new), problem)]


def _plain_containers(containers: Any) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in container.items() if k not in ("image", "imagePullPolicy")}
        for container in containers or ()
    ]
