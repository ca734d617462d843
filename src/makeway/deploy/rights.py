"""What the controller may do in a cluster: exactly what it does.

A test on a real server plays stories under these rights; it fails if a request is forbidden, and if
a right is never used.
"""

from __future__ import annotations

from makeway.api.configuration import Configuration
from makeway.api.kinds import (
    BUDGETS,
    CHECKS,
    COHORTS,
    EVENTS,
    FLAVORS,
    GANGS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RUNTIME_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.client.client import Document

_READ = ("list", "watch")


def _rule(verbs: tuple[str, ...], *resources: Resource, parts: tuple[str, ...] = ()) -> Document:
    """Rights on kinds of one group, or on parts of their objects."""
    (group,) = {resource.group for resource in resources}
    names = [r.plural for r in resources]
    if parts:
        names = [f"{name}/{part}" for name in names for part in parts]
    return {"apiGroups": [group], "resources": names, "verbs": list(verbs)}


# In all namespaces.
CLUSTER_RULES: tuple[Document, ...] = (
    _rule(_READ, CHECKS, QUEUES, COHORTS, LOCAL_QUEUES, FLAVORS, WORKLOAD_CLASSES, WORKLOADS),
    _rule(("create", "delete", "patch"), WORKLOADS),
    # What is in use is held by a finalizer.
    _rule(("patch",), QUEUES, FLAVORS),
    _rule(("patch",), QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, parts=("status",)),
    _rule((*_READ, "patch"), JOBS),
    # A Job that is not to be queued again when it had to make way is ended by its status.
    _rule(("patch",), JOBS, parts=("status",)),
    # A Workload keeps its Job or pod from going first; some clusters ask who may say so
    # (admission plugin OwnerReferencesPermissionEnforcement).
    _rule(("update",), JOBS, parts=("finalizers",)),
    _rule(_READ, LIMIT_RANGES, NAMESPACES, PODS),
    _rule(_READ, RUNTIME_CLASSES),
    # Pods that are queued without a Job are released by us, and deleted when they are evicted.
    _rule(("delete", "patch"), PODS),
    _rule(("patch",), PODS, parts=("status",)),
    _rule(("update",), PODS, parts=("finalizers",)),
    _rule(("create", "patch"), EVENTS),
    _rule(_READ, PRIORITY_CLASSES),
)

# Besides, for whoever gives pods their nodes, and ends those that make way.
PLACING_RULES: tuple[Document, ...] = (
    _rule(_READ, NODES),
    _rule(("create",), PODS, parts=("binding", "eviction")),
    _rule(_READ, BUDGETS),
    _rule(_READ, POD_GROUPS),
    _rule(("patch",), POD_GROUPS, parts=("status",)),
    _rule(_READ, GANGS),
    _rule(("patch",), GANGS, parts=("status",)),
)


# Where the configuration says how long what a queue has given up is kept: its Job goes.
RETENTION_RULES: tuple[Document, ...] = (_rule(("delete",), JOBS),)


def cluster_rules(configuration: Configuration) -> list[Document]:
    kept = configuration.retention
    deletes_jobs = kept is not None and kept.after_deactivated_by_kueue is not None
    return [*CLUSTER_RULES, *(RETENTION_RULES if deletes_jobs else ())]


# What users of a namespace may do, by the role of Kubernetes' own that it becomes part of.
USER_RULES: dict[str, tuple[Document, ...]] = {
    "view": (_rule(("get", *_READ), LOCAL_QUEUES, WORKLOADS), _rule(("get", *_READ), GANGS)),
    "edit": (_rule(("create", "delete", "deletecollection", "patch", "update"), GANGS),),
}


def lease_rules(lease: str) -> tuple[Document, ...]:
    """In the controller's own namespace: who leads. A name can't be asked of what isn't there."""
    own = _rule(("get", "update"), LEASES)
    return ({**own, "resourceNames": [lease]}, _rule(("create",), LEASES))
