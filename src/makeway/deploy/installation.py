"""The objects of an installation, in the order in which they are made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from makeway.api.codec import decode_as
from makeway.api.configuration import Configuration
from makeway.api.manifests import read_manifests
from makeway.client.client import Document
from makeway.deploy.policies import (
    MUTATING_SINCE,
    VALIDATING_SINCE,
    KubeVersion,
    checking_policies,
    mutating_policies,
    scope_of,
    validating_policies,
)
from makeway.deploy.rights import PLACING_RULES, USER_RULES, cluster_rules, lease_rules

NAME = "makeway-controller"  # of nearly everything that belongs to the controller
LEASE = NAME
LABELS = {"app.kubernetes.io/name": "makeway", "app.kubernetes.io/component": "controller"}
PORT = 8080  # of metrics and explanations
HEALTH_PORT = 8081  # of probes
DASHBOARD_PORT = 8082  # inside of the pod only
METRICS_READER = {"makeway.dev/metrics": "allowed"}  # labels of namespaces that may ask
REPLICAS = 2
USER = 65532  # the uid of the image; Containerfile has the same
CONFIGURATION_FOLDER = "/etc/makeway"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where and how Makeway is installed."""

    namespace: str = "makeway-system"
    image: str = f"makeway:{version('makeway')}"
    kube: KubeVersion = MUTATING_SINCE
    configuration: str = ""  # text of the controller's Configuration; empty: defaults
    is_placing: bool = True  # gives pods with its schedulerName their nodes
    exposes_metrics: bool = False  # to other pods; else they are answered inside of the pod only

    @property
    def has_digest(self) -> bool:
        """Whether the image can't become another one."""
        return "@sha256:" in self.image

    @property
    def account(self) -> str:
        """The user as which the server knows the controller."""
        return f"system:serviceaccount:{self.namespace}:{NAME}"


def installation(site: Site) -> list[Document]:
    return [namespace(site), *crds(), *policies(site), *controller(site)]


