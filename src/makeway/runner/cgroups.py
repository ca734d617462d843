"""A cgroup per container, where the system lets us make some: to end it whole, and to limit it.

In a cgroup of version 2 that was delegated to us, memory and CPU are limited too. In one of version
1, or where others have the controllers, a cgroup is there only to know who belongs to a container,
wherever its processes went.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from makeway.logs import Fields

log = logging.getLogger("makeway.runner")

PERIOD_US = 100_000
# Of version 1, the hierarchies that nobody else shares out, and the one that can freeze first.
_PREFERRED = ("freezer", "pids", "name=systemd")


class Cgroups:
    """Made below our own; without one of ours, none."""

    def __init__(
        self, own: Path | None, why_unlimited: str = "", *, can_limit: bool = False
    ) -> None:
        self._own, self._can_limit = own, can_limit
        self._why = why_unlimited  # said once, to the first who has limits; empty: was said

    @staticmethod
    def detect(mounts: str | None = None, membership: str | None = None) -> Cgroups:
        """Find a cgroup of ours that may have children, best one with limits."""
        mounts = Path("/proc/self/mounts").read_text() if mounts is None else mounts
        membership = Path("/proc/self/cgroup").read_text() if membership is None else membership
        why = "there is no cgroup v2"
        for own in _of_version_2(mounts, membership):
            try:
                _delegate(own)
                return Cgroups(own, can_limit=True)
            except OSError as error:
                why = f"{own}: {error.strerror}"
            if _may_have_children(own):
                return Cgroups(own, why)
        for own in _of_version_1(mounts, membership):
            if _may_have_children(own):
                return Cgroups(own, why)
        return Cgroups(None, why)

    def make(
        self, uid: str, container: str, memory_bytes: int | None, cpu_milli: int | None
    ) -> str:
        """The folder of a new cgroup with these limits; empty if there is none to be had."""
        has_limits = memory_bytes is not None or cpu_milli is not None
        if has_limits and not self._can_limit and self._why:
            log.warning(Fields(limits="ignored", why=self._why))
            self._why = ""
        if self._own is None:
            return ""
        group = self._own / f"pod-{uid}-{container}"
        try:
            group.mkdir(exist_ok=True)
        except OSError as error:
            if has_limits and self._can_limit:
                raise
            log.warning(Fields(cgroup=group, error=error))  # it only makes sure of the end
            return ""
        if memory_bytes is not None and self._can_limit:
            (group / "memory.max").write_text(str(memory_bytes))
        if cpu_milli is not None and self._can_limit:
            quota_us = max(cpu_milli * PERIOD_US // 1000, 1000)
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        return str(group)

    def of(self, uid: str) -> list[str]:
        """The folders of a pod's cgroups, for whoever has lost its order."""
        return [] if self._own is None else list(map(str, self._own.glob(f"pod-{uid}-*")))


def _delegate(own: Path) -> None:
    """Make our cgroup one that may have children with limits."""
    leaf = own / "makeway"
    try:
        # A cgroup either has processes or children with limits: we move into a child.
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        (own / "cgroup.subtree_control").write_text("+memory +cpu")
    except OSError:
        with contextlib.suppress(OSError):
            (own / "cgroup.procs").write_text(str(os.getpid()))
            leaf.rmdir()
        raise


def _may_have_children(own: Path) -> bool:
    probe = own / f"makeway-{os.getpid()}"
    try:
        probe.mkdir()
        (probe / "cgroup.procs").stat()
        probe.rmdir()
    except OSError:
        return False
    return True


def _of_version_2(mounts: str, membership: str) -> Iterator[Path]:
    inside = next((line[3:] for line in membership.splitlines() if line.startswith("0::")), None)
    for mounted_at, kind, _ in _mounts(mounts):
        if kind == "cgroup2" and inside is not None:
            yield mounted_at / inside.lstrip("/")


def _of_version_1(mounts: str, membership: str) -> Iterator[Path]:
    places: dict[str, str] = {}
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        names, _, inside = rest.partition(":")
        places |= dict.fromkeys(names.split(","), inside)
    for wanted in _PREFERRED:
        for mounted_at, kind, options in _mounts(mounts):
            if kind == "cgroup" and wanted in options and wanted in places:
                yield mounted_at / places[wanted].lstrip("/")


def _mounts(text: str) -> Iterator[tuple[Path, str, list[str]]]:
    for line in text.splitlines():
        _, mounted_at, kind, options, *_ = line.split()
        yield Path(mounted_at), kind, options.split(",")
