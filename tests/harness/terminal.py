"""Somebody who sits at a terminal."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
from collections.abc import Iterator

import pytest

WAIT_S = 60.0  # for the next words
# A shell that a signal reaches before it has begun a long sleep hears of it after the sleep.
TRAP = "trap 'echo caught; over=1' INT"
UNTIL_CAUGHT = "until [ $over ]; do sleep 0.05; done"


def until_sized(rows: int, columns: int) -> str:
    """A shell waits for the size that its terminal is told as soon as all else is set up."""
    return f'until [ "$(stty size)" = "{rows} {columns}" ]; do sleep 0.05; done'


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
        while text.encode() not in self.shown:
            assert select.select([self._ours], [], [], WAIT_S)[0], self.shown
            self.shown += os.read(self._ours, 4096)

    def close(self) -> None:
        for descriptor in (self._ours, self.theirs):
            os.close(descriptor)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()