def crds() -> list[Document]:
    found: list[Document] = []
    for file in sorted(files(__package__).joinpath("crds").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            manifests = read_manifests(file.read_text(encoding="utf-8"), file.name).manifests
            found += [dict(manifest.document) for manifest in manifests]
    return found


def policies(site: Site) -> list[Document]:
    found: list[Document] = []
    scope = scope_of(_settings(site), site.namespace)
    if site.kube >= MUTATING_SINCE:
        found += mutating_policies(scope)
    if site.kube >= VALIDATING_SINCE:
        found += [*validating_policies(site.account, scope), *checking_policies()]
    return list(map(_labelled, found))


def _settings(site: Site) -> Configuration:
    for manifest in read_manifests(site.configuration).manifests:
        found = decode_as(Configuration, manifest.document).object
        if found is not None:
            return found
    return Configuration()


def controller(site: Site) -> list[Document]:
    """What runs, and what it needs for that."""
    services = (_service(site),) if site.exposes_metrics else ()
    carriers = (*services, _network(site), _budget(site), _deployment(site))
    return list(map(_labelled, (*_account(site), *_configuration(site), *carriers)))


def namespace(site: Site) -> Document:
    levels = ("enforce", "audit", "warn")
    labels = {f"pod-security.kubernetes.io/{level}": "restricted" for level in levels}
    metadata = {"name": site.namespace, "labels": {"app.kubernetes.io/name": "makeway", **labels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def lease(site: Site) -> Document:
    """Made by the controller itself; named here so that it can be removed."""
    return _object("coordination.k8s.io/v1", "Lease", LEASE, site.namespace)


def _labelled(document: Document) -> Document:
    metadata = document["metadata"]
    labels = {**LABELS, **metadata.get("labels", {})}
    return {**document, "metadata": {**metadata, "labels": labels}}


def _object(api_version: str, kind: str, name: str, where: str = "", **rest: Any) -> Document:
    metadata = {"name": name, **({"namespace": where} if where else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _account(site: Site) -> list[Document]:
    version, where = f"{_RBAC}/v1", site.namespace
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": where}]

    def to(kind: str) -> Document:
        return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": NAME}, "subjects": subjects}

    rules = [*cluster_rules(_settings(site)), *(PLACING_RULES if site.is_placing else ())]
    return [
        _object("v1", "ServiceAccount", NAME, where),
        _object(version, "ClusterRole", NAME, rules=rules),
        _object(version, "ClusterRoleBinding", NAME, **to("ClusterRole")),
        _object(version, "Role", NAME, where, rules=list(lease_rules(LEASE))),
        _object(version, "RoleBinding", NAME, where, **to("Role")),
        *(_user_role(f"{_RBAC}/v1", role) for role in USER_RULES),
    ]


def _user_role(version: str, role: str) -> Document:
    found = _object(version, "ClusterRole", f"makeway-{role}", rules=list(USER_RULES[role]))
    found["metadata"]["labels"] = {f"{_RBAC}/aggregate-to-{role}": "true"}
    return found


def _configuration(site: Site) -> Sequence[Document]:
    if not site.configuration:
        return ()
    data = {"configuration.yaml": site.configuration}
    return (_object("v1", "ConfigMap", NAME, site.namespace, data=data),)


def _service(site: Site) -> Document:
    port = {"name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP"}
    spec = {"selector": dict(LABELS), "ports": [port]}
    return _object("v1", "Service", "makeway-metrics", site.namespace, spec=spec)


def _network(site: Site) -> Document:
    """Who may connect to the controller: probes, and for metrics whoever is named for that."""
    rules: list[Document] = [{"ports": [{"port": "health", "protocol": "TCP"}]}]
    if site.exposes_metrics:
        readers = {"namespaceSelector": {"matchLabels": dict(METRICS_READER)}}
        rules.append({"from": [readers], "ports": [{"port": "metrics", "protocol": "TCP"}]})
    spec = {
        "podSelector": {"matchLabels": dict(LABELS)},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", NAME, site.namespace, spec=spec)


def _budget(site: Site) -> Document:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": dict(LABELS)}}
    return _object("policy/v1", "PodDisruptionBudget", NAME, site.namespace, spec=spec)


def _deployment(site: Site) -> Document:
    spec = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": dict(LABELS)},
        "template": {"metadata": _pod_metadata(site), "spec": _pod(site)},
    }
    return _object("apps/v1", "Deployment", NAME, site.namespace, spec=spec)


def _pod_metadata(site: Site) -> Document:
    metadata: Document = {"labels": dict(LABELS)}
    if site.configuration:
        # The controller reads the file once, so it is started again when the file changes.
        digest = hashlib.sha256(site.configuration.encode()).hexdigest()[:16]
        metadata["annotations"] = {"makeway.dev/configuration": digest}
    return metadata


def _pod(site: Site) -> Document:
    pod: Document = {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(LABELS)},
            }
        ],
        "containers": [_container(site)],
    }
    if site.configuration:
        pod["volumes"] = [{"name": "configuration", "configMap": {"name": NAME}}]
    return pod


def _container(site: Site) -> Document:
    arguments = [
        "controller",
        f"--lease-namespace={site.namespace}",
        f"--lease-name={LEASE}",
        f"--health-address=0.0.0.0:{HEALTH_PORT}",
        f"--metrics-address={'0.0.0.0' if site.exposes_metrics else '127.0.0.1'}:{PORT}",
        f"--dashboard-port={DASHBOARD_PORT}",
    ]
    ports = [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}]
    if site.exposes_metrics:
        ports.append({"name": "metrics", "containerPort": PORT, "protocol": "TCP"})
    if not site.is_placing:
        arguments.append("--no-placing")
    container: Document = {
        "name": "controller",
        "image": site.image,
        "args": arguments,
        "ports": ports,
        "livenessProbe": _probe("/healthz", failures=6),
        "readinessProbe": _probe("/readyz", failures=3),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if site.configuration:
        arguments.append(f"--config={CONFIGURATION_FOLDER}/configuration.yaml")
        mount = {"name": "configuration", "mountPath": CONFIGURATION_FOLDER, "readOnly": True}
        container["volumeMounts"] = [mount]
    return container


def _probe(path: str, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
