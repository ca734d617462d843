"""Whatever fails in a process that serves, once or for a while: jobs run to their end afterwards.

The process is the test's own, so that its parts can be thrown at; the pods are real processes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from makeway import watchdog
from makeway.api.kinds import EVENTS, JOBS
from makeway.client import Client
from makeway.embedded.control import Control
from makeway.embedded.folder import Mark
from makeway.embedded.inside import client_in_process
from makeway.embedded.serving import Running, serve
from makeway.embedded.settings import Settings
from makeway.plane.loop import Loop
from makeway.runner import local
from makeway.runner.leavings import Leavings
from makeway.runner.local import LocalHost
from makeway.runner.pods import PodRunner
from makeway.server.collector import Collector
from makeway.server.messages import Request
from makeway.store import Store
from tests.harness.process import job
from tests.runner.harness import order, shell

PATIENCE_S = 60.0
# Everything that is called by a timer, a reader, a task that never ends, or a list of listeners.
PERIODIC: dict[str, tuple[type, str]] = {
    "looking at all processes": (LocalHost, "look_at_all"),
    "looking at one process": (LocalHost, "_take_in"),
    "whether a process lives": (LocalHost, "_is_alive"),
    "hearing what supervisors tell": (LocalHost, "look"),
    "a part that hears from the host": (PodRunner, "noticed"),
    "asking the parts": (Loop, "_ask"),
    "taking in changes": (Loop, "_take_in"),
    "sending": (Loop, "_send"),
    "speaking": (Loop, "_say"),
    "beginning a term": (Control, "begin"),
    "writing a batch": (Store, "write"),
    "collecting one object": (Collector, "_reconcile"),
    "expiring events": (Collector, "expire_events"),
    "tidying up": (Leavings, "tidy"),
    "keeping a reserve": (Mark, "write"),
}


def refused(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@contextmanager
def failing(owner: type, name: str, times: int = 3) -> Iterator[Callable[[], int]]:
    """The method fails so many times; how often it has, tells the function."""
    true, failed = getattr(owner, name), [0]

    def perhaps(self: Any, *arguments: Any, **named: Any) -> Any:
        if failed[0] < times:
            failed[0] += 1
            refused()
        return true(self, *arguments, **named)

    setattr(owner, name, perhaps)
    try:
        yield lambda: failed[0]
    finally:
        setattr(owner, name, true)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin anew, and look, after moments."""
    monkeypatch.setattr(watchdog, "AGAIN_S", 0.02)
    monkeypatch.setattr(watchdog, "AGAIN_MAX_S", 0.1)
    monkeypatch.setattr(local, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr("makeway.embedded.upkeep.TIDY_EVERY_S", 0.1)
    monkeypatch.setattr("makeway.embedded.upkeep.RESERVE_EVERY_S", 0.1)
    monkeypatch.setattr("makeway.server.collector.EXPIRE_EVERY_S", 0.1)
    monkeypatch.setattr("makeway.server.collector.BUG_RETRY_AFTER_S", 0.1)
    monkeypatch.setattr("makeway.runner.pods.START_AGAIN_S", 0.1)


async def runs(client: Client, name: str) -> None:
    """A job is submitted and comes to its end."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client.create(JOBS, job(name, "true"))
                break
            except Exception:  # refused meanwhile, as it may be
                await asyncio.sleep(0.02)
        while not (await client.get(JOBS, name, "default"))["status"].get("succeeded"):
            await asyncio.sleep(0.02)


async def until_ready(running: Running) -> None:
    asked = Request(method="GET", path="/readyz", query={}, headers={})
    async with asyncio.timeout(PATIENCE_S):
        while (await running.app.handle(asked)).code != 200:
            await asyncio.sleep(0.05)


def test_whichever_periodic_task_fails_jobs_run_and_the_server_is_ready_again(
    tmp_path: Path, hurried: None
) -> None:
    async def story() -> None:
        async with serve(tmp_path / "data", Settings(port=0)) as running:
            client = client_in_process(running.app)
            await runs(client, "before")
            for number, (what, where) in enumerate(PERIODIC.items()):
                with failing(*where) as failed:
                    if what == "beginning a term":
                        with failing(Loop, "_ask", 1):
                            await runs(client, f"after-{number}")
                    await runs(client, f"job-{number}")
                    async with asyncio.timeout(PATIENCE_S):
                        while not failed():
                            await asyncio.sleep(0.05)
                await runs(client, f"again-{number}")
                await until_ready(running)
                assert failed(), what
            await client.list(EVENTS)

    asyncio.run(story())


def test_processes_end_while_no_file_can_be_opened_and_that_is_noticed_when_some_can(
    tmp_path: Path, hurried: None
) -> None:
    async def story() -> None:
        host, told = LocalHost(tmp_path), list[str]()
        host.watch(told.append)

        may_end, ends = tmp_path / "may-end", tmp_path / "ends"
        script = f"until [ -d {may_end} ]; do sleep 0.02; done; mkdir {ends}"
        host.start(order(shell(script), uid="short"))
        while not told:
            await asyncio.sleep(0.02)
        with no_descriptors():
            may_end.mkdir()
            while not ends.exists():
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)  # looks fail
            assert not host.states()["short"].is_over
        async with asyncio.timeout(PATIENCE_S):
            while not host.states()["short"].is_over:
                await asyncio.sleep(0.02)
        assert host.states()["short"].containers["main"].has_succeeded
        host.close()

    asyncio.run(story())


@contextmanager
def no_descriptors() -> Iterator[None]:
    """No file can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
