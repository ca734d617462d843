"""What outlives the pod it belongs to: processes that got away, and cgroups that aren't empty."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable

from makeway.logs import Fields
from makeway.runner.cgroups import leave_account
from makeway.runner.processes import (
    adopt_orphans,
    children_of,
    command_of,
    in_cgroup,
    kill_cgroup,
    orphans_since,
    send_signal,
)

log = logging.getLogger("makeway.runner")

OVERDUE_S = 10.0  # after the last word to end, for who should have ended by then
SUSPECTS_MAX = 5
GIVEN_UP = float("inf")


class LeftGroups:
    """Cgroups of pods that are over; they go when they are empty."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, groups: Iterable[str]) -> None:
        for group in groups:
            self._since.setdefault(group, time.monotonic())

    def remove_empty(self) -> None:
        """Whoever doesn't end in one is named."""
        for group, since in list(self._since.items()):
            try:
                os.rmdir(group)
            except FileNotFoundError:
                pass
            except OSError:
                self._insist(group, since)
                continue
            del self._since[group]
            leave_account(group)

    def _insist(self, group: str, since: float) -> None:
        if since == GIVEN_UP:
            return
        kill_cgroup(group)
        if time.monotonic() - since > OVERDUE_S:
            tell_escaped(in_cgroup(group), is_ended=False)
            self._since[group] = GIVEN_UP


class Adopted:
    """Processes that got away from a supervisor that was killed, and are our children by that."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._others = set(children_of(os.getpid()))  # from before: no business of ours
        adopt_orphans()

    def __bool__(self) -> bool:
        return bool(self._pids)

    def spare(self, pid: int) -> None:
        self._others.add(pid)

    def end(self, supervisors: Iterable[int]) -> None:
        """End all children but the supervisors, and what those leave in turn."""
        spared = self._others.union(supervisors)
        for pid in children_of(os.getpid()):
            if pid not in spared:
                if pid not in self._pids:
                    tell_escaped([pid], is_ended=True)
                self._pids.add(pid)
                send_signal(pid, signal.SIGKILL)
        for pid in list(self._pids):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self._pids.discard(pid)


def tell_escaped(pids: Iterable[int], *, is_ended: bool) -> None:
    for pid in pids:
        if command := command_of(pid):  # who is about to end has none any more
            log.warning(Fields(escaped=pid, command=command, is_ended=str(is_ended).lower()))


def suspects(ticks: int, adopters: set[int], owner: int) -> str:
    """Who may be left of a pod whose supervisor began at `ticks`, where nothing tells for sure."""
    found = orphans_since(ticks, adopters, owner) if ticks else []
    found = [pid for pid in found if "makeway.runner.supervisor" not in command_of(pid)]
    if not found:
        return ""
    tell_escaped(found, is_ended=False)
    named = [f"{pid} ({command_of(pid)[:60].strip()})" for pid in found[:SUSPECTS_MAX]]
    return f"; these processes may be left of it: {', '.join(named)}"
