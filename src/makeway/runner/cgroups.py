"""Cgroups of each container, where the system lets us make some: to end it whole, and to limit it.

A container is ended by its group in the tree of version 2 where there is one, whatever controllers
that has, else by one of version 1. Memory, CPU and the number of processes are limited in whichever
hierarchy has the controller: version 2 where it was delegated to us, version 1 else; a machine may
have both. Groups are made below our own; root makes one below the mount where ours lies outside.

`account-1001/pod-UID/container-main`: memory and CPU are a container's, the number of processes is
a pod's, and where jobs of several accounts run, an account's. Processes are in the innermost only.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makeway.logs import Fields
from makeway.runner.gpu_guard import can_refuse

log = logging.getLogger("makeway.runner")

PERIOD_US = 100_000
CPUS_MAX = 10_000  # of one container; the kernel refuses what is absurd
PIDS_MAX = 8192  # of one pod
ACCOUNTS_PART = 3  # of all processes that the machine can have; as systemd has it for a login
CONTROLLERS = ("memory", "cpu", "pids")
DEVICES = "devices"  # of version 1
OWN = "makeway"  # the group that root makes below a mount
_ACCOUNT = "account-"
# Of version 1, the hierarchies that nobody else shares out, and the one that can freeze first.
_PREFERRED = ("freezer", "pids", "name=systemd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one group; None: none."""

    memory_bytes: int | None = None
    cpu_milli: int | None = None
    pids: int | None = None

    def files(self, controller: str, *, is_v2: bool) -> dict[str, str]:
        """What to write where in a cgroup that has the controller; in this order."""
        match controller:
            case "memory" if self.memory_bytes is not None:
                return _memory_files(self.memory_bytes, is_v2=is_v2)
            case "cpu" if self.cpu_milli is not None:
                asked_us = self.cpu_milli * PERIOD_US // 1000
                quota_us = min(max(asked_us, 1000), CPUS_MAX * PERIOD_US)
                if is_v2:
                    return {"cpu.max": f"{quota_us} {PERIOD_US}"}
                return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
            case "pids" if self.pids is not None:
                return {"pids.max": str(self.pids)}
            case _:
                return {}


def _memory_files(limit: int, *, is_v2: bool) -> dict[str, str]:
    """Swap is none, else the limit would not be one."""
    if is_v2:
        return {"memory.max": str(limit), "memory.swap.max": "0"}
    return {"memory.limit_in_bytes": str(limit), "memory.memsw.limit_in_bytes": str(limit)}


# Not every kernel counts swap.
_OPTIONAL = frozenset({"memory.swap.max", "memory.memsw.limit_in_bytes"})


