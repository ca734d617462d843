"""A server in this process, on a folder of the test's, and kubectl."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, urlsplit

import orjson

from makeway.api.configuration import Configuration
from makeway.client import Client
from makeway.embedded.inside import client_in_process
from makeway.server.app import App
from makeway.server.messages import Request, Response
from makeway.store import Store
from tests.prerequisites import program

Document = dict[str, Any]
TOKEN = "secret"
START = 1_700_000_000.0
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Server:
    """An app, with a clock that the test sets."""

    def __init__(
        self,
        folder: Path,
        events_kept: int = 10_000,
        configuration: Configuration | None = None,
    ) -> None:
        self.now = START
        self.store = Store(folder / "makeway.db", events_kept=events_kept, first_revision=1000)
        self.app = App(self.store, token=TOKEN, clock=lambda: self.now, configuration=configuration)
        self.client: Client = client_in_process(self.app)

    async def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        content_type: str = JSON,
        token: str = TOKEN,
        accept: str = JSON,
    ) -> Response:
        return await self.app.handle(request(method, url, body, content_type, accept, token=token))

    async def json(self, method: str, url: str, *more: Any, code: int = 0, **named: Any) -> Any:
        return decoded(await self.send(method, url, *more, **named), code)


def request(
    method: str,
    url: str,
    body: Any,
    content_type: str,
    accept: str,
    *,
    token: str = "",
    uid: int | None = None,
) -> Request:
    parts = urlsplit(url)
    headers = {"content-type": content_type, "accept": accept}
    return Request(
        method=method,
        path=parts.path,
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers=headers | ({"authorization": f"Bearer {token}"} if token else {}),
        body=body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body),
        uid=uid,
    )


def decoded(response: Response, code: int) -> Any:
    """The decoded answer, whose code must be `code`, or any good one."""
    assert isinstance(response.body, bytes)
    found = orjson.loads(response.body)
    assert response.code == code if code else response.code < 300, (response.code, found)
    return found


class AppAndStore(Protocol):
    app: App
    store: Store


T = TypeVar("T", bound=AppAndStore)
Story = Callable[[Server], Awaitable[None]]


def play_on(made: Callable[[], T], story: Callable[[T], Awaitable[None]]) -> None:
    """Run a story on a server that is made for it."""

    async def run() -> None:
        server = made()
        await server.app.start()
        try:
            await story(server)
        finally:
            await server.app.stop()
            server.store.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def play(
    folder: Path,
    story: Story,
    events_kept: int = 10_000,
    configuration: Configuration | None = None,
) -> None:
    play_on(lambda: Server(folder, events_kept, configuration), story)


async def settled(condition: Callable[[], bool]) -> None:
    """Give background work its turns until something holds."""
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to hold")


def binding(name: str, node: str) -> Document:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"


async def collect(response: Response, count: int) -> list[Document]:
    """The first so many events of a watch."""
    assert not isinstance(response.body, bytes), response.body
    events: list[Document] = []
    rest = b""
    async for piece in response.body:
        *lines, rest = (rest + piece).split(b"\n")
        events += [orjson.loads(line) for line in lines]
        if len(events) >= count:
            break
    await response.body.aclose()  # type: ignore[attr-defined]
    return events


class Kubectl:
    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.binary = program("kubectl")
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
            "GOGC": "off",  # it ends before it has made much garbage
        }

    def run(
        self, *arguments: str, text: str = "", code: int = 0, more: dict[str, str] | None = None
    ) -> str:
        """What kubectl prints, both streams; its exit code must be `code`."""
        found, output = self.answer(*arguments, text=text, more=more)
        assert found == code, output
        return output

    def answer(
        self, *arguments: str, text: str = "", more: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Its exit code, and what it prints."""
        done = subprocess.run(
            [self.binary, *arguments],
            input=text,
            env={**self.environment, **(more or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout
