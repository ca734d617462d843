"""A forwarded port: who connects here, and a pod that says nothing."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from makeway.cli import joining, port_forward
from makeway.cli.port_forward import Forward


class SilentPod:
    """A line to it, which is over when somebody leaves it."""

    protocol = joining.V5

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.is_over = asyncio.Event()

    async def send(self, message: bytes) -> None:
        self.heard.append(message)

    async def receive(self) -> bytes | None:
        await asyncio.Event().wait()
        return None

    @contextlib.asynccontextmanager
    async def joined(self, *_: Any) -> AsyncIterator[SilentPod]:
        try:
            yield self
        finally:
            self.is_over.set()


def test_who_has_said_all_may_listen_until_he_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "LOOK_EVERY_S", 0.01)

    async def story() -> None:
        pod, place = SilentPod(), SimpleNamespace(call=lambda *_: None)
        monkeypatch.setattr(joining, "joined", pod.joined)
        forward = Forward(argparse.Namespace(), place)  # type: ignore[arg-type]
        async with await forward.listen(0, 80) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"all")
            writer.write_eof()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pod.is_over.wait(), 0.1)
            assert pod.heard == [b"\x00all", b"\xff\x00"]

            writer.close()
            await asyncio.wait_for(pod.is_over.wait(), 10)

    asyncio.run(story())
