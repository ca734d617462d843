"""A real `makeway up` in a folder of its own, and a client that talks to it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from makeway.api.kinds import Resource
from makeway.api.labels import QUEUE_NAME
from makeway.api.manifests import write_yaml
from makeway.cli.main import main
from makeway.client import Client
from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import read_kubeconfig
from makeway.runner.processes import kill_marked
from tests.harness import documents
from tests.harness.documents import requesting, template
from tests.harness.forked import Forked

Document = dict[str, Any]
T = TypeVar("T")
PATIENCE_S = 120.0
API = "kueue.x-k8s.io/v1beta2"


class _Line(NamedTuple):
    """To a server that is asked often: a connection takes longer than an answer."""

    loop: asyncio.AbstractEventLoop
    client: Client


class Up:
    """The process; it may be killed and started again on the same folder."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        program: Sequence[str] = (),
        surroundings: Mapping[str, str] | None = None,
    ) -> None:
        """`program` is what Python runs, with these variables besides those of the test.

        Without one it is the command, in a process that has been forked.
        """
        self.folder, self._options = folder, options
        self._program, self._surroundings = program, surroundings or {}
        self.process: subprocess.Popen[str] | Forked | None = None
        self.address = ""
        self._line: _Line | None = None

    @property
    def kubeconfig(self) -> Path:
        return kubeconfig_in(self.folder)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        self._hang_up()
        words = ["up", "--port", "0", "--data-dir", str(self.folder), *self._options]
        self.process = self._begun(words, self.folder.with_suffix(".log"))
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("makeway is ready"), line
        self.address = line.split()[-1]

    def _begun(self, words: Sequence[str], log: Path) -> subprocess.Popen[str] | Forked:
        if not self._program:
            return Forked(words, log)
        with open(log, "ab") as file:
            return subprocess.Popen(
                [sys.executable, *self._program, *words],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, **self._surroundings},
            )

    def kill(self) -> None:
        """As by `kill -9`: nothing of it gets a chance to tidy up."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Its exit code; it may have ended before."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self._hang_up()
        self.process.send_signal(how)  # nothing is sent to one that has ended
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code

    def tls(self) -> ssl.SSLContext:
        """For plain requests; whom one talks to is not checked."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        return tls

    def client(self) -> Client:
        return Client(read_kubeconfig(self.kubeconfig).transport())

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """What a client is told; for looking often, kubectl takes too long to start."""
        if self._line is None:
            self._line = _Line(asyncio.new_event_loop(), self.client())
        loop, client = self._line
        return loop.run_until_complete(work(client))

    def _hang_up(self) -> None:
        if self._line is not None:
            loop, client = self._line
            loop.run_until_complete(client.close())
            loop.close()
            self._line = None

    def listed(self, resource: Resource) -> list[Document]:
        return self.ask(lambda client: client.list(resource)).items

    def create(self, resource: Resource, document: Document) -> None:
        self.ask(lambda client: client.create(resource, document))

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def makeway(self, *arguments: str, code: int = 0) -> str:
        variables = {"KUBECONFIG": str(self.kubeconfig), "MAKEWAY_DATA_DIR": str(self.folder)}
        return command(*arguments, code=code, **variables)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Up]:
    up = Up(folder, *options)
    up.start()
    try:
        yield up
    finally:
        up.stop()


@contextmanager
def running_on(capacity: Mapping[str, str], folder: Path, *objects: Document) -> Iterator[Up]:
    """On one node, `box`, that has this; with these objects from the beginning."""
    nodes, applied = folder / "nodes.yaml", folder / "objects.yaml"
    nodes.write_text(write_yaml({**documents.node("box"), "status": {"capacity": dict(capacity)}}))
    with running(folder / "data", "--nodes", str(nodes)) as up:
        if objects:
            applied.write_text(write_yaml(*objects))
            up.makeway("apply", "-f", str(applied))
        yield up


def end_pods(folder: Path) -> None:
    """Those of a server that has stopped: they would go on without it."""
    for pod in (folder / "pods").iterdir():
        kill_marked(f"MAKEWAY_POD_UID={pod.name}")


def command(*arguments: str, code: int = 0, **variables: str) -> str:
    """What the command says; in this process, as to start one takes longer than to answer."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.delenv("COLUMNS", raising=False)  # as in a file: nothing is cut
        found = main(arguments)
    said.seek(0)
    text = said.read()
    assert found == code, (found, text)
    return text


def wait_until(what: Any, claim: str = "") -> Any:
    """Ask again until the answer is true, for a while at most; returns it.

    Most of the time goes by between two questions: others work, too.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        began = time.monotonic()
        answer = what()
        if answer:
            return answer
        assert began < deadline, f"{claim or what} did not come true"
        time.sleep(min(0.5, max(0.03, 4 * (time.monotonic() - began))))


def job(name: str, script: str, *, queue: str = "", cpu: str = "1", **spec: Any) -> Document:
    made = requesting(cpu, command=["sh", "-c", script])
    labels = {QUEUE_NAME: queue} if queue else {}
    metadata = {"namespace": "default", "labels": labels}
    return documents.job(
        name, metadata, **{"backoffLimit": 0, "template": template(containers=[made]), **spec}
    )
