"""The embedded API server in a process of its own, without the controllers that live on it."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import Access, read_kubeconfig
from makeway.server.app import App
from makeway.server.identity import identity_in
from makeway.server.listen import Listener
from makeway.server.logs import FileLogs
from makeway.store import Store

FIRST_REVISION = 1000  # so that there is a past which is no longer kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return kubeconfig_in(self.folder)

    @property
    def access(self) -> Access:
        return read_kubeconfig(self.kubeconfig)


@contextlib.contextmanager
def embedded_server(folder: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "tests.kube.served", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "ready"
        yield Served(folder=folder)
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


async def _serve(folder: Path) -> None:
    identity = identity_in(folder / "pki")
    store = Store(folder / "makeway.db", first_revision=FIRST_REVISION)
    logs = FileLogs(folder / "logs")
    app = App(store, token=identity.token, clock=time.time, logs=logs)
    await app.start()
    listener = Listener(
        app.handle, app.is_authenticated, host="127.0.0.1", port=0, tls=identity.tls()
    )
    port = await listener.start()
    kubeconfig_in(folder).write_text(identity.kubeconfig(f"https://127.0.0.1:{port}"))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
