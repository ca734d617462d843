"""What to run for a pod: its document with everything looked up, or why it can't run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from makeway.api.devices import NVIDIA, DeviceId, gpus_of
from makeway.api.labels import SHELL_LIMITS, SIGNAL, SIGNAL_AFTER
from makeway.api.programs import (
    ContainerProbe,
    ContainerProgram,
    PodOfPrograms,
    VolumeMount,
)
from makeway.api.signals import parse_warning
from makeway.runner import gpus
from makeway.runner.environment import (
    ADDRESS,
    FindValues,
    NotYet,
    Refused,
    command_line,
    expand,
    nothing_there,
    of_the_run,
    variables_of,
)
from makeway.runner.files import files_of, has_files, is_secret
from makeway.runner.host import GpuPart, Mount, ProbeSettings, Program, RunOrder
from makeway.runner.mounting import is_shown


def order_for(
    pod: PodOfPrograms,
    allocatable: Mapping[str, int],
    devices: Mapping[str, tuple[DeviceId, ...]],
    uuids: Sequence[str] = (),
    parts: Sequence[GpuPart] = (),
    find: FindValues = nothing_there,
    services: Mapping[str, str] | None = None,
) -> RunOrder:
    """Resolve everything; raises Refused where the pod asks for what can't be, and NotYet where it
    reads a ConfigMap or Secret that isn't there.

    `uuids` are those of the node's GPUs, by index; none: they are only declared. `parts` are those
    among its devices. `services` are the variables that lead to Services, for pods that want them.
    """
    spec, files = pod.spec, files_of(pod, allocatable, find)
    links = (services or {}) if spec.enable_service_links else {}
    dealt, of_node = gpus.deal(spec, devices), gpus_of(allocatable)

    def program(container: ContainerProgram) -> Program:
        shown = gpus.visible(of_node, dealt.get(container.name, {}))
        return _program(pod, container, allocatable, shown, find, links)

    order = RunOrder(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        revision=int(pod.metadata.resource_version or 0),
        node=spec.node_name,
        init=tuple(map(program, spec.init_containers)),
        containers=tuple(map(program, spec.containers)),
        volumes=_volumes_of(pod),
        files=files,
        secret_volumes=tuple(one.name for one in spec.volumes if is_secret(one)),
        devices=dict(devices),
        parts=tuple(parts),
        shell_limits=_shell_limits(pod),
        locks=_locks(devices, uuids),
        restart_policy=spec.restart_policy,
        deadline_s=spec.active_deadline_seconds,
        grace_s=spec.termination_grace_period_seconds,
        **_warning_of(pod),
    )
    _check_mounts(order)
    return order


def _warning_of(pod: PodOfPrograms) -> dict[str, Any]:
    """The signal that it wants before SIGTERM, `USR1@120`."""
    wanted = pod.metadata.annotations.get(SIGNAL, "")
    if not wanted:
        return {}
    warning = parse_warning(wanted)
    after = pod.metadata.annotations.get(SIGNAL_AFTER, "")
    if warning is None or (after and not after.isdecimal()):
        raise Refused(f"annotation {SIGNAL}: {wanted!r} is no signal; write for example USR1@120")
    return {
        "warning": warning.number,
        "warning_lead_s": float(warning.lead_s),
        "warning_after_s": float(after) if after else None,
    }


def _locks(devices: Mapping[str, tuple[DeviceId, ...]], uuids: Sequence[str]) -> tuple[str, ...]:
    """GPUs by their uuids, and parts of GPUs by their own; none of what is only declared."""
    ids = [one for name, held in devices.items() if name.startswith(NVIDIA) for one in held]
    return tuple(uuids[one] if isinstance(one, int) else one for one in ids) if uuids else ()


def _program(
    pod: PodOfPrograms,
    container: ContainerProgram,
    allocatable: Mapping[str, int],
    devices: dict[str, str],
    find: FindValues,
    services: Mapping[str, str],
) -> Program:
    """`devices` are the variables that show the container its GPUs."""
    if container.lifecycle:
        raise Refused(f"container {container.name}: lifecycle hooks are not supported")
    try:
        declared = variables_of(pod, container, allocatable, find, services)
    except NotYet as missing:
        missing.container = container.name
        raise
    limits = container.resources.limits
    return Program(
        name=container.name,
        argv=command_line(container, declared),
        env=of_the_run(pod) | declared | devices,
        folder=container.working_dir,
        is_sidecar=container.is_sidecar,
        mounts=tuple(_mount(mount, declared) for mount in container.volume_mounts),
        probes=_probes_of(container),
        grace_s=pod.spec.termination_grace_period_seconds,
        memory_bytes=limits.get("memory"),
        cpu_milli=limits.get("cpu"),
        has_input=container.stdin,
        has_input_once=container.stdin_once,
        is_terminal=container.tty,
    )


def _shell_limits(pod: PodOfPrograms) -> dict[str, int]:
    """From `umask=027 nofile=1024 core=unlimited`; names that we don't know are for others."""
    found: dict[str, int] = {}
    for word in pod.metadata.annotations.get(SHELL_LIMITS, "").split():
        name, _, value = word.partition("=")
        base = 8 if name == "umask" else 10
        try:
            found[name] = -1 if value == "unlimited" else int(value, base)
        except ValueError:
            raise Refused(
                f"annotation {SHELL_LIMITS}: {word!r} is no limit; write umask=027 or nofile=1024"
            ) from None
    return found


def _volumes_of(pod: PodOfPrograms) -> dict[str, str]:
    volumes: dict[str, str] = {}
    for volume in pod.spec.volumes:
        if "/" in volume.name or volume.name in ("", ".", ".."):
            raise Refused(f"volume {volume.name!r}: that is no name for a folder")
        if volume.host_path is not None:
            volumes[volume.name] = volume.host_path.path
        elif volume.empty_dir is not None or has_files(volume):
            volumes[volume.name] = ""
        else:
            kind = next((key for key in volume.document or () if key != "name"), "nothing")
            raise Refused(
                f"volume {volume.name} is of type {kind}, which is not supported; use emptyDir, "
                "hostPath, configMap, secret, downwardAPI or projected"
            )
    return volumes


def _mount(mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
    sub_path = mount.sub_path or expand(mount.sub_path_expr, variables)
    for path in (mount.mount_path, sub_path):
        if ".." in PurePosixPath(path).parts:
            raise Refused(f"volume {mount.name}: the path {path} leads out of its folder")
    if PurePosixPath(sub_path).is_absolute() or not mount.mount_path.strip("/"):
        raise Refused(f"volume {mount.name} can't be shown at {mount.mount_path} {sub_path}")
    if mount.read_only and not is_shown(mount.mount_path):
        raise Refused(
            f"volume {mount.name}: readOnly can't be held at {mount.mount_path}, where nothing is "
            "mounted; leave it out, or mount the volume outside /proc, /sys and /dev"
        )
    return Mount(
        volume=mount.name,
        path=mount.mount_path,
        sub_path=sub_path,
        is_read_only=mount.read_only,
    )


def _check_mounts(order: RunOrder) -> None:
    """All containers share one scratch folder, so a place in it can mean one volume only."""
    shown: dict[str, tuple[str, str]] = {}
    for program in (*order.init, *order.containers):
        for mount in program.mounts:
            if mount.volume not in order.volumes:
                raise Refused(f"container {program.name}: there is no volume {mount.volume}")
            what = (mount.volume, mount.sub_path)
            if shown.setdefault(mount.path.strip("/"), what) != what:
                raise Refused(f"two volumes are mounted at {mount.path}; only one is possible")
    places = [PurePosixPath(place) for place in shown]
    if any(outer in inner.parents for outer in places for inner in places):
        raise Refused("a volume is mounted inside another, which is not supported")


def _probes_of(container: ContainerProgram) -> dict[str, ProbeSettings]:
    written = {
        "startup": container.startup_probe,
        "readiness": container.readiness_probe,
        "liveness": container.liveness_probe,
    }
    return {
        kind: _probe(container, kind, probe) for kind, probe in written.items() if probe is not None
    }


def _probe(container: ContainerProgram, kind: str, probe: ContainerProbe) -> ProbeSettings:
    return replace(
        _action(container, kind, probe),
        initial_delay_s=probe.initial_delay_seconds,
        period_s=max(probe.period_seconds, 1),
        timeout_s=max(probe.timeout_seconds, 1),
        success_threshold=max(probe.success_threshold, 1),
        failure_threshold=max(probe.failure_threshold, 1),
    )


def _action(container: ContainerProgram, kind: str, probe: ContainerProbe) -> ProbeSettings:
    if probe.exec is not None and probe.exec.command:
        return ProbeSettings(kind="exec", command=probe.exec.command)
    if probe.tcp_socket is not None:
        tcp = probe.tcp_socket
        return ProbeSettings(kind="tcp", host=tcp.host or ADDRESS, port=_port(container, tcp.port))
    if probe.http_get is not None:
        http = probe.http_get
        return ProbeSettings(
            kind="http",
            host=http.host or ADDRESS,
            port=_port(container, http.port),
            path=http.path,
            scheme=http.scheme,
            headers={header.name: header.value for header in http.http_headers},
        )
    raise Refused(
        f"container {container.name}: its {kind}Probe asks in a way that is not supported; use "
        "exec, tcpSocket or httpGet"
    )


def _port(container: ContainerProgram, port: int | str) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int) or port.isdecimal():
        return int(port)
    for known in container.ports:
        if known.name == port:
            return known.container_port
    raise Refused(f"container {container.name} has no port named {port}")
