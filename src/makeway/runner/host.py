"""Who runs processes, as the rest of the room sees it: plain values in, plain values out.

`LocalHost` is the real one; a simulation brings its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

# How a container stands of which nobody knows how it ended.
LOST_CODE = 137
LOST_REASON = "ContainerStatusUnknown"
REBOOTED_REASON = "NodeRebooted"  # of a pod whose machine was started anew

RestartPolicy = Literal["Always", "OnFailure", "Never"]
ProbeKind = Literal["exec", "tcp", "http"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    kind: ProbeKind
    command: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/"
    scheme: str = "HTTP"
    headers: Mapping[str, str] = field(default_factory=dict)
    initial_delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    volume: str
    path: str  # where the container expects it
    sub_path: str = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What a volume has from the start."""

    path: str  # below its folder
    content: str = field(repr=False)  # in base64
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One container, with nothing left to look up."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # besides what every process has
    folder: str = ""  # working directory; empty: the pod's scratch folder
    is_sidecar: bool = False
    mounts: tuple[Mount, ...] = ()
    probes: Mapping[str, ProbeSettings] = field(default_factory=dict)  # startup, readiness, …
    grace_s: float = 30.0  # to end in when a probe found it ill
    memory_bytes: int | None = None  # None: no limit
    cpu_milli: int | None = None
    has_input: bool = False  # that others may type into; else it is empty
    has_input_once: bool = False  # the first who types, and stops, ends it
    is_terminal: bool = False  # its input and output are one


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """A part of a GPU (MIG), by the driver's numbers."""

    gpu: int  # of its device: 0 is /dev/nvidia0
    instance: int
    compute: int  # instance within that


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What to run for a pod."""

    uid: str
    namespace: str = ""
    revision: int = 0  # of the pod that is run
    node: str = ""
    init: tuple[Program, ...] = ()
    containers: tuple[Program, ...] = ()
    volumes: Mapping[str, str] = field(default_factory=dict)  # name -> path; empty: a new folder
    files: Mapping[str, tuple[File, ...]] = field(default_factory=dict)  # by volume
    secret_volumes: tuple[str, ...] = ()  # gone as soon as the pod is over
    # Resource -> indexes; of parts of GPUs the uuids.
    devices: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    parts: tuple[GpuPart, ...] = ()  # of GPUs, among these
    # Of the shell that submitted it: umask, and soft limits by name; -1: as high as may be.
    shell_limits: Mapping[str, int] = field(default_factory=dict)
    locks: tuple[str, ...] = ()  # GPUs that no other Makeway of the machine may hand out meanwhile
    restart_policy: RestartPolicy = "Always"
    deadline_s: float | None = None  # from the start on; None: as long as it takes
    grace_s: float = 30.0
    # A signal for those who catch it, so long before SIGTERM; 0: none.
    warning: int = 0
    warning_lead_s: float = 0.0
    warning_after_s: float | None = None  # from the start on, in any case; None: only when stopped
    back_off_s: float = 10.0  # between the first and the second restart; doubles from then on


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecWish:
    """To run a program in a container that runs."""

    do: Literal["exec"] = "exec"
    container: str
    argv: tuple[str, ...]
    is_terminal: bool
    has_input: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachWish:
    """To have the input of a container."""

    do: Literal["attach"] = "attach"
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWish:
    """To be connected to a port at which a process of the pod listens."""

    do: Literal["connect"] = "connect"
    port: int


Wish = ExecWish | AttachWish | ConnectWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    exit_code: int  # 128 and the signal, if one ended it
    reason: str
    message: str = ""
    signal: int = 0
    started_at: float
    finished_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    now: Waiting | Running | Ended
    before: Ended | None = None  # the run before a restart
    restarts: int = 0
    is_started: bool = False
    is_ready: bool = False

    @property
    def has_succeeded(self) -> bool:
        return isinstance(self.now, Ended) and self.now.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod that was ordered to run."""

    uid: str
    node: str = ""
    devices: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    began_at: float | None = None  # None: nothing of it was started yet
    is_over: bool = False  # nothing of it runs, or ever will
    reason: str = ""  # why it was ended by its host; empty if it wasn't
    message: str = ""
    containers: Mapping[str, ContainerState] = field(default_factory=dict)


class Unwelcome(Exception):
    """A pod is not run here, now or ever; the text is for its owner."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Host(Protocol):
    """All methods are quick; what they cause shows in `states` later."""

    def states(self) -> Mapping[str, PodState]:
        """All pods that were started and not removed, by uid; also from before a restart."""

    def start(self, order: RunOrder) -> None:
        """Run a pod, exactly once however often this is called; OSError: not now.

        Unwelcome: never, and nothing of it was begun.
        """

    def stop(self, uid: str, grace_s: float) -> None:
        """Have a pod end, in this time at the most. Less time than before counts."""

    def remove(self, uid: str) -> None:
        """Forget a pod that is over; what it printed, only if nobody keeps it."""
