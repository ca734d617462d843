"""The socket of the server for all accounts of a machine: where it is, and one question to it.

Standard library only, and small: kubectl waits for `makeway token` at every call.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

VARIABLE, DEFAULT = "MAKEWAY_SOCKET", Path("/run/makeway/api.sock")
ANSWER_TIMEOUT_S = 60.0


class Refused(Exception):
    """The server says no; the text is for the user."""


class NoAnswer(Exception):
    """Nobody answers at the socket; the text is for the user."""


def system_socket() -> Path:
    """Where such a server is, if there is one."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def ask_locally(path: Path, method: str, url: str, body: Any = None) -> str:
    """The answer to a request; Refused if it is no."""
    import http.client  # whoever only asks where the socket is does without

    connection = http.client.HTTPConnection("localhost", timeout=ANSWER_TIMEOUT_S)
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(ANSWER_TIMEOUT_S)
        connection.sock.connect(str(path))
        text = None if body is None else json.dumps(body)
        connection.request(method, url, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.read().decode()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(f"{path}: {error}") from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise Refused(str(json.loads(found).get("message") or answer.reason))
    return found
