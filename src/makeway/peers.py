"""Who is at the other end of a connection on this machine, and whether still, as Linux knows.

One question to the kernel about one pair of sockets (sock_diag(7)), not a walk over all of them.
"""

from __future__ import annotations

import ipaddress
import select
import socket
import struct
from errno import ENOENT

_PROTOCOL, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2  # NETLINK_SOCK_DIAG and its messages
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")  # family, protocol, extensions; states
_PORTS = struct.Struct("!HH")
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # interface, cookie
_STATE_AT, _UID_AT = _HEADER.size + 1, _HEADER.size + 4 + 48 + 12
_INODE_AT = _UID_AT + 4
_OPEN = (1, 8)  # TCP_ESTABLISHED; TCP_CLOSE_WAIT, if it was us who closed
_TIMEOUT_S = 0.2
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


def uid_of_peer(connection: socket.socket) -> int | None:
    """The user whose socket is connected to ours; None if that can't be known."""
    answer = _told_of_other_end(connection)
    return _number(answer, _UID_AT) if answer else None


def is_closed(connection: socket.socket) -> bool:
    """Whether nobody has the other end any more; who has said all may still have it, and listen."""
    answer = _told_of_other_end(connection)
    return answer is not None and (not answer or _number(answer, _INODE_AT) == 0)


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the other end is closed, also while what it sent fills all buffers.

    Then its end doesn't reach us, but the other socket knows of it.
    """
    if connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    if poll.poll(0):
        return True
    answer = None if connection.family == socket.AF_UNIX else _told_of_other_end(connection)
    return answer is not None and (not answer or answer[_STATE_AT] not in _OPEN)


def _told_of_other_end(connection: socket.socket) -> bytes | None:
    """What the kernel knows of the socket there; empty: there is none. None: it doesn't say."""
    try:
        (host, port), (own, own_port) = connection.getpeername()[:2], connection.getsockname()[:2]
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _PROTOCOL) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            kernel.send(_question(connection.family, host, port, own, own_port))
            answer = kernel.recv(4096)
    except (OSError, AttributeError):  # the latter where the kernel is not Linux
        return None
    is_error = _HEADER.unpack_from(answer)[1] == _ERROR
    if is_error and -int.from_bytes(answer[_HEADER.size :][:4], "little", signed=True) != ENOENT:
        return None
    return b"" if is_error or len(answer) < _INODE_AT + 4 else answer


def _number(answer: bytes, at: int) -> int:
    return int.from_bytes(answer[at : at + 4], "little")


def uid_at_other_end(connection: socket.socket) -> int:
    """The user who opened the other end of a Unix socket, as of when that was."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def _question(family: int, host: str, port: int, own: str, own_port: int) -> bytes:
    body = b"".join(
        (
            _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF),
            _PORTS.pack(port, own_port),
            _address(host),
            _address(own),
            _ANY,
        )
    )
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, _BY_FAMILY, _REQUEST, 1, 0) + body


def _address(text: str) -> bytes:
    return ipaddress.ip_address(text).packed.ljust(16, b"\0")
