"""Asking a container whether it is well: each time a process of its own that answers by its exit.

That process may hang or crash without any harm, and needs nothing but a deadline.
"""

from __future__ import annotations

import os
import signal

from makeway.runner.processes import die_with_parent, send_signal_to_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Asked(Protocol):
        """The container, as its probes see it."""

        def enter(self, *, is_shown: bool) -> None: ...

        def execute(self, argv: list[str]) -> None: ...


WELL, ILL = 0, 1


class Probe:
    """One probe of one run of a container."""

    def __init__(self, settings: dict[str, Any], now: float) -> None:
        self._settings = settings
        self.next_at: float = now + settings["initial_delay_s"]
        self.is_passing = False  # as its thresholds see it
        self.is_failing = False
        self._in_row = 0  # answers of the same kind
        self._was_well: bool | None = None
        self.pid = 0  # of the question on its way; 0 if none is
        self._give_up_at = 0.0

    def step(self, now: float, container: Asked) -> float:
        """Ask or give up where it is time; when to be called again."""
        if self.pid:
            if now >= self._give_up_at:
                send_signal_to_group(self.pid, signal.SIGKILL)
                return now + 1.0
            return self._give_up_at
        if now >= self.next_at:
            self.pid = self._ask(container)
            self._give_up_at = now + self._settings["timeout_s"]
            return self._give_up_at
        return self.next_at

    def answered(self, was_well: bool, now: float) -> None:
        self.pid = 0
        self.next_at = now + self._settings["period_s"]
        self._in_row = self._in_row + 1 if was_well is self._was_well else 1
        self._was_well = was_well
        if was_well and self._in_row >= self._settings["success_threshold"]:
            self.is_passing, self.is_failing = True, False
        elif not was_well and self._in_row >= self._settings["failure_threshold"]:
            self.is_passing, self.is_failing = False, True

    def give_up(self) -> None:
        if self.pid:
            send_signal_to_group(self.pid, signal.SIGKILL)

    def _ask(self, container: Asked) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = ILL
        try:
            os.setsid()
            die_with_parent(parent)
            os.dup2(1, 2)  # nowhere; what the supervisor says of itself stands elsewhere
            if self._settings["kind"] == "exec":
                container.execute(self._settings["command"])
            else:
                container.enter(is_shown=False)
                code = _connect(self._settings)
        finally:
            os._exit(code)


def _connect(settings: dict[str, Any]) -> int:
    import socket  # only those who ask over the network pay for it

    address = (settings["host"], settings["port"])
    try:
        with socket.create_connection(address, settings["timeout_s"]) as connection:
            return WELL if settings["kind"] == "tcp" else _get(connection, settings)
    except OSError:
        return ILL


def _get(connection: Any, settings: dict[str, Any]) -> int:
    """Ask for a page; an answer of 200 to 399 is good."""
    if settings["scheme"] == "HTTPS":
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    headers = {"Host": settings["host"], "User-Agent": "makeway-probe", "Connection": "close"}
    headers.update(settings["headers"])
    lines = [f"GET {settings['path']} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while b"\r\n" not in answer:
        piece = connection.recv(1024)
        if not piece:
            return ILL
        answer += piece
    words = answer.split(b"\r\n")[0].split()
    return WELL if len(words) > 1 and b"200" <= words[1] < b"400" else ILL
