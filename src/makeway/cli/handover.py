"""The first program of a job of `makeway run`: takes a terminal over, and becomes the command.

It runs in the pod, and talks to the command line that has submitted it through a socket of theirs.
On a terminal it makes a new one, hands its other end back and takes it as its own; else it is
handed the three streams. Then it becomes the command, so that everything that holds for a job
(limits, signals, its end) holds for that and nothing stands between.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import sys
import termios

STREAMS = (0, 1, 2)
MESSAGE_MAX = 4096


def main(path: str, command: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        told = json.dumps({"pid": os.getpid()}).encode()
        content, handed, _, _ = socket.recv_fds(line, MESSAGE_MAX, len(STREAMS))
        wish = json.loads(content)
        if wish["is_terminal"]:
            theirs, ours = pty.openpty()
            socket.send_fds(line, [told], [theirs])
            os.close(theirs)
            fcntl.ioctl(ours, termios.TIOCSCTTY, 0)
            handed = [ours] * len(STREAMS)
        else:
            line.sendall(told)
    for stream, descriptor in zip(STREAMS, handed, strict=True):
        os.dup2(descriptor, stream)
    for descriptor in {*handed} - {*STREAMS}:
        os.close(descriptor)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"makeway: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
