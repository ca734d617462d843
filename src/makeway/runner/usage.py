"""What pods and the machine use of CPU and memory, as Linux counts it.

Nobody looks while nobody asks. A use of CPU is that between two looks: an earlier one that isn't
old, or one that is taken for the purpose. A pod is all that is below its supervisor; what a process
used is added to its parent's account when it has ended. Memory is what the container's cgroup
counts, without files that can be read again; where none does, it is the memory that its processes
don't share with files.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from makeway.api.devices import GPU, DeviceId
from makeway.runner.host import PodState, Running
from makeway.runner.processes import read_or_none

PAUSE_S = 1.0  # between two looks where there is no earlier one
FRESH_S = 1.0  # a look is good for everybody who asks within this time
OLD_S = 60.0
CGROUPS = "/sys/fs/cgroup"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    own_s: float
    waited_s: float  # of its children that are gone
    memory_bytes: int


class Root(NamedTuple):
    """Where a pod begins."""

    supervisor: int
    running: list[str]  # containers
    is_alone: bool  # the pod has one container, and had no other


@dataclass(frozen=True, slots=True)
class Amount:
    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Of a span of time that ends at `at`."""

    cpus: float
    memory_bytes: int
    at: float
    window_s: float
    gpus: float | None = None  # how many were busy, as NVML told last; None: it doesn't


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    at: float
    moment: float  # by the clock that never jumps
    machine: Amount
    pods: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)  # uid -> container


class Host(Protocol):
    def states(self) -> Mapping[str, PodState]: ...

    def supervisors(self) -> Mapping[str, int]: ...


class Meter:
    def __init__(
        self,
        clock: Callable[[], float],
        host: Host,
        own_node: str,
        gpus: Callable[[], Mapping[DeviceId, float]] = dict,
    ) -> None:
        """`own_node` is this machine as a whole; others are what their pods are.

        `gpus` are the shares of time in which each was busy, as far as anybody knows.
        """
        self._clock, self._host, self._own_node, self._gpus = clock, host, own_node, gpus
        self._looks: list[Look] = []  # the oldest first
        self._one_at_a_time = asyncio.Lock()

    async def pods(self) -> Mapping[str, Mapping[str, Use]]:
        """By uid and container; of pods that have begun only now, nothing is known."""
        await self._look_around()
        now = self._looks[-1]
        found: dict[str, dict[str, Use]] = {}
        for uid, containers in now.pods.items():
            before = next((look for look in self._looks[:-1] if uid in look.pods), None)
            if before is not None:
                known = before.pods[uid]
                found[uid] = {
                    name: _use(known[name], amount, before, now)
                    for name, amount in containers.items()
                    if name in known
                }
                self._add_gpus(uid, found[uid])
        return found

    def _add_gpus(self, uid: str, uses: dict[str, Use]) -> None:
        """Of a pod with one container; of several, nobody says here who has which."""
        state, busy = self._host.states().get(uid), self._gpus()
        held = () if state is None else state.devices.get(GPU, ())
        if len(uses) == 1 and held and all(index in busy for index in held):
            ((name, use),) = uses.items()
            uses[name] = replace(use, gpus=sum(busy[index] for index in held))

    async def node(self, name: str) -> Use:
        uses = await self.pods()
        before, now = self._looks[0], self._looks[-1]
        whole = _use(before.machine, now.machine, before, now)
        if name == self._own_node:
            return whole
        states = self._host.states()
        on_it = [uses[uid] for uid in uses if uid in states and states[uid].node == name]
        parts = [use for containers in on_it for use in containers.values()]
        cpus, memory = sum(use.cpus for use in parts), sum(use.memory_bytes for use in parts)
        return replace(whole, cpus=cpus, memory_bytes=memory)

    async def _look_around(self) -> None:
        """Have a fresh look, and one from before."""
        async with self._one_at_a_time:
            moment = time.monotonic()
            self._looks = [look for look in self._looks if moment - look.moment < OLD_S]
            if len(self._looks) > 1 and moment - self._looks[-1].moment < FRESH_S:
                return
            if not self._looks:
                self._looks.append(await self._look())
            await asyncio.sleep(self._looks[-1].moment + PAUSE_S - time.monotonic())
            self._looks.append(await self._look())

    async def _look(self) -> Look:
        pods, machine = await asyncio.to_thread(_measured, self._roots())
        return Look(at=self._clock(), moment=time.monotonic(), machine=machine, pods=pods)

    def _roots(self) -> dict[str, Root]:
        states, found = self._host.states(), dict[str, Root]()
        for uid, supervisor in self._host.supervisors().items():
            if uid in states:
                containers = states[uid].containers
                running = [name for name, one in containers.items() if isinstance(one.now, Running)]
                found[uid] = Root(supervisor, running, is_alone=len(containers) == 1)
        return found


