"""A kubelet's port, as far as port-forwarding goes: connections to a pod end at a port of ours."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import WSMsgType, web

from makeway.server.identity import identity_in

PROTOCOL = "v4.channel.k8s.io"


class KubeletPort:
    """`target` is where the pod's port is in truth; `asked` notes which pods were forwarded."""

    def __init__(self, folder: Path, target: int) -> None:
        self._folder, self._target = folder, target
        self.asked: list[tuple[str, str]] = []  # pod, port

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", self.forward)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls())
        await site.start()
        try:
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    def _tls(self) -> ssl.SSLContext:
        identity = identity_in(self._folder / "kubelet")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(identity.certificate_file, identity.key_file)
        return tls

    async def forward(self, request: web.Request) -> web.WebSocketResponse:
        port = request.query.get("port") or request.query["ports"]
        self.asked.append((request.match_info["pod"], port))
        channels = web.WebSocketResponse(protocols=(PROTOCOL,))
        await channels.prepare(request)
        for channel in (0, 1):
            await channels.send_bytes(bytes((channel,)) + int(port).to_bytes(2, "little"))
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        coming = asyncio.create_task(_down(reader, channels))
        try:
            async for message in channels:
                if message.type == WSMsgType.BINARY:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:
            coming.cancel()
            writer.close()
        return channels


async def _down(reader: asyncio.StreamReader, channels: web.WebSocketResponse) -> None:
    while data := await reader.read(65536):
        await channels.send_bytes(b"\x00" + data)
    await channels.close()
