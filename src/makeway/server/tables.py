"""The columns that `kubectl get` shows: Kubernetes' own, and Kueue's for our kinds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from makeway.api.times import TimeError, parse_time

Document = Mapping[str, Any]
Cell = Callable[[Document, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0  # above 0: only with -o wide

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": "",
            "priority": self.priority,
        }


def at(document: Any, *path: str) -> Any:
    for step in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
# Below how much of a unit an age is told in which units.
_SPANS = (
    (2, "m", "s", ""),
    (10, "m", "m", "s"),
    (3, "h", "m", ""),
    (8, "h", "h", "m"),
    (2, "d", "h", ""),
    (8, "d", "d", "h"),
    (2, "y", "d", ""),
    (8, "y", "y", "d"),
)


def human_duration(seconds: float) -> str:
    """5m12s, 3h, 2d4h …: as Kubernetes writes ages."""
    if int(seconds) < -1:
        return "<invalid>"
    s = max(0, int(seconds))
    spans = ((unit, finer) for few, of, unit, finer in _SPANS if s < few * _SECONDS[of])
    unit, finer = next(spans, ("y", ""))
    count, rest = divmod(s, _SECONDS[unit])
    rest = rest // _SECONDS[finer] if finer else 0
    return f"{count}{unit}{rest}{finer}" if rest else f"{count}{unit}"


def since(text: Any, now: float) -> str:
    try:
        return human_duration(now - parse_time(text)) if isinstance(text, str) else "<unknown>"
    except TimeError:
        return "<unknown>"


def _field(*path: str, default: Any = None) -> Cell:
    def cell(document: Document, _: float) -> Any:
        value = at(document, *path)
        return default if value is None else value

    return cell


def _text(*path: str, default: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        value = at(document, *path)
        return default if value in (None, "") else str(value)

    return cell


def _since_first(*paths: tuple[str, ...]) -> Cell:
    """How long ago the first of these times was that is there."""

    def cell(document: Document, now: float) -> str:
        return since(next(filter(None, (at(document, *path) for path in paths)), None), now)

    return cell


def _condition(type_: str, field: str = "status") -> Cell:
    def cell(document: Document, _: float) -> Any:
        for condition in at(document, "status", "conditions") or ():
            if isinstance(condition, Mapping) and condition.get("type") == type_:
                return condition.get(field)
        return None

    return cell


def _flag(*path: str) -> Cell:
    return lambda document, _: "True" if at(document, *path) else "False"


def _count_in(*path: str) -> Cell:
    return lambda document, _: len(at(document, *path) or ())


def _since_or_none(*path: str) -> Cell:
    return lambda document, now: (
        since(at(document, *path), now) if at(document, *path) else "<none>"
    )


def _age(document: Document, now: float) -> str:
    return since(at(document, "metadata", "creationTimestamp"), now)


NAME = Column("Name", _field("metadata", "name"))
AGE = Column("Age", _age)
AGE_OF_CUSTOM = Column("Age", _age, "date")  # of a kind that is described by printer columns


def _job_status(document: Document, _: float) -> str:
    for type_ in ("Complete", "Failed"):
        if _condition(type_)(document, 0.0) == "True":
            return type_
    if at(document, "metadata", "deletionTimestamp"):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _condition(type_)(document, 0.0) == "True":
            return type_
    return "Running"


def _job_completions(document: Document, _: float) -> str:
    done = at(document, "status", "succeeded") or 0
    wanted = at(document, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = at(document, "spec", "parallelism") or 1
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(document: Document, now: float) -> str:
    start, end = at(document, "status", "startTime"), at(document, "status", "completionTime")
    if not isinstance(start, str):
        return ""
    return since(start, parse_time(end) if isinstance(end, str) else now)


def _joined(*path: str, field: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        items = at(document, *path) or ()
        return ",".join(str(item.get(field, "")) for item in items if isinstance(item, Mapping))

    return cell


def _selector(*path: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        selector = at(document, *path) or {}
        pairs = [f"{k}={v}" for k, v in (selector.get("matchLabels") or {}).items()]
        for term in selector.get("matchExpressions") or ():
            values = ",".join(term.get("values") or ())
            pairs.append(f"{term.get('key')} {str(term.get('operator', '')).lower()} ({values})")
        return ",".join(pairs) or "<none>"

    return cell


def _pod_ready(document: Document, _: float) -> str:
    wanted = len(at(document, "spec", "containers") or ())
    statuses = at(document, "status", "containerStatuses") or ()
    is_up = [s.get("ready") and at(s, "state", "running") is not None for s in statuses]
    return f"{sum(map(bool, is_up))}/{wanted}"


def _pod_status(document: Document, _: float) -> str:
    reason = at(document, "status", "reason") or at(document, "status", "phase") or "Unknown"
    if at(document, "spec", "schedulingGates") and reason == "Pending":
        reason = "SchedulingGated"
    for status in at(document, "status", "containerStatuses") or ():
        waiting = at(status, "state", "waiting", "reason")
        ended = at(status, "state", "terminated")
        if waiting:
            reason = waiting
        elif ended is not None:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
    if at(document, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(reason)


def _pod_restarts(document: Document, _: float) -> str:
    statuses = at(document, "status", "containerStatuses") or ()
    return str(sum(int(status.get("restartCount") or 0) for status in statuses))


def _node_status(document: Document, _: float) -> str:
    ready = _condition("Ready")(document, 0.0)
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{word},SchedulingDisabled" if at(document, "spec", "unschedulable") else word


def _node_roles(document: Document, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = at(document, "metadata", "labels") or {}
    return ",".join(sorted(k.removeprefix(prefix) for k in labels if k.startswith(prefix))) or (
        "<none>"
    )


def _node_address(type_: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        for address in at(document, "status", "addresses") or ():
            if address.get("type") == type_:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _node_info(name: str) -> Cell:
    return _text("status", "nodeInfo", name, default="<unknown>")


def _event_object(document: Document, _: float) -> str:
    about = document.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _node_labels(document: Document, _: float) -> str:
    labels = at(document, "spec", "nodeLabels") or {}
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _service_ports(document: Document, _: float) -> str:
    ports = at(document, "spec", "ports") or ()
    return ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in ports) or "<none>"


def _pairs(*path: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        return ",".join(f"{k}={v}" for k, v in (at(document, *path) or {}).items()) or "<none>"

    return cell


def _slice_ports(document: Document, _: float) -> str:
    return ",".join(str(p["port"]) for p in document.get("ports") or () if "port" in p) or "<unset>"


def _slice_endpoints(document: Document, _: float) -> str:
    endpoints = document.get("endpoints") or ()
    return ",".join(one for each in endpoints for one in each.get("addresses") or ()) or "<unset>"


def _count(*places: str) -> Cell:
    def cell(document: Document, _: float) -> str:
        return str(sum(len(document.get(place) or ()) for place in places))

    return cell


_AT = ("eventTime",)
_CRON_CONTAINERS = ("spec", "jobTemplate", "spec", "template", "spec", "containers")
_CONTAINERS = ("spec", "template", "spec", "containers")
COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "configmaps": (NAME, Column("Data", _count("data", "binaryData")), AGE),
    "secrets": (
        NAME,
        Column("Type", _field("type")),
        Column("Data", _count("data"), "integer"),
        AGE,
    ),
    "services": (
        NAME,
        Column("Type", _field("spec", "type")),
        Column("Cluster-IP", _text("spec", "clusterIP", default="<none>")),
        Column("External-IP", _text("spec", "externalName", default="<none>")),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", _pairs("spec", "selector"), priority=1),
    ),
    "endpointslices.discovery.k8s.io": (
        NAME,
        Column("AddressType", _field("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_endpoints),
        AGE,
    ),
    "namespaces": (NAME, Column("Status", _field("status", "phase")), AGE),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _field("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _node_address("InternalIP"), priority=1),
        Column("External-IP", _node_address("ExternalIP"), priority=1),
        Column("OS-Image", _node_info("osImage"), priority=1),
        Column("Kernel-Version", _node_info("kernelVersion"), priority=1),
        Column("Container-Runtime", _node_info("containerRuntimeVersion"), priority=1),
    ),
    "pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        Column("IP", _field("status", "podIP", default="<none>"), priority=1),
        Column("Node", _field("spec", "nodeName", default="<none>"), priority=1),
        Column(
            "Nominated Node", _field("status", "nominatedNodeName", default="<none>"), priority=1
        ),
        Column("Readiness Gates", lambda _document, _now: "<none>", priority=1),
    ),
    "events": (
        Column("Last Seen", _since_first(("series", "lastObservedTime"), ("lastTimestamp",), _AT)),
        Column("Type", _field("type", default="")),
        Column("Reason", _field("reason", default="")),
        Column("Object", _event_object),
        Column("Subobject", _text("involvedObject", "fieldPath", default=""), priority=1),
        Column("Source", _field("source", "component", default=""), priority=1),
        Column("Message", _field("message", default="")),
        Column("First Seen", _since_first(("firstTimestamp",), _AT), priority=1),
        Column("Count", _field("count", default=1), priority=1),
        Column("Name", _field("metadata", "name"), priority=1),
    ),
    "cronjobs.batch": (
        NAME,
        Column("Schedule", _field("spec", "schedule")),
        Column("Timezone", _text("spec", "timeZone", default="<none>")),
        Column("Suspend", _flag("spec", "suspend")),
        Column("Active", _count_in("status", "active"), "integer"),
        Column("Last Schedule", _since_or_none("status", "lastScheduleTime")),
        AGE,
        Column("Containers", _joined(*_CRON_CONTAINERS, field="name"), priority=1),
        Column("Images", _joined(*_CRON_CONTAINERS, field="image"), priority=1),
        Column("Selector", lambda _document, _now: "<none>", priority=1),
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        Column("Containers", _joined(*_CONTAINERS, field="name"), priority=1),
        Column("Images", _joined(*_CONTAINERS, field="image"), priority=1),
        Column("Selector", _selector("spec", "selector"), priority=1),
    ),
    "workloads.kueue.x-k8s.io": (
        NAME,
        Column("Queue", _field("spec", "queueName")),
        Column("Reserved in", _field("status", "admission", "clusterQueue")),
        Column("Admitted", _condition("Admitted")),
        Column("Finished", _condition("Finished")),
        AGE_OF_CUSTOM,
    ),
    "clusterqueues.kueue.x-k8s.io": (
        NAME,
        Column("Cohort", _field("spec", "cohortName")),
        Column("Strategy", _field("spec", "queueingStrategy"), priority=1),
        Column("Pending Workloads", _field("status", "pendingWorkloads"), "integer"),
        Column("Admitted Workloads", _field("status", "admittedWorkloads"), "integer", priority=1),
    ),
    "localqueues.kueue.x-k8s.io": (
        NAME,
        Column("ClusterQueue", _field("spec", "clusterQueue")),
        Column("Pending Workloads", _field("status", "pendingWorkloads"), "integer"),
        Column("Admitted Workloads", _field("status", "admittedWorkloads"), "integer"),
    ),
    "workloadpriorityclasses.kueue.x-k8s.io": (NAME, Column("Value", _field("value"), "integer")),
    "resourceflavors.kueue.x-k8s.io": (
        NAME,
        Column("Node Labels", _node_labels, priority=1),
        AGE_OF_CUSTOM,
    ),
    "cohorts.kueue.x-k8s.io": (NAME, Column("Parent", _field("spec", "parentName")), AGE_OF_CUSTOM),
    "admissionchecks.kueue.x-k8s.io": (
        NAME,
        Column("Controller", _field("spec", "controllerName")),
        Column("Active", _condition("Active")),
        AGE_OF_CUSTOM,
    ),
    "gangs.makeway.dev": (
        NAME,
        Column("Min Count", _field("spec", "schedulingPolicy", "gang", "minCount"), "integer"),
        Column("Scheduled", _condition("PodGroupInitiallyScheduled")),
        AGE_OF_CUSTOM,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _field("value"), "integer"),
        Column("Global-Default", _field("globalDefault", default=False), "boolean"),
        AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy", default="")),
    ),
    "podgroups.scheduling.k8s.io": (
        NAME,
        Column("Min Count", _field("spec", "schedulingPolicy", "gang", "minCount"), "integer"),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", _text("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _text("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", _field("status", "disruptionsAllowed", default=0), "integer"),
        AGE,
    ),
    "leases.coordination.k8s.io": (
        NAME,
        Column("Holder", _text("spec", "holderIdentity", default="")),
        AGE,
    ),
}


def table(
    full_name: str,
    documents: Iterable[Document],
    now: float,
    *,
    metadata: Mapping[str, Any],
    include_object: str,
    api_version: str,
    has_header: bool,
) -> dict[str, Any]:
    columns = COLUMNS.get(full_name, (NAME, AGE))
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": dict(metadata),
        "columnDefinitions": [c.definition() for c in columns] if has_header else None,
        "rows": [_row(columns, d, now, include_object, api_version) for d in documents],
    }


def _row(
    columns: Iterable[Column], document: Document, now: float, include_object: str, api_version: str
) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(document, now) for column in columns]}
    if include_object == "Object":
        row["object"] = document
    elif include_object != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": api_version,
            "metadata": document["metadata"],
        }
    return row
