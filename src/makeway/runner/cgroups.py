"""Cgroups of each container, where the system lets us make some: to end it whole, and to limit it.

A container is ended by its group in the tree of version 2 where there is one, whatever controllers
that has, else by one of version 1. Memory, CPU and the number of processes are limited in whichever
hierarchy has the controller: version 2 where it was delegated to us, version 1 else; a machine may
have both. Groups are made below our own; root makes one below the mount where ours lies outside.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makeway.logs import Fields

log = logging.getLogger("makeway.runner")

PERIOD_US = 100_000
PIDS_MAX = 8192  # of one container
CONTROLLERS = ("memory", "cpu", "pids")
OWN = "makeway"  # the group that root makes below a mount
# Of version 1, the hierarchies that nobody else shares out, and the one that can freeze first.
_PREFERRED = ("freezer", "pids", "name=systemd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one container; None: none."""

    memory_bytes: int | None = None
    cpu_milli: int | None = None
    pids: int | None = None

    def files(self, controller: str, *, is_v2: bool) -> dict[str, str]:
        """What to write where in a cgroup that has the controller; in this order."""
        match controller:
            case "memory" if self.memory_bytes is not None:
                return _memory_files(self.memory_bytes, is_v2=is_v2)
            case "cpu" if self.cpu_milli is not None:
                quota_us = max(self.cpu_milli * PERIOD_US // 1000, 1000)
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
    is_said: bool = False  # that limits are ignored

    @staticmethod
    def detect(
        mounts: str | None = None,
        membership: str | None = None,
        *,
        is_root: bool | None = None,
        pids_max: int | None = PIDS_MAX,
    ) -> Cgroups:
        """Find cgroups of ours that may have children, best those with limits."""
        mounts = Path("/proc/self/mounts").read_text() if mounts is None else mounts
        membership = Path("/proc/self/cgroup").read_text() if membership is None else membership
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
        return Cgroups(
            own=own,
            v2=v2,
            v1=v1,
            why=f"{', '.join(lacking)}: {why}" if lacking else "",
            pids_max=pids_max,
        )

    def without_limits(self) -> Cgroups:
        """Only to end containers by; somebody wants it so."""
        return Cgroups(own=self.own, pids_max=None)

    def make(
        self, uid: str, container: str, memory_bytes: int | None, cpu_milli: int | None
    ) -> list[str]:
        """The folders of new groups with these limits, first that to end it by; may be none."""
        has_limits = memory_bytes is not None or cpu_milli is not None
        if has_limits and self.why and not self.is_said:
            log.warning(Fields(limits="ignored", why=self.why))
            self.is_said = True
        limits = Limits(memory_bytes=memory_bytes, cpu_milli=cpu_milli, pids=self.pids_max)
        name, made = f"pod-{uid}-{container}", list[str]()
        try:
            if self.own is not None:
                made.append(_made(self.own / name, limits, self.v2, is_v2=True))
            for controller, place in self.v1.items():
                if limits.files(controller, is_v2=False):
                    made.append(_made(place / name, limits, {controller}, is_v2=False))
        except OSError as error:
            if has_limits and (self.v2 or self.v1):
                raise
            log.warning(Fields(cgroup=name, error=error))  # it only makes sure of the end
        return list(dict.fromkeys(made))  # one hierarchy may serve both

    def of(self, uid: str) -> list[str]:
        """The folders of a pod's cgroups, for whoever has lost its order."""
        places = [self.own, *self.v1.values()]
        return [str(path) for place in places if place for path in place.glob(f"pod-{uid}-*")]


def _made(
    group: Path, limits: Limits, controllers: set[str] | frozenset[str], *, is_v2: bool
) -> str:
    group.mkdir(exist_ok=True)
    for controller in sorted(controllers):
        for name, value in limits.files(controller, is_v2=is_v2).items():
            try:
                (group / name).write_text(value)
            except OSError:
                if name not in _OPTIONAL:
                    raise
    return str(group)


class _Found:
    """Where our cgroups are, as the kernel tells."""

    def __init__(self, mounts: str, membership: str, is_root: bool) -> None:
        self._mounts, self._is_root = list(_mounts(mounts)), is_root
        self._inside: dict[str, str] = {}  # hierarchy -> our group in it; version 2 has no name
        for line in membership.splitlines():
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
    for line in text.splitlines():
        _, mounted_at, kind, options, *_ = line.split()
        yield Path(mounted_at), kind, options.split(",")
