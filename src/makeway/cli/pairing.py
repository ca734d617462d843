"""This terminal, or these streams, paired with a job that has begun: what `makeway run` does."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
import tty
from typing import Any

from makeway.cli.handover import MESSAGE_MAX, STREAMS

_SIZE = struct.Struct("4H")  # rows, columns, and both in pixels
CHUNK_BYTES = 64 * 1024
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Pairing:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._terminal = -1  # the other end of the job's
        self._pid = 0
        self._before: list[Any] | None = None  # how our terminal was set

    def __enter__(self) -> Pairing:
        wish = json.dumps({"is_terminal": self._is_terminal}).encode()
        with self._line as line:
            if self._is_terminal:
                line.sendall(wish)
                content, (self._terminal,), _, _ = socket.recv_fds(line, MESSAGE_MAX, 1)
            else:
                socket.send_fds(line, [wish], STREAMS)
                content = line.recv(MESSAGE_MAX)
        self._pid = json.loads(content)["pid"]
        if self._is_terminal:
            self._before = termios.tcgetattr(0)
            tty.setraw(0)
            self._resize()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._before)
        if self._terminal >= 0:
            os.close(self._terminal)

    async def until_over(self, ending: asyncio.Future[Any]) -> None:
        """Pass on what is typed, printed and signalled, until the job is over."""
        loop = asyncio.get_running_loop()
        for number in FORWARDED:
            loop.add_signal_handler(number, self._forward, number)
        if not self._is_terminal:
            await asyncio.wait([ending])
            return
        printed = asyncio.Event()  # all of it, as nobody has that terminal any more
        loop.add_signal_handler(signal.SIGWINCH, self._resize)
        loop.add_reader(0, self._pass_on, 0, self._terminal)
        loop.add_reader(self._terminal, self._show, printed)
        try:
            showing = asyncio.ensure_future(printed.wait())
            await asyncio.wait((ending, showing), return_when=asyncio.FIRST_COMPLETED)
            showing.cancel()
        finally:
            for descriptor in (0, self._terminal):
                loop.remove_reader(descriptor)

    def _pass_on(self, source: int, target: int) -> None:
        piece = os.read(source, CHUNK_BYTES)
        with contextlib.suppress(OSError):  # it is about to end
            os.write(target, piece or b"\x04")

    def _show(self, printed: asyncio.Event) -> None:
        try:
            piece = os.read(self._terminal, CHUNK_BYTES)
        except OSError:  # its last user is gone
            piece = b""
        if piece:
            os.write(1, piece)
        else:
            asyncio.get_running_loop().remove_reader(self._terminal)
            printed.set()

    def _resize(self) -> None:
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(_SIZE.size))
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def _forward(self, number: int) -> None:
        """To the job's processes, which are ours but not of this terminal."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-self._pid, number)
