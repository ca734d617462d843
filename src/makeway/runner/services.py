"""Services on one machine: variables that lead to the ports of its pods, and who serves them.

All pods share the loopback, and nothing stands between a client and a pod: what a Service adds is
the name, and the port at which its pods listen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway.api.batch import owner_reference
from makeway.api.kinds import ENDPOINT_SLICES, PODS, SERVICES, Resource
from makeway.api.services import HEADLESS, LOOPBACK, Service, ServicePort
from makeway.client.client import Document
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Index, Object, Picture
from makeway.plane.writes import Create, Key, Patch, as_seen

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = {"endpointslice.kubernetes.io/managed-by": "makeway"}


class ServiceEndpoints(Reconciler):
    """Keeps an EndpointSlice for each Service that selects pods. Its keys are Services."""

    resources: tuple[Resource, ...] = (SERVICES, PODS, ENDPOINT_SLICES)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._services = _services_in(picture)
        self._pods = picture.index(PODS, _pod_of)  # by namespace

    def changed(self, change: Change) -> None:
        if change.resource != PODS:
            self.mark(change.key)  # a slice has the name of its Service
            return
        if list(self._pods.touched(change)):
            seen = [
                entry[1] for one in (change.old, change.new) if (entry := self._pods.entry(one))
            ]
            for key, service in self._services.items(change.key.namespace):
                if any(service.selects(_labels(pod)) for pod in seen):
                    self.mark(key)

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(SERVICES, key)
        if found is None or found.view is None or not found.view.spec.selector:
            return NOTHING
        service: Service = found.view
        pods = [pod for _, pod in self._pods.items(key.namespace) if service.selects(_labels(pod))]
        wanted = {
            "endpoints": [_endpoint(pod) for pod in pods],
            "ports": [_port(port, pods) for port in service.spec.ports],
        }
        there = self._picture.get(ENDPOINT_SLICES, key)
        if there is None:
            return Plan([Create(resource=ENDPOINT_SLICES, document=_slice(service, wanted))])
        is_ours = MANAGED_BY.items() <= (there["metadata"].get("labels") or {}).items()
        is_right = all((there.get(name) or []) == value for name, value in wanted.items())
        if is_right or not is_ours:
            return NOTHING
        patch = {"metadata": as_seen(there), **wanted}
        return Plan([Patch(resource=ENDPOINT_SLICES, key=key, patch=patch)])


def _services_in(picture: Picture) -> Index[str, Service]:
    """By namespace."""

    def read(found: Object) -> tuple[str, Service] | None:
        return None if found.view is None else (found.key.namespace, found.view)

    return picture.index(SERVICES, read)


def _pod_of(found: Object) -> tuple[str, Document] | None:
    """The little that is told of a pod that runs."""
    status = found.document.get("status") or {}
    if status.get("phase") != "Running":
        return None
    metadata, spec = found.document["metadata"], found.document.get("spec") or {}
    conditions = status.get("conditions") or ()
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    is_leaving = bool(metadata.get("deletionTimestamp"))
    return found.key.namespace, {
        "name": metadata["name"],
        "namespace": found.key.namespace,
        "uid": metadata["uid"],
        "labels": metadata.get("labels") or {},
        "node": spec.get("nodeName") or "",
        "is_ready": is_ready and not is_leaving,
        "is_leaving": is_leaving,
        "ports": {
            port["name"]: port["containerPort"]
            for container in spec.get("containers") or ()
            for port in container.get("ports") or ()
            if port.get("name") and port.get("containerPort")
        },
    }


def _labels(pod: Document) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["labels"]
    return found


def _endpoint(pod: Document) -> Document:
    about = {"kind": "Pod"} | {name: pod[name] for name in ("name", "namespace", "uid")}
    is_ready, is_leaving = pod["is_ready"], pod["is_leaving"]
    return {
        "addresses": [LOOPBACK],
        "conditions": {"ready": is_ready, "serving": is_ready, "terminating": is_leaving},
        "nodeName": pod["node"],
        "targetRef": about,
    }


def _port(port: ServicePort, pods: Iterable[Document]) -> Document:
    numbers = [pod["ports"].get(port.target) for pod in pods]
    number = port.target if isinstance(port.target, int) else next(filter(None, numbers), None)
    told = {"name": port.name, "protocol": port.protocol}
    return told if number is None else {**told, "port": number}


def _slice(service: Service, wanted: Document) -> Document:
    metadata = {
        "name": service.metadata.name,
        "namespace": service.metadata.namespace,
        "labels": {SERVICE_NAME: service.metadata.name, **MANAGED_BY},
        "ownerReferences": [owner_reference(service)],
    }
    head = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind}
    return {**head, "metadata": metadata, "addressType": "IPv4", **wanted}


# Variables


class ServiceVariables:
    """As Kubernetes names them, with the ports at which pods listen; headless ones have none."""

    def __init__(self, picture: Picture) -> None:
        self._picture, self._services = picture, _services_in(picture)

    def of(self, namespace: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, service in self._services.items(namespace):
            if service.spec.cluster_ip != HEADLESS and service.spec.type != "ExternalName":
                endpoints = self._picture.get(ENDPOINT_SLICES, key)
                found |= _variables_of(service, endpoints or {})
        return found


def _variables_of(service: Service, endpoints: Document) -> dict[str, str]:
    prefix = _as_name(service.metadata.name)
    known = {port.get("name", ""): port.get("port") for port in endpoints.get("ports") or ()}
    found = {f"{prefix}_SERVICE_HOST": LOOPBACK}
    for index, port in enumerate(service.spec.ports):
        number = port.target if isinstance(port.target, int) else known.get(port.name) or port.port
        protocol = port.protocol.lower()
        where = f"{protocol}://{LOOPBACK}:{number}"
        link = f"{prefix}_PORT_{number}_{port.protocol.upper()}"
        if index == 0:
            found |= {f"{prefix}_SERVICE_PORT": str(number), f"{prefix}_PORT": where}
        if port.name:
            found[f"{prefix}_SERVICE_PORT_{_as_name(port.name)}"] = str(number)
        found |= {link: where, f"{link}_PROTO": protocol, f"{link}_PORT": str(number)}
        found[f"{link}_ADDR"] = LOOPBACK
    return found


def _as_name(text: str) -> str:
    return text.upper().replace("-", "_")
