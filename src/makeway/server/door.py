"""Who gets a connection: everybody, but strangers only few and for a short time.

A connection counts as a stranger's until a request on it has shown a valid token. A stranger has
ten seconds for that, from the first packet on: handshake, header, all of it. Each user of the
machine has few such connections at a time, and all together a share of what the process may open;
one too many closes the oldest of whoever has the most. So somebody who opens connections and says
nothing closes his own, and whoever comes with a token gets in. Some descriptors are nobody's: those
are for our own work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from makeway.logs import Fields
from makeway.peers import uid_at_other_end, uid_of_peer

log = logging.getLogger("makeway.server")

STRANGER_S = 10.0  # to show a token
STRANGERS_MAX = 512
OTHERS_MAX = 64  # strangers of one user who is not ours
EACH_MIN, EACH_PART = 32, 8  # of a door that is for all, each user has an eighth
RESERVED_MAX = 256  # descriptors for our own work: files of pods, the database, logs
ACCEPTED_AT_ONCE = 16  # before others get their turn
ACCEPT_AGAIN_S = 0.5  # after there was no descriptor left
BACKLOG = 512


class Connection(asyncio.Protocol):
    """What the door has to know of whoever speaks HTTP on a connection."""

    on_lost: Callable[[], None]
    uid: int | None = None  # of a Unix socket's other end, told by the kernel and read once


class _Guest:
    def __init__(self, raw: socket.socket, uid: int | None) -> None:
        self.raw, self.uid = raw, uid
        self.transport: asyncio.BaseTransport | None = None  # None: still shaking hands
        self.timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """At once; nobody waits for what is still to be sent."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self.raw.shutdown(socket.SHUT_RDWR)


class Door:
    def __init__(
        self,
        speak: Callable[[], Connection],
        tls: ssl.SSLContext | None,
        limit: int | None = None,
        *,
        is_for_all: bool = False,
    ) -> None:
        """`speak` makes what speaks on a connection; `limit` is how many there may be.

        Where a door is for all accounts, it is one of two, and nobody can fill it alone.
        """
        self._speak, self._tls = speak, tls
        self._limit = _connections_max() if limit is None else limit
        self._each_max = self._limit
        if is_for_all:
            self._limit //= 2
            self._each_max = max(EACH_MIN, self._limit // EACH_PART)
        self._strangers_max = min(STRANGERS_MAX, self._limit // 2)
        self._guests: dict[Connection, _Guest] = {}
        self._strangers: dict[Connection, None] = {}  # oldest first
        self._counts: Counter[int | None] = Counter()  # of strangers, by user
        self._all_counts: Counter[int | None] = Counter()  # of all guests, by user
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, host: str, port: int, listening: socket.socket | None = None) -> int:
        """Listen, and return the port; on a socket that others made for us, if there is one."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
        self._socket = listening or socket.create_server(
            address[:2], family=family, backlog=BACKLOG
        )
        self._socket.setblocking(False)
        self._listen()
        return int(self._socket.getsockname()[1])

    def open_unix(self, path: Path, mode: int) -> None:
        """Listen on a Unix socket; the kernel says who opens it, and by its mode who may."""
        _check_folder(path.parent)
        path.unlink(missing_ok=True)  # left behind by one that was killed; we hold the lock
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        path.chmod(mode)
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Take no more connections; those that are there go on."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def knows(self, connection: Connection) -> None:
        """A request on this connection has shown the token."""
        if connection in self._strangers:
            self._forget_stranger(connection)

    # Coming in

    def _listen(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                raw, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            try:
                self._let_in(raw)
            except Exception as error:  # it concerns this one; the others are let in
                log.warning(Fields(accept="failed", error=error))
                raw.close()

    def _pause(self, error: OSError) -> None:
        """No descriptors, no memory: the socket would call us again at once, and for nothing."""
        log.warning(Fields(accept="failed", error=error, again_s=ACCEPT_AGAIN_S))
        loop = asyncio.get_running_loop()
        assert self._socket is not None
        loop.remove_reader(self._socket)
        loop.call_later(ACCEPT_AGAIN_S, self._listen)
        self._make_room(None)

    def _let_in(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        is_local = raw.family == socket.AF_UNIX
        uid = uid_at_other_end(raw) if is_local else uid_of_peer(raw)
        if self._all_counts[uid] >= self._each_max:
            raw.close()
            return
        if uid != os.geteuid() and self._counts[uid] >= OTHERS_MAX:
            self._make_room(uid)
        elif len(self._strangers) >= self._strangers_max:
            self._make_room(self._counts.most_common(1)[0][0])
        if len(self._guests) >= self._limit and not self._make_room(None):
            raw.close()
            return
        connection = self._speak()
        connection.uid = uid if is_local else None
        guest = self._guests[connection] = _Guest(raw, uid)
        self._all_counts[uid] += 1
        connection.on_lost = lambda: self._lost(connection)
        self._strangers[connection] = None
        self._counts[uid] += 1
        loop = asyncio.get_running_loop()
        guest.timer = loop.call_later(STRANGER_S, guest.close)
        task = loop.create_task(self._attend(connection, guest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _make_room(self, uid: int | None) -> bool:
        """Close the oldest stranger, of a user if one is named; whether there was one."""
        for connection in self._strangers:
            guest = self._guests[connection]
            if uid is None or guest.uid == uid:
                self._forget_stranger(connection)
                guest.close()
                return True
        return False

    async def _attend(self, connection: Connection, guest: _Guest) -> None:
        try:
            guest.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                guest.raw,
                ssl=self._tls,
                ssl_handshake_timeout=STRANGER_S if self._tls else None,
            )
        except Exception as error:  # mostly no handshake, and nothing of ours is wrong
            log.debug(Fields(handshake="failed", error=error))
            guest.raw.close()
            self._lost(connection)

    # Going

    def _lost(self, connection: Connection) -> None:
        if connection in self._strangers:
            self._forget_stranger(connection)
        guest = self._guests.pop(connection, None)
        if guest is not None:
            self._all_counts[guest.uid] -= 1
            if not self._all_counts[guest.uid]:
                del self._all_counts[guest.uid]

    def _forget_stranger(self, connection: Connection) -> None:
        del self._strangers[connection]
        guest = self._guests[connection]
        if guest.timer is not None:
            guest.timer.cancel()
        self._counts[guest.uid] -= 1
        if not self._counts[guest.uid]:
            del self._counts[guest.uid]


class NotSafe(Exception):
    """The folder of a socket can be written by accounts; the text is for the user."""


def _check_folder(folder: Path) -> None:
    """Who can write to the folder can put a socket of his own there, and is believed."""
    found = folder.stat()
    is_ours = found.st_uid in (0, os.geteuid())
    is_for_group = found.st_mode & 0o020 and found.st_gid not in (0, os.getegid())
    if not is_ours or is_for_group or found.st_mode & 0o002:
        raise NotSafe(f"{folder} can be written by others than root and makeway; chmod go-w it")


def _connections_max() -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return allowed - min(RESERVED_MAX, allowed // 2)
