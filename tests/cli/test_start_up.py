"""A call that asks this machine one question loads no loop, TLS or YAML: they cost more than it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from makeway.api.kinds import JOBS, RESOURCES
from makeway.cli import plain
from makeway.client import ApiError, Client, Unavailable
from makeway.client.local import LocalTransport, drive, pause
from makeway.client.transport import Call, Unreachable
from tests.harness.process import Up, running

HEAVY = ("aiohttp", "asyncio", "cryptography", "logging", "numpy", "ssl", "yaml")
LIGHT = {
    *("makeway", "makeway.api", "makeway.api.devices", "makeway.api.resource", "makeway.api.times"),
    *("makeway.backoff", "makeway.cli", "makeway.cli.command", "makeway.cli.connect"),
    *("makeway.cli.job_table", "makeway.cli.main", "makeway.cli.spans", "makeway.cli.status"),
    *("makeway.cli.suggesting", "makeway.cli.tables", "makeway.cli.terminal", "makeway.cli.user"),
    *("makeway.client", "makeway.client.client", "makeway.client.folder", "makeway.client.local"),
    "makeway.client.transport",
}
PLAIN = {"makeway.api.labels", "makeway.cli.plain", "makeway.translate"} | {
    "makeway.translate.job_names"
}
# Beside those of a status.
LOADED: Mapping[str, set[str]] = {
    "status": set(),
    "get localqueues -o name": {"makeway.cli.get"},  # what shells ask to complete a word
    "logs first": PLAIN | {"makeway.cli.logs", "makeway.cli.runs"},
    "logs 1": PLAIN | {"makeway.cli.logs", "makeway.cli.runs"},
    "logs @": PLAIN | {"makeway.cli.logs", "makeway.cli.runs"},
    "submit -- true": PLAIN
    | {"makeway.api.arrays", "makeway.api.quantity", "makeway.api.signals", "makeway.cli.submit"}
    | {f"makeway.cli.{name}" for name in ("chosen_queue", "creating", "new_job", "numbers")}
    | {f"makeway.cli.{name}" for name in ("sbatch", "surroundings", "units")},
}


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """In a folder with a short name: a socket's path has to fit the kernel."""
    folder = Path("/tmp") / f"mw-{os.getpid()}"
    with running(folder) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOGNAME", "ada")
            server.makeway("submit", "--name", "first", "--wait", "--", "echo", "hello")
        yield server
    subprocess.run(["rm", "-rf", str(folder), str(folder.with_suffix(".log"))], check=True)


@pytest.mark.parametrize("words", LOADED)
def test_a_quick_call_loads_neither_loop_nor_tls_nor_views(up: Up, words: str) -> None:
    script = (
        "import sys; from makeway.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words.split()],
        capture_output=True,
        text=True,
        env={"MAKEWAY_DATA_DIR": str(up.folder), "HOME": "/", "LOGNAME": "ada", "PATH": "/bin"},
        check=True,
    )

    loaded = set(done.stderr.splitlines()[-1].split())
    assert not loaded.intersection(HEAVY)
    assert {name for name in loaded if name.startswith("makeway")} <= LIGHT | LOADED[words]


def test_kinds_without_views_are_those_of_the_table() -> None:
    for light in (plain.JOBS, plain.LOCAL_QUEUES, plain.NAMESPACES):
        (known,) = (resource for resource in RESOURCES if resource == light)
        assert light.path("lab", "one") == known.path("lab", "one")


def test_only_its_owner_may_open_the_socket(up: Up) -> None:
    found = (up.folder / "api.sock").stat()

    assert found.st_mode & 0o777 == 0o600


def client_of(up: Up) -> Client:
    return Client(LocalTransport(str(up.folder / "api.sock")), attempts=1, sleep=pause)


def test_what_the_server_says_is_understood_without_a_loop(up: Up) -> None:
    assert drive(client_of(up).jobs("", {}))["kind"] == "JobList"
    with pytest.raises(ApiError, match="not found"):
        drive(client_of(up).get(JOBS, "nobody", "default"))


def test_a_socket_that_nobody_listens_at_is_told(tmp_path: Path) -> None:
    client = Client(LocalTransport(str(tmp_path / "none")), attempts=1, sleep=pause)

    with pytest.raises(Unavailable, match="no such file"):
        drive(client.jobs("", {}))


def test_who_waits_for_a_loop_is_found_out() -> None:
    with pytest.raises(AssertionError, match="waits for an event loop"):
        drive(asyncio.sleep(0))


@pytest.mark.parametrize(
    ("answer", "code", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, b"hi"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nno", 404, b"no"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", None, b""),
        (b"SSH-2.0-OpenSSH\r\n", None, b""),
        (b"", None, b""),
    ],
    ids=["whole", "chunks", "to the end", "cut", "no HTTP", "nothing"],
)
def test_answers_as_they_come(tmp_path: Path, answer: bytes, code: int | None, body: bytes) -> None:
    path = str(tmp_path / "s")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    server = threading.Thread(target=serve)
    server.start()
    try:
        assert drive(asked(path)) == (code, body)
    except Unreachable:
        assert code is None
    finally:
        server.join()
        listening.close()


async def asked(path: str) -> tuple[int, bytes]:
    async with LocalTransport(path).send(Call(method="GET", path="/x")) as answer:
        return answer.code, await answer.body()
