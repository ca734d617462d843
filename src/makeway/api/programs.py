"""What a runner reads of a Pod: everything that makes a process of a container.

Apart from `batch`, because nothing else needs it: counting and placing pods goes without
it. `PodOfPrograms` shows the same document as `batch.Pod`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from makeway.api.batch import ResourceRequirements
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Document, Int32, Quantity, Whole

FILE_MODE = 0o644
DOWNWARD_API = {"name": "downwardAPI"}
# What a pod may be told of itself: in files, and besides in variables.
FIELDS_OF_FILES = ("metadata.name", "metadata.namespace", "metadata.uid")
FIELDS_OF_VARIABLES = (
    *FIELDS_OF_FILES,
    "spec.nodeName",
    "spec.serviceAccountName",
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
FIELD_BY_KEY = re.compile(r"metadata\.(?P<what>labels|annotations)\['(?P<key>[^']+)'\]")
FIELDS_IN_FULL = ("metadata.labels", "metadata.annotations")  # in files only


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldReference:
    field_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReference:
    resource: str  # such as limits.cpu
    container_name: str = ""  # empty: the container itself
    divisor: Quantity = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelector:
    """One value of a ConfigMap or Secret."""

    key: str
    name: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSource:
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    name: str
    value: str = ""
    value_from: VariableSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSelector:
    """All values of a ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VariablesSource:
    """Every value of an object is a variable."""

    prefix: str = ""
    config_map_ref: ObjectSelector | None = None
    secret_ref: ObjectSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyToPath:
    key: str
    path: str
    mode: Int32 | None = None  # None: that of the volume


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOfValues:
    """A file for each value of a ConfigMap or Secret, or for the items alone."""

    name: str = ""
    secret_name: str = ""  # what a Secret's volume calls it
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 = FILE_MODE
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfPod:
    path: str
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    mode: Int32 | None = None  # None: that of the volume


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOfPod:
    items: tuple[FileOfPod, ...] = ()
    default_mode: Int32 = FILE_MODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    config_map: FilesOfValues | None = None
    secret: FilesOfValues | None = None
    downward_api: FilesOfPod | None = field(default=None, metadata=DOWNWARD_API)
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    sources: tuple[Projection, ...] = ()
    default_mode: Int32 = FILE_MODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    name: str
    empty_dir: Document | None = None
    host_path: HostPath | None = None
    config_map: FilesOfValues | None = None
    secret: FilesOfValues | None = None
    downward_api: FilesOfPod | None = field(default=None, metadata=DOWNWARD_API)
    projected: Projected | None = None
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    container_port: Int32
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecAction:
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpAction:
    port: int | str
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHeader:
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAction:
    port: int | str
    host: str = ""
    path: str = "/"
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProbe:
    exec: ExecAction | None = None
    tcp_socket: TcpAction | None = None
    http_get: HttpAction | None = None
    initial_delay_seconds: Int32 = 0
    period_seconds: Int32 = 10
    timeout_seconds: Int32 = 1
    success_threshold: Int32 = 1
    failure_threshold: Int32 = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProgram:
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: ContainerProbe | None = None
    readiness_probe: ContainerProbe | None = None
    liveness_probe: ContainerProbe | None = None
    lifecycle: Document | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The part of a pod's spec that says what runs."""

    containers: tuple[ContainerProgram, ...] = ()
    init_containers: tuple[ContainerProgram, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = ""
    enable_service_links: bool = True
    node_name: str = ""
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int = 30
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOfPrograms:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Pod"

    metadata: ObjectMeta = UNNAMED
    spec: Programs = Programs()
    document: Whole = field(default=None, repr=False, compare=False)


def limits_and_requests(resources: ResourceRequirements) -> Mapping[str, int]:
    """By the names of the downward API, `limits.cpu` and so on, in smallest units."""
    return {f"limits.{name}": amount for name, amount in resources.limits.items()} | {
        f"requests.{name}": amount for name, amount in resources.requested().items()
    }
