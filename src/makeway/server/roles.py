"""The roles that every server for several people has: the explicit list of what people may."""

from __future__ import annotations

from typing import Any

from makeway.api.kinds import CLUSTER_ROLES
from makeway.api.versions import QUEUEING_GROUP

Document = dict[str, Any]
EVERYONE, PERSON, VIEW = "makeway-everyone", "makeway-person", "view"
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_BATCH, _EVENTS = "batch", "events.k8s.io"
_METRICS = "metrics.k8s.io"
_VISIBILITY, _OWN_VISIBILITY = "visibility.kueue.x-k8s.io", "visibility.makeway.dev"


def _rule(verbs: list[str], group: str, *resources: str) -> Document:
    return {"verbs": verbs, "apiGroups": [group], "resources": list(resources)}


# What a namespace shows to whom its owner lets look; never Secrets.
_SEEN = [
    _rule(READ, "", "configmaps", "events", "limitranges", "pods", "services"),
    _rule(READ, "discovery.k8s.io", "endpointslices"),
    _rule(["get"], "", "namespaces", "pods/log", "pods/status"),
    _rule(READ, _BATCH, "cronjobs", "jobs"),
    _rule(["get"], _BATCH, "cronjobs/status", "jobs/status"),
    _rule(["get"], _BATCH, "jobs/attempts", "jobs/log"),
    _rule(READ, _EVENTS, "events"),
    _rule(["get", "list"], _METRICS, "pods"),
    _rule(READ, QUEUEING_GROUP, "localqueues", "workloads"),
    _rule(["get"], QUEUEING_GROUP, "localqueues/status", "workloads/status"),
    _rule(["get"], QUEUEING_GROUP, "workloads/explanation", "workloads/forecast"),
    _rule(["list"], "makeway.dev", "forecasts"),
    _rule(["get"], _VISIBILITY, "localqueues/pendingworkloads"),
]
RULES: dict[str, list[Document]] = {
    # In one's own namespace.
    PERSON: [
        *_SEEN,
        _rule(WRITE, _BATCH, "cronjobs", "jobs"),
        _rule(["delete"], _BATCH, "jobs/log"),
        _rule(["create", "delete", "deletecollection"], "", "pods"),
        _rule(["create", "get"], "", "pods/attach", "pods/exec", "pods/portforward"),
        _rule(WRITE, "", "configmaps", "secrets", "services"),
        _rule(["patch"], QUEUEING_GROUP, "workloads/active"),
        _rule(["create"], _OWN_VISIBILITY, "prospects"),
    ],
    # Of the machine, and of oneself.
    EVERYONE: [
        _rule(READ, "", "nodes"),
        _rule(["get", "list"], _METRICS, "nodes"),
        _rule(READ, QUEUEING_GROUP, "admissionchecks", "clusterqueues", "cohorts"),
        _rule(READ, QUEUEING_GROUP, "resourceflavors", "workloadpriorityclasses"),
        _rule(READ, "scheduling.k8s.io", "priorityclasses"),
        # Sums of what the rows tell that everybody may see.
        _rule(["list"], "makeway.dev", "usage"),
        # Rows, of which only what is not private is left (`others`).
        _rule(["list"], _OWN_VISIBILITY, "jobs"),
        _rule(["create"], "authentication.k8s.io", "selfsubjectreviews"),
        _rule(["create"], "authorization.k8s.io", "selfsubjectaccessreviews"),
        _rule(["create"], "authorization.k8s.io", "selfsubjectrulesreviews"),
        {
            "verbs": ["get"],
            "nonResourceURLs": ["/", "/api", "/api/*", "/apis", "/apis/*", "/openapi/*"],
        },
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"]},
        {"verbs": ["delete", "get", "post"], "nonResourceURLs": ["/tokens", "/tokens/*"]},
        {"verbs": ["delete", "get", "post"], "nonResourceURLs": ["/grants", "/grants/*"]},
        {"verbs": ["post", "delete"], "nonResourceURLs": ["/dashboard"]},
    ],
    VIEW: _SEEN,
}


def built_in_roles() -> list[Document]:
    return [
        {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {AUTO_UPDATE: "true"},
            },
            "rules": rules,
        }
        for name, rules in RULES.items()
    ]
