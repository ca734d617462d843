"""Programs that somebody starts in a pod that runs, and connections to its ports.

Whoever wants one (`calls`) listens at a socket of his in the pod's folder, and writes its name into
the pipe `calls`. The supervisor comes there and is told in one message of JSON what is wanted:

- `exec`: a child of ours becomes a process of the container, as one of its probes does, makes a
  terminal or pipes, hands their other ends over as descriptors, and becomes the program. When that
  ends, `{"code": 3}` follows.
- `attach`: the container's own input, or its terminal, is handed over.
- `connect`: such a child looks whether a process of the pod listens at the port, connects, and
  hands the connection over.

That line is all there is of a session: when its other end is closed, what was started through it
gets SIGHUP, and what doesn't end by that is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import termios

from makeway.runner.processes import (
    die_with_parent,
    kill_session,
    listening_at,
    send_signal,
    session_and_below,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from makeway.runner.containers import Container

PIPE = "calls"
SESSIONS_MAX = 32  # of one pod at once
MESSAGE_MAX = 192 * 1024  # less than what fits into a socket
NAMES_MAX_BYTES = 64 * 1024  # all that a pipe holds
NAME_MAX = 64
HANG_UP_S = 5.0  # from SIGHUP to SIGKILL
CANNOT_RUN, NOT_FOUND = 126, 127  # exit codes, as a shell has them
REFUSED_CODE = 125
TERMINAL = "xterm"  # where the container says nothing else
CONNECT_S = 5.0


class Session:
    """A line, and what was started through it."""

    __slots__ = ("container", "is_attached", "kill_at", "line", "pid")

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.pid = 0  # 0: nothing was started
        self.is_attached = False  # somebody has the container's input
        self.container: Container | None = None
        self.kill_at: float | None = None  # set: its other end was closed

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self.line.send(json.dumps(message).encode())
        except OSError:
            return  # nobody is there any more


class Sessions:
    def __init__(self, folder: str, poll: select.poll, containers: list[Container]) -> None:
        self._folder, self._poll, self._containers = folder, poll, containers
        self._lines: dict[int, Session] = {}  # by descriptor
        self._calls = self._open()

    def _open(self) -> int:
        path = os.path.join(self._folder, PIPE)
        try:
            if not os.path.lexists(path):
                os.mkfifo(path, 0o600)
            # Open for writing too, lest the last caller who closes it ends it.
            calls = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return -1  # no room on the disk: the pod runs, nobody can join
        self._poll.register(calls, select.POLLIN)
        return calls

    def heed(self, descriptor: int, event: int, now: float) -> bool:
        """Take in what came there; False if it is none of ours."""
        if descriptor == self._calls:
            self._come()
            return True
        session = self._lines.get(descriptor)
        if session is None:
            return False
        if event & select.POLLIN and session.container is None:
            self._begin(session)
        else:
            self._hang_up(session, now)
        return True

    def _come(self) -> None:
        import socket  # which takes a third of the time that a supervisor needs to start

        for name in os.read(self._calls, NAMES_MAX_BYTES).decode("ascii", "replace").split():
            if len(name) > NAME_MAX or "/" in name or name.startswith("."):
                continue
            try:
                line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            except OSError:
                continue  # no descriptor is left: who calls gives up
            try:
                line.connect(name)  # we are in the pod's folder: its path may be too long
            except OSError:
                line.close()  # he gave up
                continue
            self._lines[line.fileno()] = Session(line)
            self._poll.register(line, select.POLLIN)

    def _begin(self, session: Session) -> None:
        """Do what is wanted, or say why not."""
        try:
            wish = json.loads(session.line.recv(MESSAGE_MAX))
            container = self._chosen(wish.get("container", ""))
            if wish["do"] == "attach":
                self._attach(session, container)
            else:
                self._fork(session, container, wish)
            session.container = container
        except (OSError, ValueError, KeyError, TypeError, _Refused) as error:
            session.tell({"refused": str(error)})
            self._forget(session)
            return
        self._poll.register(session.line, 0)  # from here on only its end is news

    def _chosen(self, name: str) -> Container:
        if len(self._lines) > SESSIONS_MAX:
            raise _Refused(f"the pod has {SESSIONS_MAX} sessions already")
        for container in self._containers:
            if container.leader and name in ("", container.name):
                return container
        raise _Refused(f"container {name} does not run" if name else "no container runs")

    def _fork(self, session: Session, container: Container, wish: dict[str, Any]) -> None:
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                die_with_parent(supervisor)
                container.enter(session.line.fileno())
                _DEEDS[wish["do"]](session, container, wish, supervisor)
            except BaseException as error:
                session.tell({"refused": str(error)})
            finally:
                os._exit(REFUSED_CODE)
        session.pid = pid

    def _attach(self, session: Session, container: Container) -> None:
        import socket

        if container.input < 0:
            raise _Refused(f"container {container.name} reads nothing: its stdin is not true")
        stream = "terminal" if container.program.get("is_terminal") else "input"
        message = json.dumps({"streams": [stream]}).encode()
        socket.send_fds(session.line, [message], [container.input])
        session.is_attached = True

    # Ending

    def _hang_up(self, session: Session, now: float) -> None:
        """Nobody is at the other end any more."""
        container = session.container
        if session.is_attached and container and container.program.get("has_input_once"):
            container.close_input()
        if not session.pid:
            self._forget(session)
            return
        self._poll.unregister(session.line)
        session.kill_at = now + HANG_UP_S
        for pid in session_and_below(session.pid):
            send_signal(pid, signal.SIGHUP)
            send_signal(pid, signal.SIGCONT)  # who is stopped would never hear of it

    def step(self, now: float) -> list[float]:
        """Kill whoever was hung up on and is still there; when to look again."""
        due = []
        for session in self._lines.values():
            if session.kill_at is not None:
                if now >= session.kill_at:
                    _kill(session)
                    session.kill_at = now + 1.0  # who forks meanwhile is killed too
                due.append(session.kill_at)
        return due

    def ending(self, pid: int) -> None:
        """A process is over that nobody reaped yet; hung up on, its rest goes with it."""
        for session in self._lines.values():
            if session.pid == pid and session.kill_at is not None:
                _kill(session)

    def ended(self, pid: int, status: int) -> bool:
        """A process was reaped; False if it is none of ours."""
        if not pid:
            return False  # nobody was; and who has no process yet has number 0, too
        session = next((one for one in self._lines.values() if one.pid == pid), None)
        if session is None:
            return False
        session.tell({"code": _code(status)})
        self._forget(session, is_polled=session.kill_at is None)
        return True

    def end_of(self, container: Container) -> None:
        """A container ends as a whole, with those who joined it."""
        for session in list(self._lines.values()):
            if session.container is container and session.is_attached:
                self._forget(session)
            elif session.container is container:
                _kill(session)

    def _forget(self, session: Session, *, is_polled: bool = True) -> None:
        if is_polled:
            self._poll.unregister(session.line)
        del self._lines[session.line.fileno()]
        session.line.close()


class _Refused(Exception):
    """The text is for who asked."""


def _kill(session: Session) -> None:
    for pid in session_and_below(session.pid):
        send_signal(pid, signal.SIGKILL)
    kill_session(session.pid)


def _code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


# In a child that belongs to the container by now, under its account


def _execute(session: Session, container: Container, wish: dict[str, Any], _: int) -> None:
    argv: list[str] = wish["argv"]
    more: dict[str, str] = {}
    if wish["is_terminal"]:
        more = {"TERM": container.program["env"].get("TERM", TERMINAL)}
        _take_terminal(session)
    else:
        _take_pipes(session, wish["has_input"])
    try:
        container.become(argv, more)
    except OSError as error:
        # Told as a shell would: the streams are there by now.
        os.write(2, f"makeway: {error}\n".encode(errors="replace"))
        os._exit(NOT_FOUND if isinstance(error.__cause__, FileNotFoundError) else CANNOT_RUN)


def _take_terminal(session: Session) -> None:
    import socket

    theirs, ours = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSCTTY, 0)
    socket.send_fds(session.line, [b'{"streams": ["terminal"]}'], [theirs])
    os.close(theirs)
    for stream in (0, 1, 2):
        os.dup2(ours, stream)


def _take_pipes(session: Session, has_input: bool) -> None:
    import socket

    pipes = [os.pipe() for _ in range(3)]
    (input_end, input_far), (output_far, output_end), (error_far, error_end) = pipes
    streams, far = ["output", "error"], [output_far, error_far]
    if has_input:
        streams, far = [*streams, "input"], [*far, input_far]
        os.dup2(input_end, 0)
    os.dup2(output_end, 1)
    os.dup2(error_end, 2)
    socket.send_fds(session.line, [json.dumps({"streams": streams}).encode()], far)
    for pair in pipes:
        for end in pair:
            os.close(end)


def _connect(session: Session, _: Container, wish: dict[str, Any], supervisor: int) -> None:
    import socket

    port = int(wish["port"])
    address = listening_at(supervisor, port)
    if address is None:
        raise _Refused(f"no process of the pod listens at port {port}")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_S)
        try:
            connection.connect((address, port))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "it took too long"
            raise _Refused(f"port {port}: {reason}") from None
        message = [b'{"streams": ["connection"]}']
        socket.send_fds(session.line, message, [connection.fileno()])
    os._exit(0)


_DEEDS = {"exec": _execute, "connect": _connect}