def _use(before: Amount, now: Amount, earlier: Look, later: Look) -> Use:
    window_s = later.moment - earlier.moment
    cpus = max(now.cpu_s - before.cpu_s, 0.0) / window_s
    return Use(cpus=cpus, memory_bytes=now.memory_bytes, at=later.at, window_s=window_s)


def _measured(roots: Mapping[str, Root]) -> tuple[dict[str, dict[str, Amount]], Amount]:
    children, processes = _processes()
    pods = {
        uid: _pod(uid, root, children, processes)
        for uid, root in roots.items()
        if root.supervisor in processes and root.running
    }
    return pods, _machine()


def _pod(
    uid: str,
    root: Root,
    children: Mapping[int, list[int]],
    processes: Mapping[int, Process],
) -> dict[str, Amount]:
    """Its containers; a process that is in no cgroup that tells counts as the first one's."""
    found = dict.fromkeys(root.running, Amount(0.0, 0))
    groups = dict[str, str]()
    left = list(children.get(root.supervisor, ()))
    while left:
        pid = left.pop()
        left += children.get(pid, ())
        name, group = _place_of(pid, uid, root.running)
        if group:
            groups[name] = group
        process, known = processes[pid], found[name]
        cpu_s = known.cpu_s + process.own_s + process.waited_s
        found[name] = Amount(cpu_s, known.memory_bytes + process.memory_bytes)
    for name, group in groups.items():
        found[name] = Amount(found[name].cpu_s, _counted(group))
    if root.is_alone:  # else nobody knows whose those were that the supervisor has waited for
        (name,), (amount,) = found.keys(), found.values()
        waited_s = processes[root.supervisor].waited_s
        found[name] = Amount(amount.cpu_s + waited_s, amount.memory_bytes)
    return found


def _place_of(pid: int, uid: str, containers: list[str]) -> tuple[str, str]:
    """The container of a process, and the folder of the cgroup that counts its memory, if any."""
    lines = os.fsdecode(_read(f"/proc/{pid}/cgroup")).split("\n")
    for name in containers:
        own = [
            line.split(":", 2) for line in lines if line.endswith(f"/pod-{uid}/container-{name}")
        ]
        for _, controllers, inside in own:
            is_v1 = "memory" in controllers.split(",")
            group = f"{CGROUPS}/memory{inside}" if is_v1 else f"{CGROUPS}{inside}"
            if os.path.exists(f"{group}/memory.{'usage_in_bytes' if is_v1 else 'current'}"):
                return name, group  # else we see another part of the hierarchy than we are in
        if own:
            return name, ""
    return containers[0], ""


def _counted(group: str) -> int:
    """The memory of a cgroup without files that nobody has used lately, as `kubectl top` has it."""
    stat = read_or_none(f"{group}/memory.stat") or b""
    used = read_or_none(f"{group}/memory.current")
    if used is not None:
        return max(int(used) - _line_of(stat, b"inactive_file"), 0)
    used = read_or_none(f"{group}/memory.usage_in_bytes") or b"0"
    return max(int(used) - _line_of(stat, b"total_inactive_file"), 0)


def _processes() -> tuple[dict[int, list[int]], dict[int, Process]]:
    """Who is whose child, and what each has used."""
    children: dict[int, list[int]] = {}
    processes: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        pages = _read(f"/proc/{name}/statm").split()
        if fields and pages:
            own, system, waited, waited_system = map(int, fields[11:15])
            children.setdefault(int(fields[1]), []).append(int(name))
            processes[int(name)] = Process(
                own_s=(own + system) / _TICKS_PER_S,
                waited_s=(waited + waited_system) / _TICKS_PER_S,
                memory_bytes=max(int(pages[1]) - int(pages[2]), 0) * _PAGE_BYTES,
            )
    return children, processes


def _read(path: str) -> bytes:
    return read_or_none(path) or b""


def _line_of(text: bytes, name: bytes) -> int:
    for line in text.splitlines():
        if line.split()[:1] == [name]:
            return int(line.split()[1])
    return 0


def _machine() -> Amount:
    """All that is not idle, and all memory that isn't available."""
    ticks = list(map(int, _read("/proc/stat").splitlines()[0].split()[1:9]))
    busy = sum(ticks) - ticks[3] - ticks[4]  # idle, and waiting for a disk
    memory = _read("/proc/meminfo")
    used_kib = _line_of(memory, b"MemTotal:") - _line_of(memory, b"MemAvailable:")
    return Amount(busy / _TICKS_PER_S, used_kib * 1024)
