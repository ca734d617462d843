"""A word to the service manager, if one has started us and listens: sd_notify(3).

Standard library only: the part of Makeway that runs as root says it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

SOCKET, INTERVAL = "NOTIFY_SOCKET", "WATCHDOG_USEC"


def notify(word: str) -> None:
    """`READY=1`, `WATCHDOG=1`, `STOPPING=1`."""
    if path := os.environ.get(SOCKET, ""):
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with channel, contextlib.suppress(OSError):  # it went away, and has no use for it
            channel.sendto(word.encode(), path.replace("@", "\0", 1))


async def keep_notifying() -> None:
    """Say again and again that the event loop turns, as often as we were told to."""
    interval = os.environ.get(INTERVAL, "")
    if not interval.isdecimal() or int(interval) == 0:
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(int(interval) / 1e6 / 3)