@dataclass(slots=True, kw_only=True)
class Cgroups:
    own: Path | None = None  # where groups are made to end containers by; None: nowhere
    v2: frozenset[str] = frozenset()  # controllers that are there
    v1: Mapping[str, Path] = field(default_factory=dict)  # where groups with others are made
    why: str = ""  # something can't be limited
    pids_max: int | None = PIDS_MAX
    account_pids_max: int | None = None
    guard: Path | None = None  # who is in a group made here can be kept from GPUs
    is_said: bool = False  # that limits are ignored

    @staticmethod
    def detect(
        mounts: str | None = None,
        membership: str | None = None,
        *,
        is_root: bool | None = None,
        pids_max: int | None = PIDS_MAX,
        account_pids_max: int | None = None,
        guards_gpus: bool = False,
    ) -> Cgroups:
        """Find cgroups of ours that may have children, best those with limits.

        Where GPUs are to be guarded, also such as can do that.
        """
        mounts = _told("mounts") if mounts is None else mounts
        membership = _told("cgroup") if membership is None else membership
        found = _Found(mounts, membership, os.geteuid() == 0 if is_root is None else is_root)
        own, v2, why = found.version_2()
        if own is None:
            own = next(filter(_may_have_children, found.version_1(*_PREFERRED)), None)
        missing = [name for name in CONTROLLERS if name not in v2]
        v1 = {
            name: place
            for name in missing
            if (place := next(filter(_may_have_children, found.version_1(name)), None))
        }
        lacking = [name for name in missing if name not in v1]
        guards = filter(None, (own, *found.version_1(DEVICES))) if guards_gpus else ()
        guard = next(filter(can_refuse, guards), None)
        if guard not in (None, own):
            v1[DEVICES] = guard
        return Cgroups(
            own=own,
            v2=v2,
            v1=v1,
            why=f"{', '.join(lacking)}: {why}" if lacking else "",
            pids_max=pids_max,
            account_pids_max=account_pids_max,
            guard=guard,
        )

    def without_limits(self) -> Cgroups:
        """Only to end containers by; somebody wants it so."""
        devices = {name: place for name, place in self.v1.items() if name == DEVICES}
        return Cgroups(own=self.own, v1=devices, pids_max=None, guard=self.guard)

    def make(
        self,
        uid: str,
        container: str,
        memory_bytes: int | None,
        cpu_milli: int | None,
        account: int | None = None,
    ) -> list[str]:
        """The folders of new groups with these limits, first that to end it by; may be none.

        The account is whom the pod runs as; None: whoever Makeway is, with all that it may.
        """
        limits = Limits(memory_bytes=memory_bytes, cpu_milli=cpu_milli)
        has_limits = limits != Limits()
        if has_limits and self.why and not self.is_said:
            log.warning(Fields(limits="ignored", why=self.why))
            self.is_said = True
        outer = self._outer(uid, account)
        made = list[str]()
        try:
            if self.own is not None:
                made.append(_made(self.own, outer, container, limits, self.v2, is_v2=True))
            for controller, place in self.v1.items():
                wanted = (one.files(controller, is_v2=False) for one in (limits, *outer.values()))
                if controller == DEVICES or any(wanted):
                    made.append(_made(place, outer, container, limits, {controller}, is_v2=False))
        except OSError as error:
            if account is not None or (has_limits and (self.v2 or self.v1)):
                raise  # of an account, processes and GPUs are held there, too
            log.warning(Fields(pod_uid=uid, cgroup=container, error=error))  # it only ends it
        return list(dict.fromkeys(made))  # one hierarchy may serve both

    def _outer(self, uid: str, account: int | None) -> dict[str, Limits]:
        """The groups around that of a container, and their limits; the outermost first."""
        of_pod = {f"pod-{uid}": Limits(pids=self.pids_max)}
        if account is None:
            return of_pod
        return {f"{_ACCOUNT}{account}": Limits(pids=self.account_pids_max)} | of_pod

    def of(self, uid: str) -> list[str]:
        """The folders of a pod's cgroups, inner ones first, for whoever has lost its order."""
        places = [place for place in (self.own, *self.v1.values()) if place]
        pods = [
            p
            for place in places
            for at in ("", f"{_ACCOUNT}*/")
            for p in place.glob(f"{at}pod-{uid}")
        ]
        return [str(path) for pod in pods for path in (*filter(Path.is_dir, pod.iterdir()), pod)]


def around(groups: Iterable[str]) -> list[str]:
    """The pod's groups around those of its containers."""
    outer = dict.fromkeys(os.path.dirname(group) for group in groups)
    return [group for group in outer if os.path.basename(group).startswith("pod-")]


def leave_account(group: str) -> None:
    """A pod's group is gone: with the last of an account, the account's."""
    account = os.path.dirname(group)
    if os.path.basename(account).startswith(_ACCOUNT):
        with contextlib.suppress(OSError):
            os.rmdir(account)


def processes_of_an_account() -> int:
    """How many it may have, if nobody says."""
    told = [Path(f"/proc/sys/kernel/{name}").read_text() for name in ("pid_max", "threads-max")]
    return min(map(int, told)) // ACCOUNTS_PART


def _made(
    place: Path,
    outer: Mapping[str, Limits],
    name: str,
    limits: Limits,
    controllers: Collection[str],
    *,
    is_v2: bool,
) -> str:
    """A group, in those around it."""
    group = place
    for around, its in outer.items():
        group /= around
        group.mkdir(exist_ok=True)
        _limit(group, its, controllers, is_v2=is_v2)
        if is_v2 and controllers:
            (group / "cgroup.subtree_control").write_text(_all(controllers))
    group /= f"container-{name}"  # version 1 has files of its own there, such as `tasks`
    group.mkdir(exist_ok=True)
    _limit(group, limits, controllers, is_v2=is_v2)
    return str(group)


