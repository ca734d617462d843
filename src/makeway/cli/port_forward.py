"""reach ports of a job from this machine: notebooks, dashboards, debuggers

Listen at ports of this machine, on the loopback address only, and pass each connection
on to where a job runs. A port is written LOCAL:REMOTE, REMOTE alone if both are the
same, :REMOTE for a free one here. Only ports at which a process of the job listens are
reached. Ctrl-C ends it.

examples:
  makeway port-forward 12 8888
  makeway port-forward 12 8080:80 :6006
  makeway port-forward notebook 8888 --pod notebook-1-x7k2p

exit codes:
  1  no such job, or it doesn't run (any more)     2  wrong usage, no server, port taken
  130  after Ctrl-C
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from makeway.cli import connect, joining
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.joining import Place
from makeway.cli.references import HELP
from makeway.client import Client
from makeway.client.transport import Unreachable
from makeway.peers import is_closed
from makeway.together import until_one_ends

if TYPE_CHECKING:
    from makeway.client.http import Joined

HOST = "127.0.0.1"
CHUNK_BYTES = 32 * 1024
LOOK_EVERY_S = 1.0
PORT_BYTES = 2  # with which both channels of a connection begin
_DATA, _ERROR = b"\x00", b"\x01"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    parser.add_argument("ports", metavar="PORT", nargs="+", help="LOCAL:REMOTE, REMOTE or :REMOTE")
    joining.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    pairs = [_pair(word) for word in arguments.ports]

    async def story(client: Client, namespace: str) -> int:
        chosen = {"pod": arguments.pod, "container": arguments.container}
        place = await joining.find_place(client, namespace, arguments.job, **chosen)
        async with contextlib.AsyncExitStack() as stack:
            forward = Forward(arguments, place)
            for here, there in pairs:
                await stack.enter_async_context(await forward.listen(here, there))
            raise RequestRefused(str(await forward.over))

    return connect.converse(arguments, story)


def _pair(word: str) -> tuple[int, int]:
    """The port here, 0 for any, and the port there."""
    here, colon, there = word.rpartition(":")
    numbers = [there if not colon else here or "0", there]
    if not all(one.isascii() and one.isdecimal() and int(one) <= 0xFFFF for one in numbers):
        raise UsageError(f"{word!r} names no ports; write 8080:80, 80 or :80")
    if int(there) == 0:
        raise UsageError(f"{word!r}: port 0 can't be reached")
    return int(numbers[0]), int(there)


class Forward:
    """Connections to one pod, each with a WebSocket of its own: one's trouble is its own."""

    def __init__(self, arguments: argparse.Namespace, place: Place) -> None:
        self._arguments, self._place = arguments, place
        # Set when the pod can't be reached at all any more.
        self.over: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def listen(self, here: int, there: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._pass_on(reader, writer, there)
            except (RequestRefused, Unreachable) as error:
                if not self.over.done():
                    self.over.set_result(error)
            finally:
                writer.close()

        try:
            server = await asyncio.start_server(serve, HOST, here)
        except OSError as error:
            raise UsageError(f"port {here} of this machine: {error.strerror}") from None
        bound = server.sockets[0].getsockname()[1]
        print(f"Forwarding from {HOST}:{bound} -> {there}", flush=True)
        return server

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        call = self._place.call("portforward", (("ports", str(port)),))
        async with joining.joined(self._arguments, call) as line:
            with contextlib.suppress(ConnectionError):  # whoever connected here is gone
                await until_one_ends(_give(reader, writer, line), _take(line, writer, port))


async def _give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Joined) -> None:
    """Until who connected here is gone; that he has said all is passed on, and he may listen."""
    while piece := await reader.read(CHUNK_BYTES):
        await line.send(_DATA + piece)
    if line.protocol == joining.V5:
        await line.send(bytes([joining.CLOSE]) + _DATA)
    while not is_closed(writer.get_extra_info("socket")):
        await asyncio.sleep(LOOK_EVERY_S)


async def _take(line: Joined, writer: asyncio.StreamWriter, port: int) -> None:
    """Until the pod's side is over."""
    has_begun = set[bytes]()
    while (message := await line.receive()) is not None:
        channel, piece = message[:1], message[1:]
        if channel not in has_begun:
            has_begun.add(channel)
            piece = piece[PORT_BYTES:]
        if channel == _DATA:
            writer.write(piece)
            await writer.drain()
        elif channel == _ERROR and piece:
            print(f"makeway: port {port}: {piece.decode(errors='replace')}", file=sys.stderr)
