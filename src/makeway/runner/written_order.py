"""The order of a pod as its supervisor reads it: every path, variable and mount written out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from makeway.runner.gpu_guard import as_seen
from makeway.runner.homes import Home
from makeway.runner.host import Mount, Program, RunOrder
from makeway.runner.mounting import is_shown


@dataclass(frozen=True, slots=True)
class Terms:
    """What the host grants a pod."""

    output_bytes: int  # of what each container prints
    guards_gpus: bool  # it can open no others than its own
    may_mount: bool


def written_order(order: RunOrder, home: Home, terms: Terms) -> dict[str, Any]:
    volumes = {
        name: path or str(home.folder / "volumes" / name) for name, path in order.volumes.items()
    }

    def written(program: Program) -> dict[str, Any]:
        return _written_program(program, order, volumes, home, terms)

    return asdict(order) | {
        "owner": home.owner,
        "files": [
            (str(Path(volumes[name]) / file.path), file.content, file.mode)
            for name, files in order.files.items()
            for file in files
        ],
        "secrets": [volumes[name] for name in order.secret_volumes],
        "guards_gpus": terms.guards_gpus,
        "init": list(map(written, order.init)),
        "containers": list(map(written, order.containers)),
    }


def _written_program(
    program: Program, order: RunOrder, volumes: Mapping[str, str], home: Home, terms: Terms
) -> dict[str, Any]:
    scratch = home.folder / "scratch"
    env = as_seen(program.env, order.devices, order.parts) if terms.guards_gpus else program.env
    marks = {_variable(name): path for name, path in volumes.items()}
    own = {_variable(one.volume): _at(one.path) for one in _only_read(program)}
    views = {  # links to what somebody may only read lead to where it is mounted
        _place(scratch, one): _at(one.path)
        for program in (*order.init, *order.containers)
        for one in _only_read(program)
    }
    return asdict(program) | {
        "env": {**home.environment, **env, **marks, "MAKEWAY_POD_UID": order.uid, **own},
        "folder": program.folder or str(scratch),
        "links": [_link(scratch, mount, volumes) for mount in program.mounts],
        "views": views,
        "shown": _shown(program, volumes, home) if terms.may_mount else [],
        "unheld": "" if terms.may_mount else _unheld(program),
        "stage": str(scratch),
        "output_bytes": terms.output_bytes,
    }


def _shown(program: Program, volumes: Mapping[str, str], home: Home) -> list[tuple[str, str, bool]]:
    """What is mounted, where, and whether only to be read.

    Nothing over the pod's own folder, which has to be found.
    """
    found = [(_source(one, volumes), _at(one.path), one.is_read_only) for one in program.mounts]
    own = f"{home.folder}/"
    return [
        (source, path, is_read_only)
        for source, path, is_read_only in found
        if is_read_only or (source != path and is_shown(path) and not own.startswith(f"{path}/"))
    ]


def _unheld(program: Program) -> str:
    """Why a container can't be started that wants what only a mount gives; empty if it can."""
    if not (wanted := _only_read(program)):
        return ""
    path = wanted[0].path
    return f"mountPath {path}: readOnly can't be held: nothing is mounted for this pod"


def _link(scratch: Path, mount: Mount, volumes: Mapping[str, str]) -> tuple[str, str, bool]:
    """Where below the scratch folder a volume shows that the container would have below the root.

    And what is to be shown there, and whether that is a part of it; the container's first process
    makes the link.
    """
    return _place(scratch, mount), _source(mount, volumes), bool(mount.sub_path)


def _variable(volume: str) -> str:
    """Its name: by it a program finds the volume."""
    return f"MAKEWAY_VOLUME_{volume.upper().replace('-', '_')}"


def _only_read(program: Program) -> list[Mount]:
    return [mount for mount in program.mounts if mount.is_read_only]


def _place(scratch: Path, mount: Mount) -> str:
    return str(scratch / mount.path.lstrip("/"))


def _at(path: str) -> str:
    """A mount path from the root on, spelled in one way."""
    return "/" + os.path.normpath(path).lstrip("/")


def _source(mount: Mount, volumes: Mapping[str, str]) -> str:
    return str(Path(volumes[mount.volume]) / mount.sub_path)