def _all(controllers: Collection[str]) -> str:
    return " ".join(f"+{name}" for name in sorted(controllers))


def _limit(group: Path, limits: Limits, controllers: Collection[str], *, is_v2: bool) -> None:
    for controller in sorted(controllers):
        for name, value in limits.files(controller, is_v2=is_v2).items():
            try:
                (group / name).write_text(value)
            except OSError:
                if name not in _OPTIONAL:
                    raise


class _Found:
    """Where our cgroups are, as the kernel tells."""

    def __init__(self, mounts: str, membership: str, is_root: bool) -> None:
        self._mounts, self._is_root = list(_mounts(mounts)), is_root
        self._inside: dict[str, str] = {}  # hierarchy -> our group in it; version 2 has no name
        for line in _lines(membership):
            _, _, rest = line.partition(":")
            names, _, inside = rest.partition(":")
            self._inside |= dict.fromkeys(names.split(","), inside)

    def version_2(self) -> tuple[Path | None, frozenset[str], str]:
        """Where groups are made, with which limits, and why not with all of them."""
        why, usable = "there is no cgroup v2", list[tuple[Path, frozenset[str]]]()
        for place, is_ours in self._places("cgroup2", ""):
            try:
                controllers = _delegate(place) if is_ours else _grown(place)
            except OSError as error:
                why, controllers = f"{place}: {error.strerror}", frozenset()
            if controllers == {*CONTROLLERS}:
                return place, controllers, ""
            if controllers:
                why = f"{place} was not given it"
            if _may_have_children(place):
                usable.append((place, controllers))
        if not usable:
            return None, frozenset(), why
        place, controllers = max(usable, key=lambda one: len(one[1]))
        return place, controllers, why

    def version_1(self, *names: str) -> Iterator[Path]:
        for name in names:
            for place, is_ours in self._places("cgroup", name):
                if not is_ours:
                    with contextlib.suppress(OSError):
                        place.mkdir(exist_ok=True)
                yield place

    def _places(self, kind: str, name: str) -> Iterator[tuple[Path, bool]]:
        """Our own group in a hierarchy, and for root one below its mount."""
        for mounted_at, found, options in self._mounts:
            if found == kind and (not name or name in options) and name in self._inside:
                inside = self._inside[name].lstrip("/")
                yield mounted_at / inside, True
                if self._is_root:
                    yield mounted_at / OWN, False


def _delegate(own: Path) -> frozenset[str]:
    """Make our cgroup one that may have children with limits; with which controllers."""
    leaf = own / OWN
    try:
        # A cgroup either has processes or children with limits: we move into a child.
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        return _enabled(own)
    except OSError:
        with contextlib.suppress(OSError):
            (own / "cgroup.procs").write_text(str(os.getpid()))
            leaf.rmdir()
        raise


def _grown(place: Path) -> frozenset[str]:
    """A group without processes, for children with limits."""
    _enabled(place.parent)
    place.mkdir(exist_ok=True)
    return _enabled(place)


def _enabled(group: Path) -> frozenset[str]:
    """Which controllers the children of a group have from now on."""
    enabled = set()
    refusal: OSError | None = None
    for name in CONTROLLERS:
        try:
            (group / "cgroup.subtree_control").write_text(f"+{name}")
            enabled.add(name)
        except OSError as error:
            refusal = error
    if refusal is not None and not enabled:
        raise refusal
    return frozenset(enabled)


def _may_have_children(own: Path) -> bool:
    probe = own / f"makeway-{os.getpid()}"
    try:
        probe.mkdir()
        (probe / "cgroup.procs").stat()
        probe.rmdir()
    except OSError:
        return False
    return True


def _mounts(text: str) -> Iterator[tuple[Path, str, list[str]]]:
    for line in _lines(text):
        _, mounted_at, kind, options, *_ = line.split(" ")
        yield Path(mounted_at), kind, options.split(",")


def _told(name: str) -> str:
    """What the kernel tells of us; names of folders are in it, and may be no text."""
    return os.fsdecode(Path(f"/proc/self/{name}").read_bytes())


def _lines(text: str) -> list[str]:
    """At what ends a line for the kernel, not all that does for Python: that may be in names."""
    return [line for line in text.split("\n") if line]
