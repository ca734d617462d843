"""What the server fills in for each of Kubernetes' own kinds, and where it refuses changes.

Rules about the fields themselves are in `makeway.api.validation`; these need an identity, a clock
or other objects.
"""

from collections.abc import Callable, Mapping
from typing import Any

from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import EVENTS, JOBS, PODS, PRIORITY_CLASSES, Resource
from makeway.api.labels import ADMISSION_GATE, MANAGED, QUEUE_NAME
from makeway.server import errors

Document = dict[str, Any]
Lookup = Callable[[], list[Document]]

_UID_LABEL = "batch.kubernetes.io/controller-uid"
_NAME_LABEL = "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"
LABEL_MAX = 63


def complete_new(resource: Resource, document: Document, priority_classes: Lookup) -> None:
    """Fill in what only the server knows, before the object is checked; in place."""
    match resource.full_name:
        case "jobs.batch":
            _complete_job(document)
        case "pods":
            _complete_pod(document, priority_classes)
        case "namespaces":
            _complete_namespace(document)
        case "poddisruptionbudgets.policy":
            document["status"] = dict(_BUDGET_STATUS)
        case "priorityclasses.scheduling.k8s.io":
            _check_one_default(document, priority_classes)
        case "events":
            _check_event(document)
        case _:
            pass


_BUDGET_STATUS = {
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "disruptionsAllowed": 0,
    "expectedPods": 0,
}


def _check_one_default(document: Document, priority_classes: Lookup) -> None:
    if not document.get("globalDefault"):
        return
    for other in priority_classes():
        if other.get("globalDefault"):
            name = other["metadata"]["name"]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise errors.forbidden(PRIORITY_CLASSES, document["metadata"]["name"], why)


def _check_event(document: Document) -> None:
    metadata, about = document["metadata"], document.get("involvedObject")
    namespace = about.get("namespace") if isinstance(about, dict) else None
    if namespace and namespace != metadata["namespace"]:
        wrong = FieldError(
            path="involvedObject.namespace",
            value=namespace,
            problem="is not the namespace of the event",
            hint=f"write {metadata['namespace']}",
        )
        raise errors.invalid(EVENTS, metadata["name"], [wrong])


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
    if len(metadata["name"]) > LABEL_MAX:
        too_long = FieldError(
            path="spec.template.labels",
            value=metadata["name"],
            problem="is not a label value, and the pods carry the job's name as a label",
            hint=f"write a name of at most {LABEL_MAX} letters",
        )
        raise errors.invalid(JOBS, metadata["name"], [too_long])
    labels.update(own)
    spec["selector"] = {"matchLabels": {_UID_LABEL: metadata["uid"]}}


def _complete_pod(document: Document, priority_classes: Lookup) -> None:
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    if _is_queued(document["metadata"]):
        _hold_back(document["metadata"], spec)
    document["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        document["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": document["metadata"]["creationTimestamp"],
            }
        ]
    name, asked, value = spec.get("priorityClassName", ""), spec.get("priority"), 0
    chosen = _priority_class(name, priority_classes)
    if chosen is not None:
        value = chosen["value"]
        spec["priorityClassName"] = chosen["metadata"]["name"]
        if chosen.get("preemptionPolicy"):
            spec.setdefault("preemptionPolicy", chosen["preemptionPolicy"])
    elif name:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden(PODS, document["metadata"]["name"], why)
    if asked not in (None, value):
        why = (
            f"the integer value of priority ({asked}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden(PODS, document["metadata"]["name"], why)
    spec["priority"] = value


def _hold_back(metadata: Document, spec: Document) -> None:
    """A queued pod waits for its admission, and doesn't go before it is counted."""
    if spec.get("nodeName"):
        wrong = FieldError(
            path="spec.nodeName",
            value=spec["nodeName"],
            problem="doesn't go with a queue, which holds the pod back first",
            hint=f"leave it out, or the label {QUEUE_NAME}",
        )
        raise errors.invalid(PODS, metadata["name"], [wrong])
    metadata["labels"][MANAGED] = "true"
    metadata["finalizers"] = _with(MANAGED, metadata.get("finalizers"))
    spec["schedulingGates"] = _with({"name": ADMISSION_GATE}, spec.get("schedulingGates"))


def _with(item: Any, items: Any) -> Any:
    """The list with this item in it; what is no list is refused later, with a word."""
    if items is None:
        return [item]
    return items if not isinstance(items, list) or item in items else [*items, item]


def _priority_class(name: str, priority_classes: Lookup) -> Document | None:
    """The class of that name; without a name, the one that is the default."""
    for found in priority_classes():
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


def _complete_namespace(document: Document) -> None:
    document["spec"] = {"finalizers": ["kubernetes"]}
    document["status"] = {"phase": "Active"}


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
    (
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "schedulingGates",
    )
)
_GATED_FREE = ("nodeSelector", "affinity")


