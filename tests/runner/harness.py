"""Pods on this very machine, in a folder of the test's: real processes, short ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from makeway.runner.cgroups import Cgroups
from makeway.runner.host import ContainerState, Ended, PodState, Program, RunOrder
from makeway.runner.leavings import Limits
from makeway.runner.local import LocalHost
from tests.harness.process import end_pods

PATIENCE_S = 60.0  # the machine may be busy
UID = f"pod-{os.getpid()}"  # lost processes are found by it, also those of others who test


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.005)


def shell(script: str, name: str = "main", **more: Any) -> Program:
    return Program(name=name, argv=("sh", "-c", script), env={"PATH": os.environ["PATH"]}, **more)


def order(*containers: Program, uid: str = UID, **more: Any) -> RunOrder:
    settings: dict[str, Any] = {"restart_policy": "Never", "grace_s": 5.0, "back_off_s": 0.05}
    return RunOrder(uid=uid, containers=containers, **(settings | more))


class Machine:
    """A host and its folder; `restarted` is what follows `kill -9`."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, cgroups: Cgroups | None = None
    ) -> None:
        self.folder, self._limits, self._cgroups = folder, limits, cgroups
        self.host = LocalHost(folder, cgroups, limits=limits)

    def restarted(self) -> Machine:
        self.host.close()
        return Machine(self.folder, self._limits, self._cgroups)

    def run(self, what: RunOrder) -> PodState:
        self.host.start(what)
        return self.over(what.uid)

    def state(self, uid: str = UID) -> PodState:
        self.host.look_at_all()
        return self.host.states()[uid]

    def container(self, name: str = "main") -> ContainerState:
        wait_for(lambda: name in self.state().containers)
        return self.state().containers[name]

    def over(self, uid: str = UID) -> PodState:
        wait_for(lambda: self.state(uid).is_over)
        return self.state(uid)

    def log(self, uid: str = UID, name: str = "main.log") -> str:
        path = self.folder / "logs" / uid / name
        return path.read_text() if path.exists() else ""

    def printed(self, text: str, uid: str = UID) -> None:
        wait_for(lambda: text in self.log(uid))

    def supervisor(self, uid: str = UID) -> int:
        wait_for(lambda: self.state(uid).began_at is not None)
        return self.host._supervisors[uid][0]


@contextmanager
def machine_in(
    folder: Path, limits: Limits | None = None, cgroups: Cgroups | None = None
) -> Iterator[Machine]:
    machine = Machine(folder, limits, cgroups)
    try:
        yield machine
    finally:
        end_pods(folder)


def end_of(state: PodState, name: str = "main") -> Ended:
    end = state.containers[name].now
    assert isinstance(end, Ended), end
    return end


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
