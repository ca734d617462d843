"""The dashboard's server while it serves: its port, and the key of its sessions."""

from __future__ import annotations

import contextlib
import errno
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from makeway.dashboard.site import Site
from makeway.logs import Fields
from makeway.server.identity import write_private
from makeway.server.listen import Listener

log = logging.getLogger("makeway.dashboard")

HOST = "127.0.0.1"
KEY_BYTES = 32


def key_in(path: Path) -> bytes:
    """The key that sessions are signed with, made now if there is none; pages outlive restarts."""
    with contextlib.suppress(FileNotFoundError):
        kept = path.read_bytes()
        if len(kept) == KEY_BYTES:
            return kept
    made = secrets.token_bytes(KEY_BYTES)
    write_private(path, made)
    return made


@contextlib.asynccontextmanager
async def serving(
    site: Site, port: int, *, is_fixed: bool, listening: socket.socket | None = None
) -> AsyncIterator[None]:
    """Serve while the context lasts; where the port is taken and not fixed, on a free one.

    On a socket that others made for us, if there is one: then for all accounts.
    """
    listener = _listener(site, port, listening)
    try:
        site.port = await listener.start()
    except OSError as error:
        if is_fixed or error.errno != errno.EADDRINUSE:
            raise
        log.warning(Fields(dashboard="its port is taken, a free one is used", port=port))
        listener = _listener(site, 0)
        site.port = await listener.start()
    try:
        yield
    finally:
        site.follow(None)
        await listener.stop()


def _listener(site: Site, port: int, listening: socket.socket | None = None) -> Listener:
    def is_known(headers: Mapping[str, str], _: int | None) -> bool:
        return site.is_authenticated(headers)

    return Listener(
        *(site.handle, is_known),
        host=HOST,
        port=port,
        tls=None,
        listening=listening,
        is_for_all=listening is not None,
    )
