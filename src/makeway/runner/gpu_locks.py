"""One lock per GPU for all of the machine, so that no two servers hand out the same one.

A lock is an abstract Unix socket, named after the GPU. The supervisor of a pod holds those of its
GPUs as long as it lives; the kernel releases them with it, and there is no file to be left behind.
Who starts a supervisor makes them and hands them over. Everybody sees which are taken.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from pathlib import Path

PREFIX = "makeway/gpu/"
SOCKETS = Path("/proc/net/unix")


def taken() -> set[str]:
    """The GPUs whose locks somebody holds."""
    mark, found = f"@{PREFIX}", set[str]()
    for line in SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines():
        _, _, name = line.partition(mark)
        if name:
            found.add(name)
    return found


def take(gpus: Iterable[str]) -> list[socket.socket]:
    """Take all of these locks, or none; OSError if somebody has one of them."""
    held: list[socket.socket] = []
    try:
        for gpu in gpus:
            held.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            held[-1].bind(f"\0{PREFIX}{gpu}")
    except OSError as error:
        release(held)
        if error.errno == errno.EADDRINUSE:
            raise OSError(errno.EBUSY, f"another Makeway has {gpu}") from None
        raise
    return held


def release(locks: Iterable[socket.socket]) -> None:
    for lock in locks:
        lock.close()
