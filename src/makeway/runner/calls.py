"""Reaching the supervisor of a pod that runs: a line to it, and a wish said (see `sessions`)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import secrets
import socket
import struct
from dataclasses import asdict

from makeway.runner.host import Wish
from makeway.runner.sessions import MESSAGE_MAX, PIPE

ANSWER_S = 10.0  # a busy machine
_CREDENTIALS = struct.Struct("3i")  # unix(7): pid, uid, gid


class NotNow(ConnectionError):
    """The pod can't be joined; the text is for who asked."""


async def call(folder: str, supervisor: int, wish: Wish) -> socket.socket:
    """A line to a supervisor that has been told what is wanted; whoever closes it ends that."""
    written = json.dumps(asdict(wish)).encode()
    if len(written) > MESSAGE_MAX:
        raise NotNow("the command is too long")
    name = f"call-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        # The path of a socket is short; that of a data folder may be long.
        inside = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        stack.callback(os.close, inside)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        stack.enter_context(listener)
        listener.bind(f"/proc/self/fd/{inside}/{name}")
        stack.callback(os.unlink, name, dir_fd=inside)
        listener.listen(1)
        _ring(f"{folder}/{PIPE}", name)
        line = await _answered(listener, supervisor)
    line.send(written)
    return line


def _ring(path: str, name: str) -> None:
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, f"{name}\n".encode())
        finally:
            os.close(pipe)
    except FileNotFoundError:
        raise NotNow("the pod was started by an earlier version, which nobody can join") from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # nobody reads there
            raise NotNow("the pod is over") from None
        raise


async def _answered(listener: socket.socket, supervisor: int) -> socket.socket:
    """The supervisor that came; anybody else is hung up on."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(ANSWER_S):
            while True:
                line, _ = await loop.sock_accept(listener)
                found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                if _CREDENTIALS.unpack(found)[0] == supervisor:
                    return line
                line.close()
    except TimeoutError:
        raise NotNow("the pod's supervisor does not answer") from None
