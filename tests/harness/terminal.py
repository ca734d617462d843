"""Somebody who sits at a terminal."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from collections.abc import Iterator

import pytest


class Terminal:
    """The screen and the keyboard of somebody."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.openpty()
        self.shown = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self._ours, 4096)

    def close(self) -> None:
        for descriptor in (self._ours, self.theirs):
            os.close(descriptor)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()
