"""Which user is at the other end of a connection on this machine, as Linux knows.

One question to the kernel about one pair of sockets (sock_diag(7)), not a walk over all of them.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

_PROTOCOL, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2  # NETLINK_SOCK_DIAG and its messages
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")  # family, protocol, extensions; states
_PORTS = struct.Struct("!HH")
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # interface, cookie
_UID_AT = _HEADER.size + 4 + 48 + 12
_TIMEOUT_S = 0.2
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


def uid_of_peer(connection: socket.socket) -> int | None:
    """The user whose socket is connected to ours; None if that can't be known."""
    try:
        (host, port), (own, own_port) = connection.getpeername()[:2], connection.getsockname()[:2]
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _PROTOCOL) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            kernel.send(_question(connection.family, host, port, own, own_port))
            answer = kernel.recv(4096)
    except OSError:
        return None
    if len(answer) < _UID_AT + 4 or _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    return int.from_bytes(answer[_UID_AT : _UID_AT + 4], "little")


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
