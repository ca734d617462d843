"""The GPUs of this machine, as a child process that asks NVML last told of them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from makeway.api.devices import GPU, DeviceId
from makeway.logs import Fields
from makeway.runner.host import GpuPart
from makeway.runner.processes import has_ended, started_ticks
from makeway.watchdog import Pulse

log = logging.getLogger("makeway.gpus")

ASKING_S = 15.0  # a driver that nothing holds open takes seconds to begin
LOOK_EVERY_S = 10.0
COMMAND = (sys.executable, "-m", "makeway.runner.nvml")


class GpuProcess(NamedTuple):
    """A process that used a GPU when it was last looked at."""

    pid: int
    ticks: int | None  # when it was started; None: it can't be seen from here

    def is_gone(self) -> bool:
        """Then it uses nothing any more, though nobody has looked since."""
        return self.ticks is not None and has_ended(self.pid, self.ticks)


class Device(NamedTuple):
    """A GPU, or a part of one, that can be handed out."""

    id: DeviceId
    resource: str
    uuid: str
    model: str
    memory_bytes: int | None
    processes: tuple[GpuProcess, ...] = ()
    links: Mapping[int, int] = {}  # to GPUs by index: the larger, the nearer
    part: GpuPart | None = None  # None: it is a whole one, or nobody tells of which it is a part


def devices_in(answer: Sequence[Mapping[str, Any]]) -> tuple[Device, ...]:
    """What can be handed out: GPUs by index, and of those that are divided the parts by uuid."""
    found: list[Device] = []
    for gpu in answer:
        if gpu["parts"]:
            found += map(_part, gpu["parts"])
        else:
            links = {int(index): near for index, near in gpu["links"].items()}
            found.append(_device(gpu, gpu["index"], GPU)._replace(links=links))
    return tuple(found)


def _device(told: Mapping[str, Any], id: DeviceId, resource: str) -> Device:
    processes = tuple(GpuProcess(pid, started_ticks(pid)) for pid in told["processes"])
    return Device(id, resource, told["uuid"], told["model"], told["memory"], processes)


def _part(told: Mapping[str, Any]) -> Device:
    numbers = {name: told[name] for name in ("gpu", "instance", "compute")}
    part = None if None in numbers.values() else GpuPart(**numbers)
    return _device(told, told["uuid"], f"nvidia.com/mig-{told['profile']}")._replace(part=part)


def capacity_of(devices: Sequence[Device]) -> dict[str, str]:
    counts: dict[str, int] = {}
    for device in devices:
        counts[device.resource] = counts.get(device.resource, 0) + 1
    return {resource: str(count) for resource, count in counts.items()}


# --- asking ---


class Nvml:
    """Asks in a child process; one that hangs in the driver is left behind, not waited for."""

    def __init__(self, command: Sequence[str] = COMMAND, limit_s: float = ASKING_S) -> None:
        self._command, self._limit_s = command, limit_s
        self.on_child: Callable[[int], None] = lambda pid: None  # hears of each that is started
        self._stuck: subprocess.Popen[bytes] | None = None
        self.uses: Mapping[DeviceId, float] = {}  # 0 to 1, by index, where the last answer told

    def ask(self) -> tuple[Device, ...] | None:
        """None: no answer, or none in time."""
        if self._stuck is not None and self._stuck.poll() is None:
            return None  # a second one would hang as well
        self._stuck = None
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL
        )
        self.on_child(child.pid)
        try:
            answer, _ = child.communicate(timeout=self._limit_s)
            told = json.loads(answer) if child.returncode == 0 else []
            self.uses = {gpu["index"]: gpu["use"] / 100 for gpu in told if gpu["use"] is not None}
            return devices_in(told) if child.returncode == 0 else None
        except subprocess.TimeoutExpired:
            child.kill()
            self._stuck, self.uses = child, {}
            log.error(Fields(nvml="hangs", limit_s=self._limit_s, hint="nvidia-smi may hang too"))
        except (ValueError, KeyError, TypeError) as error:
            log.error(Fields(nvml="unreadable", error=repr(error)))
        return None


class GpuWatch:
    """Looks at the GPUs from time to time, and tells when others begin or cease to use one."""

    def __init__(self, nvml: Nvml, first: tuple[Device, ...]) -> None:
        self.nvml, self.devices = nvml, first
        self.on_change: Callable[[], None] | None = None
        self.pulse = Pulse("looking at GPUs", LOOK_EVERY_S + 2 * ASKING_S)

    async def run(self) -> None:
        while True:
            self.pulse.turn()
            found = await asyncio.to_thread(self.nvml.ask)
            if found is not None and found != self.devices:
                self.devices = found
                if self.on_change is not None:
                    self.on_change()
            self.pulse.rest(LOOK_EVERY_S)
            await asyncio.sleep(LOOK_EVERY_S)


# --- who uses a GPU that no pod holds ---


def user_text(pid: int, proc: Path = Path("/proc")) -> str:
    """`used by ann (python, pid 12)`; a process that is gone, or another's to know, by its pid."""
    try:
        uid = os.stat(proc / str(pid)).st_uid
        command = (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return f"used by process {pid}"
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    return f"used by {name} ({command}, pid {pid})"
