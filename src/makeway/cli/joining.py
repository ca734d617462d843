"""Joining a pod from a command: which pod is meant, and this terminal paired with what runs there.

The protocol is Kubernetes' own, so it is the same for `makeway up` and for a cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import struct
import sys
import termios
import threading
import time
import tty
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from makeway.api.batch import Pod
from makeway.cli import connect
from makeway.cli.command import RequestRefused
from makeway.cli.output import pods_of
from makeway.cli.references import find_target
from makeway.client import Client
from makeway.client.transport import Call
from makeway.translate.job_end import container_statuses
from makeway.translate.job_state import state_of

if TYPE_CHECKING:
    from makeway.client.http import Joined

INPUT, OUTPUT, ERROR, STATUS, SIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
CHUNK_BYTES = 32 * 1024
CUT_CODE = 1  # nobody said how it ended
_SIZE = struct.Struct("4H")  # rows, columns, and both in pixels
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A container that runs."""

    pod: Pod
    container: str

    def call(self, what: str, pairs: Pairs) -> Call:
        metadata = self.pod.metadata
        path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}/{what}"
        return Call(method="GET", path=path, pairs=pairs)

    @property
    def written(self) -> dict[str, Any]:
        """The container as its pod has it."""
        document: Any = self.pod.document or {}
        found: dict[str, Any] = next(
            one for one in document["spec"]["containers"] if one["name"] == self.container
        )
        return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pod", default="", help="which of its pods (default: the first that runs)"
    )
    parser.add_argument(
        "-c", "--container", default="", help="which container (default: the first)"
    )
    connect.add_arguments(parser)


async def find_place(
    client: Client, namespace: str, word: str, *, pod: str = "", container: str = ""
) -> Place:
    """Where a job runs; RequestRefused if it doesn't."""
    target = await find_target(client, namespace, word)
    pods = [*target.pods] if target.job is None else await pods_of(client, target.job)
    named = [found for found in pods if pod in ("", found.metadata.name)]
    if pods and not named:
        others = ", ".join(found.metadata.name for found in pods)
        raise RequestRefused(f"{target.text} has no pod {pod}; it has {others}")
    running = [(found, names) for found in named if (names := _running_in(found))]
    if not running:
        state = state_of(target, time.time())
        why = f": {state.reason}" if state.reason else ""
        raise RequestRefused(f"{target.text} does not run, it is {state.status}{why}")
    chosen, names = running[0]
    if container and container not in names:
        text = f"pod {chosen.metadata.name} runs no container {container}"
        raise RequestRefused(f"{text}; it runs {', '.join(names)}")
    if len(running) > 1:
        print(f"makeway: in {chosen.metadata.name}; --pod names another", file=sys.stderr)
    return Place(pod=chosen, container=container or names[0])


def _running_in(pod: Pod) -> list[str]:
    """The containers that run, main ones first."""
    found = [one["name"] for one in container_statuses(pod) if "running" in one.get("state", {})]
    main = [container.name for container in pod.spec.containers]
    return sorted(found, key=lambda name: name not in main)


@contextlib.asynccontextmanager
async def joined(
    arguments: argparse.Namespace, call: Call, protocols: tuple[str, ...] = (V5, V4)
) -> AsyncIterator[Joined]:
    """A WebSocket to the server; what it refuses, it is asked again to hear why."""
    from makeway.client.http import HttpTransport, NotJoined

    transport = connect.find_access(arguments).transport()
    assert isinstance(transport, HttpTransport)
    try:
        async with transport.join(call, protocols) as line:
            yield line
    except NotJoined as error:
        async with transport.send(Call(method="GET", path=call.path, query=dict(call.pairs))) as no:
            raise RequestRefused(_message(await no.body()) or str(error)) from None
    finally:
        await transport.close()


def _message(body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found["message"]) if isinstance(found, dict) else ""
    except (ValueError, KeyError):
        return ""


class Pairing:
    """This terminal, or these streams, paired with a program elsewhere."""

    def __init__(self, line: Joined, *, is_terminal: bool, has_input: bool = True) -> None:
        self._line, self._is_terminal, self._has_input = line, is_terminal, has_input
        self._loop = asyncio.get_running_loop()
        self._telling: asyncio.Future[None] | None = None
        self.source, self.target = 0, 1  # what is read here, and where output goes

    async def until_over(self) -> int:
        """Pass on what is typed and printed; the exit code."""
        if self._is_terminal:
            self._loop.add_signal_handler(signal.SIGWINCH, self._tell_size)
            await self._send_size()
        if self._has_input:
            threading.Thread(target=self._pass_on, daemon=True).start()
        with _raw() if self._is_terminal else contextlib.nullcontext():
            while (message := await self._line.receive()) is not None:
                match message[:1], message[1:]:
                    case b"\x01", piece:
                        _print(self.target, piece)
                    case b"\x02", piece:
                        _print(2, piece)
                    case b"\x03", status:
                        return _code_of(status)
        print("makeway: the connection was cut", file=sys.stderr)
        return CUT_CODE

    def _pass_on(self) -> None:
        """In a thread: a file as input can't be waited for, and who sends waits for the server."""
        try:
            while piece := os.read(self.source, CHUNK_BYTES):
                self._sent(bytes([INPUT]) + piece)
            if self._line.protocol == V5:
                self._sent(bytes([CLOSE, INPUT]))
        except (OSError, RuntimeError):
            return  # it is over

    def _sent(self, message: bytes) -> None:
        asyncio.run_coroutine_threadsafe(self._line.send(message), self._loop).result()

    def _tell_size(self) -> None:
        self._telling = asyncio.ensure_future(self._send_size())

    async def _send_size(self) -> None:
        rows, columns, _, _ = _SIZE.unpack(fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(_SIZE.size)))
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        with contextlib.suppress(OSError):
            await self._line.send(bytes([SIZE]) + size)


def _print(stream: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(stream, view) :]


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _code_of(written: bytes) -> int:
    """The exit code in a Status; a failure without one is told."""
    status = json.loads(written)
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    print(f"makeway: {status.get('message') or 'it failed'}", file=sys.stderr)
    return CUT_CODE


def pairs_of(place: Place, *, is_terminal: bool, has_input: bool = True) -> Pairs:
    """Which streams are wanted, as the server is asked."""
    asked = {"container": place.container, "stdout": "true", "stderr": "true"}
    if has_input:
        asked["stdin"] = "true"
    if is_terminal:
        asked["tty"], asked["stderr"] = "true", "false"
    return tuple(asked.items())


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
