"""One container under a supervisor: its process, what it prints, and how it ends.

What is printed goes to `<name>.log` as it comes. Beside it, `<name>.times` holds pairs of numbers
of 8 bytes, least significant first: from which byte on, and when in nanoseconds since 1970 that
was printed. `<name>.ended` says that nothing more will come. Of the run before, `previous` stands
in the names.

Of more than is kept, the middle is given back to the disk: a hole in the file, so that what stands
behind it keeps its place. `<name>.gap` says from where to where, as a pair of such numbers.
"""

from __future__ import annotations

import binascii
import errno
import fcntl
import os
import signal
import termios

from makeway.backoff import backoff_s
from makeway.runner.dropping import drop, limit
from makeway.runner.mounting import NotShown, show, show_if_possible
from makeway.runner.probes import Probe
from makeway.runner.processes import (
    die_with_parent,
    dig,
    in_cgroup,
    kill_cgroup,
    kill_session,
    read_or_none,
    remove_cgroups,
    send_signal_to_group,
    write_all,
    write_whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READ_BYTES = 64 * 1024
LOG_MODE = 0o640  # the folder decides who else gets there: nobody, or the server of all accounts
READS_AT_END_MAX = 32  # more than a pipe holds: who got away mustn't keep us by printing on
CANNOT_RUN_CODE, CANNOT_RUN_REASON = 128, "ContainerCannotRun"
HEAD_SHARE = 4  # a quarter of what is kept of a run's output is its beginning
BLOCK_BYTES = 64 * 1024  # a hole ends where one of these does
FOREVER = 1 << 62
DIG_BYTES = 1024 * 1024  # more than that at once is given back
NEXT_TIME_NS = 10_000_000  # what is printed within this time shares its time
TIMES_MAX = 65_536  # after so many, that time is doubled: who prints for weeks fills no disk
START_AGAIN_S = 1.0  # after the machine refused
BACK_OFF_MAX_S = 300.0
BACK_OFF_FORGOTTEN_S = 600.0  # a run this long makes up for those before it


class Container:
    def __init__(
        self,
        program: dict[str, Any],
        logs: str,
        back_off_s: float,
        clock: Callable[[], float],
        owner: dict[str, Any] | None = None,
        shell: dict[str, int] | None = None,
        files: list[tuple[str, str, int]] | None = None,
    ) -> None:
        """`clock` tells the time of day, whoever sets the machine's.

        Files are those of the pod's volumes: path, content in base64, mode.
        The owner is the account that runs it; None: ours, with what its shell allowed itself.
        """
        self.program, self._clock, self._owner = program, clock, owner
        self._shell, self._files = shell or {}, files or []
        self.name: str = program["name"]
        self.is_sidecar: bool = program["is_sidecar"]
        self._groups: list[str] = program["cgroups"]
        self._logs = os.path.join(logs, self.name)
        self._back_off_s = back_off_s
        self._quick_ends = 0  # in a row
        self.pid = 0  # 0: doesn't run
        self.output = -1  # what it prints comes out here
        self.input = -1  # what is written here, it reads; of a terminal it is the same
        self._log = self._times = -1
        self._size = self._timed_ns = self._timed = 0
        kept: int = program["output_bytes"]
        self._head = kept // HEAD_SHARE // BLOCK_BYTES * BLOCK_BYTES
        self._tail = kept - self._head
        self._dig = min(DIG_BYTES, kept // 4)
        self._gap_end = self._head  # up to where the middle was given back
        self._is_full = False  # nothing can be given back, so nothing more is kept
        self._started = 0.0  # by the clock that never jumps
        self.start_at = 0.0  # by the same clock: not before this, when it waits
        self.kill_at: float | None = None  # set: it was asked to end
        self._is_killed = False
        self.status = 0  # how its first process ended, when that is reaped
        self.is_leaderless = False  # that one has ended, and others have time to
        self.probes: dict[str, Probe] = {}
        self._starts = 0
        self._end: dict[str, Any] = {}  # how the latest run ended
        self._last: dict[str, Any] | None = None  # how the one before it ended
        self.state = self._state("waiting", reason="PodInitializing", message="")

    def _state(self, phase: str, **more: Any) -> dict[str, Any]:
        return {
            "phase": phase,
            "restarts": max(self._starts - 1, 0),
            "last": self._last,
            "is_started": False,
            "is_ready": False,
            **more,
        }

    @property
    def leader(self) -> int:
        """Its first process; 0 if there is none any more, and that pid may be another's."""
        return 0 if self.is_leaderless else self.pid

    @property
    def is_running(self) -> bool:
        return bool(self.state["phase"] == "running")

    @property
    def has_ended(self) -> bool:
        return bool(self.state["phase"] == "ended")

    @property
    def has_failed(self) -> bool:
        return self.has_ended and bool(self.state["exit_code"])

    # Starting

    def start(self, now: float) -> None:
        try:
            pid, trouble = self._start()
        except OSError as error:
            self._wait_for_machine(error, now)
            return
        self.pid, self._started, self.kill_at, self._is_killed = pid, now, None, False
        self._starts += 1
        if trouble:
            os.waitpid(pid, 0)
            self._print(f"{trouble}\n".encode())
            self._note_end(CANNOT_RUN_CODE, 0, CANNOT_RUN_REASON, trouble, self._clock())
            return
        self.state = self._state("running", pid=pid, started_at=self._clock())
        self.probes = {
            kind: Probe(settings, now) for kind, settings in self.program["probes"].items()
        }
        self.judge()

    def _start(self) -> tuple[int, str]:
        self._open_logs()
        ends = self._make_streams()
        try:
            if self._owner is not None:  # who opens /dev/stdout opens the pipe anew
                for end in ends:
                    os.fchown(end, self._owner["uid"], self._owner["gid"])
            return self._spawn(*ends)
        finally:
            for end in {*ends}:
                os.close(end)

    def _make_streams(self) -> tuple[int, ...]:
        """Its ends: where it prints, and where it reads if anything can come; ours are noted."""
        if self.program.get("is_terminal"):
            self.output, end = os.openpty()
            self.input = os.dup(self.output)
            os.set_blocking(self.output, False)
            return end, end
        self.output, writing = os.pipe()
        os.set_blocking(self.output, False)
        if not self.program.get("has_input"):
            return (writing,)
        reading, self.input = os.pipe()
        os.set_blocking(self.input, False)
        return writing, reading

    def _wait_for_machine(self, error: OSError, now: float) -> None:
        """No room for its log, or no process to be had: that may pass."""
        self._close()
        self.start_at = now + START_AGAIN_S
        message = f"the machine refuses: {error.strerror}"
        self.state = self._state("waiting", reason="MachineRefused", message=message)

    def _close(self) -> None:
        for descriptor in (self.output, self._log, self._times):
            if descriptor >= 0:
                os.close(descriptor)
        self.output = self._log = self._times = -1
        self.close_input()

    def close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1

    def _open_logs(self) -> None:
        if os.path.exists(f"{self._logs}.log"):
            for kind in ("log", "times", "gap"):
                if os.path.exists(f"{self._logs}.{kind}"):
                    os.replace(f"{self._logs}.{kind}", f"{self._logs}.previous.{kind}")
                elif os.path.exists(f"{self._logs}.previous.{kind}"):
                    os.unlink(f"{self._logs}.previous.{kind}")
        if os.path.lexists(f"{self._logs}.ended"):
            os.unlink(f"{self._logs}.ended")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._times = os.open(f"{self._logs}.times", flags, LOG_MODE)
        self._log = os.open(f"{self._logs}.log", flags, LOG_MODE)
        self._size = self._timed_ns = self._timed = 0
        self._gap_end, self._is_full = self._head, False

    def _spawn(self, output: int, given: int = -1) -> tuple[int, str]:
        """Its pid, and why it doesn't run; empty if it does."""
        told, telling = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(told)
            os.close(telling)
            raise
        if pid == 0:
            try:
                os.setsid()
                die_with_parent(parent)
                if given >= 0:
                    os.dup2(given, 0)
                if given == output:
                    fcntl.ioctl(given, termios.TIOCSCTTY, 0)
                os.dup2(output, 1)
                os.dup2(output, 2)
                self.execute(self.program["argv"], telling)
            except BaseException as error:
                os.write(telling, str(error).encode(errors="replace")[:4000])
            finally:
                os._exit(CANNOT_RUN_CODE)
        os.close(telling)
        with os.fdopen(told, "rb") as file:
            return pid, file.read().decode(errors="replace")

    def enter(self, kept: int = 2, *, is_shown: bool = True) -> None:
        """Have a child of ours become one of the container's; descriptor `kept` stays open.

        Who reads no files need not be shown any volumes.
        """
        is_shown = is_shown and bool(self.program.get("shown"))
        if unheld := self.program.get("unheld"):
            raise NotShown(unheld)
        parent = os.getppid()
        self._enter_cgroups()
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if self._owner is not None:
            drop(self._owner, parent, kept, self._arrange if is_shown else None)
        else:
            limit(self._shell)
            if 0 <= self._shell.get("umask", -1) <= 0o777:
                os.umask(self._shell["umask"])
            if is_shown:
                self._fill_volumes()
                show_if_possible(self.program["shown"], self.program["stage"])

    def _arrange(self) -> None:
        """Volumes, where the container wants them."""
        self._fill_volumes()
        show(self.program["shown"], self.program["stage"])

    def _fill_volumes(self) -> None:
        for path, content, mode in self._files:
            _write(path, content, mode)
        for _, target, *is_part in self.program.get("links", ()):
            if any(is_part) and not os.path.lexists(target):
                os.makedirs(target)  # a part of a volume that isn't there is a new folder

    def execute(self, argv: list[str], kept: int = 2) -> None:
        """Become another program in the container's surroundings."""
        self.enter(kept)
        self._fill_volumes()
        self.become(argv)

    def become(self, argv: list[str], more: dict[str, str] | None = None) -> None:
        """Of a child that has entered: another program, with more variables than the container."""
        views = self.program.get("views", {})  # an older order has no word of them
        for place, target, *_ in self.program.get("links", ()):
            _link(place, views.get(place, target))
        folder = self.program["folder"]
        try:
            os.chdir(folder)
        except OSError as error:
            raise OSError(f"working directory {folder}: {error.strerror}") from None
        try:
            os.execvpe(argv[0], argv, {**self.program["env"], **(more or {})})
        except OSError as error:
            raise OSError(f"{argv[0]}: {error.strerror}") from error

    def _enter_cgroups(self) -> None:
        for group in self._groups:
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write("0")

    # Printing

    def read_output(self) -> bool:
        """Take over what was printed; whether there may be more right now."""
        try:
            piece = os.read(self.output, READ_BYTES)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EIO):  # EIO: nobody has the terminal any more
                return False
            raise
        self._print(piece)
        return len(piece) > 0

    def _print(self, piece: bytes) -> None:
        if not piece or self._is_full:
            return
        try:
            now_ns = int(self._clock() * 1e9)
            next_ns = NEXT_TIME_NS << self._timed // TIMES_MAX
            if now_ns - self._timed_ns >= next_ns or now_ns < self._timed_ns:
                pair = self._size.to_bytes(8, "little") + now_ns.to_bytes(8, "little")
                write_all(self._times, pair)
                self._timed_ns = now_ns
                self._timed += 1
            write_all(self._log, piece)
            self._size += len(piece)
            if self._size - self._tail - self._gap_end >= self._dig:
                self._give_back(self._size - self._tail)
        except OSError:
            # The disk is full: what is printed is lost, what runs goes on.
            self._size = os.fstat(self._log).st_size

    def _give_back(self, end: int) -> None:
        """Keep the head and the tail of what was printed."""
        end -= end % BLOCK_BYTES
        try:
            self._note_gap(self._head, end)
            dig(self._log, self._head, end - self._head)
            self._gap_end = end
        except OSError:
            # This disk can't do that: the head is kept, and it is noted that more has come.
            self._note_gap(self._size, FOREVER)
            self._is_full = True

    def _note_gap(self, start: int, end: int) -> None:
        pair = start.to_bytes(8, "little") + end.to_bytes(8, "little")
        write_whole(f"{self._logs}.gap", pair, mode=LOG_MODE)

    # Ending

    def ask_to_end(self, kill_at: float) -> None:
        """Terminate the process and its group; at `kill_at` they are killed."""
        if not self.is_running:
            return
        if self.kill_at is None:
            send_signal_to_group(self.pid, signal.SIGTERM)
            self.kill_at = kill_at
        self.kill_at = min(self.kill_at, kill_at)

    def has_time(self, now: float) -> bool:
        """Whether it was asked to end and may do so by itself."""
        return self.kill_at is not None and now < self.kill_at and not self._is_killed

    def lose_leader(self) -> None:
        self.is_leaderless = True
        self._give_up_probes()

    def kill_if_due(self, now: float) -> None:
        if self.leader and self.kill_at is not None and now >= self.kill_at:
            kill_session(self.pid)
            self.end_cgroup()
            self._is_killed = True
            self.kill_at = now + 1.0  # until it is gone: who forks meanwhile is killed too

    def in_cgroup(self) -> list[int]:
        """Who belongs to it, if it has a cgroup that tells."""
        try:
            return in_cgroup(self._groups[0]) if self._groups else []
        except OSError:
            return []  # no descriptors

    def end_cgroup(self) -> None:
        """End whoever belongs to it, if it has a cgroup to tell."""
        for group in self._groups[:1]:  # everybody is in all of them
            try:
                kill_cgroup(group)
            except OSError:
                return  # no descriptors; those of its session, and below us, are ended all the same

    def remove_cgroups(self) -> None:
        """When nobody is left in them; whoever gave the order may not be there to do that."""
        remove_cgroups(self._groups)

    def ended(self, now: float) -> None:
        """Its first process is gone and reaped, and so are all others who had time to end."""
        self.is_leaderless = False
        number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0
        code = 128 + number if number else os.WEXITSTATUS(self.status)
        reason = "Completed" if code == 0 else "Error"
        if number == signal.SIGKILL and self._ran_out_of_memory():
            reason = "OOMKilled"
        if now - self._started >= BACK_OFF_FORGOTTEN_S:
            self._quick_ends = 0
        self._note_end(code, number, reason, "", self.state["started_at"])

    def _note_end(
        self, code: int, number: int, reason: str, message: str, started_at: float
    ) -> None:
        self._give_up_probes()
        for _ in range(READS_AT_END_MAX):
            if not self.read_output():
                break
        self._close()
        self._mark_end()
        self.pid = 0
        self._end = {
            "exit_code": code,
            "signal": number,
            "reason": reason,
            "message": message,
            "started_at": started_at,
            "finished_at": self._clock(),
        }
        self.state = self._state("ended", **self._end)

    def _give_up_probes(self) -> None:
        for probe in self.probes.values():
            probe.give_up()
        self.probes = {}

    def _mark_end(self) -> None:
        try:
            os.close(os.open(f"{self._logs}.ended", os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            return  # the disk is full; whoever follows the log waits in vain, the end is known

    def _ran_out_of_memory(self) -> bool:
        """As the cgroup that limits its memory tells, of whichever version."""
        told = [
            read_or_none(os.path.join(group, name)) or b""
            for group in self._groups
            for name in ("memory.events", "memory.oom_control")
        ]
        lines = b"\n".join(told).splitlines()
        return any(line.startswith(b"oom_kill ") and line != b"oom_kill 0" for line in lines)

    def wait_to_restart(self, now: float) -> None:
        """The first time at once, then later and later."""
        delay_s = backoff_s(self._quick_ends, self._back_off_s, BACK_OFF_MAX_S)
        self._quick_ends += 1
        self.start_at = now + delay_s
        self._last = self._end
        reason = "CrashLoopBackOff" if delay_s else "Restarting"
        message = f"back-off {delay_s:g}s restarting container {self.name}"
        self.state = self._state("waiting", reason=reason, message=message)

    # Being asked how it is

    def judge(self) -> None:
        """Draw conclusions from the probes."""
        startup, readiness = self.probes.get("startup"), self.probes.get("readiness")
        is_started = self.is_running and (startup is None or startup.is_passing)
        is_ready = is_started and (readiness is None or readiness.is_passing)
        self.state["is_started"], self.state["is_ready"] = is_started, is_ready

    def step_probes(self, now: float) -> list[float]:
        if not self.is_running or self.kill_at is not None:
            return []
        is_started = self.state["is_started"]
        due = [
            probe.step(now, self)
            for kind, probe in self.probes.items()
            if probe.pid or (kind == "startup") is not is_started
        ]
        grace_s = self.program["grace_s"]
        for kind, probe in self.probes.items():
            if probe.is_failing and kind != "readiness":
                self.ask_to_end(now + grace_s)
        return due if self.kill_at is None else []


def _write(path: str, content: str, mode: int) -> None:
    """A file of a volume, once: as the account that owns it, whatever lies there."""
    if os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        write_whole(path, binascii.a2b_base64(content))
        os.chmod(path, mode)
    except OSError as error:
        raise OSError(f"{path}: {error.strerror}") from None


def _link(place: str, target: str) -> None:
    """Show a volume below the scratch folder where the container would have it below the root."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if not os.path.islink(place):
        os.symlink(target, place)
