"""Service: where pods listen, by a name. On one machine that is a port of its loopback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Int32, Whole

LOOPBACK, HEADLESS = "127.0.0.1", "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    port: Int32
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None  # None: the same; a text is the name of a pod's port

    @property
    def target(self) -> int | str:
        """Where pods listen: a number, or the name of a port."""
        target = self.port if self.target_port is None else self.target_port
        return int(target) if isinstance(target, str) and target.isdecimal() else target


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    selector: Mapping[str, str] = field(default_factory=dict)  # empty: it selects no pods
    ports: tuple[ServicePort, ...] = ()
    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] = "ClusterIP"
    cluster_ip: str = field(default="", metadata={"name": "clusterIP"})
    external_name: str = ""
    session_affinity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"

    metadata: ObjectMeta = UNNAMED
    spec: ServiceSpec = ServiceSpec()
    document: Whole = field(default=None, repr=False, compare=False)

    def selects(self, labels: Mapping[str, str]) -> bool:
        selector = self.spec.selector
        return bool(selector) and all(labels.get(k) == v for k, v in selector.items())
