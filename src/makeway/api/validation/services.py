"""Rules for Services."""

from makeway.api.errors import ABSENT
from makeway.api.services import HEADLESS, LOOPBACK, Service
from makeway.api.validation.findings import Findings, check_unique
from makeway.api.validation.names import check_labels, check_short_name

PORT_MAX = 65_535


def check_service(service: Service, found: Findings) -> None:
    spec, here = service.spec, found.at("spec")
    check_short_name(service.metadata.name, "service", found.at("metadata", "name"))
    check_labels(spec.selector, here.at("selector"))
    if spec.type == "ExternalName":
        if not spec.external_name:
            here.at("externalName").add(ABSENT, "is missing", "write the name of a host")
    elif spec.cluster_ip not in (LOOPBACK, HEADLESS):
        hint = f"leave it out, or write {HEADLESS}"
        here.at("clusterIP").add(spec.cluster_ip, "is no address of this machine's", hint)
    if not spec.ports and spec.type != "ExternalName" and spec.cluster_ip != HEADLESS:
        here.at("ports").add(ABSENT, "is missing", "list the ports at which pods listen")
    for index, port in enumerate(spec.ports):
        place = here.at("ports", index)
        if len(spec.ports) > 1 and not port.name:
            place.at("name").add(ABSENT, "is missing", "name each of several ports")
        _check_port(port.port, place.at("port"))
        if isinstance(port.target, int):
            _check_port(port.target, place.at("targetPort"))
    names = ((p.name, here.at("ports", i, "name")) for i, p in enumerate(spec.ports) if p.name)
    check_unique(names, "port")


def _check_port(port: int, found: Findings) -> None:
    if not 1 <= port <= PORT_MAX:
        found.add(port, "is not a port", f"write 1 to {PORT_MAX}")
