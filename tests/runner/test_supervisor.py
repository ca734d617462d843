"""What a supervisor asks of Linux while a container that was asked to end has no first process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from makeway.runner import supervisor
from makeway.runner.containers import Container
from makeway.runner.processes import has_children, signal_who_catch
from makeway.runner.supervisor import LOOK_S, Supervisor

GRACE_S = 60.0


class Reaping(Supervisor):
    """Somebody ends at each wake-up; `looks` counts those at all processes of the machine."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *containers: Container, look_s: float = 0.0
    ) -> None:
        self._all = self._main = [*containers]
        self._now = self._look_at = 0.0
        self._has_news = self._has_warned = False
        self._order = {"warning": 10}
        self._ended = self.looks = 0
        self.clock, self._look_s = 0.0, look_s
        monkeypatch.setattr(supervisor, "living_below", self._look)
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: self.clock))

    def _reap_next(self) -> bool:
        self._ended += 1
        return self._ended % 2 == 1

    def _look(self, _: int) -> dict[int, tuple[int, int]]:
        """Each container has somebody left."""
        self.looks += 1
        self.clock += self._look_s
        return {one.pid + 1: (one.pid, one.pid) for one in self._all}

    def wake_up(self, times: int, every_s: float) -> None:
        for _ in range(times):
            self.clock += every_s
            self._now = self.clock
            self._reap()


def container(name: str, pid: int, *, is_leaderless: bool) -> Container:
    program = {"name": name, "is_sidecar": False, "cgroups": [], "output_bytes": 0}
    made = Container(program, "", 0.0, lambda: 0.0)
    made.state["phase"], made.pid, made.kill_at = "running", pid, GRACE_S
    made.is_leaderless = is_leaderless
    return made


def test_who_forks_a_lot_does_not_have_all_processes_looked_at_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred containers, so that somebody has to look whose others are: for 1 s, at 1000 ends.

    They are looked at together, 5 times.
    """
    forking = [container(f"forks-{n}", 100 + n * 10, is_leaderless=True) for n in range(100)]
    reaping = Reaping(monkeypatch, *forking)
    reaping.wake_up(1000, every_s=0.001)

    assert 1 / LOOK_S <= reaping.looks <= 1 / LOOK_S + 1


def test_a_look_that_takes_long_is_followed_by_as_long_a_pause_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes 1 s: in a pause of 0.2 s that is asked every 0.05 s, three see no other."""
    reaping = Reaping(
        monkeypatch,
        container("forks", 100, is_leaderless=True),
        container("runs", 200, is_leaderless=False),
        look_s=1.0,
    )
    reaping.wake_up(4, every_s=0.05)

    assert reaping.looks == 1


def test_of_one_container_all_who_are_left_are_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "has_children", lambda: True)
    reaping = Reaping(monkeypatch, container("forks", 100, is_leaderless=True))
    reaping.wake_up(1000, every_s=0.001)

    assert reaping.looks == 0


def test_a_warning_goes_to_no_session_whose_first_process_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its number may be another's by then."""
    warned: list[int] = []
    monkeypatch.setattr(supervisor, "signal_who_catch", lambda session, _: warned.append(session))
    Reaping(
        monkeypatch,
        container("left", 100, is_leaderless=True),
        container("runs", 200, is_leaderless=False),
    )._warn()

    assert warned == [200]


def test_who_has_no_children_is_told_so() -> None:
    child = os.fork()
    if child == 0:
        os._exit(int(has_children()))
    assert has_children()

    assert os.waitpid(child, 0)[1] == 0


def test_the_name_of_a_program_does_not_tell_what_it_catches() -> None:
    """It may look like another line; the supervisor would end of it, and with it the pod."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
            Path("/proc/self/comm").write_bytes(b"a\rSigCgt:")
            signal_who_catch(os.getpid(), signal.SIGUSR1)
        finally:
            os._exit(1)

    assert os.waitpid(child, 0)[1] == 0
