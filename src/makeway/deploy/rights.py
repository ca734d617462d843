"""What the controller may do in a cluster: exactly what it does.

A test on a real server plays stories under these rights; it fails if a request is forbidden, and if
a right is never used.
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

QUEUEING = "kueue.x-k8s.io"
_READ = ("list", "watch")


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> Document:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


_QUEUE_KINDS = (
    *("admissionchecks", "clusterqueues", "cohorts", "localqueues"),
    *("resourceflavors", "workloadpriorityclasses", "workloads"),
)
# In all namespaces.
CLUSTER_RULES: tuple[Document, ...] = (
    _rule(QUEUEING, _QUEUE_KINDS, _READ),
    _rule(QUEUEING, ("workloads",), ("create", "delete", "patch")),
    # What is in use is held by a finalizer.
    _rule(QUEUEING, ("clusterqueues", "resourceflavors"), ("patch",)),
    _rule(QUEUEING, ("clusterqueues/status", "localqueues/status", "workloads/status"), ("patch",)),
    _rule("batch", ("jobs",), (*_READ, "patch")),
    # A Workload keeps its Job or pod from going first; some clusters ask who may say so
    # (admission plugin OwnerReferencesPermissionEnforcement).
    _rule("batch", ("jobs/finalizers",), ("update",)),
    _rule("", ("namespaces", "nodes", "pods"), _READ),
    # Pods that are queued without a Job are released by us. Pods of gangs get their nodes from us,
    # and pods that make way are ended.
    _rule("", ("pods",), ("delete", "patch")),
    _rule("", ("pods/finalizers",), ("update",)),
    _rule("", ("pods/binding", "pods/eviction"), ("create",)),
    _rule("", ("pods/status",), ("patch",)),
    _rule("", ("events",), ("create", "patch")),
    _rule("policy", ("poddisruptionbudgets",), _READ),
    _rule("scheduling.k8s.io", ("podgroups", "priorityclasses"), _READ),
    _rule("scheduling.k8s.io", ("podgroups/status",), ("patch",)),
    _rule("makeway.dev", ("gangs",), _READ),
    _rule("makeway.dev", ("gangs/status",), ("patch",)),
)


# What users of a namespace may do, by the role of Kubernetes' own that it becomes part of.
USER_RULES: dict[str, tuple[Document, ...]] = {
    "view": (
        _rule(QUEUEING, ("localqueues", "workloads"), ("get", *_READ)),
        _rule("makeway.dev", ("gangs",), ("get", *_READ)),
    ),
    "edit": (
        _rule(
            "makeway.dev",
            ("gangs",),
            ("create", "delete", "deletecollection", "patch", "update"),
        ),
    ),
}


def lease_rules(lease: str) -> tuple[Document, ...]:
    """In the controller's own namespace: who leads. A name can't be asked of what isn't there."""
    own = _rule("coordination.k8s.io", ("leases",), ("get", "update"))
    return (
        {**own, "resourceNames": [lease]},
        _rule("coordination.k8s.io", ("leases",), ("create",)),
    )
