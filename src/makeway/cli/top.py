"""keep jobs and GPUs on the screen, with keys to look closer

Show jobs and GPUs on the whole screen, again every two seconds: who runs, who waits and
why. Choose a job with the arrow keys (or j and k):

  e, Enter  explain why it waits           /  show only what has this text in it
  l         the end of what it printed     s  sort by status, age, user ...
  c         cancel it, after a question    q  leave

examples:
  makeway top
  makeway top --me
  makeway top -A -q vision

exit codes:
  0  left with q     1  the server refused     2  no terminal, no server
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.gpu import gpu_rows
from makeway.cli.status import add_filters, job_rows
from makeway.cli.top_screen import News, Screen, Wish, drawn, pressed
from makeway.client import ApiError, Client, Unavailable

if TYPE_CHECKING:
    from curses import window

REFRESH_S = 2.0
LOOK_MS = 100  # how soon a key or news are seen
TAIL = 500  # lines of a log
PATIENCE_S = 30.0
COMMANDS = {
    "explain": ["explain"],
    "log": ["logs", "--tail", str(TAIL)],
    "cancel": ["cancel", "-y"],
}
_COLOURS = ("green", "yellow", "red", "blue")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError("top needs a terminal; `makeway status` prints the same once")
    connect.find_access(arguments)  # without a server there is nothing to show
    import curses
    import locale

    locale.setlocale(locale.LC_ALL, "")  # else curses shows no letters beyond ASCII
    reader = Reader(arguments)
    with reader.reading():
        curses.wrapper(lambda window: _stay(window, reader, arguments))
    return 0


class Reader:
    """Asks the server from time to time, in a thread, so that keys are never kept waiting."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments, self.news = arguments, News()
        self._stop = threading.Event()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.redirect_stderr(io.StringIO()):  # the screen is taken
                    connect.converse(self._arguments, self._story)
            except (UsageError, RequestRefused) as error:
                self.news = replace(self.news, error=" ".join(str(error).split()))
            self._stop.wait(REFRESH_S)

    async def _story(self, client: Client, namespace: str) -> int:
        while not self._stop.is_set():
            try:
                rows = await job_rows(client, namespace, self._arguments, ended="false")
                gpus = await _gpus(client)
                self.news = News(rows=rows, gpus=gpus, at=time.time())
            except (ApiError, Unavailable) as error:
                self.news = replace(self.news, error=str(error))
            await asyncio.sleep(REFRESH_S)
        return 0


async def _gpus(client: Client) -> list[dict[str, Any]]:
    """Without NVML, which costs a process each time; none where others hand out GPUs."""
    try:
        return await gpu_rows(client, asks_nvml=False)
    except (RequestRefused, ApiError):
        return []


# --- the terminal ---


def _stay(window: window, reader: Reader, arguments: argparse.Namespace) -> None:
    import curses

    styles = _styles()
    with contextlib.suppress(curses.error):
        curses.curs_set(0)
    window.timeout(LOOK_MS)
    screen, before = Screen(), None
    while True:
        screen = replace(screen, news=reader.news)
        height, width = window.getmaxyx()
        if (picture := (screen, height, width)) != before:
            _draw(window, screen, height, width, styles)
            before = picture
        key = _key(window)
        if not key:
            continue
        screen, wish = pressed(screen, key, height)
        if wish is not None and wish.verb == "quit":
            return
        if wish is not None:
            screen = _done(screen, wish, arguments, width)


def _draw(window: window, screen: Screen, height: int, width: int, styles: dict[str, int]) -> None:
    import curses

    window.erase()
    for number, line in enumerate(drawn(screen, width, height)):
        column = 0
        for text, style in line:
            with contextlib.suppress(curses.error):  # the last corner, or a terminal just resized
                window.addstr(number, column, text, styles.get(style, 0))
            column = window.getyx()[1]
    window.refresh()


def _styles() -> dict[str, int]:
    import curses

    styles = {"bold": curses.A_BOLD, "dim": curses.A_DIM, "reverse": curses.A_REVERSE}
    if curses.has_colors():
        curses.use_default_colors()
        for number, name in enumerate(_COLOURS, 1):
            curses.init_pair(number, getattr(curses, f"COLOR_{name.upper()}"), -1)
            styles[name] = curses.color_pair(number)
    return styles


def _key(window: window) -> str:
    """The name of the key that was pressed; empty: none, in time."""
    import curses

    names = {
        curses.KEY_UP: "up",
        curses.KEY_DOWN: "down",
        curses.KEY_PPAGE: "page up",
        curses.KEY_NPAGE: "page down",
        curses.KEY_HOME: "home",
        curses.KEY_END: "end",
        curses.KEY_BACKSPACE: "backspace",
        curses.KEY_ENTER: "enter",
    }
    try:
        key = window.get_wch()
    except curses.error:
        return ""
    if isinstance(key, int):
        return names.get(key, "")
    return {"\n": "enter", "\r": "enter", "\x1b": "escape", "\x7f": "backspace"}.get(key, key)


# --- what keys ask for ---


def _done(screen: Screen, wish: Wish, arguments: argparse.Namespace, width: int) -> Screen:
    """As the command that a user would type; its words are read on the screen."""
    text = _command(wish, arguments, width)
    if wish.verb == "cancel":
        return replace(screen, said=" ".join(text.split()))
    return replace(screen, text=tuple(text.expandtabs().splitlines()) or ("",), offset=0)


def _command(wish: Wish, arguments: argparse.Namespace, width: int) -> str:
    command = [sys.executable, "-m", "makeway.cli.main", *COMMANDS[wish.verb], wish.key]
    if arguments.kubeconfig is not None:
        command += ["--kubeconfig", str(arguments.kubeconfig)]
    if arguments.data_dir is not None:
        command += ["--data-dir", str(arguments.data_dir)]
    try:
        done = subprocess.run(
            command,
            env=_surroundings(width),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE_S:.0f} s"
    return (done.stdout + done.stderr).decode(errors="replace")


def _surroundings(width: int) -> dict[str, str]:
    return {**os.environ, "COLUMNS": str(width), "NO_COLOR": "1"}
