"""The program that runs one pod, outlives Makeway, and notes how the pod's containers ended.

It is started with the pod's folder, in which it finds `order.json`: what to run. There it keeps
`state.json`, always whole and on disk before anybody acts on it. It ends when the pod is over.

- **A pod runs once.** The supervisor holds `lock` for life, and a pod that has a `state.json` had
  a supervisor: whoever comes second goes away. The first `state.json` is written before the first
  process is started.
- **Nothing outlives it.** Its containers die with it; orphans below it become its children and are
  ended with the pod.
- **Asking it to stop**: write `stop.json` (`{"grace_s": 30}`), then send SIGTERM. Again with less
  grace, if it takes too long. The grace is for all processes of a container: when its first one, a
  shell perhaps, has ended, the others have the rest of it.
- **SIGTERM without that file** comes from who tells every process to end, before the machine goes
  down: the pod is stopped, and `state.json` says `is_swept`. After a reboot that is no end of its
  own.
- **A warning**: an order may name a signal that comes some time before SIGTERM, for programs that
  save their work then. Only processes that catch it get it: others would die of it.
- **Others may join**: programs that somebody starts in a container that runs, and connections to
  its ports (`sessions`).
- It tells of a new state by a line in the pipe `changes`, if somebody listens there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import time

from makeway.runner.containers import Container
from makeway.runner.processes import (
    adopt_orphans,
    boot_id,
    children_of,
    flush,
    has_children,
    living_below,
    read_or_none,
    remove_cgroups,
    send_signal,
    send_signal_to_group,
    signal_who_catch,
    started_ticks,
    write_last,
    write_whole,
)
from makeway.runner.sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAVE_AGAIN_S = 1.0  # when the disk is full
WAIT_MAX_S = 86_400.0  # poll(2) counts milliseconds in 31 bits
SWEEP_S = 1.0  # between the first and the last process that is told to end
STRAYS_S = 10.0  # to be gone after they were killed
STRAYS_PAUSE_S = 0.002
LOOK_S = 0.2  # at most so often all processes of the machine are looked at for who is left
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Supervisor:
    def __init__(self, folder: str, order: dict[str, Any]) -> None:
        self._folder, self._order = folder, order
        back_off_s, logs = order["back_off_s"], order["logs"]
        who = order.get("owner"), order.get("shell_limits"), order.get("files")

        def contained(programs: list[dict[str, Any]]) -> list[Container]:
            return [Container(one, logs, back_off_s, self._clock, *who) for one in programs]

        self._init, self._main = contained(order["init"]), contained(order["containers"])
        self._all = [*self._init, *self._main]
        if not self._init:
            for container in self._main:
                container.state["reason"] = "ContainerCreating"
        self._now = time.monotonic()
        deadline_s = order["deadline_s"]
        self._deadline = None if deadline_s is None else self._now + deadline_s
        after_s = order.get("warning_after_s")  # an order of before has no word of warnings
        self._warn_at = None if after_s is None else self._now + after_s
        self._has_warned = not order.get("warning")
        self._term_at: float | None = None  # when SIGTERM follows the warning
        self._kill_at = 0.0  # when SIGKILL follows SIGTERM
        self._is_stopping = self._is_over = self._is_swept = False
        self._reason = self._message = ""
        pid = os.getpid()
        self._identity = {"pid": pid, "ticks": started_ticks(pid), "boot": boot_id()}
        self._began_at = self._clock()
        self._saved = b""
        self._save_at = 0.0
        self._has_news = False  # somebody ended, perhaps the last one of a container
        self._look_at = 0.0  # not before this for who is left
        self._poll = select.poll()
        self._outputs: dict[int, Container] = {}  # by what their output is read from
        self._signals = self._catch_signals()
        self._sessions = Sessions(folder, self._poll, self._all)

    def _clock(self) -> float:
        """The time of day as Makeway had it when it gave the order, however that was set since."""
        offset_s: float = self._order["clock_offset_s"]
        return offset_s + time.clock_gettime(time.CLOCK_BOOTTIME)

    def _catch_signals(self) -> int:
        """From here on signals only wake us; SIGTERM was held back since we were started."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        self._poll.register(reading, select.POLLIN)
        return reading

    def run(self) -> None:
        while not self._save():  # nothing is started before it can be noted
            time.sleep(SAVE_AGAIN_S)
        self._heed_stop()
        while not self._is_over:
            due = self._step()
            if not self._is_over:
                self._save()
                self._wait(due)
        self._end_strays()
        for container in self._all:
            container.remove_cgroups()
        remove_cgroups(self._order.get("cgroups", ()))  # an older order has none
        self._look_for_sweep()
        while not self._save():
            time.sleep(SAVE_AGAIN_S)

    # Waiting

    def _wait(self, due: list[float]) -> None:
        if self._save_at:
            due.append(self._save_at)
        delay_s = max(min(due, default=float("inf")) - time.monotonic(), 0.0)
        ready = self._poll.poll(min(delay_s, WAIT_MAX_S) * 1000 + 1)
        self._now = time.monotonic()  # at once: a grace counts from now, not from before the wait
        for descriptor, event in ready:
            if descriptor == self._signals:
                if signal.SIGTERM in os.read(self._signals, 4096):
                    self._heed_stop(is_told=True)
            elif self._sessions.heed(descriptor, event, self._now):
                continue
            elif event & select.POLLIN:
                self._outputs[descriptor].read_output()
            else:  # nobody can print any more, though the process may go on
                self._watch_no_more(descriptor)
        self._reap()

    def _watch_no_more(self, descriptor: int) -> None:
        if self._outputs.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _heed_stop(self, *, is_told: bool = False) -> None:
        asked = read_or_none(os.path.join(self._folder, "stop.json"))
        if asked is not None:
            self._stop(json.loads(asked)["grace_s"])
        elif is_told:
            self._is_swept = True
            self._stop(self._order["grace_s"])

    def _look_for_sweep(self) -> None:
        """Who tells every process to end may have come to a container first."""
        is_unasked = any(
            container.kill_at is None and container.state.get("signal") == signal.SIGTERM
            for container in self._all
        )
        signals, until = select.poll(), time.monotonic() + SWEEP_S * is_unasked
        signals.register(self._signals, select.POLLIN)
        while signals.poll(max(until - time.monotonic(), 0.0) * 1000):
            if signal.SIGTERM in os.read(self._signals, 4096):
                self._heed_stop(is_told=True)
                return

    def _reap(self) -> None:
        """Take note of everybody who ended."""
        while self._reap_next():
            self._has_news = True
        if self._has_news and self._now >= self._look_at:
            self._has_news = False
            self._note_ends()

    def _reap_next(self) -> bool:
        """A process is looked at before its pid is given back, so its group is surely its own."""
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if found is None:
            return False
        container = next((c for c in self._all if c.leader == found.si_pid), None)
        if container is not None:
            self._lose_leader(container)
        self._sessions.ending(found.si_pid)
        _, status = os.waitpid(found.si_pid, 0)
        if container is not None:
            container.status = status
            if not container.is_leaderless:
                self._note_end(container)
        elif not self._sessions.ended(found.si_pid, status):
            self._answer_probe(found.si_pid, status)
        return True

    def _lose_leader(self, container: Container) -> None:
        """With its first process a container ends as a whole, unless it was asked to end.

        Then the others have the rest of the grace: a shell dies of SIGTERM while the program that
        it started saves its work. Who is in another group has heard of nothing yet.
        """
        self._sessions.end_of(container)
        has_time = container.has_time(self._now)
        left = self._left_of(container, living_below(os.getpid())) if has_time else {}
        if not left:
            send_signal_to_group(container.pid, signal.SIGKILL)
            self._end_rest_of(container)
            return
        container.lose_leader()
        for pid, group in left.items():
            if group != container.pid:
                send_signal(pid, signal.SIGTERM)

    def _left_of(self, container: Container, living: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Who lives of a container but its leader, each with the group that it is in."""
        is_alone = self._has_all(container)
        own = set() if is_alone else {*container.in_cgroup()}
        return {
            pid: group
            for pid, (group, session) in living.items()
            if is_alone or session == container.pid or pid in own
        }

    def _note_ends(self) -> None:
        """Of those without a leader of whom nobody is left.

        Without a look at all processes if that can be: who forks a lot would have us look on. Else
        with one for all of them, and then a pause, however long that took.
        """
        living: dict[int, tuple[int, int]] | None = None
        for container in [one for one in self._all if one.is_leaderless]:
            if self._has_all(container):
                is_over = not has_children()
            else:
                living = living_below(os.getpid()) if living is None else living
                is_over = not self._left_of(container, living)
            if is_over:
                self._note_end(container)
        if living is not None:
            self._look_at = time.monotonic() + LOOK_S

    def _has_all(self, container: Container) -> bool:
        """Whether all who live below us are its own.

        What a container has left that ended without being asked to has no time to end.
        """
        return self._is_alone(container) and not any(
            other.has_ended and other.kill_at is None
            for other in self._main
            if other is not container
        )

    def _is_alone(self, container: Container) -> bool:
        return not any(other.is_running for other in self._all if other is not container)

    def _end_rest_of(self, container: Container) -> None:
        container.end_cgroup()
        if self._is_alone(container) and not container.probes:
            self._end_strays(but=container.leader)
        else:
            for pid in self._left_of(container, living_below(os.getpid())):
                send_signal(pid, signal.SIGKILL)

    def _note_end(self, container: Container) -> None:
        self._watch_no_more(container.output)
        container.ended(self._now)

    def _answer_probe(self, pid: int, status: int) -> None:
        for container in self._all:
            for probe in container.probes.values():
                if probe.pid == pid:
                    probe.answered(status == 0, self._now)
                    container.judge()

    def _end_strays(self, but: int = 0) -> None:
        """Kill who is left below us; who loses its parent thereby comes to us and is next."""
        until = time.monotonic() + STRAYS_S
        while time.monotonic() < until:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is not None and found.si_pid != but:
                self._sessions.ended(*os.waitpid(found.si_pid, 0))
                continue
            left = [pid for pid in children_of(os.getpid()) if pid != but]
            if not left:
                return
            for pid in left:
                send_signal(pid, signal.SIGKILL)
                self._sessions.ended(*os.waitpid(pid, os.WNOHANG))
            time.sleep(STRAYS_PAUSE_S)

    # What comes next

    def _step(self) -> list[float]:
        """Start, stop and ask whoever is due; when to look again at the latest."""
        due: list[float] = []
        if self._deadline is not None and not self._is_stopping:
            if self._now >= self._deadline:
                self._reason = "DeadlineExceeded"
                self._message = "Pod was active on the node longer than the specified deadline"
                self._stop(self._order["grace_s"])
            else:
                due.append(self._deadline)
        if not self._is_stopping:
            due += self._go_on()
            due += self._warn_in_time()
        if self._term_at is not None:
            if self._now >= self._term_at:
                self._terminate()
            else:
                due.append(self._term_at)
        for container in self._all:
            if container.is_leaderless and not container.has_time(self._now):
                self._end_rest_of(container)
                self._note_end(container)
            container.kill_if_due(self._now)
            if container.kill_at is not None and container.is_running:
                due.append(container.kill_at)
            if container.is_leaderless and self._has_news:
                due.append(self._look_at)
            due += container.step_probes(self._now)
        due += self._sessions.step(self._now)
        if self._is_stopping and not any(container.is_running for container in self._all):
            self._is_over = True
        return due

    def _stop(self, grace_s: float) -> None:
        """With a warning first, if one is wanted and there was none; then SIGTERM, then the end."""
        lead_s = 0.0 if self._has_warned else self._order["warning_lead_s"]
        term_at = self._now + min(lead_s, grace_s)
        if self._is_stopping and self._term_at is not None:
            term_at = min(self._term_at, self._now + grace_s)
        self._is_stopping, self._kill_at, self._term_at = True, self._now + grace_s, term_at
        if any(container.is_running for container in self._all):
            self._warn()
        if term_at <= self._now:
            self._terminate()

    def _terminate(self) -> None:
        self._term_at = None
        for container in self._all:
            container.ask_to_end(self._kill_at)

    def _warn_in_time(self) -> list[float]:
        """The job's time is about to be over: a program may save its work, and go on."""
        if self._has_warned or self._warn_at is None:
            return []
        if self._now < self._warn_at:
            return [self._warn_at]
        self._warn()
        return []

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            for container in self._all:
                if container.leader:
                    signal_who_catch(container.leader, self._order["warning"])

    def _go_on(self) -> list[float]:
        """Init containers one after the other, then the others together."""
        due: list[float] = []
        for container in self._init:
            due += self._keep(container, "Always" if container.is_sidecar else self._init_policy)
            if self._is_stopping:
                return due
            is_done = (
                container.state["is_started"]
                if container.is_sidecar
                else (container.has_ended and not container.has_failed)
            )
            if not is_done:
                return due
        for container in self._main:
            due += self._keep(container, self._order["restart_policy"])
        if all(container.has_ended for container in self._main):
            self._stop(self._order["grace_s"])
        return due

    @property
    def _init_policy(self) -> str:
        """An init container that succeeded is never started again."""
        return "Never" if self._order["restart_policy"] == "Never" else "OnFailure"

    def _keep(self, container: Container, policy: str) -> list[float]:
        """Have a container run as its policy says."""
        if container.has_ended and (
            policy == "Always" or (policy == "OnFailure" and container.has_failed)
        ):
            container.wait_to_restart(self._now)
        if container.has_failed and container in self._init:
            self._stop(self._order["grace_s"])  # nothing can come of this pod
        if container.state["phase"] != "waiting":
            return []
        if self._now < container.start_at:
            return [container.start_at]
        container.start(self._now)
        if not container.is_running:
            return [max(self._now, container.start_at)]
        self._outputs[container.output] = container
        self._poll.register(container.output, select.POLLIN)
        return []

    # Telling

    def _save(self) -> bool:
        """Note the state where it changed; whether it is noted."""
        state = {
            "supervisor": self._identity,
            "began_at": self._began_at,
            "is_over": self._is_over,
            "is_swept": self._is_swept,
            "reason": self._reason,
            "message": self._message,
            "containers": {container.name: container.state for container in self._all},
        }
        content = json.dumps(state).encode()
        if content == self._saved:
            return True
        try:
            write = write_last if self._is_over else write_whole
            write(os.path.join(self._folder, "state.json"), content, durably=True)
        except FileNotFoundError:
            return True  # the pod was removed as soon as it was seen to be over
        except OSError as error:
            if not self._saved and error.errno not in _FULL:
                raise  # nothing was started yet
            self._save_at = time.monotonic() + SAVE_AGAIN_S
            return False
        self._saved, self._save_at = content, 0.0
        self._tell()
        return True

    def _tell(self) -> None:
        try:
            pipe = os.open(self._order["changes"], os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # nobody listens
        try:
            os.write(pipe, self._order["uid"].encode() + b"\n")
        except BlockingIOError:
            return  # they are behind, and will look by themselves
        finally:
            os.close(pipe)


def main(*arguments: str) -> None:
    """The pod's folder comes last, by which a supervisor is known; before it, locks of its GPUs."""
    *locks, folder = arguments
    for descriptor in locks:
        os.set_inheritable(int(descriptor), False)  # they are no business of its containers
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if os.path.exists(os.path.join(folder, "state.json")):
        return
    path = os.path.join(folder, "order.json")
    with open(path, "rb") as file:
        order = json.load(file)
    flush(path)  # whoever gave the order had no time for that
    os.chdir(folder)
    adopt_orphans()
    Supervisor(folder, order).run()
