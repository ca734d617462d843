"""Limits of memory and CPU, where the system lets us set them (cgroup v2, delegated to us)."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from makeway.logs import Fields

log = logging.getLogger("makeway.runner")

MOUNTED_AT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class Cgroups:
    """A cgroup per container below our own; without limits to set, none."""

    def __init__(self, own: Path | None, why_none: str = "") -> None:
        self._own = own
        self._why_none = why_none  # said once, to the first who needs one; empty: was said

    @staticmethod
    def detect(mounted_at: Path = MOUNTED_AT, membership: str | None = None) -> Cgroups:
        """Find our cgroup and make it one that may have children with limits."""
        text = Path("/proc/self/cgroup").read_text() if membership is None else membership
        inside = next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)
        if inside is None or not (mounted_at / "cgroup.controllers").exists():
            return Cgroups(None, "there is no cgroup v2")
        own = mounted_at / inside.lstrip("/")
        leaf = own / "makeway"
        try:
            # A cgroup either has processes or children with limits: we move into a child.
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(os.getpid()))
            (own / "cgroup.subtree_control").write_text("+memory +cpu")
        except OSError as error:
            with contextlib.suppress(OSError):
                (own / "cgroup.procs").write_text(str(os.getpid()))
                leaf.rmdir()
            return Cgroups(None, f"{own}: {error.strerror}")
        return Cgroups(own)

    def make(
        self, uid: str, container: str, memory_bytes: int | None, cpu_milli: int | None
    ) -> str:
        """The folder of a new cgroup with these limits; empty if there is nothing to limit."""
        if memory_bytes is None and cpu_milli is None:
            return ""
        if self._own is None:
            if self._why_none:
                log.warning(Fields(limits="ignored", why=self._why_none))
                self._why_none = ""
            return ""
        group = self._own / f"pod-{uid}-{container}"
        group.mkdir(exist_ok=True)
        if memory_bytes is not None:
            (group / "memory.max").write_text(str(memory_bytes))
        if cpu_milli is not None:
            quota_us = max(cpu_milli * PERIOD_US // 1000, 1000)
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        return str(group)

    def remove(self, uid: str) -> None:
        for group in self._own.glob(f"pod-{uid}-*") if self._own is not None else ():
            with contextlib.suppress(OSError):
                group.rmdir()
