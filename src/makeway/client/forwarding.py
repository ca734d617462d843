"""A port of a pod at a socket of this machine, as `kubectl port-forward` does it: each connection
becomes a WebSocket to the API server, which hands it on to the pod's node.

The socket lies in a folder that only its owner may enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from makeway.api.kinds import PODS
from makeway.client.http import HttpTransport, Joined, NotJoined
from makeway.client.transport import Call, Unreachable
from makeway.together import until_one_ends

PROTOCOL = "v4.channel.k8s.io"
READ_BYTES = 64 * 1024
_DATA, _ERROR = 0, 1  # channels; the first message of each only repeats the port

FindPod = Callable[[], Awaitable[str]]


class Forward:
    def __init__(
        self, transport: HttpTransport, namespace: str, find_pod: FindPod, port: int
    ) -> None:
        """Which pod it is is asked for each connection."""
        self._transport, self._namespace = transport, namespace
        self._find_pod, self._port = find_pod, port
        self._open: set[asyncio.Task[None]] = set()
        self.problem = ""  # why the last connection did not come about

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Path]:
        """The socket, while the context lasts."""
        with tempfile.TemporaryDirectory(prefix="makeway-forward-") as folder:
            path = Path(folder) / "socket"
            server = await asyncio.start_unix_server(self._accepted, path)
            try:
                yield path
            finally:
                server.close()
                for task in self._open:
                    task.cancel()
                await asyncio.gather(*self._open, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._connect(reader, writer)
            self.problem = ""
        except (Unreachable, OSError) as error:
            self.problem = str(error)
        except asyncio.CancelledError:
            pass  # by `listening`, which has ended; asyncio would print it as an error of ours
        finally:
            self._open.discard(task)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = PODS.path(self._namespace, await self._find_pod(), "portforward")
        call = Call(method="GET", path=path, pairs=(("ports", str(self._port)),))
        try:
            async with self._transport.join(call, (PROTOCOL,)) as channels:
                await until_one_ends(_send(reader, channels), _receive(channels, writer))
        except NotJoined as error:
            raise Unreachable(f"{path}: {error}") from None


async def _send(reader: asyncio.StreamReader, channels: Joined) -> None:
    while data := await reader.read(READ_BYTES):
        await channels.send(bytes((_DATA,)) + data)


async def _receive(channels: Joined, writer: asyncio.StreamWriter) -> None:
    has_begun = {_DATA: False, _ERROR: False}
    while (message := await channels.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if not has_begun.get(channel, True):
            has_begun[channel] = True
        elif channel == _DATA:
            writer.write(data)
            await writer.drain()
        elif channel == _ERROR and data:
            raise Unreachable(data.decode("utf-8", "replace"))