def check_change(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse changes of fields that Kubernetes holds fixed."""
    found: list[FieldError] = []
    match resource.full_name:
        case "jobs.batch":
            found = _job_changes(old, new.get("spec") or {})
        case "pods":
            found = _pod_changes(old["spec"], new.get("spec") or {})
        case _:
            pass
    if found:
        raise errors.invalid(resource, old["metadata"]["name"], found)


def check_release(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A job or pod that waits in a queue is started by the queue, not by hand."""
    if resource is PODS and _is_gated(old) and not _is_gated(new):
        why = "a queued pod is released by its queue only"
        raise errors.forbidden(PODS, old["metadata"]["name"], why)
    if resource is not JOBS or not _is_queued(new["metadata"]):
        return
    if old["spec"].get("suspend") and not (new.get("spec") or {}).get("suspend"):
        why = "a queued job is released by its queue only"
        raise errors.forbidden(JOBS, old["metadata"]["name"], why)


def _is_gated(pod: Mapping[str, Any]) -> bool:
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _is_queued(metadata: Mapping[str, Any]) -> bool:
    """Whether a job or pod waits in a queue for itself, not as part of something that does."""
    labels = metadata.get("labels")
    owners = metadata.get("ownerReferences")
    is_part = isinstance(owners, list) and any(
        isinstance(owner, dict) and owner.get("controller") for owner in owners
    )
    return isinstance(labels, dict) and bool(labels.get(QUEUE_NAME)) and not is_part


def _immutable(path: str, value: Any) -> FieldError:
    return FieldError(path=path, value=value, problem="field is immutable", hint="")


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
        if is_free and _same_but_free(old[name], new.get(name)):
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
    free = {*_POD_FREE, *(_GATED_FREE if old.get("schedulingGates") else ())}
    for name in sorted({*old, *new} - free - {"containers", "initContainers"}):
        if old.get(name) != new.get(name):
            return [_forbidden("spec", _POD_FIXED)]
    for name in ("containers", "initContainers"):
        if _plain_containers(old.get(name)) != _plain_containers(new.get(name)):
            return [_forbidden("spec", _POD_FIXED)]
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


def _forbidden(path: str, problem: str) -> FieldError:
    return FieldError(path=path, value=ABSENT, problem=problem, hint="")


def _deadline_changes(old: int | None, new: int | None) -> list[FieldError]:
    """A deadline may be set, and come nearer."""
    if old is None or (new is not None and new <= old):
        return []
    return [FieldError(path="spec.activeDeadlineSeconds", value=new, problem="is later", hint="")]


def _toleration_changes(old: list[Document], new: list[Document]) -> list[FieldError]:
    if all(toleration in new for toleration in old):
        return []
    return [_forbidden("spec.tolerations", "existing toleration can not be modified")]


def _gate_changes(old: list[Document], new: list[Document]) -> list[FieldError]:
    for index, gate in enumerate(new):
        if gate not in old:
            path = f"spec.schedulingGates[{index}].name"
            return [_forbidden(path, "only deletion is allowed")]
    return []


def _selector_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[FieldError]:
    """While a pod is gated, its choice of nodes may get narrower."""
    if all(new.get(key) == value for key, value in old.items()):
        return []
    return [FieldError(path="spec.nodeSelector", value=dict(new), problem=_NARROWER, hint="")]


_NARROWER = "only additions to spec.nodeSelector are allowed (no deletions or mutations)"


def _plain_containers(containers: Any) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in container.items() if k not in ("image", "imagePullPolicy")}
        for container in containers or ()
    ]
